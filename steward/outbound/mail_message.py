"""Builds e-mail messages to whose headers and recipients no text can add; mail.py sends them.

The rules are in `docs/design/mail.md#message`.
"""

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.headerregistry import HeaderRegistry
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import lru_cache
from typing import Any

MAX_RECIPIENTS = 100
MAX_MESSAGE_BYTES = 25 * 1024 * 1024
_MAX_SUBJECT = 998
_MAX_NAME = 100
_MAX_ADDRESS = 254
_LOCAL_PART = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_DOMAIN_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_HEADER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}")
_MESSAGE_ID = re.compile(r"[A-Za-z0-9._-]{1,200}")
_COMPOSED = frozenset(
    ("from", "to", "cc", "bcc", "reply-to", "sender", "subject", "date", "message-id", "mime-version")
)
# Embeddings, overrides and isolates, which can make one name look like another.
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_NAME_SPECIALS = frozenset('"\\<>()[]@,:;')
_SEPARATORS = ",;"
_MEDIA_TYPES = frozenset(("application", "audio", "font", "image", "model", "text", "video"))
_MEDIA_SUBTYPE = re.compile(r"[A-Za-z0-9.+-]{1,100}")
_PLAIN_HEADER = 200
# Bytes per encoded word, so that it has at most 75 characters (RFC 2047).
_WORD_BYTES = 45


_REGISTRY = HeaderRegistry()


@lru_cache(maxsize=64)
def _header_class(name: str) -> Any:
    return _REGISTRY[name]


@lru_cache(maxsize=256)
def _header(name: str, value: Any) -> Any:
    return _REGISTRY(name, value)


class _HeadersOfParts(HeaderRegistry):
    """Caches headers: creating them is the largest cost, and parts nearly always have the same."""

    def __getitem__(self, name: str) -> Any:
        return _header_class(name)

    def __call__(self, name: str, value: Any) -> Any:
        return _header(name, value)


_POLICY = SMTP.clone(header_factory=_HeadersOfParts())


class InvalidMail(ValueError):
    """Raised for a message that cannot be sent; `field` is the faulty part."""

    def __init__(self, field_name: str, message: str) -> None:
        super().__init__(message)
        self.field = field_name


@dataclass(frozen=True, slots=True)
class Mailbox:
    """An address with the name that is shown beside it."""

    address: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class MailAttachment:
    """A file sent with a message; `media_type` such as `text/csv`."""

    file_name: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class MailContent:
    """The content of a message: its text, its HTML or both, and its recipients.

    `headers` are additional, such as `Auto-Submitted`. `message_id` is the part before the sender's domain;
    the same id and date yield the same bytes. A draft may have no recipient.
    """

    sender: Mailbox
    to: Sequence[Mailbox]
    subject: str
    message_id: str
    date: datetime
    text: str | None = None
    html: str | None = None
    cc: Sequence[Mailbox] = ()
    bcc: Sequence[Mailbox] = ()
    reply_to: Sequence[Mailbox] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    attachments: Sequence[MailAttachment] = ()
    is_draft: bool = False


@dataclass(frozen=True, slots=True)
class MailMessage:
    """A message as sent: the envelope's addresses, and the bytes with their line ends."""

    sender: str
    recipients: tuple[str, ...]
    content: bytes
    message_id: str = ""


def compose(content: MailContent) -> MailMessage:
    """Returns the message. Raises InvalidMail for a value that a message cannot contain.

    The recipients are exactly those of `to`, `cc` and `bcc`, each once; no header contains `bcc`.
    """
    recipients = _recipients(content)
    message_id = f"<{_checked_id(content.message_id)}@{content.sender.address.rpartition('@')[2]}>"
    headers = [
        ("From", _mailbox_list([content.sender])),
        ("To", _mailbox_list(content.to)),
        ("Cc", _mailbox_list(content.cc)),
        ("Reply-To", _mailbox_list(content.reply_to)),
        ("Subject", _encoded(_header_text("subject", content.subject)[:_MAX_SUBJECT].strip())),
        ("Date", format_datetime(content.date)),
        ("Message-ID", message_id),
        *((_further_header(name), _further_value(name, value)) for name, value in content.headers.items()),
    ]
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers if value or name == "Subject")
    bodies = _bodies(content)
    _fix_boundaries(bodies, message_id)
    data = lines.encode("ascii") + bodies.as_bytes()
    if len(data) > MAX_MESSAGE_BYTES:
        raise InvalidMail("message", "The message is larger than 25 MiB.")
    return MailMessage(_checked(content.sender.address), recipients, data, message_id)


