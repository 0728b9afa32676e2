"""The Python client against the live service, also on a way that loses answers.

CLIENT_RUNS sets how many runs are started while every fifth answer is lost.
"""

import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from steward_client import AsyncSteward, Steward, errors, operations
from steward_client.records import RunRecord, StepRecord

from steward.api.operations import OPERATIONS
from steward.cli.connection_limits import ConnectionLimits
from steward.model.account import Scope
from tests.api.test_edge import listening
from tests.clients.conftest import PYTHON
from tests.clients.faults import FaultyTransport
from tests.databases import copy_migrated_sqlite
from tests.fake_clock import FakeClock
from tests.imports.exports import chain, tell_step
from tests.populated_service import PopulatedService, open_populated_service
from tests.service import BASE_URL

RUNS = int(os.environ.get("CLIENT_RUNS", "25"))
TEMPLATE = "hide-out-of-stock-products"
MANUAL = {"cadence": "manual"}


@dataclass
class Caller:
    """A client, the way its requests take, and the service behind it."""

    steward: AsyncSteward
    transport: FaultyTransport
    populated: PopulatedService
    pauses: list[float]

    async def automation(self, **more: Any) -> Any:
        """A new automation that is run by hand."""
        return await self.steward.automations.create(
            template_id=TEMPLATE,
            name="Hide",
            inputs={"threshold": 0},
            schedule=MANUAL,
            integration_id=1,
            **more,
        )


def arguments(populated: PopulatedService) -> dict[str, Any]:
    """What a client is given."""
    body = populated.service.login_body("member")
    return {**body, "organization": body["organization_name"]} | {"organization_name": ...}


def set_environment(monkeypatch: pytest.MonkeyPatch, populated: PopulatedService, port: int) -> None:
    """Sets what `from_env` reads."""
    settings = arguments(populated)
    monkeypatch.setenv("STEWARD_CLIENT_URL", f"http://127.0.0.1:{port}/")
    for name in ("username", "email", "organization", "client_id", "client_secret"):
        monkeypatch.setenv(f"STEWARD_CLIENT_{name.removeprefix('client_').upper()}", settings[name])


def client_of(
    populated: PopulatedService,
    async_base_transport: httpx.AsyncBaseTransport,
    pauses: list[float],
    **changes: Any,
) -> AsyncSteward:
    """A client on this way; while it waits, time goes on and the worker works."""
    clock: FakeClock = populated.service.clock

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.tick(seconds)
        await populated.shop.drain()

    settings = {
        name: value for name, value in {**arguments(populated), **changes}.items() if value is not ...
    }
    return AsyncSteward(
        BASE_URL,
        http=httpx.AsyncClient(transport=async_base_transport),
        clock=clock.monotonic,
        sleep=sleep,
        **settings,
    )


@pytest.fixture
async def caller(populated: PopulatedService) -> AsyncIterator[Caller]:
    """A client of the whole service, on each engine."""
    async with _calling(populated) as calling:
        yield calling


@pytest.fixture
async def embedded(clock: FakeClock, session_folder: Path, tmp_path: Path) -> AsyncIterator[Caller]:
    """The same on SQLite alone: for what no engine makes a difference to."""
    url = await asyncio.to_thread(copy_migrated_sqlite, session_folder, tmp_path / "steward.db")
    populated = await open_populated_service(url, clock, tmp_path)
    async with _calling(populated) as calling:
        yield calling
    await populated.close()


@asynccontextmanager
async def _calling(populated: PopulatedService) -> AsyncIterator[Caller]:
    direction = FaultyTransport(httpx.ASGITransport(app=populated.service.app))
    pauses: list[float] = []
    steward = client_of(populated, direction, pauses)
    yield Caller(steward, direction, populated, pauses)
    await steward._transport.http.aclose()


