"""Starts a run by hand, once per idempotency key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

from steward.automations import readiness
from steward.automations.rules import Templates
from steward.closed_periods import applicable
from steward.connections.vault import Vault
from steward.database.accounts import idempotency
from steward.database.automations import records as automations
from steward.database.engine.base import Batchable, Engine, Tx, WeightedAct
from steward.database.runs import fast_runs
from steward.database.runs import records as runs
from steward.database.runs.fast_runs import RunPrecheck, RunToStart
from steward.model.account import Actor, maker
from steward.model.automation import Automation, AutomationState
from steward.model.ids import AutomationId, OrgId, RisingIds, RunId, new_id
from steward.model.json import JsonObject, digest
from steward.model.refusals import InClosedPeriod, KeyReused, TooManyWaiting, Unavailable, WrongState
from steward.model.run import Mode, Run, StartedBy
from steward.run_queue import queue as run_queue
from steward.runs.storage import payload as payloads
from steward.runs.storage.files import SealedFile, StoredRunFiles
from steward.runs.storage.payload import StartFile, StartValues
from steward.scheduling.zones import local_time, zone
from steward.steps.workflow.items import BinaryReference


@dataclass(frozen=True, slots=True)
class RunNow:
    """Runs an automation by hand."""

    automation: AutomationId
    idempotency_key: str
    mode: Mode
    payload: JsonObject | None = None
    files: tuple[StartFile, ...] = ()

    @property
    def has_values(self) -> bool:
        """Whether the run is started with a payload or files."""
        return self.payload is not None or bool(self.files)


_RunStorage = Callable[[RunId], StoredRunFiles]
_Outcome = Literal["created", "key_used", "queue_full"]


@dataclass(frozen=True, slots=True)
class StartedRun:
    """The run, and whether an earlier request with the same key had created it."""

    run: Run
    replayed: bool


async def run_now(
    tx: Tx,
    actor: Actor,
    command: RunNow,
    *,
    templates: Templates,
    max_waiting: int,
    vault: Vault | None = None,
    sealed_files: "_SealedFiles | None" = None,
) -> StartedRun:
    """Creates a run of the automation, or returns the one that its idempotency key created before.

    A payload needs the `vault` that encrypts it; files are encrypted beforehand. Raises NotFound,
    ValidationFailed (`errors.payload`, `errors.files`), KeyReused, WrongState (archived), NotConnected,
    NotReady, TooManyWaiting.
    """
    automation = await automations.get(tx, actor.org, command.automation)
    if earlier_run := await _replay(tx, actor, command):
        return earlier_run
    await _check_can_start(tx, automation, command, templates=templates)
    run = RunId(new_id(tx.now)) if sealed_files is None else sealed_files.run
    outcome = await _create(tx, actor, command, automation, run=run, max_waiting=max_waiting)
    if outcome == "key_used":  # another request with the same key committed first
        earlier_run = await _replay(tx, actor, command)
        if earlier_run is None:
            raise Unavailable(retry_after=1)
        return earlier_run
    if outcome == "queue_full":
        raise TooManyWaiting(errors={})  # the idempotency key is rolled back with the transaction
    if command.has_values:
        await _store_values(tx, vault, actor.org, run, command, sealed_files)
    return StartedRun(await runs.get(tx, actor.org, run), replayed=False)


async def _check_can_start(tx: Tx, automation: Automation, command: RunNow, *, templates: Templates) -> None:
    """Raises the refusals of `run_now` for an automation that takes no run, or none with these values."""
    if automation.state is AutomationState.ARCHIVED:
        raise WrongState("This automation is archived. Restore it before running it.")
    await payloads.check(tx, automation, command.payload, command.files)
    await readiness.check(tx, automation, templates=templates)
    if command.mode is Mode.LIVE:
        await _check_open(tx, automation)


async def _store_values(
    tx: Tx, vault: Vault | None, org: OrgId, run: RunId, command: RunNow, sealed_files: "_SealedFiles | None"
) -> None:
    assert vault is not None, "a payload is stored sealed"
    files = {} if sealed_files is None else await sealed_files.store(tx, org, command.files)
    await payloads.store(tx, vault, org, run, StartValues(command.payload or {}, files))


@dataclass(frozen=True, slots=True)
class _SealedFiles:
    """The files of a run that is still to be created, in the order of the command's."""

    run: RunId
    files: Sequence[SealedFile]

    async def store(self, tx: Tx, org: OrgId, files: Sequence[StartFile]) -> dict[str, BinaryReference]:
        """Stores the files' rows and returns references by name."""
        references: dict[str, BinaryReference] = {}
        for file, sealed in zip(files, self.files, strict=True):
            await sealed.insert(tx, org, self.run)
            references[file.name] = BinaryReference(
                sealed.sha256, len(file.content), file.mime_type, file.file_name
            )
        return references


