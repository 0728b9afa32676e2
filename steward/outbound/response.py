"""A platform's response, and the bounded reading of its bytes and JSON.

The limits are in `docs/design/connectors.md#limits`.
"""

import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from steward.outbound.errors import PLATFORM_TEXT, UnusableResponse

# Fractions are exact decimals: a price in a sheet is never a binary float.
Decoded: TypeAlias = "bool | int | Decimal | str | list[Decoded] | dict[str, Decoded] | None"

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
RESPONSE_BYTES = 10 * 1024 * 1024
_RATIO = 20
# Below this size any compression ratio is allowed: fifty equal short rows compress 30 times.
_RATIO_FROM = 1024 * 1024
HEADER_BYTES = 64 * 1024
_LINE_BYTES = 1024 * 1024
_RESULT_BYTES = 256 * 1024 * 1024
NODES = 200_000
DEPTH = 64
_DIGITS = 40
_CHARSET = re.compile(r"charset=[\"']?([\w-]+)", re.ASCII)
# Python's codecs that are not text encodings, or are slow, are left out.
_TEXT_ENCODING = re.compile(
    r"us-ascii|iso-8859-\d+|latin-?1|windows-125\d|koi8-[ru]|utf-16(?:le|be)?"
    r"|shift_jis|euc-(?:jp|kr)|gb(?:k|2312|18030)|big5"
)
_STEP = 64 * 1024

# Always matches from a quote on, closed or not, so that the scan stays linear for broken input.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[0-9.eE+\-]{%d}" % (_DIGITS + 1))
_STRUCTURE = bytes(set(range(256)) - set(b"[]{},"))
_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


@dataclass(frozen=True, slots=True)
class PlatformResponse:
    """A status, headers with lower-case names, and the decoded body within its cap.

    `attempts` is the number of calls in a row, of which this response ended the last.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    clean: Callable[[str], str] = str
    attempts: int = 1

    @property
    def ok(self) -> bool:
        """Whether the status is a 2xx."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text in the encoding of its content type, else in UTF-8."""
        charset = _CHARSET.search(self.headers.get("content-type", "").lower())
        encoding = charset[1] if charset and _TEXT_ENCODING.fullmatch(charset[1]) else "utf-8-sig"
        try:
            return self.body.decode(encoding, "replace")
        except LookupError:
            return self.body.decode("utf-8-sig", "replace")

    def json(self) -> Decoded:
        """Returns the body as JSON.

        Raises UnusableResponse when it is not JSON, repeats a key or exceeds a cap.
        """
        return parse_json(self.body)

    def quote(self, text: str) -> str:
        """Returns the platform's text, redacted and cut to 300 characters."""
        return self.clean(text[: PLATFORM_TEXT * 4])[:PLATFORM_TEXT]


def parse_json(body: bytes) -> Decoded:
    """Parses JSON with caps: 200,000 nodes, depth 64, numbers of 40 digits, no NaN, no repeated key.

    The caps are checked on the bytes before any object is built. Raises UnusableResponse.
    """
    bare = _STRING.sub(b"0", body)
    structure = bare.translate(None, _STRUCTURE)
    if len(structure) > NODES:
        raise UnusableResponse("it has more than 200,000 values")
    depth = 0
    for mark in structure.translate(None, _BRACKETS):
        depth += 1 if mark in b"[{" else -1
        if depth > DEPTH:
            raise UnusableResponse("it is nested more than 64 deep")
    if _LONG_NUMBER.search(bare):
        raise UnusableResponse("a number has more than 40 digits")
    try:
        decoded: Decoded = json.loads(
            body.decode("utf-8-sig"),
            parse_float=_fraction,
            parse_constant=_no_constant,
            object_pairs_hook=_object,
        )
    except (ValueError, RecursionError):
        raise UnusableResponse("it is not JSON") from None
    return decoded


class BodyReader:
    """Collects the bytes of one response and decompresses them in bounded steps."""

    def __init__(self, encoding: str, cap: int = RESPONSE_BYTES) -> None:
        # Not a list of chunks: a hostile body in chunks of two bytes would need twenty times its size.
        self._decoded_bytes = bytearray()
        self._cap = cap
        self.received = 0
        self.decoded = 0
        name = encoding.strip().lower()
        self._bare_possible = name == "deflate"
        if name in ("", "identity"):
            self._unpack: zlib._Decompress | None = None
        elif name in ("gzip", "x-gzip"):
            self._unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif name == "deflate":
            self._unpack = zlib.decompressobj()
        else:
            raise UnusableResponse("it is compressed in a way that was not requested")

    def feed(self, chunk: bytes) -> None:
        """Adds the next bytes as received. Raises UnusableResponse over the caps."""
        self.received += len(chunk)
        if self._unpack is None:
            self._keep(chunk)
            return
        if self._bare_possible and chunk:
            self._bare_possible = False
            if chunk[0] & 0x0F != 8:
                self._unpack = zlib.decompressobj(-zlib.MAX_WBITS)  # "deflate" without its zlib wrapper
        compressed = chunk
        while True:
            try:
                out = self._unpack.decompress(compressed, _STEP)
            except zlib.error:
                raise UnusableResponse("its compression is damaged") from None
            self._keep(out)
            compressed = self._unpack.unconsumed_tail
            if not compressed and len(out) < _STEP:
                break

    def whole(self) -> bytes:
        """Returns the decoded body. Raises UnusableResponse when the compressed stream is incomplete."""
        if self._unpack is not None and self.received and not self._unpack.eof:
            raise UnusableResponse("its compression is cut off")
        return bytes(self._decoded_bytes)

    def _keep(self, chunk: bytes) -> None:
        self.decoded += len(chunk)
        if self.decoded > self._cap:
            raise UnusableResponse(f"it is larger than {self._cap // (1024 * 1024)} MiB")
        if self._unpack is not None and self.decoded > max(_RATIO_FROM, _RATIO * self.received):
            raise UnusableResponse("it unpacks to more than 20 times its size")
        self._decoded_bytes += chunk


class LineReader:
    """Splits a stream into lines, of at most 1 MiB each and 256 MiB in total."""

    def __init__(self) -> None:
        self._incomplete_line = b""
        self._total = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Returns the lines that `chunk` completes. Raises UnusableResponse over the caps."""
        self._total += len(chunk)
        *lines, self._incomplete_line = (self._incomplete_line + chunk).split(b"\n")
        if self._total > _RESULT_BYTES or len(self._incomplete_line) > _LINE_BYTES:
            raise UnusableResponse("its result is larger than can be read")
        return [line for line in lines if line.strip()]

    def rest(self) -> list[bytes]:
        """Returns the last line if it has no line end."""
        return [self._incomplete_line] if self._incomplete_line.strip() else []


def _object(pairs: list[tuple[str, Decoded]]) -> dict[str, Decoded]:
    decoded = dict(pairs)
    if len(decoded) != len(pairs):
        raise UnusableResponse("an object repeats a key")
    return decoded


def _fraction(text: str) -> Decimal:
    value = Decimal(text)
    if abs(value.adjusted()) > _DIGITS:
        raise UnusableResponse("a number has more than 40 digits")
    return value


def _no_constant(text: str) -> Decoded:
    raise UnusableResponse(f"it contains {text}, which is not a number")
