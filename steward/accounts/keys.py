"""The service's own keys: created at the first start, stored encrypted, decrypted into a key ring."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain

from steward.database.accounts import keys
from steward.database.accounts.keys import KeyKind, WrappedKey
from steward.database.engine.base import Engine, Tx
from steward.model.account import TOKEN_SCOPES
from steward.model.ids import new_id
from steward.model.refusals import NotConfigured
from steward.security import tokens
from steward.security.envelope import (
    MasterKey,
    SealContext,
    new_data_key,
    open_sealed,
    seal,
    unwrap,
    wrap,
    wrapping_key_id,
)
from steward.security.secrets import new_pepper

_REREAD_AFTER = timedelta(seconds=1)
_SCOPES = frozenset(str(scope) for scope in TOKEN_SCOPES)
_CURSOR_BYTES = 32
# A placeholder for the organization; each service key is sealed by its own data key.
_NOBODY = 0


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The keys in use; `refresh` rereads them when another process has created one."""

    masters: Sequence[MasterKey]
    issuer: str
    audience: str
    current: "CurrentKeys" = field(default_factory=lambda: CurrentKeys())

    @property
    def is_usable(self) -> bool:
        """Whether a key of each kind exists and could be decrypted."""
        return self.current.unwrapped is not None

    @property
    def kid(self) -> str:
        """The id of the signing key. Raises NotConfigured without one."""
        return self._unwrapped_keys().kid

    @property
    def signer(self) -> tokens.Signer:
        """The signer of new tokens."""
        return self._unwrapped_keys().signer

    @property
    def verifier(self) -> tokens.Verifier:
        """The verifier of tokens, with every signing key that has not been retired."""
        return self._unwrapped_keys().verifier

    @property
    def jwks(self) -> dict[str, list[dict[str, str]]]:
        """The public keys as published (JWKS)."""
        return self._unwrapped_keys().jwks

    @property
    def pepper_id(self) -> str:
        """The id of the pepper that hashes new client secrets."""
        return self._unwrapped_keys().pepper_id

    @property
    def cursor(self) -> bytes:
        """The key that signs cursors."""
        return self._unwrapped_keys().cursor

    def pepper(self, pepper_id: str) -> bytes | None:
        """Returns a pepper by its id, or None."""
        return self._unwrapped_keys().peppers.get(pepper_id)

    def _unwrapped_keys(self) -> "_Unwrapped":
        if self.current.unwrapped is None:
            raise NotConfigured
        return self.current.unwrapped


@dataclass(slots=True)
class CurrentKeys:
    """The mutable part of a key ring: its current keys."""

    unwrapped: "_Unwrapped | None" = None
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Unwrapped:
    """The keys as decrypted by one `refresh`."""

    kid: str
    signer: tokens.Signer
    verifier: tokens.Verifier
    jwks: dict[str, list[dict[str, str]]]
    peppers: dict[str, bytes]
    pepper_id: str
    cursor: bytes


async def open_ring(
    engine: Engine, now: datetime, masters: Sequence[MasterKey], *, issuer: str, audience: str
) -> KeyRing:
    """Returns the key ring of this process; creates missing keys. Raises CannotOpen."""

    async def make(tx: Tx) -> None:
        current_kinds = {key.kind for key in await keys.every(tx) if key.retires_at is None}
        for kind in ("signing", "pepper", "cursor"):
            if kind not in current_kinds:
                await add(tx, masters, kind)

    await engine.write(now, make)
    ring = KeyRing(masters, issuer, audience)
    await refresh(engine, now, ring)
    return ring


async def refresh(engine: Engine, now: datetime, ring: KeyRing) -> None:
    """Rereads the keys."""
    stored_keys = await engine.read(now, keys.every)
    ring.current.unwrapped = _unwrapped(ring, stored_keys, now)
    ring.current.read_at = now


def may_refresh(ring: KeyRing, now: datetime) -> bool:
    """Returns whether the keys were last read long enough ago to reread them for an unknown key id."""
    return ring.current.read_at is None or not now - _REREAD_AFTER < ring.current.read_at <= now


async def add(tx: Tx, masters: Sequence[MasterKey], kind: KeyKind) -> str:
    """Creates and stores a key of this kind; returns its id."""
    key_id = f"{kind}-{new_id(tx.now).lower()}"
    public = None
    if kind == "signing":
        plain = tokens.new_signing_key()
        published = tokens.jwks([tokens.load_signing_key(key_id, plain)])
        public = json.dumps(published["keys"][0])
    elif kind == "pepper":
        plain = new_pepper()
    else:
        plain = secrets.token_bytes(_CURSOR_BYTES)
    await keys.insert(tx, key_id, kind, wrapped=_wrapped(plain, key_id, masters), public=public)
    return key_id


