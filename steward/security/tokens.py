"""Signs and verifies API tokens (ES256); refuses every token that deviates from the exact form."""

import base64
import binascii
import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

_ALGORITHM = "ES256"
_TYPE = "at+jwt"
LIFE_S = 3600
SKEW_S = 5
_TOKEN_BYTES = 4096
CACHED = 10_000
_MAX_INTEGER = 2**53 - 1
_SIGNATURE_BYTES = 64
# The order of P-256. If (r, s) is a signature, so is (r, n - s): only the smaller s is accepted, so that a
# token has one signature.
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_CLAIMS = frozenset({"iss", "aud", "sub", "org", "cid", "scope", "epoch", "jti", "iat", "nbf", "exp"})
_HEADER = frozenset({"alg", "typ", "kid"})
_PART = re.compile(r"[A-Za-z0-9_-]+")
_NUMBER = re.compile(r"[1-9][0-9]{0,15}")
_JTI = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


class BadToken(Exception):
    """Raised for an invalid token; `reason` is for the log and never sent to the caller."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """The claims of a valid token; times are seconds since 1970."""

    person: int
    org: int
    client_id: str
    scopes: tuple[str, ...]
    epoch: int
    jti: str
    iat: int
    exp: int


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A P-256 key by its id; never shown."""

    kid: str
    private: EllipticCurvePrivateKey

    def __repr__(self) -> str:
        return f"SigningKey({self.kid!r}, ***)"


def new_signing_key() -> bytes:
    """Returns a new P-256 key as PKCS #8 in DER, the form in which it is wrapped and stored."""
    key = generate_private_key(SECP256R1())
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def load_signing_key(kid: str, der: bytes) -> SigningKey:
    """Returns a stored key. Raises ValueError when it is not a P-256 key."""
    key = load_der_private_key(der, password=None)
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise ValueError("a signing key is a P-256 key")
    return SigningKey(kid, key)