async def edit_coming_run(steward: AsyncSteward, automation: Any) -> None:
    """Moves the next run of an automation, skips it, and takes that back."""
    [first, *_] = [entry async for entry in steward.occurrences.list(automation_id=automation.id)]
    moved = await steward.automations.move_occurrence(
        automation,
        slot_at=first.slot_at,
        run_at=first.run_at + timedelta(hours=1),
        scope="this",
        occurrence_version=first.version,
        automation_version=automation.version,
    )
    assert moved.occurrence.moved_from == first.run_at
    for verb in ("skip", "unskip"):
        edit = getattr(steward.automations, f"{verb}_occurrence")
        edited = await edit(
            automation,
            slot_at=first.slot_at,
            occurrence_version=moved.occurrence.version,
            automation_version=moved.automation.version,
        )
        moved = edited


async def test_every_public_operation_is_called(caller: Caller) -> None:
    """Each operation that a token may call, once, with what it answers read as records."""
    steward, populated = caller.steward, caller.populated
    assert (await steward.status.get()).limits.imports_allowed == 100
    template = await steward.templates.get(TEMPLATE)
    assert TEMPLATE in [entry.template_id async for entry in steward.templates.list(limit=5)]
    assert template.inputs_schema["type"] == "object"
    [store] = [entry async for entry in steward.stores.list()]
    assert {entry.kind async for entry in steward.connections.list()} >= {
        "spreadsheet",
        "teams",
    }
    sheet = populated.number("spreadsheet")
    assert [entry.kind async for entry in steward.destinations.list(integration_id=sheet)]
    preview = await steward.schedule.preview(schedule={"cadence": "daily", "run_at": "08:00"}, timezone="UTC")
    assert len(preview.next) == 3
    automation = await caller.automation(idempotency_key="one")
    assert (await caller.automation(idempotency_key="one")).id == automation.id
    automation = await steward.automations.update(
        automation,
        version=automation.version,
        schedule={"cadence": "daily", "run_at": "08:00"},
        timezone="UTC",
    )
    assert automation.integration_id == store.integration_id
    assert automation.trigger.kind == "schedule"
    await edit_coming_run(steward, automation)
    automation = await steward.automations.get(automation)
    for verb in ("pause", "resume", "archive", "restore"):
        automation = await getattr(steward.automations, verb)(automation, version=automation.version)
    automation = await steward.automations.resume(automation, version=automation.version)
    tried = await steward.wait_for(await steward.automations.run(automation, mode="test"))
    assert (tried.status, tried.summary.counts.applied) == ("succeeded", 0)
    live = await steward.wait_for(await steward.automations.run(automation))
    assert live.status == "waiting_approval"
    assert [entry.outcome async for entry in steward.runs.changes(live, limit=1)] == ["proposed"] * 3
    [waiting] = [entry async for entry in steward.approvals.list()]
    assert (await steward.approvals.get(waiting)).changes_total == 3
    assert (await steward.runs.cancel(live)).status == "cancelled"
    with pytest.raises(errors.WrongState):
        await steward.runs.undo(live)
    assert {item.status async for item in steward.runs.list(automation_id=automation.id)} == {
        "succeeded",
        "cancelled",
    }
    content = chain(tell_step())
    import_record = await steward.imports.keep(source="workflow_tool", name="Tell", content=content)
    assert [entry.id async for entry in steward.imports.list(supported=True)] == [import_record.id]
    assert (await steward.imports.get(import_record)).plan.steps[0].name
    await steward.imports.preview(import_record)
    await steward.imports.preview_content(source="workflow_tool", content=content)
    workflow = await steward.imports.run_as_automation(import_record, name="Tell", schedule=MANUAL)
    assert workflow.import_id == import_record.id
    await steward.imports.delete(import_record)
    assert len([entry async for entry in steward.automations.list(limit=1)]) == 2
    named = {row.name for row in OPERATIONS if row.scope in (Scope.READ, Scope.WRITE)}
    assert set(caller.transport.sent) == named | {"login"}
    assert caller.transport.sent["login"] == 1
    approving = {"approve", "reject"}
    assert not approving & {name for group in vars(steward).values() for name in dir(group)}