def mailboxes_of(text: str) -> list[Mailbox]:
    """Returns the mailboxes of a list that people write with commas or semicolons.

    Accepts `a@b.example`, `Jane Doe <jane@b.example>` and `"Doe, Jane" <jane@b.example>`. Raises
    InvalidMail for an entry without an address.
    """
    return [_mailbox(entry) for entry in _entries(text) if entry.strip()]


def mail_address(text: str) -> str:
    """Returns an address with its domain in ASCII. Raises InvalidMail."""
    address = text.strip()
    local, separator, domain = address.rpartition("@")
    if not domain.isascii():
        try:
            domain = domain.encode("idna").decode("ascii")
        except UnicodeError:
            domain = ""
    address = f"{local}@{domain}"
    is_valid = (
        separator
        and len(address) <= _MAX_ADDRESS
        and len(local) <= 64
        and _LOCAL_PART.fullmatch(local)
        and all(_DOMAIN_LABEL.fullmatch(label) for label in domain.split("."))
    )
    if not is_valid:
        quoted_name = clean_name(text)[:80] or "An empty text"
        raise InvalidMail("address", f"“{quoted_name}” is not an e-mail address.")
    return address


def clean_name(text: str) -> str:
    """Returns a name on one line without control and direction characters, cut to 100 characters."""
    cleaned = _without_controls(text[: 10 * _MAX_NAME], drop=_NAME_SPECIALS)
    return " ".join(cleaned.split())[:_MAX_NAME].strip()


def one_line(text: str) -> str:
    """Returns a text with line breaks and control characters as spaces, such as for a subject."""
    return _without_controls(text).strip()


def _without_controls(text: str, drop: Iterable[str] = ()) -> str:
    spaced = frozenset(drop)
    kept_characters = []
    for character in text:
        if character in _DIRECTIONS:
            continue
        if character in spaced or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            kept_characters.append(" ")
        else:
            kept_characters.append(character)
    return "".join(kept_characters)


def _entries(text: str) -> list[str]:
    """Splits a list at separators outside quotes and angle brackets."""
    entries, current, in_quotes, in_brackets = [], "", False, False
    for character in text:
        if character == '"' and not in_brackets:
            in_quotes = not in_quotes
        elif character in "<>" and not in_quotes:
            in_brackets = character == "<"
        elif character in _SEPARATORS and not in_quotes and not in_brackets:
            entries.append(current)
            current = ""
            continue
        current += character
    return [*entries, current]


def _mailbox(entry: str) -> Mailbox:
    entry = entry.strip()
    if "\r" in entry or "\n" in entry:
        raise InvalidMail("address", f"“{clean_name(entry)[:80]}” is not an e-mail address.")
    if entry.endswith(">") and "<" in entry:
        name, _, address = entry[:-1].rpartition("<")
        return Mailbox(mail_address(address), clean_name(name))
    return Mailbox(mail_address(entry))


def _recipients(content: MailContent) -> tuple[str, ...]:
    mailboxes = (*content.to, *content.cc, *content.bcc)
    addresses = tuple(dict.fromkeys(_checked(mailbox.address) for mailbox in mailboxes))
    if not addresses and not content.is_draft:
        raise InvalidMail("to", "The message has no recipient.")
    if len(addresses) > MAX_RECIPIENTS:
        raise InvalidMail("to", f"A message goes to {MAX_RECIPIENTS} addresses at most.")
    return addresses


