"""Bodies made to hurt the reader: every bound holds before anything is built."""

import time

import pytest

from steward.api.http.body import parse
from steward.model.refusals import Malformed

MIB = 1024 * 1024
MANY = 50_000
# What keeps the quick look at a body from settling the matter, so that every token is looked at.
LOOK = b"[" + b"[]," * 70
SECONDS = 3.0  # a whole MiB takes some hundredths of one; what grows with the square takes hours


@pytest.mark.parametrize(
    "body",
    [
        LOOK + b'"' + b'\\"' * ((MIB - 400) // 2),
        LOOK + b'"' + b"a" * (MIB - 400),
        LOOK + b'"a' * ((MIB - 400) // 2),
        LOOK + b'"\\' * ((MIB - 400) // 2),
        LOOK + b"\\" * (MIB - 400),
        LOOK + b":" * (MIB - 400),
        LOOK + b"1" * (MIB - 400),
        LOOK + b"-" * (MIB - 400),
        LOOK + b'"\n' * ((MIB - 400) // 2),
        b"[" * MIB,
        b'{"a":' * (MIB // 5),
        b'{"":{"":' * 40,
        b"{" + b",".join(b'"%d":1' % number for number in range(80_000)) + b"}",
        b"[" + b"1" * 5_000 + b"]",
        b'{"a":1' + b"0" * 41 + b"}",
        b'{"a":1e' + b"9" * 5_000 + b"}",
    ],
    ids=range(16),
)
def test_a_body_of_a_mebibyte_is_refused_in_the_time_of_one_look(body: bytes) -> None:
    """No body is looked at twice; depth, values and digits are counted before building."""
    began = time.process_time()
    with pytest.raises(Malformed):
        parse(body, MANY)
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize(
    ("body", "length"),
    [
        (b'["' + b'\\"' * 500_000 + b'"]', 1),
        (b"[" + b'"\\\\",' * 49_000 + b'"\\""]', 49_001),
        (LOOK + b'"' + b"a" * (MIB - 400) + b'"]', 71),
        (LOOK + b'"' + b"]}{[,:" * 100 + b'"]', 71),
        (LOOK + b'"' + b"1" * 5_000 + b'"]', 71),
    ],
    ids=range(5),
)
def test_harmless_brackets_quotes_and_digits_are_read(body: bytes, length: int) -> None:
    """Brackets, quotes and digits inside texts are text."""
    began = time.process_time()
    assert len(parse(body, MANY)) == length
    assert time.process_time() - began < SECONDS
