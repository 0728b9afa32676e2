"""The service's own keys, unwrapped: token signing, peppers of client secrets, cursors."""

from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key new tokens are signed with."""

    kid: str
    private: EllipticCurvePrivateKey


@dataclass(slots=True)
class KeyRing:
    """The keys as last read from the database; read anew when a key id is not among them."""

    signing: SigningKey
    verifying: Mapping[str, EllipticCurvePublicKey]
    peppers: Mapping[str, bytes]
    pepper_id: str
    cursor: bytes
