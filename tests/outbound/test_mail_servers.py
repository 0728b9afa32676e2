"""Notices through real servers: exim4 takes them with STARTTLS and a sign-in, dovecot gives them by IMAP.

`make mail-servers` unpacks both and runs this file.
"""

import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

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
from steward.notifications.channel import DeliveryOutcome, DeliveryResult
from steward.notifications.email_channel import EmailChannel
from steward.outbound.mail import MailTransport
from steward.outbound.mail_message import Mailbox
from steward.outbound.mail_server import MailServer
from steward.outbound.sockets import tls_context
from steward.telemetry.log import Log
from steward.telemetry.redact import Secret, SecretRegister
from tests.outbound.debian_mail import NAME, PASSWORD, USER, DebianMail, debian_mail, missing
from tests.processes.running import CLOCK

CLOSED_AT = datetime(2026, 5, 4, 6, 30, tzinfo=UTC)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that nobody may enter: those of pytest are the user's alone."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    path = Path(tempfile.mkdtemp(prefix="steward-mail-"))
    yield path
    shutil.rmtree(path)


def channel(mail: DebianMail, password: str = PASSWORD) -> EmailChannel:
    """The channel `email` as `STEWARD_SMTP_URL` sets it up."""
    register = SecretRegister()
    transport = MailTransport(
        CLOCK,
        register,
        Log(lambda line: None, CLOCK, register),
        private_hosts=[f"{NAME}:{mail.port}"],
        tls=tls_context(mail.authority),
    )
    server = MailServer(f"smtp://{NAME}:{mail.port}", USER, Secret(password))
    return EmailChannel(
        transport,
        server,
        Mailbox("steward@shop.example", "Steward"),
        "https://steward.example",
        unsubscribe_url=lambda org, person: f"https://steward.example/unsubscribe/{org}-{person}",
    )


def message(
    number: int, *, to: str = "ada@shop.example", kind: MessageKind = MessageKind.DIGEST
) -> NoticeMessage:
    """A message about a failed run, whose names could break a careless mail."""
    notice = Notice(
        topic=Topic.RUN_FAILED,
        dedupe=f"run_failed|{number}",
        facts=facts_of(automation="Größe <b> 茶\r\nBcc: eve@shop.example", store="Shop", code="step_failed"),
        automation=AutomationId("01JD3Z0QH8N2Y5V7W9X1C4B6A8"),
        run=RunId("01JD3Z0QH8N2Y5V7W9X1C4B6A9"),
    )
    org, topics = OrgId(1), {"run_failed": 1}
    return NoticeMessage(
        org,
        MessageId(f"01JD3Z0QH8N2Y5V7W9X1C4B6{number:02}"),
        ChannelName.EMAIL,
        kind,
        PersonId(1),
        None,
        CLOSED_AT,
        1,
        1,
        {"organization": "Tee & Söhne", "zone": "Europe/Berlin", "topics": topics},
        (StoredNotice(org, NoticeId("01JD3Z0QH8N2Y5V7W9X1C4B6B0"), notice, CLOSED_AT),),
        to,
    )


async def test_a_notice_arrives_whole(folder: Path) -> None:
    """Both parts, the headers of an automatic mail, one recipient; several mails go by one connection."""
    async with debian_mail(folder) as mail:
        email = channel(mail)
        outcomes = [await email.deliver(message(number)) for number in range(3)]
        assert outcomes == [DeliveryOutcome(DeliveryResult.ACCEPTED, 250)] * 3
        mails = await mail.fetched("ada", 3)
        stranger = await email.deliver(message(9, to="ada@elsewhere.example"))
        assert (stranger.result, stranger.status) == (DeliveryResult.REFUSED, 550)
        await email.transport.aclose()
        wrong = channel(mail, "another password")
        refused = await wrong.deliver(message(8))
        assert (refused.result, refused.is_down, refused.status) == (DeliveryResult.TRY_AGAIN, True, 535)
        assert not (folder / "boxes" / "eve").exists()
    assert {str(item["Message-ID"]) for item in mails} == {
        f"<{message(number).id}@shop.example>" for number in range(3)
    }
    for each_mail in mails:
        assert (str(each_mail["To"]), str(each_mail["From"])) == (
            "ada@shop.example",
            "Steward <steward@shop.example>",
        )
        assert each_mail["Date"].datetime == CLOSED_AT
        assert (each_mail["Auto-Submitted"], each_mail["X-Auto-Response-Suppress"]) == (
            "auto-generated",
            "All",
        )
        assert each_mail["List-Unsubscribe"] == "<https://steward.example/unsubscribe/1-1>"
        assert each_mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        assert str(each_mail["References"]).endswith("@shop.example>")
        assert "Größe" in each_mail["Subject"]
        assert each_mail["Bcc"] is None
        assert "with esmtpsa" in str(each_mail["Received"]).lower()
        plain, rich = each_mail.get_body(("plain",)), each_mail.get_body(("html",))
        assert plain is not None
        assert rich is not None
        assert "https://steward.example/runs/01JD3Z0QH8N2Y5V7W9X1C4B6A9" in plain.get_content()
        assert "Größe &lt;b&gt; 茶" in rich.get_content()
