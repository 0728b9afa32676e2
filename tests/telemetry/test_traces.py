"""Tests traces that real processes send by OTLP over HTTP to a collector, which decodes them."""

import asyncio
import contextlib
import gzip
import json
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from steward.config import SettingsError, read
from steward.database.engine.base import Tx
from steward.model.refusals import WrongState
from steward.model.run import Mode, RunStatus
from steward.run_queue import ending, spans
from steward.telemetry.otlp import MAX_RESPONSE_BYTES, MAX_WAITING, OtlpTraces
from steward.telemetry.traces import Span, Traces, new_span, run_span
from tests.fake_clock import FakeClock
from tests.processes.approved_run import assert_written_once, hiding, slow_writes
from tests.processes.forked import environ
from tests.processes.ports import free_port
from tests.processes.running import CLOCK, PASSWORD, eventually, open_site
from tests.runs.shop import connect_all, open_shop

CHANGES = 6
ENDLESS_BYTES = 256 * 1024 * 1024  # more than the buffers of a connection hold
HEADER = "collector-key-of-the-test"
LINK = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
ATTRIBUTES = {
    "run": {
        *("steward.org", "steward.automation", "steward.run", "steward.template", "steward.mode"),
        *("steward.started_by", "steward.status", "steward.code", "steward.attempts"),
    },
    "step": {"steward.seq", "steward.step_type", "steward.status", "steward.code", "steward.attempt"},
    "wait": {"steward.kind", "steward.status"},
    "call": {
        *("steward.org", "steward.connector", "steward.attempt", "steward.bytes", "error.type"),
        *("http.request.method", "http.response.status_code"),
    },
    "request": {"steward.operation", "steward.caller", "http.response.status_code"},
}


class Collector:
    """Serves a collector on loopback and records what it gets."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.bodies.append(body)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Writes nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def spans(self) -> list[Any]:
        """Returns every span that arrived, in order."""
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def __enter__(self) -> "Collector":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Provides a collector that accepts everything."""
    with Collector() as running:
        yield running


def attributes(span: Any) -> dict[str, str | int]:
    """Returns the attributes of a span."""
    return {item.key: item.value.string_value or int(item.value.int_value) for item in span.attributes}


async def test_a_run_that_was_taken_over_is_one_trace(
    sqlite_url: str, tmp_path: Path, collector: Collector
) -> None:
    """Sends one trace of a run that was killed and taken over, without gaps, equal ids or contents."""
    settings = {"STEWARD_TRACES_URL": collector.url, "STEWARD_TRACES_HEADERS": f"x-key={HEADER}"}
    async with open_site(sqlite_url, tmp_path, **settings) as site:
        await slow_writes(site)
        run, approved, before = await hiding(site, CHANGES)

        async def began() -> bool:
            return bool(await site.ledger(before))

        await eventually(began)
        await site.service.kill()
        await site.serve_again()
        await site.world.delete("/sandbox/faults")
        await assert_written_once(site, run, approved, before)
        linked = await site.web.get("/v1/automations/status", headers={"traceparent": f"00-{LINK}-01"})
        assert linked.status_code == 200
        steps = (await site.run(run))["steps"]
        assert await site.service.stop() == 0
        shop = site.sandbox.facts["woocommerce"]
        secrets = (shop["consumer_key"], shop["consumer_secret"], PASSWORD, "The shop", "127.0.0.1", HEADER)
    root = run_span(run)
    in_trace = [span for span in collector.spans() if int.from_bytes(span.trace_id) == root.trace]
    [whole] = [span for span in in_trace if not span.parent_span_id]
    assert (whole.name, int.from_bytes(whole.span_id)) == ("run", root.span)
    run_attributes = attributes(whole)
    assert run_attributes["steward.run"] == run
    assert run_attributes["steward.status"] == "succeeded"
    assert run_attributes["steward.attempts"] == 2
    assert run_attributes["steward.changes.applied"] == len(approved)
    assert [attributes(span)["steward.seq"] for span in in_trace if span.name == "step"] == [
        step["seq"] for step in steps
    ]
    # The takeover also waits if a write was under way when the process was killed.
    waits = [attributes(span) for span in in_trace if span.name == "wait"]
    approvals = [wait for wait in waits if wait["steward.kind"] == "approval"]
    assert [approval["steward.status"] for approval in approvals] == ["partly_approved"]
    assert sum(span.name == "call" for span in in_trace) > len(approved)
    assert {span.parent_span_id for span in in_trace if span is not whole} == {whole.span_id}
    everything = collector.spans()
    assert len({span.span_id for span in everything}) == len(everything)
    for span in everything:
        names = {name for name in attributes(span) if not name.startswith("steward.changes.")}
        assert names <= ATTRIBUTES[span.name], span
    [request] = [span for span in everything if span.links]
    assert attributes(request)["steward.operation"] == "status.get"
    assert f"{request.links[0].trace_id.hex()}-{request.links[0].span_id.hex()}" == LINK
    assert all(headers["x-key"] == HEADER for headers in collector.headers)
    assert not [secret for secret in secrets for body in collector.bodies if secret.encode() in body]


