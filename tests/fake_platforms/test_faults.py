"""Tests faults of every kind over a socket and in one process. See docs/design/fake-platforms.md#control."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from steward.fake_platforms import application, serve
from steward.fake_platforms.application import FakePlatforms
from steward.fake_platforms.exchange import ConnectionDropped
from steward.fake_platforms.faults import glob

PRODUCT = "/wp-json/wc/v3/products/1"


class ServedPlatforms:
    """Serves fake platforms on a loopback port, in a thread."""

    def __init__(self) -> None:
        self._socket = serve.listening("127.0.0.1", 0)
        self.url = serve.address(self._socket)
        self.platforms = application.create(1, self.url)
        self._is_ready = threading.Event()
        self._server = serve.server(self.platforms, self._is_ready.set)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._is_ready.wait(60)
        keys = self.platforms.state.keys
        pair = (keys.consumer_key, keys.consumer_secret)
        self.client = httpx.Client(base_url=self.url, auth=pair, trust_env=False, timeout=60)

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def stop(self) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join(60)
        self._socket.close()

    def fault(self, **fault: Any) -> str:
        response = self.client.post("/sandbox/faults", json=fault)
        assert response.status_code == 201, response.text
        return str(response.json()["fault"]["id"])

    def change(self, price: str = "9.99") -> httpx.Response:
        return self.client.put(PRODUCT, json={"regular_price": price})

    def price(self) -> str:
        return str(self.client.get(PRODUCT).json()["regular_price"])

    def last(self) -> tuple[bool, int | None, str | None]:
        entry = self.client.get("/sandbox/ledger").json()["entries"][-1]
        return entry["applied"], entry["answered"], entry["fault"]


@pytest.fixture(scope="module")
def started() -> Iterator[ServedPlatforms]:
    """Provides one server for all tests of this file."""
    served = ServedPlatforms()
    yield served
    served.stop()


@pytest.fixture
def served(started: ServedPlatforms) -> ServedPlatforms:
    """Provides the server, reset to its start."""
    assert started.client.post("/sandbox/reset").status_code == 200
    return started


def test_a_status_is_returned_and_nothing_is_applied(served: ServedPlatforms) -> None:
    """Answers with the fault's status and body and applies nothing.

    See docs/design/fake-platforms.md#control.
    """
    old = served.price()
    fault = served.fault(method="PUT", path=PRODUCT, kind="status", status=503, body={"code": "wp_die"})
    response = served.change()
    assert (response.status_code, response.json()) == (503, {"code": "wp_die"})
    assert served.last() == (False, 503, fault)
    assert served.price() == old


def test_a_status_after_is_returned_though_all_was_applied(served: ServedPlatforms) -> None:
    """Applies the write, and answers with the fault's status and its text as HTML.

    See docs/design/fake-platforms.md#control.
    """
    fault = served.fault(method="PUT", path="**", kind="status_after", status=502, body="<h1>Bad</h1>")
    response = served.change()
    assert (response.status_code, response.text) == (502, "<h1>Bad</h1>")
    assert response.headers["content-type"].startswith("text/html")
    assert served.last() == (True, 502, fault)
    assert served.price() == "9.99"


def test_a_delay_waits_and_continues_as_usual(served: ServedPlatforms) -> None:
    """Waits for the delay and then applies and answers as usual.

    See docs/design/fake-platforms.md#control.
    """
    fault = served.fault(method="PUT", kind="delay", delay_ms=60)
    began = time.monotonic()
    assert served.change().status_code == 200
    assert time.monotonic() - began >= 0.06
    assert served.last() == (True, 200, fault)


def test_a_throttle_names_the_seconds_to_wait(served: ServedPlatforms) -> None:
    """Answers 429 with Retry-After and the fault's body. See docs/design/fake-platforms.md#control."""
    served.fault(path="/wp-json/**", kind="throttle", retry_after=7, body={"slow": "down"})
    response = served.change()
    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
    assert response.json() == {"slow": "down"}


