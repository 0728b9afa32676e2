"""Client secrets, passwords and signatures of store events."""

import base64
import json
import re

import pytest

from steward.security import passwords, secrets, signatures
from steward.security.passwords import Cost
from tests.case_data import case_data

CLIENT_ID = re.compile(r"st_[0-9A-HJKMNP-TV-Z]{16}")
CLIENT_SECRET = re.compile(r"stw_[A-Za-z0-9_-]{43}")
QUICK = Cost(memory=64, passes=1)


def test_client_ids_and_secrets_have_their_form_and_are_never_the_same() -> None:
    """Creates ids and secrets of the documented form without repetition."""
    ids = {secrets.new_client_id() for _ in range(500)}
    values = {secrets.new_client_secret() for _ in range(500)}
    assert len(ids) == len(values) == 500
    assert all(CLIENT_ID.fullmatch(secret) for secret in ids)
    assert all(CLIENT_SECRET.fullmatch(secret) for secret in values)


def test_a_secret_matches_under_its_own_pepper_alone() -> None:
    """Matches a secret under its own pepper alone, exactly."""
    pepper, secret = secrets.new_pepper(), secrets.new_client_secret()
    hash_client_secret = secrets.hash_client_secret(secret, pepper)
    assert secrets.matches(secret, pepper, hash_client_secret)
    assert not secrets.matches(secret, secrets.new_pepper(), hash_client_secret)
    for wrong in (secret[:-1], secret + "x", secret.swapcase(), "", "\ud800"):
        assert not secrets.matches(wrong, pepper, hash_client_secret)


def test_session_values_are_kept_as_hashes_and_compared_whole() -> None:
    """Hashes session values to 32 bytes and compares them whole."""
    value = secrets.new_value()
    assert len(value) == 43
    assert len(secrets.hash_value(value)) == 32
    assert secrets.is_equal(value, value.encode())
    assert not secrets.is_equal(value, value[:-1])


def test_a_password_is_rehashed_when_the_cost_has_risen() -> None:
    """Verifies a password exactly, asks for a rehash at a higher cost, and refuses damaged hashes."""
    hash_password = passwords.hash_password("correct horse battery", QUICK)
    assert hash_password.startswith("$argon2id$v=19$m=64,t=1,p=1$")
    assert passwords.verify_password(hash_password, "correct horse battery")
    assert not passwords.verify_password(hash_password, "correct horse battery ")
    assert not passwords.needs_rehash(hash_password, QUICK)
    assert passwords.needs_rehash(hash_password, Cost(memory=128, passes=1))
    for damaged in (
        "",
        "$argon2id$",
        hash_password[:-4],
        hash_password.replace("argon2id", "argon2i"),
        "plain",
    ):
        assert not passwords.verify_password(damaged, "correct horse battery")


def test_one_spelling_of_a_password_is_as_good_as_another() -> None:
    """Treats composed and decomposed Unicode spellings of a password as equal."""
    assert passwords.verify_password(passwords.hash_password("Café am Fluss", QUICK), "Cafe\u0301 am Fluss")


@pytest.mark.parametrize(
    "password",
    ["password1234", "Password1234", "qwertyuiop123", "123456789012", "passwordpassword", "aaaaaaaaaaaa",
     "abababababab", "short", "x" * 129, "welcome123456789", "anna.k2026-shop!", "northwind-2026!"],
)  # fmt: skip
def test_a_common_short_or_own_name_password_is_refused(password: str) -> None:
    """Refuses passwords that are short, long, common, repetitive or contain the person's own words."""
    assert passwords.problem_with(password, refused_words=["anna.k", "Northwind"]) is not None


@pytest.mark.parametrize(
    "password", ["brisk-otter-lamp-9", "correct horse battery", "x9" * 6 + "qr", "é" * 3 + "fluss-und-meer"]
)
def test_a_good_password_is_accepted(password: str) -> None:
    """Accepts uncommon passwords, and ignores refused words that are too short."""
    assert passwords.problem_with(password, refused_words=["anna", "Northwind", "ann", ""]) is None


def deliveries() -> tuple[bytes, list[dict[str, object]]]:
    """Returns the secret and the signed deliveries recorded from a real shop."""
    recorded = json.loads(case_data("woocommerce/webhook_deliveries.json").read_text("utf-8"))
    return recorded["secret"].encode(), [
        delivery for delivery in recorded["deliveries"] if delivery["signed"]
    ]


def body_of(delivery: dict[str, object]) -> bytes:
    """Returns the exact bytes of a delivery."""
    request = delivery["request"]
    assert isinstance(request, dict)
    parts = request.get("body_parts")
    if parts is None:
        return str(request["body"]).encode()
    return "".join(
        part if isinstance(part, str) else part["repeat"] * part["times"] for part in parts
    ).encode()


def test_every_recorded_delivery_verifies_and_no_changed_one_does() -> None:
    """Verifies every recorded delivery, and none with another secret or one changed byte."""
    secret, signed = deliveries()
    assert len(signed) > 20
    for delivery in signed:
        body, request = body_of(delivery), delivery["request"]
        assert isinstance(request, dict)
        actual = {name.lower(): value for name, value in request["headers"].items()}["x-wc-webhook-signature"]
        for secrets_given, sent, good in (
            ([secret], body, True),
            ([b"new", secret], body, True),
            ([b"wrong"], body, False),
            ([], body, False),
            ([b""], body, False),
            ([secret], body[:-1] + bytes([body[-1] ^ 1]), False),
            ([secret], body + b" ", False),
        ):
            check = signatures.BodyVerifier(secrets_given)
            for index in range(0, len(sent), 1000):
                check.feed(sent[index : index + 1000])
            assert check.matches(actual) is good


def test_a_signature_has_one_spelling() -> None:
    """Accepts one spelling of a signature: padded base64 without additions."""
    good = signatures.sign(b"body", b"secret")
    raw = base64.b64decode(good)
    for wrong in (good + "\n", good.rstrip("="), raw.hex(), good.lower(), "", "ä", good[:-2] + "B="):
        check = signatures.BodyVerifier([b"secret"])
        check.feed(b"body")
        assert not check.matches(wrong)