async def test_a_run_that_ends_without_a_worker_has_its_trace(
    database_url: str, clock: FakeClock, tmp_path: Path, collector: Collector
) -> None:
    """Sends one root span after the commit for runs cancelled, rejected, expired or archived."""
    shop = await open_shop(database_url, clock, tmp_path, STEWARD_TRACES_URL=collector.url)
    await connect_all(shop)
    cancelled = await shop.run_now(await shop.hiding())
    await shop.cancel(cancelled)
    rejected = await shop.waiting(await shop.pricing())
    await shop.reject(rejected)
    expired = await shop.waiting(await shop.pricing())
    await shop.pass_time(days=30)
    archived = await shop.hiding()
    queued = [await shop.run_now(archived) for _ in range(2)]

    async def failing(tx: Tx) -> None:
        await ending.end_queued(tx, shop.owner.org, archived.id, ending=ending.ARCHIVED)
        raise WrongState("The commit does not take place.")

    with pytest.raises(WrongState):
        await shop.write(failing)
    await shop.write(partial(ending.end_for_archive, org=shop.owner.org, automation=archived.id))
    await shop.service.close()
    roots = [attributes(span) for span in collector.spans() if span.name == "run"]
    names = ("steward.run", "steward.status", "steward.code", "steward.attempts")
    assert sorted(tuple(root.get(name, 0) for name in names) for root in roots) == sorted(
        [
            (cancelled.id, "cancelled", "by_person", 0),
            (rejected.id, "cancelled", "rejected", 1),
            (expired.id, "expired", "approval_expired", 1),
            *((run.id, "cancelled", "archived", 0) for run in queued),
        ]
    )
    waits = [attributes(span)["steward.status"] for span in collector.spans() if span.name == "wait"]
    assert waits == ["rejected", "expired"]
    spans = collector.spans()
    assert len({span.span_id for span in spans}) == len(spans)


async def test_a_sleep_is_a_span_until_the_run_wakes(
    database_url: str, clock: FakeClock, tmp_path: Path, collector: Collector
) -> None:
    """Ends the span of a pause of an hour when the run wakes, within the run's own trace."""
    shop = await open_shop(database_url, clock, tmp_path, STEWARD_TRACES_URL=collector.url)
    await connect_all(shop)
    run = await shop.waiting(await shop.pricing())
    shop.fault("throttle", "POST", "**/batch", retry_after=3_600)
    await shop.approve(run)
    await shop.drain()
    assert (await shop.until_settled(run, minutes=120)).status is RunStatus.SUCCEEDED
    await shop.service.close()
    in_trace = [span for span in collector.spans() if int.from_bytes(span.trace_id) == run_span(run.id).trace]
    [sleep] = [span for span in in_trace if attributes(span).get("steward.kind") == "sleep"]
    assert (sleep.name, int.from_bytes(sleep.parent_span_id)) == ("wait", run_span(run.id).span)
    assert 3_500e9 < sleep.end_time_unix_nano - sleep.start_time_unix_nano < 3_700e9
    [whole] = [span for span in in_trace if not span.parent_span_id]
    assert whole.start_time_unix_nano <= sleep.start_time_unix_nano
    assert sleep.end_time_unix_nano <= whole.end_time_unix_nano
    assert len({span.span_id for span in in_trace}) == len(in_trace)


class Recorder(Traces):
    """Keeps every span."""

    is_on = True

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def add(self, span: Span) -> None:
        """Keeps a span."""
        self.spans.append(span)