@pytest.mark.parametrize(("kind", "applied"), [("drop_before", False), ("drop_after", True)])
def test_a_drop_closes_the_connection_without_a_byte(
    served: ServedPlatforms, kind: str, applied: bool
) -> None:
    """Closes the connection without a response, before or after the write is applied.

    See docs/design/fake-platforms.md#control.
    """
    fault = served.fault(method="PUT", kind=kind)
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        served.change("3.33")
    assert served.last() == (applied, None, fault)
    assert (served.price() == "3.33") is applied


def test_not_one_byte_leaves_a_dropped_connection(served: ServedPlatforms) -> None:
    """Sends no byte over the socket of a dropped connection, and serves the next one.

    See docs/design/fake-platforms.md#control.
    """
    served.fault(method="GET", path="/wp-json/", kind="drop_after", count=1)
    host, _, port = served.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(b"GET /wp-json/ HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            seen = raw.recv(1)
        except ConnectionResetError:
            seen = b""
    assert seen == b""
    assert served.client.get("/wp-json/").status_code == 200


def test_a_dropped_write_without_an_application_leaves_the_object_as_it_was(served: ServedPlatforms) -> None:
    """Leaves the object as it was when dropped before; the repeated write is the only applied one.

    See docs/design/fake-platforms.md#control.
    """
    served.fault(method="PUT", kind="drop_before", count=1)
    with pytest.raises(httpx.TransportError):
        served.change("4.44")
    assert served.change("4.44").status_code == 200
    entries = served.client.get("/sandbox/ledger").json()["entries"]
    assert [entry["applied"] for entry in entries] == [False, True]


def test_skip_lets_some_through_and_count_ends_it(served: ServedPlatforms) -> None:
    """Lets the first `skip` requests pass and hits the next `count`.

    See docs/design/fake-platforms.md#control.
    """
    served.fault(method="PUT", path=PRODUCT, kind="status", status=500, skip=1, count=2)
    assert [served.change().status_code for _ in range(5)] == [200, 500, 500, 200, 200]
    assert served.client.get("/sandbox/faults").json()["faults"][0]["hits"] == 2


def test_the_earliest_fault_goes_first_and_one_request_meets_one(served: ServedPlatforms) -> None:
    """Applies the earliest fault, one for each request; a count of -1 hits all of them.

    See docs/design/fake-platforms.md#control.
    """
    served.fault(method="PUT", kind="status", status=500, count=1)
    second = served.fault(method="*", path="/wp-json/**", kind="status", status=501, count=-1)
    assert [served.change().status_code for _ in range(3)] == [500, 501, 501]
    assert served.client.delete(f"/sandbox/faults/{second}").json() == {}
    assert served.change().status_code == 200


def test_faults_never_reach_the_control_surface_nor_the_page(served: ServedPlatforms) -> None:
    """Leaves /sandbox and the page alone, even with a fault on every path.

    See docs/design/fake-platforms.md#control.
    """
    served.fault(method="*", path="**", kind="drop_before", count=-1)
    assert served.client.get("/sandbox").status_code == 200
    assert served.client.get("/").status_code == 200
    assert served.client.delete("/sandbox/faults").json() == {}
    assert served.client.get(PRODUCT).status_code == 200


def test_faults_reach_every_service_and_the_tokens(served: ServedPlatforms) -> None:
    """Matches the path without its query, on every service and on tokens.

    See docs/design/fake-platforms.md#control.
    """
    for path in ("/sheets/v4/spreadsheets/x", "/teams/workflows/ops", "/s3/supplier/a", "/google/token"):
        served.fault(method="POST", path=path, kind="status", status=500)
        assert served.client.post(f"{path}?sig=1").status_code == 500
        assert served.client.post(path).status_code != 500


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", False),
        ("/a/**", "/a/b/c", True),
        ("/a/*/c", "/a/b/c", True),
        ("**/batch", "/wp-json/wc/v3/products/batch", True),
        ("/a.b", "/axb", False),
        ("/a", "/a/", False),
    ],
)
def test_a_star_stays_within_a_segment_and_two_cross_them(pattern: str, path: str, matches: bool) -> None:
    """One star matches within a path segment, two match across segments.

    See docs/design/fake-platforms.md#control.
    """
    assert (glob(pattern).fullmatch(path) is not None) is matches