async def test_no_run_is_doubled_while_responses_are_lost(caller: Caller) -> None:
    """Every fifth answer is lost: each call succeeds, and each run is there once."""
    clock = caller.populated.service.clock
    automation = await caller.automation()
    caller.transport.is_lost = lambda name, number: number % 5 == 0
    runs = []
    for number in range(RUNS):
        run = await caller.steward.automations.run(automation, mode="test")
        runs.append(run.id)
        if number % 50 == 49:
            clock.tick(60)
            await caller.populated.shop.drain()
    caller.transport.is_lost = lambda name, number: False
    listed = [item.id async for item in caller.steward.runs.list(automation_id=automation.id, limit=200)]
    assert len(set(runs)) == RUNS
    assert sorted(listed) == sorted(runs)
    assert caller.transport.lost["automations.run"] >= RUNS // 5
    assert caller.transport.sent["automations.run"] == RUNS + caller.transport.lost["automations.run"]


async def test_calls_that_are_not_idempotent_are_sent_once(caller: Caller) -> None:
    """A cancellation, a deletion and a login are sent once; so is a pause without a version."""
    automation = await caller.automation()
    run = await caller.steward.automations.run(automation, mode="test")
    import_record = await caller.steward.imports.keep(
        source="workflow_tool", name="Tell", content=chain(tell_step())
    )
    caller.transport.is_lost = lambda name, number: True
    with pytest.raises(errors.NoResponse):
        await caller.steward.runs.cancel(run)
    with pytest.raises(errors.NoResponse):
        await caller.steward.imports.delete(import_record)
    with pytest.raises(errors.NoResponse):
        await caller.steward.automations.pause(automation)
    other = client_of(caller.populated, caller.transport, caller.pauses)
    with pytest.raises(errors.NoResponse):
        await other.status.get()
    with pytest.raises(errors.NoResponse) as refused:
        await caller.steward.automations.run(automation, mode="test")
    assert refused.value.idempotency_key is not None
    sent = caller.transport.sent
    assert (sent["runs.cancel"], sent["imports.delete"], sent["automations.pause"]) == (1, 1, 1)
    assert (sent["login"], sent["status.get"], sent["automations.run"]) == (2, 0, 1 + 3)
    assert all(0.5 <= pause <= 4 for pause in caller.pauses)


async def test_a_lost_change_by_version_is_of_unknown_outcome(caller: Caller) -> None:
    """The second try is refused as stale, perhaps because the first one was done: the error says so."""
    automation = await caller.automation()
    begun = caller.transport.count
    caller.transport.is_lost = lambda name, number: number == begun
    with pytest.raises(errors.OutcomeUnknown) as unknown:
        await caller.steward.automations.update(automation, version=automation.version, name="Another name")
    assert unknown.value.current.automation.name == "Another name"
    with pytest.raises(errors.StaleVersion) as stale:
        await caller.steward.automations.update(automation, version=automation.version, name="A third name")
    assert type(stale.value) is errors.StaleVersion
    assert stale.value.request_id is not None
    assert stale.value.status == 409


async def test_a_hundred_callers_log_in_once(embedded: Caller) -> None:
    """One login at a time; the token is renewed a minute before it ends, and once when it is refused."""
    await asyncio.gather(*(embedded.steward.status.get() for _ in range(100)))
    assert (embedded.transport.sent["login"], embedded.transport.sent["status.get"]) == (1, 100)
    embedded.populated.service.clock.tick(3600 - 59)
    await asyncio.gather(*(embedded.steward.status.get() for _ in range(100)))
    assert embedded.transport.sent["login"] == 2
    refused = {"www-authenticate": 'Bearer realm="steward", error="invalid_token"'}
    body = {"success": False, "code": "unauthenticated", "message": "Sign in first."}
    begun = embedded.transport.count
    embedded.transport.respond = lambda name, number: (
        httpx.Response(401, headers=refused, json=body) if number == begun else None
    )
    assert (await embedded.steward.status.get()).automations_enabled
    assert embedded.transport.sent["login"] == 3
    embedded.transport.respond = lambda name, number: (
        httpx.Response(401, headers=refused, json=body) if name != "login" else None
    )
    with pytest.raises(errors.Unauthenticated):
        await embedded.steward.status.get()
    assert embedded.transport.sent["login"] == 4


