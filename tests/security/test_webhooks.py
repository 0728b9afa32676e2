"""Signed webhooks are verified by the specification's own libraries for Python and Node."""

import base64
import json
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from steward.clock import SystemClock
from steward.security.webhooks import new_webhook_secret, webhook_headers

WEB = Path(__file__).resolve().parents[2] / "web"
ID = "01J0000000000000000000000A"
VERIFY = """
const { Webhook } = require("standardwebhooks");
const cases = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const verdicts = cases.map(({ secret, body, headers }) => {
  try { new Webhook(secret).verify(body, headers); return true; } catch { return false; }
});
process.stdout.write(JSON.stringify(verdicts));
"""


def now() -> datetime:
    """Returns the real time, which the libraries compare with."""
    return SystemClock().now()


def is_verified(secret: str, body: bytes, headers: dict[str, str]) -> bool:
    """Returns whether the Python library accepts the delivery."""
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return False
    return True


@settings(max_examples=50, deadline=None)
@given(value=st.text(max_size=200))
def test_every_body_is_verified_as_signed(value: str) -> None:
    """Signs the bytes as sent, whatever the JSON contains."""
    secret, body = new_webhook_secret(), json.dumps({"text": value}, ensure_ascii=False).encode()
    headers = webhook_headers([secret], ID, now(), body)
    assert headers["webhook-id"] == f"msg_{ID}"
    assert is_verified(secret, body, headers)
    assert not is_verified(secret, body + b" ", headers)


def test_a_secret_is_a_prefix_and_32_random_bytes() -> None:
    """Creates different secrets of a prefix and 32 random bytes."""
    first, second = new_webhook_secret(), new_webhook_secret()
    assert first != second
    assert first.startswith("whsec_")
    assert len(base64.b64decode(first.removeprefix("whsec_"), validate=True)) == 32


def test_during_a_rotation_both_secrets_verify_and_afterwards_the_new_one_alone() -> None:
    """Puts both signatures into one header during a rotation, and the new one alone afterwards."""
    former, current, body = new_webhook_secret(), new_webhook_secret(), b"{}"
    both = webhook_headers([current, former], ID, now(), body)
    assert is_verified(current, body, both)
    assert is_verified(former, body, both)
    after = webhook_headers([current], ID, now(), body)
    assert is_verified(current, body, after)
    assert not is_verified(former, body, after)


@pytest.mark.parametrize(("age_s", "is_taken"), [(290, True), (310, False), (-310, False)])
def test_a_replay_is_refused_after_five_minutes(age_s: int, is_taken: bool) -> None:
    """Makes deliveries that the library refuses after five minutes, and whose time cannot be changed."""
    secret, body = new_webhook_secret(), b"{}"
    headers = webhook_headers([secret], ID, now() - timedelta(seconds=age_s), body)
    assert is_verified(secret, body, headers) is is_taken
    if age_s > 0:
        fresh = {**headers, "webhook-timestamp": str(int(now().timestamp()))}
        assert is_verified(secret, body, fresh) is (fresh == headers)


def test_no_secret_signs_nothing() -> None:
    """Raises ValueError rather than send a delivery unsigned."""
    with pytest.raises(ValueError, match="at least one secret"):
        webhook_headers([], ID, now(), b"{}")


def test_the_library_of_node_agrees() -> None:
    """Agrees with the npm library on signed, rotated, replayed, forged and changed deliveries."""
    former, current, body = new_webhook_secret(), new_webhook_secret(), '{"type":"run.failed","name":"Tée"}'
    raw = body.encode()
    both = webhook_headers([current, former], ID, now(), raw)
    old = webhook_headers([current], ID, now() - timedelta(minutes=6), raw)
    forged = webhook_headers([new_webhook_secret()], ID, now(), raw)
    cases = [
        (current, body, both, True),
        (former, body, both, True),
        (current, body, old, False),
        (current, body, forged, False),
        (current, body.replace("failed", "passed"), both, False),
        (current, body, {**both, "webhook-id": "msg_other"}, False),
    ]
    requests = [{"secret": secret, "body": text, "headers": headers} for secret, text, headers, _ in cases]
    response = subprocess.run(
        ["node", "-e", VERIFY],
        input=json.dumps(requests),
        cwd=WEB,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(response.stdout) == [is_good for *_, is_good in cases]