def _checked(address: str) -> str:
    if mail_address(address) != address:
        raise InvalidMail(
            "address", "An address has spaces around it, or a domain that is not in its ASCII form."
        )
    return address


def _checked_id(message_id: str) -> str:
    if not _MESSAGE_ID.fullmatch(message_id):
        raise InvalidMail("message_id", "The id of a message has letters, digits, dots and dashes.")
    return message_id


def _mailbox_list(mailboxes: Sequence[Mailbox]) -> str:
    return ",\r\n ".join(_header_mailbox(mailbox) for mailbox in mailboxes)


def _header_mailbox(mailbox: Mailbox) -> str:
    name, address = clean_name(mailbox.name), _checked(mailbox.address)
    if not name:
        return address
    shown_name = f'"{name}"' if _is_plain(name) else _encoded(name)
    return f"{shown_name} <{address}>"


def _is_plain(text: str) -> bool:
    """Returns whether a header may contain the text unencoded, which look-alikes of encoded words may not."""
    return text.isascii() and text.isprintable() and "=?" not in text and len(text) <= _PLAIN_HEADER


def _encoded(text: str) -> str:
    """Returns a text for a header, as encoded words (RFC 2047) if necessary.

    The e-mail package's own headers are not used: they decode encoded words inside a text, even line
    breaks.
    """
    if _is_plain(text):
        return text
    words, word = [], b""
    for character in text:
        data = character.encode("utf-8")
        if len(word) + len(data) > _WORD_BYTES:
            words.append(word)
            word = b""
        word += data
    return "\r\n ".join(f"=?utf-8?b?{base64.b64encode(word).decode('ascii')}?=" for word in (*words, word))


def _header_text(field_name: str, text: str) -> str:
    """Returns the text of a header without control characters. Raises InvalidMail for a line break or NUL."""
    if any(mark in text for mark in "\r\n\0"):
        raise InvalidMail(field_name, f"The {field_name} has a line break or an empty character in it.")
    return _without_controls(text[: 2 * _MAX_SUBJECT])


def _further_header(name: str) -> str:
    if not _HEADER_NAME.fullmatch(name) or name.lower() in _COMPOSED or name.lower().startswith("content-"):
        raise InvalidMail("headers", "This header cannot be added to a message.")
    return name


def _further_value(name: str, value: str) -> str:
    if not value.isascii() or not value.isprintable() or len(value) > _MAX_SUBJECT:
        raise InvalidMail("headers", f"The header {name} has characters that it may not contain.")
    return value


def _bodies(content: MailContent) -> EmailMessage:
    """Returns plain text first, then HTML, as `multipart/alternative` when there are both; then files."""
    message = EmailMessage(policy=_POLICY)
    if content.text is not None or content.html is None:
        message.set_content(_body(content.text or ""), cte="quoted-printable")
        if content.html is not None:
            message.add_alternative(_body(content.html), subtype="html", cte="quoted-printable")
    else:
        message.set_content(_body(content.html), subtype="html", cte="quoted-printable")
    for attachment in content.attachments:
        main, _, sub = attachment.media_type.partition("/")
        if main not in _MEDIA_TYPES or not _MEDIA_SUBTYPE.fullmatch(sub):
            main, sub = "application", "octet-stream"
        file_name = clean_name(attachment.file_name).replace("?", "_") or "file"
        message.add_attachment(attachment.content, maintype=main, subtype=sub, filename=file_name)
    return message


def _fix_boundaries(bodies: EmailMessage, message_id: str) -> None:
    """Derives the boundaries from the message's id, so that a repeat has the same bytes.

    Neither encoding of a body can contain `=_`, so no text can end a part.
    """
    for number, part in enumerate(bodies.walk()):
        if part.is_multipart():
            digest = hashlib.sha256(f"{message_id}|{number}".encode()).hexdigest()[:32]
            part.set_boundary(f"=_{digest}")


def _body(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
