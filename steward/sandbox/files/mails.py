"""Parses a mail message into the form that n8n outputs."""

import base64
import html
import re
from collections.abc import Iterable
from datetime import UTC
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from email.utils import getaddresses, parsedate_to_datetime
from typing import Any, Final

from steward.sandbox.files.problems import FileProblem

MAX_PARTS: Final = 1000
_ADDRESSES: Final = {"From": "from", "To": "to", "Cc": "cc", "Bcc": "bcc", "Reply-To": "replyTo"}
_TEXTS: Final = {"Message-ID": "messageId", "In-Reply-To": "inReplyTo"}
_HIDDEN: Final = re.compile(r"<(script|style|head)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_BREAK: Final = re.compile(r"<(?:br|/p|/div|/tr|/h[1-6]|/li)\b[^>]{0,200}>", re.IGNORECASE)
_TAG: Final = re.compile(r"<[^>]{0,2000}>")
_FOLD: Final = re.compile(r"\r?\n[ \t]+")
_MESSAGE_ID: Final = re.compile(r"<[^<>\s]{1,500}>")


def read_mail(content: bytes, options: dict[str, Any]) -> object:
    """Returns n8n's `fields`, and `files` as [name, MIME type, base64], at most `max_bytes` in total."""
    try:
        return _read(BytesParser().parsebytes(content), int(options["max_bytes"]))
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise FileProblem("The message is damaged: its parts cannot be read.") from error


def _read(message: Message, max_bytes: int) -> object:
    parts = list(message.walk())
    if len(parts) > MAX_PARTS:
        raise FileProblem(f"The message has more than {MAX_PARTS} parts.")
    texts: dict[str, list[str]] = {"plain": [], "html": []}
    files: list[list[str]] = []
    for part in parts:
        if part.is_multipart():
            continue
        kind, name = part.get_content_type(), _decoded(part.get_filename() or "")
        is_text = kind in ("text/plain", "text/html") and not name
        if is_text and part.get_content_disposition() != "attachment":
            texts[kind.partition("/")[2]].append(_text_of(part))
        elif len(data := _bytes_of(part)) <= max_bytes:
            files.append([name or "attachment", kind, base64.b64encode(data).decode("ascii")])
    return {"fields": {**_headers(message), **_bodies(texts)}, "files": files}


def _headers(message: Message) -> dict[str, Any]:
    lines = {name.lower(): f"{name}: {value}" for name, value in message.raw_items()}
    fields: dict[str, Any] = {"headers": lines}
    subject = message.get("Subject")
    if subject is not None:
        fields["subject"] = _decoded(str(subject))
    for name, field in _ADDRESSES.items():
        texts = [_FOLD.sub(" ", str(value)) for value in message.get_all(name, [])]
        if texts:
            fields[field] = _addresses(texts)
    for name, field in _TEXTS.items():
        if message.get(name) is not None:
            fields[field] = str(message.get(name)).strip()
    references = _MESSAGE_ID.findall(str(message.get("References", "")))
    if references:
        fields["references"] = references[0] if len(references) == 1 else references
    date = _date(str(message.get("Date", "")))
    return fields | ({"date": date} if date else {})


def _bodies(texts: dict[str, list[str]]) -> dict[str, Any]:
    markup = "\n".join(texts["html"])
    text = "\n".join(texts["plain"]) or _plain(markup)
    fields: dict[str, Any] = {"html": markup or False}
    if text:
        lines = html.escape(text.replace("\r\n", "\n").strip(), quote=False)
        paragraphs = re.sub(r"\n\n+", "</p><p>", lines).replace("\n", "<br/>")
        fields |= {"text": text, "textAsHtml": f"<p>{paragraphs}</p>"}
    return fields


def _plain(markup: str) -> str:
    """Returns the text of HTML without tags, with a line per block."""
    lines = html.unescape(_TAG.sub("", _BREAK.sub("\n", _HIDDEN.sub("", markup)))).splitlines()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(" ".join(line.split()) for line in lines)).strip()


def _addresses(texts: Iterable[str]) -> dict[str, Any]:
    pairs = [(_decoded(name), address) for name, address in getaddresses(list(texts)) if address or name]
    addresses = [f'"{name}" <{address}>' if name else address for name, address in pairs]
    return {
        "value": [{"address": address, "name": name} for name, address in pairs],
        "html": ", ".join(_address_html(name, address) for name, address in pairs),
        "text": ", ".join(addresses),
    }


def _address_html(name: str, address: str) -> str:
    quoted = html.escape(address)
    link = f'<a href="mailto:{quoted}" class="mp_address_email">{quoted}</a>'
    label = f'<span class="mp_address_name">{html.escape(name)}</span> &lt;{link}&gt;' if name else link
    return f'<span class="mp_address_group">{label}</span>'


def _date(text: str) -> str | None:
    try:
        moment = parsedate_to_datetime(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"


def _text_of(part: Message) -> str:
    data = _bytes_of(part)
    try:
        return data.decode(part.get_content_charset() or "utf-8", "replace")
    except (LookupError, UnicodeError):
        return data.decode("utf-8", "replace")


def _bytes_of(part: Message) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _decoded(text: str) -> str:
    """Returns a header as one line with its encoded words decoded (RFC 2047)."""
    try:
        chunks = decode_header(text)
    except HeaderParseError:
        return text
    out = ""
    for chunk, charset in chunks:
        if isinstance(chunk, str):
            out += chunk
            continue
        try:
            out += chunk.decode(charset or "utf-8", "replace")
        except (LookupError, UnicodeError):
            out += chunk.decode("utf-8", "replace")
    return " ".join(out.split())
