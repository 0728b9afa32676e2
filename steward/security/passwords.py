"""Hashes people's passwords with argon2id and refuses bad ones."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import Type

_SHORTEST = 12
_LONGEST = 256
_REPEATED = 3


@dataclass(frozen=True, slots=True)
class Cost:
    """Parameters of argon2id; memory in KiB."""

    memory: int
    passes: int
    lanes: int = 1


PRODUCTION = Cost(memory=64 * 1024, passes=3)
SMALL = Cost(memory=19 * 1024, passes=2)


def hash_password(password: str, cost: Cost) -> str:
    """Returns the argon2id hash with salt and parameters. Takes tens of milliseconds: call it in a thread."""
    return _hasher(cost).hash(_normal(password))


def verify_password(password_hash: str, password: str) -> bool:
    """Returns whether `password` matches the hash; as slow as hashing. A damaged hash matches nothing."""
    if not password_hash.startswith("$argon2id$"):
        return False
    try:
        return PasswordHasher().verify(password_hash, _normal(password))
    except (VerificationError, InvalidHashError):
        return False


def needs_rehash(password_hash: str, cost: Cost) -> bool:
    """Returns whether a parameter of the hash is below `cost`, or the hash is damaged."""
    try:
        return _hasher(cost).check_needs_rehash(password_hash)
    except InvalidHashError:
        return True


def problem_with(password: str, *, refused_words: Iterable[str] = ()) -> str | None:
    """Returns why a new password is refused, as a sentence for the person; None when it is accepted.

    `refused_words` are the person's e-mail name and the organization's name; words under four characters do
    not count.
    """
    plain = _normal(password)
    if not _SHORTEST <= len(plain) <= _LONGEST:
        return f"Use {_SHORTEST} to {_LONGEST} characters."
    folded = plain.casefold()
    if len(set(folded)) <= _REPEATED:
        return "Use more than three different characters."
    if folded in _common() or folded.rstrip("0123456789!?.") in _common():
        return "This password is among the most common ones. Choose another."
    for word in refused_words:
        refused_word = _normal(word).casefold().strip()
        if len(refused_word) >= 4 and refused_word in folded:
            return "Leave your name and the organization's name out of the password."
    return None


def _normal(password: str) -> str:
    """Returns the password in Unicode's NFC form, which does not depend on the keyboard."""
    return unicodedata.normalize("NFC", password)


@lru_cache(maxsize=8)
def _hasher(cost: Cost) -> PasswordHasher:
    return PasswordHasher(
        time_cost=cost.passes,
        memory_cost=cost.memory,
        parallelism=cost.lanes,
        hash_len=32,
        salt_len=16,
        type=Type.ID,
    )


@lru_cache(maxsize=1)
def _common() -> frozenset[str]:
    text = files("steward.security").joinpath("common_passwords.txt").read_text("utf-8")
    return frozenset(line.strip().casefold() for line in text.splitlines() if line and line[0] != "#")
