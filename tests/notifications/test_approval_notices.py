"""The page of an approval says who was notified of it."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from steward.database.notifications import approval_notices, messages
from steward.database.notifications.approval_notices import ApprovalReceivers
from steward.database.notifications.messages import Receiver
from steward.model.ids import ApprovalId, NoticeId
from steward.model.notice import ChannelName, MessageKind
from tests.fake_clock import FakeClock
from tests.notifications.notified_people import join, told
from tests.runs.shop import Shop, connect_all, open_shop


@pytest.fixture
async def shop(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service beside the fake shop."""
    opened = await open_shop(database_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    await opened.service.close()


async def _receivers(shop: Shop, approval: str) -> ApprovalReceivers:
    read = partial(approval_notices.receivers, org=shop.owner.org, approval=ApprovalId(approval))
    return await shop.read(read)


async def test_the_page_of_an_approval_shows_who_was_notified(shop: Shop) -> None:
    """Counts people whose mail waits or was accepted, not those whose mail was refused.

    Also gives the time of the next reminder until the approval is decided.
    """
    run = await shop.waiting(await shop.hiding())
    approval = await shop.approval(run)
    assert await _receivers(shop, approval.id) == ApprovalReceivers(0, (), None)
    [notice] = await told(shop)
    for name in ("ann", "bea", "cleo"):
        person = await join(shop, name)
        receiver = Receiver(ChannelName.EMAIL, MessageKind.NOTICES, person=person.id)
        ids = [NoticeId(notice["id"])]
        add = partial(messages.add_closed, org=shop.owner.org, receiver=receiver, notices=ids)
        await shop.write(partial(add, count=1, envelope={}))
    assert (await _receivers(shop, approval.id)).people == 3
    last = "(SELECT max(id) FROM messages WHERE org_id = :org)"
    await shop.tamper(
        f"UPDATE messages SET state = 'refused', next_try_at = NULL WHERE org_id = :org AND id = {last}"
    )
    await shop.tamper(
        "UPDATE messages SET state = 'sent', next_try_at = NULL, sent_at = :at"
        " WHERE org_id = :org AND state = 'due'",
        at=1_700_000_000_000,
    )
    after = await _receivers(shop, approval.id)
    assert after.people == 2
    assert after.notified_at is not None
    assert after.notified_at.year == 2023
    remind = partial(approval_notices.reminder_at, org=shop.owner.org, approval=approval.id)
    assert await shop.read(remind) == approval.created_at + (approval.expires_at - approval.created_at) / 2
    await shop.approve(run)
    assert await shop.read(remind) is None