def jwks(keys: Sequence[SigningKey]) -> dict[str, list[dict[str, str]]]:
    """Returns the public keys as `{"keys": [...]}`."""
    public_keys: list[dict[str, str]] = []
    for key in keys:
        numbers = key.private.public_key().public_numbers()
        x, y = (_encoded(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
        public_keys.append(
            {"kty": "EC", "crv": "P-256", "use": "sig", "alg": _ALGORITHM, "kid": key.kid, "x": x, "y": y}
        )
    return {"keys": public_keys}


class Signer:
    """Signs with the newest key."""

    def __init__(self, key: SigningKey, *, issuer: str, audience: str) -> None:
        self._key = key
        self._issuer = issuer
        self._audience = audience

    def sign(
        self, *, person: int, org: int, client_id: str, scopes: Sequence[str], epoch: int, jti: str, now: int
    ) -> str:
        """Returns a token that is valid from `now` (seconds) for one hour."""
        claims: dict[str, object] = {
            "iss": self._issuer,
            "aud": self._audience,
            "sub": str(person),
            "org": org,
            "cid": client_id,
            "scope": " ".join(scopes),
            "epoch": epoch,
            "jti": jti,
            "iat": now,
            "nbf": now,
            "exp": now + LIFE_S,
        }
        headers = {"kid": self._key.kid, "typ": _TYPE}
        token = jwt.encode(claims, self._key.private, algorithm=_ALGORITHM, headers=headers)
        signed, _, signature = token.rpartition(".")
        return f"{signed}.{_encoded(_low_s(_decoded(signature)))}"


class Verifier:
    """Verifies tokens with a fixed table of keys; remembers verified signatures but no failures."""

    def __init__(
        self,
        keys: Mapping[str, EllipticCurvePublicKey],
        *,
        issuer: str,
        audience: str,
        scopes: frozenset[str],
    ) -> None:
        self._keys = dict(keys)
        self._issuer = issuer
        self._audience = audience
        self._scopes = scopes
        self._good: OrderedDict[bytes, TokenClaims] = OrderedDict()

    def verify(self, token: str, now: float | None = None) -> TokenClaims:
        """Returns the claims of a token valid at `now` (seconds); without `now`, times are not checked.

        Raises BadToken. On every call, the caller checks in the database that the credential, its epoch and
        the person are still valid.
        """
        if len(token) > _TOKEN_BYTES or not token.isascii():
            raise BadToken("size")
        mark = hashlib.blake2b(token.encode("ascii"), digest_size=32).digest()
        claims = self._good.get(mark)
        if claims is None:
            claims = self._checked(token)
            self._good[mark] = claims
            if len(self._good) > CACHED:
                self._good.popitem(last=False)
        else:
            self._good.move_to_end(mark)
        if now is None:
            return claims
        if now >= claims.exp:  # `exp` is exact
            self._good.pop(mark, None)
            raise BadToken("expired")
        if claims.iat > now + SKEW_S:
            raise BadToken("early")
        return claims

    def _checked(self, token: str) -> TokenClaims:
        """Checks everything about a token except the time, and returns its claims. Raises BadToken."""
        parts = token.split(".")
        if len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
            raise BadToken("form")
        header = _object(_decoded(parts[0]))
        key = self._key(header)
        signature = _decoded(parts[2])
        if len(signature) != _SIGNATURE_BYTES or _s_of(signature) > _ORDER // 2:
            raise BadToken("signature")
        payload = _object(_decoded(parts[1]))
        try:
            # Checks only the signature: every claim is checked once below, by its own rule.
            jwt.PyJWS().decode(token, key, algorithms=[_ALGORITHM])
        except jwt.PyJWTError:
            raise BadToken("signature") from None
        return self._claims(payload)

    def _key(self, header: Mapping[str, object]) -> EllipticCurvePublicKey:
        if header.keys() != _HEADER:
            raise BadToken("header")  # crit, jku, x5u, jwk, b64 and anything else
        if header["alg"] != _ALGORITHM or header["typ"] != _TYPE:
            raise BadToken("algorithm")
        kid = header["kid"]
        key = self._keys.get(kid) if isinstance(kid, str) else None
        if key is None:
            raise BadToken("key")
        return key

    def _claims(self, payload: Mapping[str, object]) -> TokenClaims:
        """Returns the claims, each of which has to have exactly the expected form. Raises BadToken."""
        if payload.keys() != _CLAIMS:
            raise BadToken("claims")
        if payload["iss"] != self._issuer or payload["aud"] != self._audience:
            raise BadToken("audience")
        org, epoch, iat, nbf, exp = (_whole(payload[name]) for name in ("org", "epoch", "iat", "nbf", "exp"))
        if org < 1 or epoch < 1:
            raise BadToken("numbers")
        if nbf != iat or exp != iat + LIFE_S:
            raise BadToken("times")
        return TokenClaims(
            person=_subject(payload["sub"]),
            org=org,
            client_id=_client_id(payload["cid"]),
            scopes=self._scopes_of(payload["scope"]),
            epoch=epoch,
            jti=_token_id(payload["jti"]),
            iat=iat,
            exp=exp,
        )

    def _scopes_of(self, scope: object) -> tuple[str, ...]:
        scopes = tuple(scope.split(" ")) if isinstance(scope, str) else ()
        if not scopes or len(set(scopes)) != len(scopes) or not self._scopes.issuperset(scopes):
            raise BadToken("scope")
        return scopes


def _subject(sub: object) -> int:
    if not isinstance(sub, str) or not _NUMBER.fullmatch(sub) or int(sub) > _MAX_INTEGER:
        raise BadToken("subject")
    return int(sub)


def _token_id(jti: object) -> str:
    if not isinstance(jti, str) or not _JTI.fullmatch(jti):
        raise BadToken("ids")
    return jti


def _client_id(cid: object) -> str:
    if not isinstance(cid, str) or not cid:
        raise BadToken("ids")
    return cid


def public_keys(keys: Sequence[SigningKey]) -> dict[str, EllipticCurvePublicKey]:
    """Returns the public keys by id, for a Verifier."""
    return {key.kid: key.private.public_key() for key in keys}


def _s_of(signature: bytes) -> int:
    return int.from_bytes(signature[32:], "big")


def _low_s(signature: bytes) -> bytes:
    """Returns the equivalent signature whose s is at most half the order of the curve."""
    s = min(_s_of(signature), _ORDER - _s_of(signature))
    return signature[:32] + s.to_bytes(32, "big")


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_INTEGER:
        raise BadToken("numbers")
    return value


def _object(text: bytes) -> dict[str, object]:
    def pairs(members: list[tuple[str, object]]) -> dict[str, object]:
        if len({name for name, _ in members}) != len(members):
            raise BadToken("repeated")
        return dict(members)

    try:
        decoded = json.loads(text.decode("utf-8"), object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        raise BadToken("json") from None
    if not isinstance(decoded, dict):
        raise BadToken("json")
    return decoded


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _decoded(part: str) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (binascii.Error, ValueError):
        raise BadToken("base64") from None
    # Only the canonical spelling: other spare bits would be a second token with the same signature.
    if _encoded(raw) != part:
        raise BadToken("base64")
    return raw
