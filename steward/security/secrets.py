"""Creates, hashes and compares client ids and secrets, and values for sessions, links and CSRF."""

import hashlib
import hmac
import secrets

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PEPPER_BYTES = 32


def new_client_id() -> str:
    """Returns `st_` and 16 characters, 80 random bits."""
    return "st_" + "".join(secrets.choice(_ALPHABET) for _ in range(16))


def new_client_secret() -> str:
    """Returns `stw_` and 43 characters, 256 random bits; shown once."""
    return "stw_" + secrets.token_urlsafe(32)


def new_pepper() -> bytes:
    """Returns a new key for hashes of client secrets, which `service_keys` stores."""
    return secrets.token_bytes(PEPPER_BYTES)


def hash_client_secret(secret: str, pepper: bytes) -> bytes:
    """Returns HMAC-SHA-256 under the pepper; the secret is random, so no slower hash is needed."""
    return hmac.new(pepper, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def matches(secret: str, pepper: bytes, secret_hash: bytes) -> bool:
    """Returns whether `secret` has the stored hash; the time does not depend on which byte differs."""
    return hmac.compare_digest(hash_client_secret(secret, pepper), secret_hash)


def new_value() -> str:
    """Returns a session, CSRF, invitation, reset or sign-in value: 32 random bytes as 43 characters."""
    return secrets.token_urlsafe(32)


def hash_value(value: str) -> bytes:
    """Returns the SHA-256 of a random value; sessions and links are stored as such hashes."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()


def is_equal(first: str | bytes, second: str | bytes) -> bool:
    """Returns whether the values are equal, in constant time."""
    return hmac.compare_digest(_bytes(first), _bytes(second))


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
