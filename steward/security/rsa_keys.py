"""RSA keys of service accounts: checks and loads them.

A full check of a key blocks the process for about 50 ms. It is made once for each key.
"""

from collections import OrderedDict
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

_MAX_CHARACTERS: Final = 16_384
_MIN_BITS: Final = 2048
_MAX_REMEMBERED: Final = 1000
_sound: OrderedDict[bytes, None] = OrderedDict()  # digests of the keys that passed the check


def is_rsa_key(text: object) -> bool:
    """Returns whether a text is a private key that can sign with RS256."""
    if not isinstance(text, str) or len(text) > _MAX_CHARACTERS:
        return False
    pem = text.encode("utf-8", "replace")
    digest = sha256(pem).digest()
    if digest in _sound:
        return True
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        return False
    if not isinstance(key, RSAPrivateKey) or key.key_size < _MIN_BITS:
        return False
    _sound[digest] = None
    if len(_sound) > _MAX_REMEMBERED:
        _sound.popitem(last=False)
    return True


def load_rsa_key(pem: str) -> RSAPrivateKey:
    """Returns a key that passed the check when its account was connected. Raises ValueError."""
    key = load_pem_private_key(pem.encode("utf-8"), password=None, unsafe_skip_rsa_key_validation=True)
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("not an RSA key")
    return key