@dataclass(frozen=True, slots=True)
class _Rotated:
    """The result of a rotation: the new signing key, and the retired ones with their end."""

    kid: str
    retired: tuple[str, ...]
    retires_at: datetime


async def rotate_signing(tx: Tx, masters: Sequence[MasterKey]) -> _Rotated:
    """Creates a signing key; older ones still verify until their last token has expired."""
    await keys.forget_retired(tx)
    older = [key for key in await keys.every(tx) if key.kind == "signing"]
    # Twice the skew: for a token signed in this very second, and for the clocks of other processes.
    retires_at = tx.now + timedelta(seconds=tokens.LIFE_S + 2 * tokens.SKEW_S)
    for key in older:
        await keys.retire(tx, key.key_id, retires_at)
    kid = await add(tx, masters, "signing")
    return _Rotated(kid, tuple(key.key_id for key in older), retires_at)


async def rewrap(tx: Tx, masters: Sequence[MasterKey]) -> int:
    """Rewraps service keys with the first master key. Returns how many had been wrapped by another key."""
    changed = 0
    for key in await keys.every(tx):
        head, sealed = _parts(key.wrapped)
        if wrapping_key_id(head) == masters[0].id:
            continue
        data_key = unwrap(head, masters, org_id=_NOBODY, key_no=0)
        await keys.rewrap(tx, key.key_id, _joined(wrap(data_key, masters, org_id=_NOBODY, key_no=0), sealed))
        changed += 1
    return changed


async def openable(tx: Tx, masters: Sequence[MasterKey]) -> int:
    """Returns the number of service keys. Raises CannotOpen when one cannot be decrypted."""
    stored_keys = await keys.every(tx)
    for key in stored_keys:
        _opened(key.wrapped, key.key_id, masters)
    return len(stored_keys)


def _live_by_kind(stored_keys: Sequence[WrappedKey], now: datetime) -> dict[KeyKind, list[WrappedKey]]:
    by_kind: dict[KeyKind, list[WrappedKey]] = {"signing": [], "pepper": [], "cursor": []}
    for key in stored_keys:
        if key.retires_at is None or key.retires_at > now:
            by_kind[key.kind].append(key)
    return by_kind


def _unwrapped(ring: KeyRing, stored_keys: Sequence[WrappedKey], now: datetime) -> _Unwrapped | None:
    """Decrypts the live keys; returns None unless there is one of each kind. Raises CannotOpen."""
    by_kind = _live_by_kind(stored_keys, now)
    live = chain.from_iterable(by_kind.values())
    plain = {key.key_id: _opened(key.wrapped, key.key_id, ring.masters) for key in live}
    current = [key.key_id for key in by_kind["signing"] if key.retires_at is None]
    if not (current and by_kind["pepper"] and by_kind["cursor"]):
        return None
    loaded = {
        key.key_id: tokens.load_signing_key(key.key_id, plain[key.key_id]) for key in by_kind["signing"]
    }
    return _Unwrapped(
        kid=current[-1],
        signer=tokens.Signer(loaded[current[-1]], issuer=ring.issuer, audience=ring.audience),
        verifier=tokens.Verifier(
            tokens.public_keys(list(loaded.values())),
            issuer=ring.issuer,
            audience=ring.audience,
            scopes=_SCOPES,
        ),
        jwks=tokens.jwks(list(loaded.values())),
        peppers={key.key_id: plain[key.key_id] for key in by_kind["pepper"]},
        pepper_id=by_kind["pepper"][-1].key_id,
        cursor=plain[by_kind["cursor"][0].key_id],
    )


def _seal_context(key_id: str) -> SealContext:
    return SealContext(_NOBODY, None, f"service_key.{key_id}", 1, 0)


def _wrapped(plain: bytes, key_id: str, masters: Sequence[MasterKey]) -> bytes:
    data_key = new_data_key()
    return _joined(
        wrap(data_key, masters, org_id=_NOBODY, key_no=0), seal(plain, data_key, _seal_context(key_id))
    )


def _opened(wrapped: bytes, key_id: str, masters: Sequence[MasterKey]) -> bytes:
    head, sealed = _parts(wrapped)
    return open_sealed(sealed, unwrap(head, masters, org_id=_NOBODY, key_no=0), _seal_context(key_id))


def _joined(head: bytes, sealed: bytes) -> bytes:
    return len(head).to_bytes(2, "big") + head + sealed


def _parts(wrapped: bytes) -> tuple[bytes, bytes]:
    end = 2 + int.from_bytes(wrapped[:2], "big")
    return wrapped[2:end], wrapped[end:]