@pytest.mark.parametrize("total", [spans.STEPS_AT_ONCE, spans.STEPS_AT_ONCE + 1])
async def test_every_step_of_a_long_run_has_a_span(
    database_url: str, clock: FakeClock, tmp_path: Path, total: int
) -> None:
    """Reads as many steps as fit into one read, and one more."""
    shop = await open_shop(database_url, clock, tmp_path)
    await connect_all(shop)
    run = await shop.run_now(await shop.pricing(), Mode.TEST)
    await shop.drain()

    async def lengthen(tx: Tx) -> None:
        of_run = {"org": shop.owner.org, "run": run.id}
        last = await tx.first(
            "SELECT seq, wire FROM steps WHERE org_id = :org AND run_id = :run ORDER BY seq DESC LIMIT 1",
            of_run,
        )
        assert last is not None
        for seq in range(last["seq"] + 1, total + 1):
            await tx.execute(
                "INSERT INTO steps (org_id, run_id, seq, name, iteration, attempt, status, finished_at,"
                " changes_total, wire) SELECT org_id, run_id, :seq, name, iteration, attempt, status,"
                " finished_at, changes_total, :wire FROM steps"
                " WHERE org_id = :org AND run_id = :run AND seq = :last",
                {
                    **of_run,
                    "seq": seq,
                    "last": last["seq"],
                    "wire": json.dumps(json.loads(last["wire"]) | {"seq": seq}),
                },
            )

    await shop.write(lengthen)
    recorder = Recorder()
    engine, org = shop.service.context.engine, shop.owner.org
    await spans.add_finished(recorder, engine, clock.now(), org=org, run=run.id, attempt=1)
    await shop.service.close()
    steps = [span for span in recorder.spans if span.name == "step"]
    assert [span.attributes["steward.seq"] for span in steps] == list(range(1, total + 1))
    assert len({span.id for span in recorder.spans}) == total + 1


async def test_a_collector_that_is_away_costs_spans_alone() -> None:
    """Drops and counts the spans that cannot be sent, and closes within 10 s."""
    dropped: list[int] = []
    url = f"http://127.0.0.1:{free_port()}/v1/traces"
    traces = OtlpTraces(url, headers={}, ratio=0.5, on_drop=dropped.append)
    now = CLOCK.now()
    for _ in range(2 * MAX_WAITING):
        traces.add(Span("call", new_span(), now, now, {}))
    began = CLOCK.monotonic()
    await traces.close()
    assert CLOCK.monotonic() - began < 10
    assert sum(dropped) == 2 * MAX_WAITING
    chosen = sum(traces.is_sampled(new_span().trace) for _ in range(10_000))
    assert 4_500 < chosen < 5_500


async def test_a_collector_that_responds_without_end_is_cut_off() -> None:
    """Reads at most MAX_RESPONSE_BYTES of a response, and counts the request as accepted."""
    sent = 0

    class Endless(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            nonlocal sent
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while sent < ENDLESS_BYTES:
                    sent += self.wfile.write(bytes(MAX_RESPONSE_BYTES))

        def log_message(self, format: str, *args: object) -> None:
            """Writes nothing."""

    server = HTTPServer(("127.0.0.1", 0), Endless)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    traces = OtlpTraces(url, headers={}, ratio=1, on_drop=lambda count: None)
    assert await traces.is_collector_reachable()
    await traces.close()
    await asyncio.to_thread(thread.join)
    server.server_close()
    assert MAX_RESPONSE_BYTES <= sent < ENDLESS_BYTES


async def test_traces_without_the_extra_stop_the_start(sqlite_url: str, tmp_path: Path) -> None:
    """Exits with 2 and names the missing extra."""
    (tmp_path / "opentelemetry.py").write_text("raise ImportError('not installed')")
    env = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": sqlite_url,
        "STEWARD_DATA_DIR": str(tmp_path),
        "STEWARD_METRICS_LISTEN": "off",
        "STEWARD_TRACES_URL": "http://127.0.0.1:4318/v1/traces",
        "PYTHONPATH": str(tmp_path),
    }
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "steward", "serve", "--port", "0"),
        env=environ(env),
        stderr=asyncio.subprocess.PIPE,
    )
    _, output = await child.communicate()
    assert (child.returncode, b"steward-automations[traces]" in output) == (2, True), output.decode()


def test_traces_go_without_encryption_to_named_hosts_alone() -> None:
    """Allows http for loopback and listed hosts alone, and keeps the headers out of the settings' repr."""
    for address, allowed in (
        ("http://127.0.0.1:4318/v1/traces", ""),
        ("http://collector:4318/v1/traces", "collector:4318"),
        ("https://collector.example/v1/traces", ""),
    ):
        environment = {
            "STEWARD_ENV": "test",
            "STEWARD_TRACES_URL": address,
            "STEWARD_ALLOW_PRIVATE_HOSTS": allowed,
            "STEWARD_TRACES_HEADERS": "authorization=Bearer abc, x-key=1",
        }
        settings = read(environment)
        assert settings.traces_headers == (("authorization", "Bearer abc"), ("x-key", "1"))
        assert "Bearer abc" not in repr(settings)
    with pytest.raises(SettingsError, match="STEWARD_TRACES_URL must be https"):
        read({"STEWARD_ENV": "test", "STEWARD_TRACES_URL": "http://collector.example/v1/traces"})
