"""Keys of service accounts: which are accepted, how often they are checked and what is remembered."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from steward.security import rsa_keys
from steward.security.rsa_keys import is_rsa_key, load_rsa_key

LONGEST = 16_384


def pem_of(key: PrivateKeyTypes) -> str:
    """Returns the PEM text of a key as key files contain it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def test_a_key_is_read_and_anything_else_refused() -> None:
    """Accepts RSA keys of at least 2,048 bits in at most 16,384 characters, and refuses anything else."""
    pem = pem_of(KEY)
    assert is_rsa_key(pem)
    assert is_rsa_key(pem + "\n" * (LONGEST - len(pem)))
    assert not is_rsa_key(pem + "\n" * (LONGEST - len(pem) + 1))
    assert load_rsa_key(pem).private_numbers() == KEY.private_numbers()
    curve = pem_of(ec.generate_private_key(ec.SECP256R1()))
    short = pem_of(rsa.generate_private_key(public_exponent=65537, key_size=2047))
    for wrong in (curve, short, "", "a key", "\ud800", None, 7):
        assert not is_rsa_key(wrong)
    with pytest.raises(ValueError, match="not an RSA key"):
        load_rsa_key(curve)


def test_a_key_whose_numbers_do_not_fit_is_refused() -> None:
    """Refuses a key with one flipped bit in a prime."""
    content = bytearray(KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))
    prime = KEY.private_numbers().p.to_bytes(128, "big")
    content[content.index(prime) + 64] ^= 2
    body = base64.encodebytes(bytes(content)).decode("ascii")
    assert not is_rsa_key(f"-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\n")


def test_no_more_checks_are_remembered_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remembers digests of checked keys up to the limit and forgets the oldest."""
    monkeypatch.setattr(rsa_keys, "_MAX_REMEMBERED", 2)
    rsa_keys._sound.clear()
    pem = pem_of(KEY)
    texts = [pem + "\n" * number for number in range(3)]
    for count, text in zip((1, 2, 2), texts, strict=True):
        assert is_rsa_key(text)
        assert len(rsa_keys._sound) == count
    assert is_rsa_key(texts[0])
    assert all(len(digest) == 32 for digest in rsa_keys._sound)
