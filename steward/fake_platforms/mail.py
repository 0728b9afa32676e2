"""A fake mail server: receives messages by SMTP on loopback, without encryption, and stores them."""

import asyncio
import re
from collections.abc import Callable
from datetime import datetime
from email import message_from_bytes
from email.policy import default

from steward.fake_platforms.exchange import Row

_MAX_BYTES = 1024 * 1024
_MAX_MESSAGES = 1_000
_ADDRESS = re.compile(r"(?i)(?:FROM|TO):\s*<([^<>\s]*)>")


class FakeMailbox:
    """The messages that the mail server received."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.messages: list[Row] = []

    def add(self, sender: str, recipients: list[str], content: bytes) -> None:
        """Stores one message with its plain text."""
        message = message_from_bytes(content, policy=default)
        body = message.get_body(("plain", "html"))
        del self.messages[:-_MAX_MESSAGES]
        self.messages.append(
            {
                "at": self._now().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
                "from": sender,
                "to": recipients,
                "subject": str(message["subject"] or ""),
                "message_id": str(message["message-id"] or ""),
                "text": "" if body is None else str(body.get_content()).replace("\r\n", "\n"),
            }
        )


class _Envelope:
    """Sender and recipients of the message being received."""

    def __init__(self) -> None:
        self.sender: str | None = None
        self.recipients: list[str] = []


async def serve_mail(
    mailbox: Callable[[], FakeMailbox], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Serves one connection: HELO, EHLO, MAIL, RCPT, DATA, RSET, NOOP and QUIT."""
    envelope = _Envelope()
    try:
        writer.write(b"220 sandbox.example ESMTP\r\n")
        while line := await reader.readline():
            text = line.decode("utf-8", "replace").strip()
            verb = text[:4].upper()
            if verb == "DATA" and envelope.recipients:
                reply = await _take_content(mailbox(), envelope, reader, writer)
                envelope = _Envelope()
            elif verb == "RSET":
                envelope, reply = _Envelope(), "250 OK"
            else:
                reply = _reply(verb, text, envelope)
            writer.write(reply.encode("ascii") + b"\r\n")
            await writer.drain()
            if verb == "QUIT":
                return
    except (ConnectionError, ValueError):  # a line longer than the reader's limit
        return
    finally:
        writer.close()


def _reply(verb: str, text: str, envelope: _Envelope) -> str:
    if verb == "EHLO":
        return f"250-sandbox.example\r\n250-8BITMIME\r\n250 SIZE {_MAX_BYTES}"
    if verb in ("HELO", "NOOP"):
        return "250 OK"
    if verb == "QUIT":
        return "221 Bye"
    address = _ADDRESS.search(text)
    if verb == "MAIL" and address is not None:
        envelope.sender, envelope.recipients = address[1], []
        return "250 OK"
    if verb == "RCPT" and address is not None and envelope.sender is not None:
        envelope.recipients.append(address[1])
        return "250 OK"
    if verb in ("MAIL", "RCPT", "DATA"):
        return "503 Name the sender, then the recipients, then send the content"
    return "502 Command not implemented"


async def _take_content(
    mailbox: FakeMailbox, envelope: _Envelope, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> str:
    writer.write(b"354 End with a point on a line of its own\r\n")
    await writer.drain()
    content = bytearray()
    while (line := await reader.readline()) not in (b".\r\n", b".\n", b""):
        if len(content) <= _MAX_BYTES:  # longer messages are read to their end and refused
            content += line.removeprefix(b".")
    if len(content) > _MAX_BYTES:
        return "552 The message is too large"
    mailbox.add(envelope.sender or "", envelope.recipients, bytes(content))
    return "250 Accepted"