async def _check_open(tx: Tx, automation: Automation) -> None:
    """Raises InClosedPeriod while a closed period keeps the automation's runs from beginning."""
    closing = (await applicable.current(tx, automation.org)).run_closing(automation, tx.now)
    if closing is not None:
        until = "the period ends"
        if closing.end is not None and (local_zone := zone(automation.timezone)) is not None:
            until = f"{local_time(closing.end, local_zone)[:16].replace('T', ' ')} ({automation.timezone})"
        raise InClosedPeriod(
            f"The closed period {closing.period.name} stops this automation until {until}."
            " Run it after that, or as a test.",
            errors={},
        )


async def _create(
    tx: Tx, actor: Actor, command: RunNow, automation: Automation, *, run: RunId, max_waiting: int
) -> _Outcome:
    """Creates the run under its queue's lock, unless its key was used or too many runs wait."""
    locked_queue = await run_queue.lock(tx, actor.org, automation.id)
    is_stored = await idempotency.store(
        tx,
        actor.org,
        "run",
        key=command.idempotency_key,
        object_id=run,
        automation=automation.id,
        request_sha256=digest([automation.id, command.mode]),
    )
    if not is_stored:
        return "key_used"
    if await run_queue.waiting(tx, actor.org, automation.id, max_waiting) >= max_waiting:
        return "queue_full"
    request = run_queue.RunRequest(
        automation=automation,
        mode=command.mode,
        started_by=StartedBy.HAND,
        maker=maker(actor),
        idempotency_key=command.idempotency_key,
        run_id=run,
    )
    await run_queue.enqueue(tx, locked_queue, request)
    return "created"


@dataclass(frozen=True, slots=True)
class _StartRequest:
    """A start by hand that may share a database call with others."""

    actor: Actor
    command: RunNow
    templates: Templates
    max_waiting: int


async def start(
    engine: Engine,
    now: datetime,
    actor: Actor,
    command: RunNow,
    *,
    templates: Templates,
    max_waiting: int,
    weight: int = 0,
    vault: Vault | None = None,
    storage: _RunStorage | None = None,
) -> StartedRun:
    """Starts a run durably, as `run_now`; most share one call with other starts (group commit).

    Files need `storage`, which returns the file storage of a run.
    """
    if command.files:
        assert storage is not None, "files are stored with their run"
        return await _start_with_files(
            engine,
            now,
            actor,
            command,
            templates=templates,
            max_waiting=max_waiting,
            vault=vault,
            storage=storage,
        )
    if command.payload is not None:
        act = partial(
            run_now, actor=actor, command=command, templates=templates, max_waiting=max_waiting, vault=vault
        )
        return await engine.write(now, act, org=actor.org)
    request = _StartRequest(actor, command, templates, max_waiting)
    call: Batchable[_StartRequest, StartedRun | None] = Batchable(
        request, _start_one, _start_batch, weight=weight, autocommit=True
    )
    started = await engine.write(now, call, org=actor.org)
    if started is None:
        act = partial(run_now, actor=actor, command=command, templates=templates, max_waiting=max_waiting)
        started = await engine.write(now, act, org=actor.org)
    return started