async def test_a_failed_login_is_shared_and_not_tried_again(embedded: Caller) -> None:
    """A hundred callers with a wrong secret cost one attempt; a later call makes another."""
    steward = client_of(embedded.populated, embedded.transport, embedded.pauses, client_secret="wrong-secret")
    outcomes = await asyncio.gather(*(steward.status.get() for _ in range(100)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {errors.InvalidCredentials}
    assert dict(embedded.transport.sent) == {"login": 1}
    with pytest.raises(errors.InvalidCredentials):
        await steward.status.get()
    assert embedded.transport.sent["login"] == 2
    assert "wrong-secret" not in repr(steward) + repr(outcomes[0]) + repr(vars(steward))


async def test_tries_keep_to_the_service_and_to_the_deadline(embedded: Caller) -> None:
    """`Retry-After` is waited for; a wait beyond the deadline, or a third failure, is raised."""
    await embedded.steward.status.get()

    def refusing(status: int, code: str, seconds: int) -> Any:
        body = {"success": False, "code": code, "message": "Wait."}
        return lambda name, number: httpx.Response(status, headers={"retry-after": str(seconds)}, json=body)

    embedded.transport.respond = refusing(503, "unavailable", 7)
    with pytest.raises(errors.Unavailable) as unavailable:
        await embedded.steward.status.get()
    assert (embedded.pauses, unavailable.value.retry_after) == ([7.0, 7.0], 7)
    embedded.transport.respond = refusing(429, "rate_limited", 31)
    with pytest.raises(errors.RateLimited) as limited:
        await embedded.steward.status.get()
    assert (len(embedded.pauses), limited.value.retry_after) == (2, 31)
    embedded.transport.respond = refusing(418, "of_a_later_release", 1)
    with pytest.raises(errors.StewardError) as unknown:
        await embedded.steward.status.get()
    assert (unknown.value.code, unknown.value.status) == ("of_a_later_release", 418)
    embedded.transport.respond = lambda name, number: httpx.Response(502, text="<html>Bad gateway</html>")
    with pytest.raises(errors.Unavailable):
        await embedded.steward.status.get()
    embedded.transport.respond = lambda name, number: httpx.Response(
        302, headers={"location": "https://x.example/"}
    )
    with pytest.raises(errors.StewardError, match="not a response of Steward"):
        await embedded.steward.status.get()


async def test_a_run_is_waited_for(embedded: Caller) -> None:
    """Each step is told once, the pauses grow from one to five seconds, and the time to wait ends."""
    automation = await embedded.automation()
    steps: list[StepRecord] = []
    done = await embedded.steward.wait_for(
        await embedded.steward.automations.run(automation, mode="test"), on_step=steps.append
    )
    assert done.status == "succeeded"
    assert [step.seq for step in steps] == [1, 2, 3]
    assert embedded.pauses == [1.0]
    waiting = await embedded.steward.automations.run(automation)
    with pytest.raises(errors.WaitTimeout) as late:
        await embedded.steward.wait_for(waiting, timeout=20, through_approval=True)
    run: RunRecord = late.value.run
    assert run.status == "waiting_approval"
    assert embedded.pauses[1:] == [1.0, 1.5, 2.25, 3.375, 5.0, 5.0, 20 - 18.125]


async def test_errors_name_fields_and_unknown_fields_are_set_aside(embedded: Caller) -> None:
    """A refusal by fields, a missing record, and a response of a later release."""
    with pytest.raises(errors.ValidationFailed) as wrong:
        await embedded.steward.automations.create(
            template_id=TEMPLATE, name="", inputs={}, schedule={"cadence": "weekly"}
        )
    assert set(wrong.value.errors) == {"name", "schedule.run_at", "schedule.day_of_week"}
    with pytest.raises(errors.NotFound):
        await embedded.steward.runs.get("01JD3Z0QH8N2Y5V7W9X1C4B6A8")
    await embedded.automation(idempotency_key="two")
    with pytest.raises(errors.KeyReused):
        await embedded.steward.automations.create(
            template_id=TEMPLATE,
            name="Another",
            inputs={},
            schedule=MANUAL,
            integration_id=1,
            idempotency_key="two",
        )
    data = {"automation": {"id": "01JD3Z0QH8N2Y5V7W9X1C4B6A8", "of_a_later_release": [1]}}
    body = {"success": True, "data": data}
    embedded.transport.respond = lambda name, number: httpx.Response(200, json=body)
    read = await embedded.steward.automations.get("01JD3Z0QH8N2Y5V7W9X1C4B6A8")
    assert (read.unknown_fields, read.name) == ({"of_a_later_release": [1]}, None)


async def test_a_program_without_asyncio_has_the_same(
    embedded: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a socket, by the environment: log in, page, run, wait; one login for callers in threads."""
    populated = embedded.populated
    settings = arguments(populated)
    automation = await embedded.automation()
    loop = asyncio.get_running_loop()

    def sleep(seconds: float) -> None:
        populated.service.clock.tick(seconds)
        asyncio.run_coroutine_threadsafe(populated.shop.drain(), loop).result()

    def work(port: int) -> None:
        set_environment(monkeypatch, populated, port)
        with Steward.from_env(sleep=sleep, clock=populated.service.clock.monotonic) as steward:
            assert settings["client_secret"] not in repr(steward)
            assert f"organization={settings['organization']!r}" in repr(steward)
            assert [entry.id for entry in steward.automations.list(limit=1)] == [automation.id]
            done = steward.wait_for(steward.automations.run(automation, mode="test"))
            assert done.status == "succeeded"
            assert len(list(steward.runs.changes(done, limit=2))) == 3
            with pytest.raises(errors.NotFound):
                steward.imports.delete("01JD3Z0QH8N2Y5V7W9X1C4B6A8")
        monkeypatch.delenv("STEWARD_CLIENT_SECRET")
        with pytest.raises(ValueError, match="STEWARD_CLIENT_SECRET"):
            Steward.from_env()

    async with listening(populated.service, ConnectionLimits()) as port:
        await asyncio.to_thread(work, port)


async def test_the_program_of_the_readme_runs(
    embedded: Caller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is run as it stands; only its waiting is the test's."""
    populated = embedded.populated
    await embedded.automation()
    loop = asyncio.get_running_loop()

    def sleep(seconds: float) -> None:
        asyncio.run_coroutine_threadsafe(populated.shop.drain(), loop).result()

    monkeypatch.setitem(Steward.__init__.__kwdefaults__, "sleep", sleep)
    [program] = re.findall(r"```python\n(.*?)```", (PYTHON / "README.md").read_text("utf-8"), re.S)
    async with listening(populated.service, ConnectionLimits()) as port:
        set_environment(monkeypatch, populated, port)
        await asyncio.to_thread(exec, program, {})
    assert capsys.readouterr().out.splitlines()[-1].startswith("Hide succeeded 3 products of ")


def test_both_clients_have_the_same_names() -> None:
    """Every method of the one is a method of the other, with the same arguments."""
    for name, group in vars(operations).items():
        if inspect.isclass(group) and issubclass(group, operations.Group) and group is not operations.Group:
            other = getattr(operations, f"Async{name}")
            methods = {key: value for key, value in vars(group).items() if inspect.isfunction(value)}
            assert methods.keys() == {key for key, value in vars(other).items() if inspect.isfunction(value)}
            for key, method in methods.items():
                parameters = inspect.signature(method).parameters
                assert parameters == inspect.signature(vars(other)[key]).parameters, (name, key)


def test_the_package_is_small_and_stands_alone() -> None:
    """At most 900 lines are written by hand, 150 in a generator; nothing of the service is loaded."""
    hand = [
        path
        for path in (PYTHON / "steward_client").glob("*.py")
        if path.stem not in ("records", "operations")
    ]
    assert sum(len(path.read_text("utf-8").splitlines()) for path in hand) <= 900
    for name in ("generate", "generate_records"):
        assert len((PYTHON / f"{name}.py").read_text("utf-8").splitlines()) <= 150
    code = (
        "import sys, steward_client; print([name for name in sys.modules if name.split('.')[0] == 'steward'])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=PYTHON, capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.strip() == "[]"
