"""Envelope encryption: a value opens unchanged in its own context and under its own key alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.security.envelope import (
    CannotOpen,
    MasterKey,
    SealContext,
    new_data_key,
    open_sealed,
    seal,
    unwrap,
    wrap,
    wrapping_key_id,
)

FIRST, SECOND = MasterKey("2026-01", b"1" * 32), MasterKey("2025-07", b"2" * 32)
SEAL_CONTEXT = SealContext(1, 11, "consumer_secret", 3, 1)
KEY = new_data_key()


@given(st.binary(max_size=500))
def test_sealed_values_open_unchanged(value: bytes) -> None:
    """Opens a sealed value of any bytes unchanged."""
    assert open_sealed(seal(value, KEY, SEAL_CONTEXT), KEY, SEAL_CONTEXT) == value


@pytest.mark.parametrize(
    "other",
    [
        {"org_id": 2}, {"integration_id": 12}, {"integration_id": None}, {"field": "consumer_key"},
        {"version": 4}, {"version": 2}, {"key_no": 2}, {"org_id": 11, "integration_id": 1},
    ],
)  # fmt: skip
def test_a_value_moved_to_another_row_field_version_or_key_does_not_open(other: dict[str, object]) -> None:
    """Raises CannotOpen when organization, connection, field, version or key number differ."""
    sealed = seal(b"secret", KEY, SEAL_CONTEXT)
    with pytest.raises(CannotOpen):
        open_sealed(sealed, KEY, replace(SEAL_CONTEXT, **other))  # type: ignore[arg-type]


def test_two_rows_exchanged_do_not_open() -> None:
    """Raises CannotOpen for two values that were exchanged between rows."""
    other = replace(SEAL_CONTEXT, integration_id=12)
    mine, theirs = seal(b"mine", KEY, SEAL_CONTEXT), seal(b"theirs", KEY, other)
    for sealed, context in ((theirs, SEAL_CONTEXT), (mine, other)):
        with pytest.raises(CannotOpen):
            open_sealed(sealed, KEY, context)


def test_the_places_of_two_numbers_never_read_alike() -> None:
    """Encodes contexts without ambiguity and refuses a field name with a bar."""
    places = [
        SealContext(1, 11, "a", 1, 1),
        SealContext(11, 1, "a", 1, 1),
        SealContext(1, None, "a", 1, 1),
        SealContext(1, 1, "a", 11, 1),
    ]
    assert len({context.aad() for context in places}) == len(places)
    with pytest.raises(ValueError):
        SealContext(1, 1, "a|1", 1, 1).aad()


def test_every_changed_byte_is_noticed() -> None:
    """Raises CannotOpen for each truncation and each flipped byte, and for another key."""
    sealed = seal(b"secret", KEY, SEAL_CONTEXT)
    for index in range(len(sealed)):
        for broken in (sealed[:index], sealed[:index] + bytes([sealed[index] ^ 1]) + sealed[index + 1 :]):
            with pytest.raises(CannotOpen):
                open_sealed(broken, KEY, SEAL_CONTEXT)
    with pytest.raises(CannotOpen):
        open_sealed(sealed, new_data_key(), SEAL_CONTEXT)


def test_a_value_sealed_twice_looks_different() -> None:
    """Seals the same value differently each time."""
    assert len({seal(b"secret", KEY, SEAL_CONTEXT) for _ in range(1000)}) == 1000


def test_the_first_master_key_wraps_and_all_unwrap() -> None:
    """Wraps with the first master key and unwraps with any configured one."""
    old = wrap(KEY, [SECOND], org_id=1, key_no=1)
    new = wrap(KEY, [FIRST, SECOND], org_id=1, key_no=1)
    assert (wrapping_key_id(old), wrapping_key_id(new)) == ("2025-07", "2026-01")
    for wrapped in (old, new):
        assert unwrap(wrapped, [FIRST, SECOND], org_id=1, key_no=1) == KEY
    with pytest.raises(CannotOpen):
        unwrap(old, [FIRST], org_id=1, key_no=1)


def test_a_wrapped_key_belongs_to_one_organization_and_number() -> None:
    """Raises CannotOpen for a wrapped key of another organization, number or master key."""
    wrapped = wrap(KEY, [FIRST], org_id=1, key_no=1)
    renamed = bytes([1, 7]) + b"2025-07" + wrapped[9:]
    for broken, org, number, keys in (
        (wrapped, 2, 1, [FIRST]),
        (wrapped, 1, 2, [FIRST]),
        (renamed, 1, 1, [MasterKey("2025-07", FIRST.key)]),
        (wrapped, 1, 1, [MasterKey("2026-01", b"3" * 32)]),
        (b"", 1, 1, [FIRST]),
        (b"\x01\xff", 1, 1, [FIRST]),
    ):
        with pytest.raises(CannotOpen):
            unwrap(broken, keys, org_id=org, key_no=number)


def test_master_keys_have_32_bytes_a_short_id_and_are_never_shown() -> None:
    """Requires 32 bytes and a short ASCII id of a master key, and hides the key in its repr."""
    assert "1111" not in repr(FIRST)
    for name, key in (("a", b"1" * 31), ("", b"1" * 32), ("x" * 65, b"1" * 32), ("ä", b"1" * 32)):
        with pytest.raises(ValueError):
            MasterKey(name, key)
    with pytest.raises(ValueError):
        wrap(KEY, [], org_id=1, key_no=1)
