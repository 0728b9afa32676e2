"""What the document describes is what is answered, whatever is sent.

FUZZ_EXAMPLES sets how many examples an operation gets; `make fuzz` takes 200.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from steward.api.http.operation import Operation
from tests.authz.rows import spelled
from tests.databases import Clones, copy_migrated_sqlite
from tests.fuzz.served import ServedService, described, row_of

# The responses are made above the database: the second engine shows what differs with half as many.
EXAMPLES = {
    "sqlite": int(os.environ.get("FUZZ_EXAMPLES", "8")),
    "postgresql": int(os.environ.get("FUZZ_EXAMPLES", "4")),
}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
VERSIONS = {"version", "automation_version", "occurrence_version"}
SCHEMA = schemathesis.openapi.from_dict(described())
# A browser comes back here from an account's sign-in page and is sent on; what it brings is any length.
WAY_BACK = "/v1/app/connections/sign-in/callback"
OPERATIONS = {
    f"{ok.ok().method.upper()} {ok.ok().path}": ok.ok()
    for ok in SCHEMA.get_all_operations()
    if ok.ok().path != WAY_BACK
}
MODES = {"what is right": GenerationMode.POSITIVE, "what is wrong": GenerationMode.NEGATIVE}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, session_folder: Path
) -> Iterator[ServedService]:
    """The populated service, once for all examples of an engine."""
    if request.param == "sqlite":
        server = ServedService(
            copy_migrated_sqlite(session_folder, tmp_path_factory.mktemp("fuzz") / "steward.db")
        )
        yield server
        server.close()
        return
    clones: Clones = request.getfixturevalue("clones")
    url = clones.clone()
    server = ServedService(url)
    yield server
    server.close()
    clones.drop(url)


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_every_response_is_as_described(served: ServedService, name: str) -> None:
    """No defect, a documented status, the schema of that status, the headers of all."""
    operation = OPERATIONS[name]
    row = row_of(operation.method, operation.path)

    @settings(
        max_examples=EXAMPLES[served.dialect],
        deadline=None,
        database=None,
        derandomize="FUZZ_EXAMPLES" not in os.environ,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(list(MODES.values())))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        if is_touched := data.draw(st.integers(0, 3)) > 0:
            _with_what_is_there(case, served, row, data)
        response = answered(served, case)
        checks = [item for item in CHECKS if not (is_touched and item is negative_data_rejection)]
        if response.status_code == 503 and response.json()["code"] == "not_configured":
            checks.remove(not_a_server_error)  # nobody has set the sign-in at Google up here
        case.validate_response(response, checks=checks)

    check()


def answered(served: ServedService, case: Any) -> httpx.Response:
    """Makes a generated call, checks the headers that every response carries, and returns the response."""
    sent = case.as_transport_kwargs(base_url="http://127.0.0.1:8400")
    url = re.sub(r"^http://[^/]+(/v1(?=/app))?", "", sent.pop("url"))
    row = row_of(case.operation.method, case.operation.path)
    response = served.call(row, url, _for_httpx(sent))
    _has_headers(response)
    return response


def _with_what_is_there(case: Any, served: ServedService, row: Operation, data: st.DataObject) -> None:
    """Puts ids of the owner's records in place of what was made up; mostly a sound body but for one field."""
    ids = served.two.ours
    for name in list(case.path_parameters or {}):
        case.path_parameters[name] = str(ids.one(name))
    if not isinstance(case.body, dict) or data.draw(st.integers(0, 3)) == 0:
        return
    sound = dict(spelled(row).body(ids))
    for name in VERSIONS & sound.keys():
        sound[name] = data.draw(st.integers(0, 5))
    odd = data.draw(st.sampled_from([None, None, *case.body]))
    case.body = sound if odd is None else {**sound, odd: case.body[odd]}


def _for_httpx(sent: dict[str, Any]) -> dict[str, Any]:
    """The request in httpx's words."""
    stored = {name: value for name, value in sent.items() if name in ("json", "params", "headers") and value}
    if "json" in sent:
        stored["json"] = sent["json"]
    if sent.get("data") is not None:
        stored["content"] = sent["data"]
    if stored.get("headers"):
        stored["headers"] = dict(stored["headers"])
    return stored


def _has_headers(response: httpx.Response) -> None:
    """What every response carries."""
    headers = response.headers
    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", headers["x-request-id"])
    assert ("retry-after" in headers) == (response.status_code in (429, 503))
    assert ("allow" in headers) == (response.status_code == 405)
    body = response.json()
    assert body["contract_version"] == 1
    assert body["success"] is (response.status_code < 400)
    assert ("errors" in body) == (response.status_code == 422)
    assert ("code" in body) == (response.status_code >= 400)
    assert len(body.get("message", "")) <= 500
