"""Tests the envelope, headers and request ids of responses, CORS, and the response to a bug."""

import json

import pytest

from tests.people import Caller
from tests.service import Service

PROBE = "/v1/automations/probe"
STATUS = "/v1/automations/status"


@pytest.fixture
async def caller(probed: Service) -> Caller:
    """Returns the member's token caller on the service with the probes."""
    return await probed.token("member")


async def test_a_success_and_its_headers(caller: Caller) -> None:
    """Answers 201 with the envelope, JSON content type, no-store, nosniff and a new request id.

    See docs/design/api/conventions.md#envelope.

    Interface statements: 2.1 success; 9 contract_version.
    """
    response = await caller.post(f"{PROBE}/echo", {"text": "ü"})
    assert (response.status, response.body) == (
        201,
        {"success": True, "contract_version": 1, "data": {"echo": {"text": "ü"}}},
    )
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert len(response.headers["x-request-id"]) == 26


async def test_nothing_to_say_is_an_empty_object(caller: Caller) -> None:
    """Answers an empty object as `data` when an operation returns nothing, with the replay header."""
    response = await caller.post(f"{PROBE}/empty")
    assert (response.status, response.data) == (200, {})
    assert response.headers["idempotent-replayed"] == "true"


async def test_a_refusal_carries_words_and_code(caller: Caller) -> None:
    """Answers a refusal with a code and a message of at most 500 characters, and no `errors`.

    See docs/design/api/conventions.md#envelope.

    Interface statements: 2.1 refusal, message, code, errors.
    """
    response = await caller.post(f"{PROBE}/refuse")
    message = response.body.pop("message")
    assert response.body == {"success": False, "contract_version": 1, "code": "wrong_state"}
    assert 0 < len(message) <= 500
    assert response.headers["content-type"] == "application/json"


async def test_a_stale_refusal_holds_what_is_current(probed: Service, caller: Caller) -> None:
    """Answers 409 with the current record in the wire form that the operation converts it to.

    See docs/design/api/conventions.md#envelope.

    Interface statements: 2.1 StaleOccurrence.
    """
    response = await caller.post(f"{PROBE}/stale")
    assert (response.status, response.code) == (409, "stale_version")
    assert response.data == {"occurrence": None, "automation": "2026-05-01T06:00:00.000Z"}


@pytest.mark.parametrize("sent_id", ["a", "A.b_c-9", "x" * 64])
async def test_a_good_request_id_is_kept_also_on_refusals(caller: Caller, sent_id: str) -> None:
    """Echoes the caller's X-Request-Id in successes and refusals."""
    for path in (STATUS, "/v1/automations/no-such"):
        response = await caller.call("GET", path, headers={"X-Request-Id": sent_id})
        assert response.headers["x-request-id"] == sent_id


@pytest.mark.parametrize("sent_id", ["", "x" * 65, "a b", "a/b", "ä"])
async def test_another_request_id_is_replaced(caller: Caller, sent_id: str) -> None:
    """Replaces an empty, too long or ill-formed X-Request-Id by a new one of 26 characters."""
    response = await caller.client.get(
        STATUS, headers={**caller.headers, "X-Request-Id": sent_id.encode("latin-1")}
    )
    assert len(response.headers["x-request-id"]) == 26


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_bug_returns_its_request_id_and_nothing_else(
    probed: Service, caller: Caller, method: str
) -> None:
    """Answers 500 `internal` with the request id alone, and logs the traceback under that id."""
    response = await caller.call(method, f"{PROBE}/bug", body={} if method == "POST" else None)
    request_id = response.headers["x-request-id"]
    assert (response.status, response.code) == (500, "internal")
    assert request_id in response.body["message"]
    assert "secret" not in json.dumps(response.body)
    line = json.loads(probed.lines[-1])
    assert (line["action"], line["request"]) == ("request_failed", request_id)
    assert line["operation"].startswith("probes.")
    assert "ZeroDivisionError" in line["traceback"]


async def test_a_prepared_value_reaches_the_endpoint(caller: Caller) -> None:
    """Hands the value that `prepare` returned to the operation's function."""
    assert (await caller.post(f"{PROBE}/prepared")).data == {"echo": 42}


async def test_a_value_that_stays_stale_returns_503(probed: Service, caller: Caller) -> None:
    """Retries once when the prepared value is stale, then answers 503 with Retry-After."""
    response = await caller.post(f"{PROBE}/outdated")
    assert (response.status, response.code) == (503, "unavailable")
    assert int(response.headers["retry-after"]) >= 1
    assert probed.wake_hints == ["prepared", "prepared"]


