"""Envelope encryption: data keys wrapped by master keys, values bound to their row and field."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_FORMAT = b"\x01"
_ID_BYTES = 64


class CannotOpen(Exception):
    """Raised when a value cannot be decrypted: another key, another context, or changed bytes."""


@dataclass(frozen=True, slots=True)
class MasterKey:
    """A key-encryption key: its id (1–64 printable ASCII characters) and 32 bytes that are never shown."""

    id: str
    key: bytes

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise ValueError("a master key has 32 bytes")
        if not 1 <= len(self.id) <= _ID_BYTES or not self.id.isascii() or not self.id.isprintable():
            raise ValueError("the id of a master key is 1 to 64 printable ASCII characters")

    def __repr__(self) -> str:
        return f"MasterKey({self.id!r}, ***)"


@dataclass(frozen=True, slots=True)
class SealContext:
    """The associated data of a value: in another row, field or version, the value does not decrypt."""

    org_id: int
    integration_id: int | None
    field: str
    version: int
    key_no: int

    def aad(self) -> bytes:
        """Returns `org_id|integration_id|field|version|key_no`. Raises ValueError for a field with a bar."""
        if "|" in self.field:
            raise ValueError("a field's name has no bar")
        integration = "" if self.integration_id is None else str(self.integration_id)
        return f"{self.org_id}|{integration}|{self.field}|{self.version}|{self.key_no}".encode()


def new_data_key() -> bytes:
    """Returns a random data key of an organization."""
    return secrets.token_bytes(KEY_BYTES)


def wrap(data_key: bytes, keys: Sequence[MasterKey], *, org_id: int, key_no: int) -> bytes:
    """Returns the data key under the first of `keys`, with that key's id. Raises ValueError without a key."""
    if not keys:
        raise ValueError("there is no master key")
    if len(data_key) != KEY_BYTES:
        raise ValueError("a data key has 32 bytes")
    first = keys[0]
    name = first.id.encode("ascii")
    head = _FORMAT + bytes([len(name)]) + name
    return head + _seal(first.key, data_key, _wrapping(org_id, key_no, head))


def unwrap(wrapped: bytes, keys: Sequence[MasterKey], *, org_id: int, key_no: int) -> bytes:
    """Returns the data key. Raises CannotOpen without a key of that id, or for another org or number."""
    name = wrapping_key_id(wrapped)
    head = wrapped[: 2 + len(name)]
    for key in keys:
        if key.id == name:
            return _open(key.key, wrapped[len(head) :], _wrapping(org_id, key_no, head))
    raise CannotOpen("no master key has this id")


def wrapping_key_id(wrapped: bytes) -> str:
    """Returns the id of the master key that wrapped a data key. Raises CannotOpen."""
    if len(wrapped) < 3 or wrapped[:1] != _FORMAT or len(wrapped) < 2 + wrapped[1] or wrapped[1] == 0:
        raise CannotOpen("this is not a wrapped key")
    try:
        return wrapped[2 : 2 + wrapped[1]].decode("ascii")
    except UnicodeDecodeError:
        raise CannotOpen("this is not a wrapped key") from None


def seal(value: bytes, data_key: bytes, context: SealContext) -> bytes:
    """Returns the value encrypted for `context`, with its own random 96-bit nonce."""
    return _FORMAT + _seal(data_key, value, context.aad())


def open_sealed(sealed: bytes, data_key: bytes, context: SealContext) -> bytes:
    """Returns the value sealed for exactly `context`. Raises CannotOpen."""
    if sealed[:1] != _FORMAT:
        raise CannotOpen("this is not a sealed value")
    return _open(data_key, sealed[1:], context.aad())


def _wrapping(org_id: int, key_no: int, head: bytes) -> bytes:
    return b"data-key|" + f"{org_id}|{key_no}|".encode() + head


def _seal(key: bytes, value: bytes, aad: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, value, aad)


def _open(key: bytes, sealed: bytes, aad: bytes) -> bytes:
    if len(key) != KEY_BYTES or len(sealed) < _NONCE_BYTES + _TAG_BYTES:
        raise CannotOpen("this is not a sealed value")
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], aad)
    except InvalidTag:
        raise CannotOpen("the value does not belong here, or another key sealed it") from None
