"""Multipart forms (RFC 7578): fields and files in one body."""

import hashlib
from collections.abc import Sequence


def field_head(name: str) -> str:
    """Returns the head of a part that is a field."""
    return f'name="{_quoted(name)}"'


def file_head(name: str, file_name: str, mime_type: str) -> str:
    """Returns the head of a part that is a file."""
    return f'{field_head(name)}; filename="{_quoted(file_name)}"\r\nContent-Type: {mime_type}'


def form_of_parts(parts: Sequence[tuple[str, bytes]]) -> tuple[bytes, str]:
    """Returns body and content type; the boundary is derived from the content, so that it is repeatable."""
    digest_input = b"\0".join(part for head, content in parts for part in (head.encode(), content))
    boundary = f"steward-{hashlib.sha256(digest_input).hexdigest()[:32]}"
    lines: list[bytes] = []
    for head, content in parts:
        lines += [
            f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode(),
            content,
            b"\r\n",
        ]
    return b"".join([*lines, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"


def _quoted(text: str) -> str:
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