async def _start_with_files(
    engine: Engine,
    now: datetime,
    actor: Actor,
    command: RunNow,
    *,
    templates: Templates,
    max_waiting: int,
    vault: Vault | None,
    storage: _RunStorage,
) -> StartedRun:
    """Seals the files, then creates the run together with their rows."""
    check = partial(
        _check_before_sealing, actor=actor, command=command, templates=templates, max_waiting=max_waiting
    )
    earlier_run = await engine.read(now, check, org=actor.org)
    if earlier_run is not None:
        return earlier_run
    run = RunId(new_id(now))
    run_files = storage(run)
    sealed_files = _SealedFiles(run, [await run_files.seal(file.content) for file in command.files])
    create = partial(
        run_now,
        actor=actor,
        command=command,
        templates=templates,
        max_waiting=max_waiting,
        vault=vault,
        sealed_files=sealed_files,
    )
    size = sum(len(file.content) for file in command.files)
    return await engine.write(now, WeightedAct(create, size), org=actor.org)


async def _check_before_sealing(
    tx: Tx, actor: Actor, command: RunNow, *, templates: Templates, max_waiting: int
) -> StartedRun | None:
    """Returns the run that the key created before, so that refused and repeated files are not stored.

    Raises what `run_now` raises, which decides again with the queue locked.
    """
    automation = await automations.get(tx, actor.org, command.automation)
    earlier_run = await _replay(tx, actor, command)
    if earlier_run is None:
        await _check_can_start(tx, automation, command, templates=templates)
        if await run_queue.waiting(tx, actor.org, automation.id, max_waiting) >= max_waiting:
            raise TooManyWaiting(errors={})
    return earlier_run


async def _start_one(tx: Tx, request: _StartRequest) -> StartedRun | None:
    templates, max_waiting = request.templates, request.max_waiting
    return await run_now(tx, request.actor, request.command, templates=templates, max_waiting=max_waiting)


async def _start_batch(tx: Tx, requests: Sequence[_StartRequest]) -> list[StartedRun | None]:
    """Starts the runs that can take the fast path; None for each of the others."""
    max_waiting = requests[0].max_waiting
    keys = [
        (request.actor.org, request.command.automation, request.command.idempotency_key)
        for request in requests
    ]
    prechecks = await fast_runs.precheck(tx, keys, max_waiting=max_waiting)
    to_start: list[RunToStart] = []
    numbers: list[int] = []
    ids = RisingIds()  # waiting runs start in the order of their requests
    used_keys: set[tuple[OrgId, str]] = set()
    for number, (request, precheck) in enumerate(zip(requests, prechecks, strict=True)):
        command = request.command
        key = (request.actor.org, command.idempotency_key)
        if precheck is None or key in used_keys or not _takes_fast_path(precheck, request.templates):
            continue
        used_keys.add(key)  # another one with the same key is a replay, or refused
        automation = precheck.automation
        run = RunId(ids.next(precheck.present))
        sha256 = digest([automation.id, command.mode])
        to_start.append(
            RunToStart(automation, run, command.mode, command.idempotency_key, sha256, maker(request.actor))
        )
        numbers.append(number)
    created = await fast_runs.start_runs(tx, to_start, max_waiting=max_waiting) if to_start else []
    run_by_number = dict(zip(numbers, created, strict=True))
    return [
        StartedRun(run_by_number[number], replayed=False) if number in run_by_number else None
        for number in range(len(requests))
    ]


def _takes_fast_path(precheck: RunPrecheck, templates: Templates) -> bool:
    automation = precheck.automation
    return automation.state is not AutomationState.ARCHIVED and readiness.is_clear(
        automation, templates, precheck.connected
    )


async def _replay(tx: Tx, actor: Actor, command: RunNow) -> StartedRun | None:
    stored_key = await idempotency.find(tx, actor.org, "run", key=command.idempotency_key)
    if stored_key is None:
        return None
    if stored_key.automation_id != command.automation:
        raise KeyReused(
            errors={
                "idempotency_key": ["This key already started a run of another automation. Use a new one."]
            }
        )
    return StartedRun(await runs.get(tx, actor.org, RunId(stored_key.object_id)), replayed=True)