async def test_an_operation_over_its_time_is_unavailable(caller: Caller) -> None:
    """Answers 503 when an operation exceeds its time limit. See docs/design/security.md#limits-of-input.

    Interface statements: 7 unavailable.
    """
    response = await caller.post(f"{PROBE}/slow")
    assert (response.status, response.code) == (503, "unavailable")


async def test_the_worker_is_woken_after_a_commit_but_not_after_a_refusal(
    probed: Service, caller: Caller
) -> None:
    """Wakes the worker after a commit and not after a refusal."""
    await caller.post(f"{PROBE}/refuse")
    assert probed.wake_hints == []
    await caller.post(f"{PROBE}/wake")
    assert probed.wake_hints == ["ready"]


async def test_no_cors_header_is_sent_on_one_shared_origin(caller: Caller) -> None:
    """Sends no CORS header when the API and the web app share one origin.

    See docs/design/api/conventions.md#browsers.

    Interface statements: 5.4 browsers.
    """
    response = await caller.call("GET", STATUS, headers={"Origin": "http://127.0.0.1:8400"})
    assert not [name for name in response.headers if name.startswith("access-control")]


async def test_the_web_apps_own_origin_is_allowed_and_no_other(service: Service, member: Caller) -> None:
    """Allows cross-origin calls with credentials from the web app's origin and refuses others with 403.

    See docs/design/api/conventions.md#browsers.

    Interface statements: 5.4 browsers.
    """
    service.restart(web_origin="https://app.example")
    preflight_headers = {
        "Access-Control-Request-Method": "PATCH",
        "Access-Control-Request-Headers": "x-csrf-token",
    }
    reply = await service.nobody().call(
        "OPTIONS", STATUS, headers={"Origin": "https://app.example", **preflight_headers}
    )
    other = await service.nobody().call(
        "OPTIONS", STATUS, headers={"Origin": "https://b.example", **preflight_headers}
    )
    call = await member.call("GET", STATUS, headers={"Origin": "https://app.example"})
    foreign = await member.call("GET", STATUS, headers={"Origin": "https://b.example"})
    assert (reply.status, reply.data) == (200, {})
    assert reply.headers["access-control-allow-methods"] == "PATCH"
    assert reply.headers["access-control-allow-headers"] == "x-csrf-token"
    for response in (reply, call):
        assert response.headers["access-control-allow-origin"] == "https://app.example"
        assert response.headers["access-control-allow-credentials"] == "true"
    for response in (other, foreign):
        assert not [name for name in response.headers if name.startswith("access-control")]
    assert (other.status, other.code) == (403, "forbidden")


async def test_health_is_outside_the_envelope(nobody: Caller) -> None:
    """Answers /healthz and /readyz as bare JSON objects without the envelope."""
    assert (await nobody.get("/healthz")).body == {"status": "ok"}
    checks = {"database": "ok", "migrations": "ok", "keys": "ok"}
    assert (await nobody.get("/readyz")).body == {"status": "ready", "checks": checks}


async def test_a_service_without_its_keys_is_not_ready(service: Service, nobody: Caller) -> None:
    """Reports 503 on /readyz and refuses logins with `not_configured` while the keys are not unwrapped."""
    service.context.keys.current.unwrapped = None
    response = await nobody.get("/readyz")
    assert (response.status, response.body["status"]) == (503, "not_ready")
    assert response.body["checks"]["keys"] != "ok"
    assert (await service.log_in("member")).code == "not_configured"


async def test_the_status_shows_the_organizations_counts(member: Caller) -> None:
    """Answers versions, the organization's counts and limits, and the state of the scheduler."""
    data = (await member.get(STATUS)).data
    tzdata = data.pop("tzdata_version")
    assert tzdata[:2] == "20"
    assert data == {
        "service_version": "0.1.0",
        "contract_version": 1,
        "time": "2026-05-01T06:00:00.000Z",
        "automations_enabled": True,
        "frozen": False,
        "counts": {"active": 0, "paused": 0, "waiting_approvals": 0, "queued_runs": 0},
        "limits": {
            "imports_kept": 0,
            "imports_allowed": 100,
            "calls_per_person": 600,
            "calls_per_organisation": 3000,
        },
        "schedule_delay_seconds": None,
        "scheduler": "ok",
    }
