"""The caps on answers: size, compression, JSON; each at its limit and one past it.

See docs/design/connectors.md#limits.
"""

import gzip
import zlib
from decimal import Decimal

import pytest

from steward.outbound.errors import UnusableResponse
from steward.outbound.response import DEPTH, NODES, RESPONSE_BYTES, BodyReader, PlatformResponse, parse_json


def test_fractions_are_exact_and_whole_numbers_are_whole() -> None:
    """A price of a sheet is never a binary fraction. See docs/design/connectors.md#google-sheets."""
    assert parse_json(b'{"a": 8.40, "b": 3, "c": "x", "d": [true, null], "e": 1e3}') == {
        "a": Decimal("8.40"), "b": 3, "c": "x", "d": [True, None], "e": Decimal(1000),
    }  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        b"", b"<html>", b"{", b'{"a": 1, "a": 2}', b"NaN", b"[Infinity]", b"[-Infinity]", b'"\xff"',
        b"[1] [2]", b'{"a": [{"b": 1, "b": 1}]}', b"[1e999999]", b"[" + b"1" * 41 + b"]", b'"\\', b'{"a',
    ],
)  # fmt: skip
def test_json_that_is_not_as_documented_is_broken(body: bytes) -> None:
    """See docs/design/connectors.md#limits."""
    with pytest.raises(UnusableResponse):
        parse_json(body)


def test_depth_is_counted_before_anything_is_built() -> None:
    """At the limit and one past it. See docs/design/connectors.md#limits."""
    assert parse_json(b"[" * DEPTH + b"]" * DEPTH)
    for depth in (DEPTH + 1, 100_000):
        with pytest.raises(UnusableResponse):
            parse_json(b"[" * depth + b"]" * depth)


def test_brackets_inside_text_do_not_count() -> None:
    """See docs/design/connectors.md#limits."""
    assert parse_json(b'["' + b'[{,\\"' * 300_000 + b'"]')


def test_the_number_of_values_has_a_limit() -> None:
    """See docs/design/connectors.md#limits."""
    inside = (NODES - 3) + 1  # commas and two brackets
    assert parse_json(b"[" + b",".join([b"1"] * inside) + b"]")
    with pytest.raises(UnusableResponse):
        parse_json(b"[" + b",".join([b"1"] * (inside + 2)) + b"]")


def test_a_number_of_forty_digits_is_the_longest() -> None:
    """See docs/design/connectors.md#limits."""
    assert parse_json(b"[" + b"1" * 40 + b"]") == [int("1" * 40)]


@pytest.mark.parametrize(("name", "pack"), [
    ("gzip", gzip.compress), ("deflate", zlib.compress), ("", bytes),
    ("deflate", lambda raw: zlib.compressobj(wbits=-15).compress(raw) + b""),
])  # fmt: skip
def test_both_ways_of_compression_are_read_in_any_pieces(name: str, pack: object) -> None:
    """Gzip and deflate only. See docs/design/connectors.md#limits."""
    raw = b'{"key": "value"}' * 50
    if name == "deflate" and pack is not zlib.compress:
        bare = zlib.compressobj(wbits=-15)
        packed = bare.compress(raw) + bare.flush()
    else:
        packed = pack(raw)  # type: ignore[operator]
    for step in (1, 7, len(packed)):
        body = BodyReader(name)
        for index in range(0, len(packed), step):
            body.feed(packed[index : index + step])
        assert body.whole() == raw


def test_a_response_over_ten_mebibytes_is_broken_and_at_the_limit_read() -> None:
    """See docs/design/connectors.md#limits."""
    body = BodyReader("")
    body.feed(b"x" * RESPONSE_BYTES)
    assert len(body.whole()) == RESPONSE_BYTES
    with pytest.raises(UnusableResponse):
        body.feed(b"x")


def test_a_bomb_is_stopped_long_before_it_is_unpacked() -> None:
    """At most 20 times its compressed size. See docs/design/connectors.md#limits."""
    bomb = gzip.compress(b"0" * 50_000_000)
    body = BodyReader("gzip")
    with pytest.raises(UnusableResponse):
        body.feed(bomb)
    assert body.decoded <= 2 * 1024 * 1024


def test_strange_and_damaged_compression_is_broken() -> None:
    """See docs/design/connectors.md#limits."""
    with pytest.raises(UnusableResponse):
        BodyReader("br")
    body = BodyReader("gzip")
    with pytest.raises(UnusableResponse):
        body.feed(b"not gzip at all")
    cut = BodyReader("gzip")
    cut.feed(gzip.compress(b"abc" * 1000)[:-8])
    with pytest.raises(UnusableResponse):
        cut.whole()


def test_the_text_of_a_platform_is_cut_and_cleaned() -> None:
    """Cut to 300 characters and redacted. See docs/design/connectors.md#errors."""
    response = PlatformResponse(400, {}, b"", lambda text: text.replace("hunter22", "[redacted]"))
    assert response.quote("hunter22 " + "x" * 500).startswith("[redacted] ")
    assert len(response.quote("x" * 500)) == 300
