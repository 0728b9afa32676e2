"""Access tokens: valid ones are read and every forgery is refused."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from steward.security.tokens import (
    CACHED,
    BadToken,
    Signer,
    SigningKey,
    TokenClaims,
    Verifier,
    jwks,
    load_signing_key,
    new_signing_key,
    public_keys,
)

NOW = 1_800_000_000
ISSUER, AUDIENCE = "https://auth.example", "https://api.example"
SCOPES = frozenset({"automations:read", "automations:write"})
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
JTI = "01KAH1B0M4N7P9Q2R5S8T1V3W6"
KEY = load_signing_key("k1", new_signing_key())
OLD = load_signing_key("k0", new_signing_key())
STRANGE = load_signing_key("k1", new_signing_key())
CLAIMS: dict[str, Any] = {
    "iss": ISSUER, "aud": AUDIENCE, "sub": "7", "org": 3, "cid": "st_0123456789ABCDEF",
    "scope": "automations:read", "epoch": 2, "jti": JTI, "iat": NOW, "nbf": NOW, "exp": NOW + 3600,
}  # fmt: skip
HEADER: dict[str, Any] = {"alg": "ES256", "typ": "at+jwt", "kid": "k1"}
Json = Mapping[str, Any]


def verifier(*keys: SigningKey) -> Verifier:
    """Returns a verifier that knows k1, or `keys`."""
    return Verifier(public_keys(keys or (KEY,)), issuer=ISSUER, audience=AUDIENCE, scopes=SCOPES)


def coded(raw: bytes) -> str:
    """Returns base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def raw_signature(key: SigningKey, text: bytes) -> bytes:
    """Returns the 64-byte ECDSA signature with the smaller of the two possible values of s."""
    r, s = decode_dss_signature(key.private.sign(text, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + min(s, ORDER - s).to_bytes(32, "big")


def mirrored(raw: bytes) -> bytes:
    """Returns the other valid signature of the same key and text: (r, n - s)."""
    return raw[:32] + (ORDER - int.from_bytes(raw[32:], "big")).to_bytes(32, "big")


def make_token(header: Json | bytes = HEADER, claims: Json | bytes = CLAIMS, *, key: SigningKey = KEY) -> str:
    """Returns a token with a right signature over this header and these claims."""
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, claims)]
    signed = ".".join(coded(part) for part in parts)
    return f"{signed}.{coded(raw_signature(key, signed.encode()))}"


def changed(part: Json, **values: Any) -> dict[str, Any]:
    """Returns `part` with other values; `...` removes an entry."""
    return {name: value for name, value in {**part, **values}.items() if value is not ...}


def claiming(**values: Any) -> str:
    """Returns a rightly signed token with changed claims."""
    return make_token(claims=changed(CLAIMS, **values))


def resigned(token: str, change: Callable[[bytes], bytes]) -> str:
    """Returns a token with its signature changed."""
    head, _, signature = token.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    return f"{head}.{coded(change(raw))}"


def hs256_with_the_public_key() -> str:
    """Returns a token whose HMAC secret is the public key, the classic confusion of algorithms."""
    head = ".".join(coded(json.dumps(part).encode()) for part in (changed(HEADER, alg="HS256"), CLAIMS))
    pem = KEY.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return f"{head}.{coded(hmac.new(pem, head.encode(), hashlib.sha256).digest())}"


def spare_bits(token: str) -> str:
    """Returns the token with the same signature in another base64 spelling."""
    return token[:-1] + ALPHABET[ALPHABET.index(token[-1]) ^ 1]


def der_signature(token: str) -> str:
    """Returns the token with its signature in DER form."""
    head = token.rpartition(".")[0]
    return f"{head}.{coded(KEY.private.sign(head.encode(), ec.ECDSA(hashes.SHA256())))}"


RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
GOOD = make_token()
FORGERIES: dict[str, str] = {
    "empty": "",
    "one part": "abc",
    "two parts": GOOD.rpartition(".")[0],
    "four parts": GOOD + ".x",
    "five parts": "a.b.c.d.e",
    "no signature": GOOD.rpartition(".")[0] + ".",
    "none": ".".join([coded(b'{"alg":"none","typ":"at+jwt","kid":"k1"}'), GOOD.split(".")[1], ""]),
    "none with a signature": make_token(changed(HEADER, alg="none")),
    "None in capitals": make_token(changed(HEADER, alg="NONE")),
    "HS256 with the public key": hs256_with_the_public_key(),
    "RS256": jwt.encode(CLAIMS, RSA, algorithm="RS256", headers={"kid": "k1", "typ": "at+jwt"}),
    "ES384 named": make_token(changed(HEADER, alg="ES384")),
    "alg in small letters": make_token(changed(HEADER, alg="es256")),
    "alg as a list": make_token(changed(HEADER, alg=["ES256"])),
    "no alg": make_token(changed(HEADER, alg=...)),
    "crit": make_token(changed(HEADER, crit=["exp"])),
    "crit empty": make_token(changed(HEADER, crit=[])),
    "jku": make_token(changed(HEADER, jku="https://evil.example")),
    "x5u": make_token(changed(HEADER, x5u="https://evil.example")),
    "x5c": make_token(changed(HEADER, x5c=["x"])),
    "jwk": make_token(changed(HEADER, jwk=jwks([STRANGE])["keys"][0]), key=STRANGE),
    "b64 false": make_token(changed(HEADER, b64=False)),
    "zip": make_token(changed(HEADER, zip="DEF")),
    "typ JWT": make_token(changed(HEADER, typ="JWT")),
    "no typ": make_token(changed(HEADER, typ=...)),
    "unknown kid": make_token(changed(HEADER, kid="k9")),
    "no kid": make_token(changed(HEADER, kid=...)),
    "kid a number": make_token(changed(HEADER, kid=1)),
    "kid a path": make_token(changed(HEADER, kid="../k1")),
    "another key": make_token(key=STRANGE),
    "header twice": make_token(b'{"alg":"none","alg":"ES256","typ":"at+jwt","kid":"k1"}'),
    "header no object": make_token(b'["ES256"]'),
    "header no JSON": make_token(b"{"),
    "header not UTF-8": make_token(b'{"alg":"\xff"}'),
    "claims twice": make_token(claims=json.dumps(CLAIMS).encode()[:-1] + b',"org":4}'),
    "claims no object": make_token(claims=b"[]"),
    "claims not JSON": make_token(claims=b"{"),
    "claims deep": make_token(claims=b"[" * 2000 + b"]" * 2000),
    "signature short": resigned(GOOD, lambda raw: raw[:63]),
    "signature long": resigned(GOOD, lambda raw: raw + b"\0"),
    "signature zero": resigned(GOOD, lambda raw: bytes(64)),
    "signature in DER": der_signature(GOOD),
    "signature turned": resigned(GOOD, lambda raw: raw[32:] + raw[:32]),
    "signature one bit": resigned(GOOD, lambda raw: bytes([raw[0] ^ 1]) + raw[1:]),
    "mirrored": resigned(GOOD, mirrored),
    "s over the order": resigned(GOOD, lambda raw: raw[:32] + b"\xff" * 32),
    "another s": resigned(GOOD, lambda raw: raw[:32] + bytes(31) + b"\0"),
    "padding": GOOD + "=",
    "padding inside": GOOD.replace(".", "=.", 1),
    "trailing blank": GOOD + " ",
    "trailing line": GOOD + "\n",
    "leading blank": " " + GOOD,
    "plus sign": GOOD[:-2] + "+/",
    "spare bits": spare_bits(GOOD),
    "not ASCII": GOOD + "é",
    "too long": GOOD + "A" * 4096,
    "iss": claiming(iss="https://evil.example"),
    "iss a slash more": claiming(iss=ISSUER + "/"),
    "aud": claiming(aud="https://other.example"),
    "aud a list": claiming(aud=[AUDIENCE]),
    "no aud": claiming(aud=...),
    "no exp": claiming(exp=...),
    "no nbf": claiming(nbf=...),
    "no epoch": claiming(epoch=...),
    "another claim": claiming(admin=True),
    "exp later": claiming(exp=NOW + 3601),
    "exp a fraction": claiming(exp=NOW + 3600.0),
    "exp text": claiming(exp=str(NOW + 3600)),
    "iat true": claiming(iat=True, nbf=True, exp=3601),
    "nbf not iat": claiming(nbf=NOW - 1),
    "iat below zero": claiming(iat=-1, nbf=-1, exp=3599),
    "sub a number": claiming(sub=7),
    "sub zero": claiming(sub="0"),
    "sub with a zero before": claiming(sub="07"),
    "sub of other digits": claiming(sub="٧"),
    "org text": claiming(org="3"),
    "org zero": claiming(org=0),
    "org too large": claiming(org=2**53),
    "epoch zero": claiming(epoch=0),
    "scope approve": claiming(scope="automations:approve"),
    "scope with approve": claiming(scope="automations:read automations:approve"),
    "scope empty": claiming(scope=""),
    "scope twice": claiming(scope="automations:read automations:read"),
    "scope a list": claiming(scope=["automations:read"]),
    "scope with two blanks": claiming(scope="automations:read  automations:write"),
    "jti short": claiming(jti="1"),
    "cid empty": claiming(cid=""),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_refused(name: str) -> None:
    """Refuses each forgery, also when it is tried again."""
    held = verifier()
    for _ in range(2):  # a failure must not be cached as a success
        with pytest.raises(BadToken):
            held.verify(FORGERIES[name], NOW)


def test_signed_claims_are_read_back_exactly() -> None:
    """Reads from a signed token exactly the claims that were signed."""
    signer = Signer(KEY, issuer=ISSUER, audience=AUDIENCE)
    scopes = ["automations:read", "automations:write"]
    token = signer.sign(person=7, org=3, client_id="st_X", scopes=scopes, epoch=2, jti=JTI, now=NOW)
    claims = TokenClaims(7, 3, "st_X", tuple(scopes), 2, JTI, NOW, NOW + 3600)
    assert verifier().verify(token, NOW) == claims
    assert jwt.get_unverified_header(token) == HEADER
    assert len(token) < 1000


def test_every_changed_added_or_missing_character_invalidates_a_token() -> None:
    """Refuses a token with any character changed, added or removed."""
    held = verifier()
    held.verify(GOOD, NOW)
    swapped = [
        GOOD[:index] + ALPHABET[ALPHABET.index(current) ^ bit] + GOOD[index + 1 :]
        for index, current in enumerate(GOOD)
        if current != "."
        for bit in (1, 2, 32)
    ]
    longer = [
        GOOD[:position] + extra + GOOD[position:] for position in range(len(GOOD) + 1) for extra in "A= \n."
    ]
    shorter = [GOOD[:offset] + GOOD[offset + 1 :] for offset in range(len(GOOD))]
    for changed_token in [*swapped, *longer, *shorter]:
        with pytest.raises(BadToken):
            held.verify(changed_token, NOW)


def test_signatures_have_the_smaller_s() -> None:
    """Signs with the smaller s and refuses the equivalent signature with the larger one."""
    signer = Signer(KEY, issuer=ISSUER, audience=AUDIENCE)
    for epoch in range(1, 41):
        token = signer.sign(
            person=7, org=3, client_id="st_X", scopes=["automations:read"], epoch=epoch, jti=JTI, now=NOW
        )
        assert verifier().verify(token, NOW).epoch == epoch
        assert (
            int.from_bytes(base64.urlsafe_b64decode(token.rpartition(".")[2] + "==")[32:], "big")
            <= ORDER // 2
        )
        with pytest.raises(BadToken):
            verifier().verify(resigned(token, mirrored), NOW)


def test_exp_is_exact_and_a_clock_may_be_five_seconds_behind() -> None:
    """Accepts a token until a moment before exp and from five seconds before iat, cached or not."""
    for warm in (False, True):
        held = verifier()
        if warm:
            held.verify(GOOD, NOW)
        assert held.verify(GOOD, NOW + 3599.999).exp == NOW + 3600
        assert held.verify(GOOD, NOW - 5).iat == NOW
        for wrong in (NOW + 3600, NOW - 5.001):
            with pytest.raises(BadToken):
                held.verify(GOOD, wrong)


def test_a_remembered_signature_is_only_for_that_token() -> None:
    """Refuses forgeries of a token whose signature is cached."""
    held = verifier()
    held.verify(GOOD, NOW)
    for forged in (resigned(GOOD, lambda raw: raw[32:] + raw[:32]), spare_bits(GOOD)):
        with pytest.raises(BadToken):
            held.verify(forged, NOW)


def test_no_more_than_ten_thousand_signatures_are_remembered() -> None:
    """Caches at most ten thousand signatures."""
    held = verifier()
    claims = held.verify(GOOD, NOW)
    held._good.clear()
    held._good.update({bytes([0]) + number.to_bytes(8, "big"): claims for number in range(CACHED)})
    held.verify(GOOD, NOW)
    assert len(held._good) == CACHED


def test_old_keys_verify_and_only_their_own_tokens() -> None:
    """Verifies tokens of an old key, and refuses tokens that name it but are signed by another."""
    both = verifier(KEY, OLD)
    assert both.verify(make_token(changed(HEADER, kid="k0"), key=OLD), NOW).org == 3
    with pytest.raises(BadToken):
        both.verify(make_token(changed(HEADER, kid="k0"), key=KEY), NOW)


def test_the_public_keys_are_public_and_sufficient() -> None:
    """Exports public keys that suffice to verify a token and contain no private part."""
    exported = jwks([KEY, OLD])
    assert [key["kid"] for key in exported["keys"]] == ["k1", "k0"]
    assert all("d" not in key for key in exported["keys"])
    public = jwt.PyJWK(exported["keys"][0]).key
    assert (
        jwt.decode(
            GOOD,
            public,
            algorithms=["ES256"],
            audience=AUDIENCE,
            options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )["org"]
        == 3
    )


def test_a_key_is_never_shown_and_only_p_256_is_accepted() -> None:
    """Hides the key in its repr and refuses curves other than P-256."""
    assert repr(KEY) == "SigningKey('k1', ***)"
    other = ec.generate_private_key(ec.SECP384R1())
    der = other.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ValueError):
        load_signing_key("k", der)
