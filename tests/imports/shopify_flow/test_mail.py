"""Tests that a flow's internal mail is sent by the bound account, channel or sheet, after approval.

See docs/design/imports-shopify-flow.md#tasks.
"""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from steward.automations.from_plan import CreateWorkflowCommand
from steward.imports import storage
from steward.imports.run_as import run_as
from steward.model.automation import Automation
from steward.model.refusals import ValidationFailed
from steward.model.run import Mode, RunStatus
from steward.steps.workflow.expressions.evaluate import Evaluator
from tests.fake_clock import FakeClock
from tests.imports.shopify_flow.flows import FLOW, began, flow, task, text_of
from tests.outbound.mail_server import MailScript, mail_server
from tests.runs.shop import BY_HAND, HOST, Shop, connect_all, open_shop

FIELDS = {"address": "a@b.example", "subject": "{{ 'good' | upcase }} morning", "message": "One\n\n*Two*"}
MAIL = flow(
    began(FLOW + "scheduled_time", recurrence=["DTSTART:20260101T060000Z\nRRULE:FREQ=DAILY"]),
    task(2, FLOW + "send_email", **FIELDS),
)


@pytest.fixture
async def shop(sqlite_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Shop]:
    """Provides a service with every account connected."""
    opened = await open_shop(sqlite_url, clock, tmp_path)
    await connect_all(opened)
    yield opened
    await opened.service.close()


async def bound(shop: Shop, kind: str, target: Any = None) -> Automation:
    """Creates an automation whose mail is bound to a connection."""
    ctx = shop.service.worker_context
    evaluator = Evaluator(ctx.sandbox_pool, str(shop.owner.org), "import")
    prepared = await storage.prepare("store_flow", text_of(MAIL), None, evaluator)
    act = partial(
        storage.store,
        actor=shop.owner,
        source="store_flow",
        name="Mail",
        prepared=prepared,
        vault=shop.service.worker_context.vault,
    )
    record = (await shop.write(act)).record
    location = {"integration_id": shop.connections[kind].integration_id, "kind": kind, "target": target}
    if kind == "smtp":
        number = {"integration_id": location["integration_id"]}
        command = CreateWorkflowCommand(record.id, "Mail", BY_HAND, accounts={"Send internal email": number})
    else:
        command = CreateWorkflowCommand(
            record.id, "Mail", BY_HAND, bindings={"Send internal email": location}
        )
    automation = await shop.write(
        partial(run_as, actor=shop.owner, command=command, rules=ctx.automation_rules)
    )
    return automation.automation


async def sent(shop: Shop, automation: Automation) -> None:
    """Runs the automation, approves it and checks that it succeeds."""
    run = await shop.waiting(automation)
    await shop.approve(run)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED


async def test_it_is_posted_once_it_was_approved_and_never_in_a_test_run(shop: Shop) -> None:
    """Posts the mail in a Teams channel once after approval, without its addresses, and not in a test run."""
    automation = await bound(shop, "teams")
    inbox = next(iter(shop.world.state.teams.inbox.values()))
    before = len(inbox)
    tried = await shop.run_and_drain(automation, Mode.TEST)
    assert (tried.status, len(inbox)) == (RunStatus.SUCCEEDED, before)
    await sent(shop, automation)
    [posted] = inbox[before:]
    words = json.dumps(posted)
    assert all(text in words for text in ("GOOD morning", "One", "Two"))
    assert "a@b.example" not in words


async def test_it_is_a_row_of_the_sheet_bound_to_it_whose_tab_is_named(shop: Shop) -> None:
    """Appends a row to the bound sheet, and refuses a binding without a tab."""
    for target in (None, {"spreadsheet_id": None, "sheet": ""}):
        with pytest.raises(ValidationFailed) as refused:
            await bound(shop, "spreadsheet", target)
        assert list(refused.value.errors) == ["bindings.Send internal email"]
    await sent(shop, await bound(shop, "spreadsheet", {"spreadsheet_id": None, "sheet": "Prices"}))
    rows = shop.world.state.google.books["sheet-prices"].tab("Prices").values()
    assert rows[-1][1:] == ["GOOD morning", "One\n*Two*"]


async def test_it_is_mail_to_its_addresses_where_a_mail_account_is_bound(
    sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Sends one message from the account's sender to the addresses, and none in a test run."""
    script = MailScript()
    async with mail_server(script) as port:
        hosts = f"{HOST},127.0.0.1:{port}"
        shop = await open_shop(sqlite_url, clock, tmp_path, STEWARD_ALLOW_PRIVATE_HOSTS=hosts)
        await connect_all(shop)
        form = {"host": "127.0.0.1", "port": port, "security": "starttls", "sender": "shop@shop.example"}
        await shop.connect("smtp", form)
        automation = await bound(shop, "smtp")
        tried = await shop.run_and_drain(automation, Mode.TEST)
        assert (tried.status, script.received) == (RunStatus.SUCCEEDED, [])
        await sent(shop, automation)
        await shop.service.close()
    [received] = script.received
    assert (received.sender, received.recipients) == ("shop@shop.example", ["a@b.example"])
    assert received.message["Subject"] == "GOOD morning"
    assert received.message.get_content().split() == ["One", "*Two*"]