@pytest.mark.parametrize(
    "fault",
    [
        {},
        {"kind": "explode"},
        {"kind": "status"},
        {"kind": "status", "status": 99},
        {"kind": "drop_before", "count": -2},
        {"kind": "drop_before", "skip": -1},
        {"kind": "drop_before", "method": "put"},
        {"kind": "drop_before", "hits": 3},
        [],
    ],
)
def test_a_fault_that_cannot_be_is_refused_in_words(served: ServedPlatforms, fault: Any) -> None:
    """Answers 400 with a message to a fault that is not valid. See docs/design/fake-platforms.md#control."""
    response = served.client.post("/sandbox/faults", json=fault)
    assert (response.status_code, list(response.json())) == (400, ["error"])


def test_webhooks_leave_over_the_network(served: ServedPlatforms) -> None:
    """Delivers webhooks over the network, here to an address that answers 404.

    See docs/design/fake-platforms.md#services.
    """
    address = f"{served.url}/nowhere"
    body = {"topic": "order.created", "delivery_url": address, "secret": "s"}
    assert served.client.post("/wp-json/wc/v3/webhooks", json=body).status_code == 201
    response = served.client.post("/sandbox/events", json={"topic": "order.created"})
    assert [(delivery["url"], delivery["status"]) for delivery in response.json()["deliveries"]] == [
        (address, 404)
    ]


@pytest.mark.anyio
async def test_in_one_process_a_drop_is_an_error_of_its_own() -> None:
    """Raises httpx.ReadError through the platforms' transport, and ConnectionDropped through plain ASGI."""
    platforms: FakePlatforms = application.create(1, "http://x.example")
    platforms.state.faults.make({"kind": "drop_before", "count": -1})
    for transport, error in (
        (platforms.transport(), httpx.ReadError),
        (httpx.ASGITransport(platforms.app), ConnectionDropped),
    ):
        async with httpx.AsyncClient(transport=transport, base_url="http://x.example") as client:
            with pytest.raises(error):
                await client.put(PRODUCT, json={})
    assert issubclass(ConnectionDropped, ConnectionError)
    assert [entry["answered"] for entry in platforms.state.ledger.writes()] == [None, None]


def test_a_production_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuses to start when STEWARD_ENV is production. See docs/design/fake-platforms.md#process."""
    monkeypatch.setenv("STEWARD_ENV", "production")
    with pytest.raises(RuntimeError, match="production"):
        serve.run("127.0.0.1", 0, 1)


_PROGRAM = """
import json
from steward.fake_platforms.serve import run
run("127.0.0.1", 0, 3, ready=lambda told: print(json.dumps(told), flush=True))
"""


def test_it_serves_as_its_own_program_until_stopped() -> None:
    """Prints its addresses once, including the mail server's, serves until SIGTERM and prints nothing else.

    See docs/design/fake-platforms.md#process.
    """
    environment = {key: value for key, value in os.environ.items() if key != "STEWARD_ENV"}
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        described = json.loads(program.stdout.readline())
        response = httpx.get(described["url"] + "/sandbox", trust_env=False, timeout=60)
        program.send_signal(signal.SIGTERM)
        rest = program.stdout.read(), program.stderr.read()
        program.wait(60)
    assert described.pop("mail")["smtp_url"].startswith("smtp://127.0.0.1:")
    assert response.json() == described
    assert described["seed"] == 3
    assert rest == ("", "")
