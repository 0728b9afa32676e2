"""Mail of a person's own: their test mails, and since when the organization's mail has waited."""

from dataclasses import dataclass
from datetime import datetime

from steward.database.engine.base import Row, Tx, from_ms, from_ms_or_none
from steward.database.notifications.messages import Receiver
from steward.model.ids import OrgId
from steward.model.notice import MessageState

_TESTS = (
    " FROM messages WHERE org_id = :org AND person_id = :person AND route_id = :route"
    " AND channel = :channel AND kind = :kind"
)


@dataclass(frozen=True, slots=True)
class MailTest:
    """A test mail and its outcome."""

    state: MessageState
    error: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class WaitingMail:
    """The due time of the oldest waiting mail, and when mail was last accepted."""

    oldest_due_at: datetime | None
    last_sent_at: datetime | None


async def last_test(tx: Tx, org: OrgId, receiver: Receiver) -> MailTest | None:
    """Returns the newest test mail to a person; None when there is none."""
    row = await tx.first(
        f"SELECT state, error, closed_at{_TESTS} ORDER BY closed_at DESC LIMIT 1", receiver.args(org)
    )
    return None if row is None else _mail_test(row)


async def count_tests(tx: Tx, org: OrgId, receiver: Receiver, since: datetime) -> int:
    """Counts the test mails to a person that were requested since an instant."""
    row = await tx.first(
        f"SELECT count(*) AS tests{_TESTS} AND closed_at > :since", {**receiver.args(org), "since": since}
    )
    return 0 if row is None else int(row["tests"])


async def waiting(tx: Tx, org: OrgId) -> WaitingMail:
    """Returns when the organization's oldest waiting mail was due, and when mail was last accepted."""
    row = await tx.first(
        "SELECT (SELECT min(due_at) FROM messages WHERE org_id = :org AND channel = 'email'"
        " AND state IN ('due', 'sending')) AS oldest_due_at,"
        " (SELECT max(sent_at) FROM messages WHERE org_id = :org AND channel = 'email'"
        " AND sent_at IS NOT NULL) AS last_sent_at",
        {"org": org},
    )
    if row is None:
        return WaitingMail(None, None)
    return WaitingMail(from_ms_or_none(row["oldest_due_at"]), from_ms_or_none(row["last_sent_at"]))


def _mail_test(row: Row) -> MailTest:
    return MailTest(MessageState(row["state"]), row["error"], from_ms(row["closed_at"]))
