"""Tests the fakes that take messages: Slack's webhook, signed webhooks and a mail server."""

from contextlib import asynccontextmanager
from email.message import EmailMessage
from typing import Any
from urllib.parse import urlsplit

import aiosmtplib
import httpx
import pytest

from steward.fake_platforms.application import FakePlatforms
from steward.fake_platforms.serve import listening, mail_beside

pytestmark = pytest.mark.anyio


async def test_slack_takes_messages_at_its_one_address(
    outside: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Takes messages and shows their blocks; refuses other paths and bodies with Slack's texts."""
    url = platforms.described()["slack"]["webhook_url"]
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "<One> & two"}}]
    good = await outside.post(url, json={"text": "short", "blocks": blocks})
    assert (good.status_code, good.text) == (200, "ok")
    bad = await outside.post(url + "x", json={"text": "short"})
    assert (bad.status_code, bad.text) == (404, "no_service")
    assert (await outside.post(url, json={"text": 1})).text == "invalid_payload"
    [message] = (await outside.get("/sandbox/slack")).json()["messages"]
    assert message["text"] == "<One> & two"
    assert "&lt;One&gt; &amp; two" in (await outside.get("/")).text


async def test_the_receiver_stores_headers_and_body(
    outside: httpx.AsyncClient, platforms: FakePlatforms
) -> None:
    """Keeps headers and body for a person to verify the signature, and refuses more than 64 KiB."""
    url = platforms.described()["webhook"]["url"]
    headers = {"webhook-id": "msg_1", "webhook-timestamp": "1", "webhook-signature": "v1,x"}
    assert (await outside.post(url, content=b'{"type":"run.failed"}', headers=headers)).status_code == 204
    assert (await outside.post(url, content=b"x" * (64 * 1024 + 1))).status_code == 413
    [delivery] = (await outside.get("/sandbox/hooks")).json()["deliveries"]
    assert (delivery["headers"], delivery["body"]) == (headers, '{"type":"run.failed"}')
    assert "msg_1" in (await outside.get("/")).text


@asynccontextmanager
async def connected(platforms: FakePlatforms) -> Any:
    """Provides a client of the fake mail server."""
    with listening("127.0.0.1", 0) as bound:
        async with mail_beside(platforms, bound) as described:
            parts = urlsplit(described["mail"]["smtp_url"])
            async with aiosmtplib.SMTP(hostname=parts.hostname, port=parts.port, start_tls=False) as client:
                yield client


async def test_mail_is_accepted_and_shown(outside: httpx.AsyncClient, platforms: FakePlatforms) -> None:
    """Takes two messages over one connection, with a line that begins with a dot."""
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = "Grüße", "a@example.com", "b@example.com"
    message.set_content("First line\n.second line\n")
    async with connected(platforms) as client:
        for _ in range(2):
            await client.send_message(message)
    mails = (await outside.get("/sandbox/mail")).json()["messages"]
    assert [(mail["from"], mail["to"], mail["subject"]) for mail in mails] == [
        ("a@example.com", ["b@example.com"], "Grüße")
    ] * 2
    assert mails[0]["text"] == "First line\n.second line\n"
    assert "Grüße" in (await outside.get("/")).text


async def test_an_invalid_mail_is_refused_and_the_next_accepted(platforms: FakePlatforms) -> None:
    """Refuses commands out of order, unknown commands and messages over 1 MiB, and takes the next message."""
    async with connected(platforms) as client:
        with pytest.raises(aiosmtplib.SMTPResponseException):
            await client.data(b"too early")
        assert (await client.execute_command(b"VRFY", b"b")).code == 502
        with pytest.raises(aiosmtplib.SMTPDataError):
            await client.sendmail("a@example.com", ["b@example.com"], b"x\r\n" * 400_000)
        await client.rset()
        await client.sendmail("a@example.com", ["b@example.com"], b"Subject: small\r\n\r\nx\r\n")
    assert [mail["subject"] for mail in platforms.state.mailbox.messages] == ["small"]
