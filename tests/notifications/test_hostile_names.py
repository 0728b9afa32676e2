"""Names chosen to deceive add no header, recipient or markup to a mail.

`HOSTILE=10000` tries that many names.
"""

import os
from datetime import UTC, datetime
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from html.parser import HTMLParser
from random import Random
from typing import cast

from steward.model.ids import AutomationId, MessageId, NoticeId, OrgId, PersonId, RunId
from steward.model.notice import (
    ChannelName,
    MessageKind,
    Notice,
    NoticeMessage,
    StoredNotice,
    Topic,
    facts_of,
)
from steward.notifications.email_channel import EmailChannel
from steward.outbound.mail import MailTransport
from steward.outbound.mail_message import Mailbox
from steward.outbound.mail_server import MailServer
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock

TRIES = int(os.environ.get("HOSTILE", "300"))
PIECES = (
    "\r\nBcc: thief@evil.example\r\n", "\nSubject: x", "\r", "\0", "\u202e", "\u2066", "\u2028", "<b>",
    "</p>", "<script>alert(1)</script>", '" onmouseover="x', "&lt;", "&#60;img&#62;", "--", "\r\n.\r\n",
    "=?utf-8?q?=0D=0ABcc:_a@b?=", "a@b.example", ">,<c@d.example>", "é" * 40, "x" * 10_000, "{automation}",
    "%s", "💥", "\ud83d",
)  # fmt: skip
HEADERS = {
    "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "X-Auto-Response-Suppress", "References",
    "MIME-Version", "Content-Type",
}  # fmt: skip
TAGS = {"html", "body", "p", "strong", "br", "a"}
AT = datetime(2026, 5, 1, 6, 0, tzinfo=UTC)


class _Tags(HTMLParser):
    """Collects the elements and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Records an element and its attributes."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def _message(hostile: str, other: str) -> NoticeMessage:
    notice = Notice(
        topic=Topic.RUN_FAILED,
        dedupe="x",
        facts=facts_of(automation=hostile, store=other, code=other),
        automation=AutomationId("a1"),
        run=RunId("r1"),
    )
    stored = StoredNotice(OrgId(1), NoticeId("n1"), notice, AT)
    return NoticeMessage(
        OrgId(1), MessageId("m1"), ChannelName.EMAIL, MessageKind.NOTICES, PersonId(1), None, AT, 1, 7,
        {"organization": hostile, "zone": "Europe/Berlin", "topics": {"run_failed": 7}}, (stored,),
        "ada@tea.example",
    )  # fmt: skip


async def test_no_name_adds_a_header_a_recipient_or_markup() -> None:
    """Keeps headers, recipients, size and elements of a mail fixed for any names."""
    clock, register, random = FakeClock(), SecretRegister(), Random(TRIES)
    transport = MailTransport(clock, register, Log(lambda line: None, clock, register))
    sender = Mailbox("steward@tea.example", "Steward")
    channel = EmailChannel(
        transport, MailServer("smtp://mail.internal:25"), sender, "https://steward.example"
    )
    for _ in range(TRIES):
        hostile, other = ["".join(random.choices(PIECES, k=random.randint(1, 4))) for _ in range(2)]
        mail = await channel.composed(_message(hostile, other))
        assert mail.recipients == ("ada@tea.example",)
        parsed = cast("EmailMessage", BytesParser(policy=default).parsebytes(mail.content))
        assert sorted(parsed.keys()) == sorted(HEADERS)
        assert [address.addr_spec for address in parsed["To"].addresses] == ["ada@tea.example"]
        assert len(parsed["Subject"]) <= 120
        assert len(mail.content) <= 30 * 1024
        assert [part.get_content_type() for part in parsed.walk()] == [
            "multipart/alternative", "text/plain", "text/html",
        ]  # fmt: skip
        html = parsed.get_body(("html",))
        assert html is not None
        page = _Tags()
        page.feed(html.get_content())
        assert page.tags <= TAGS
        assert page.attributes <= {"style", "href"}
