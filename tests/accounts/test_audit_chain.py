"""The chain of the audit log: altered, removed, inserted or moved entries are found at their number."""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from steward.accounts import audit as shown_audit
from steward.accounts import audit_check, organizations
from steward.accounts.audit import Export
from steward.accounts.audit_check import Anchor
from steward.accounts.organizations import CreateOrganization
from steward.database.accounts import audit, audit_heads
from steward.database.accounts.audit import AuditEntry
from steward.database.engine.base import Engine, Tx
from steward.database.engine.migrate import sqlite_path
from steward.database.engine.sqlite import SqliteEngine
from steward.model.audit import ACTIONS, ChainCheck, ChainedEntry, Fault
from steward.model.ids import OrgId
from steward.runs.run_context import TaskContext
from steward.runs.tasks import maintenance
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics
from steward.telemetry.redact import SecretRegister
from tests.fake_clock import FakeClock
from tests.source import kept_files, name_of

EDITS = 1_000
_READS_THE_LOG = re.compile(r'\bactions\(|/app/audit|audit_log|audit\.after|"audit", "export"')
DAY = timedelta(hours=24)


async def written(engine: Engine, clock: FakeClock, count: int) -> OrgId:
    """Creates an organization whose log has `count` entries from several transactions."""
    org = await engine.write(
        clock.now(), partial(organizations.create, command=CreateOrganization("Chain", "UTC", True))
    )
    names = sorted(ACTIONS)

    async def some(tx: Tx, *, numbers: range) -> None:
        for number in numbers:
            detail = {"role": "member", "left_out": number, "taken_at": "ä'\"\n"}
            await audit.record(
                tx,
                org.id,
                AuditEntry("person", names[number % len(names)], "1", "person", str(number), detail),
            )

    for start in range(1, count, 10):
        clock.tick(1)
        await engine.write(
            clock.now(), partial(some, numbers=range(start, min(start + 10, count))), org=org.id
        )
    return org.id


async def entries_of(engine: Engine, clock: FakeClock, org: OrgId) -> list[ChainedEntry]:
    """Returns the whole log."""
    return await engine.read(clock.now(), partial(audit.after, org=org, seq=0, limit=100_000), org=org)


def first_fault(entries: list[ChainedEntry], head: ChainedEntry) -> Fault | None:
    """Returns the first fault that a check of these entries finds."""
    check = ChainCheck()
    for entry in entries:
        if fault := check.accept(entry):
            return fault
    return check.end(head.seq, head.hash)


def edited(entries: list[ChainedEntry], draw: random.Random) -> tuple[str, list[ChainedEntry], int]:
    """Returns a random edit's kind, the edited entries, and the number of the first wrong one."""
    kind = draw.choice(["alter", "rehash", "delete", "insert", "swap", "cut", "move"])
    rows, last = list(entries), len(entries)
    index = draw.randrange(last)
    other = draw.choice([number for number in range(last) if number != index])
    first, second = sorted((index, other))
    if kind in ("alter", "rehash"):
        field, value = draw.choice(
            [("action", "made_up"), ("actor", "2"), ("at", 5), ("detail", '{"a":1}'), ("object_id", "0")]
        )
        rows[index] = replace(rows[index], **{field: value})
        if kind == "rehash":
            previous = rows[index - 1].hash if index else ""
            rows[index] = replace(rows[index], hash=rows[index].hash_after(previous))
            return kind, rows, min(index + 2, last)
    elif kind == "delete":
        del rows[index]
    elif kind == "insert":
        rows.insert(index, replace(rows[index], action="made_up"))
    elif kind == "swap":
        rows[first], rows[second] = (
            replace(rows[second], seq=rows[first].seq),
            replace(rows[first], seq=rows[second].seq),
        )
        return kind, rows, first + 1
    elif kind == "cut":
        del rows[index:]
    else:
        rows.insert(second, rows.pop(first))
        return kind, rows, first + 1
    return kind, rows, index + 1


async def test_every_random_edit_is_found_at_its_entry(sqlite_engine: Engine, clock: FakeClock) -> None:
    """Finds every random edit of entries and of export lines at the right number."""
    org = await written(sqlite_engine, clock, 30)
    entries = await entries_of(sqlite_engine, clock, org)
    assert [entry.seq for entry in entries] == list(range(1, 31))
    assert first_fault(entries, entries[-1]) is None
    draw = random.Random(20261123)
    kinds = set()
    for _ in range(EDITS):
        kind, rows, wrong = edited(entries, draw)
        kinds.add(kind)
        fault = first_fault(rows, entries[-1])
        assert fault is not None, kind
        assert fault.seq == wrong, (kind, fault)
    assert len(kinds) == 7
    lines = await exported(sqlite_engine, clock, org)
    for _ in range(EDITS // 4):
        edit, index = draw.choice(("delete", "double", "swap", "change", "cut")), draw.randrange(1, 29)
        changed = list(lines)
        if edit == "delete":
            del changed[index]
        elif edit == "double":
            changed.insert(index, changed[index])
        elif edit == "swap":
            changed[index], changed[index + 1] = changed[index + 1], changed[index]
        elif edit == "change":
            changed[index] = changed[index].replace('"actor":"1"', '"actor":"2"')
        else:
            del changed[index:]
        _, fault = audit_check.check_export(changed, None)
        assert fault is not None, edit
        assert fault.seq == index + 1 if edit != "double" else fault.seq in (index, index + 1)


async def exported(engine: Engine, clock: FakeClock, org: OrgId) -> list[str]:
    """Returns the lines of an NDJSON export of the whole log."""
    [*_, newest] = await entries_of(engine, clock, org)
    making = Export(org, "ndjson", 1, newest.seq)

    async def lines(tx: Tx) -> list[str]:
        export_lines = []
        while not making.is_done:
            export_lines += await making.batch(tx)
        return [*export_lines, await making.closing(tx)]

    return await engine.read(clock.now(), lines, org=org)


async def test_an_export_is_verified_by_itself_and_by_an_anchor(engine: Engine, clock: FakeClock) -> None:
    """Verifies an export by itself, and finds a rebuilt chain by an anchor stored elsewhere."""
    org = await written(engine, clock, 12)
    lines = await exported(engine, clock, org)
    entries = await entries_of(engine, clock, org)
    assert audit_check.check_export(lines, Anchor(7, entries[6].hash)) == (12, None)
    assert audit_check.check_export(lines[4:], None) == (12, None)
    rebuilt, previous = [], ""
    for line in lines[:-1]:
        entry, _ = shown_audit.entry_of_line(line)
        entry = replace(entry, actor="2") if entry.seq == 5 else entry
        entry = replace(entry, hash=entry.hash_after(previous))
        rebuilt.append(
            json.dumps({**json.loads(line), "actor": entry.actor, "previous": previous, "hash": entry.hash})
        )
        previous = entry.hash
    head = json.loads(lines[-1])["head"] | {"hash": previous}
    rebuilt.append(json.dumps({"head": head}))
    assert audit_check.check_export(rebuilt, None) == (12, None)
    assert audit_check.check_export(rebuilt, Anchor(7, entries[6].hash))[1] == Fault(7, "anchor")
    assert audit_check.check_export(lines, Anchor(13, entries[6].hash))[1] == Fault(13, "anchor")
    with pytest.raises(ValueError, match="not an entry"):
        audit_check.check_export(['{"seq": 1}'], None)


async def test_fifty_writers_at_once_leave_no_gap(engine: Engine, clock: FakeClock) -> None:
    """Chains entries of fifty concurrent writers without a gap, also when some roll back."""
    org = await written(engine, clock, 1)

    async def act(tx: Tx, *, number: int) -> None:
        await audit.record(tx, org, AuditEntry("person", "signed_in", str(number)))
        if number % 10 == 9:
            raise LookupError("rolled back")

    results = await asyncio.gather(
        *(engine.write(clock.now(), partial(act, number=number), org=org) for number in range(50)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, LookupError) for result in results) == 5
    entries = await entries_of(engine, clock, org)
    assert len(entries) == 46
    assert first_fault(entries, entries[-1]) is None


async def test_an_action_outside_the_table_is_refused(engine: Engine, clock: FakeClock) -> None:
    """Raises LookupError for an action outside the table."""
    org = await written(engine, clock, 1)
    entry = AuditEntry("service", "made_up")
    with pytest.raises(LookupError, match="made_up"):
        await engine.write(clock.now(), partial(audit.record, org=org, entry=entry), org=org)


@pytest.fixture
async def sqlite_engine(sqlite_url: str, clock: FakeClock) -> AsyncIterator[Engine]:
    """Yields an engine over a file whose triggers a test can drop, as its owner could."""
    opened = SqliteEngine(sqlite_path(sqlite_url), clock=clock)
    yield opened
    await opened.close()


async def checked(engine: Engine, clock: FakeClock, org: OrgId) -> list[audit_check.CheckStep]:
    """Runs the worker's check by tens until nothing is due, and returns its steps."""
    steps: list[Any] = []
    while org in await engine.read(clock.now(), partial(audit_heads.due, limit=5)):
        step = await engine.write(
            clock.now(), partial(audit_check.check_next, org=org, anchor_every=DAY, batch=10), org=org
        )
        steps.append(step)
    return steps


async def test_the_worker_checks_what_is_new_and_weekly_all(sqlite_engine: Engine, clock: FakeClock) -> None:
    """Checks new entries at once and all weekly; an edit is reported until the entry is restored."""
    org = await written(sqlite_engine, clock, 35)
    steps = await checked(sqlite_engine, clock, org)
    assert len(steps) == 4
    head = await sqlite_engine.read(clock.now(), partial(audit_heads.get, org=org), org=org)
    assert head is not None
    assert (head.verified_seq, head.fault) == (35, None)
    assert [step.anchor for step in steps if step.anchor] == [Anchor(35, head.hash)]
    assert await checked(sqlite_engine, clock, org) == []
    clock.tick(3600)
    assert [step.anchor for step in await checked(sqlite_engine, clock, org)] == [None]

    [before] = await sqlite_engine.read(clock.now(), partial(audit.after, org=org, seq=11, limit=1), org=org)
    await altered(sqlite_engine, clock, "UPDATE audit_log SET actor = '2' WHERE seq = 12")
    clock.tick(3600)
    assert [step.fault for step in await checked(sqlite_engine, clock, org)] == [None]
    clock.tick(7 * 86_400)
    assert [step.fault for step in await checked(sqlite_engine, clock, org)] == [None, Fault(12, "altered")]
    clock.tick(3600)
    assert [step.fault for step in await checked(sqlite_engine, clock, org)] == [None, None]
    head = await sqlite_engine.read(clock.now(), partial(audit_heads.get, org=org), org=org)
    assert head is not None
    assert (head.verified_seq, head.fault) == (11, Fault(12, "altered"))
    await altered(sqlite_engine, clock, f"UPDATE audit_log SET actor = '{before.actor}' WHERE seq = 12")
    clock.tick(3600)
    await checked(sqlite_engine, clock, org)
    head = await sqlite_engine.read(clock.now(), partial(audit_heads.get, org=org), org=org)
    assert head is not None
    assert (head.verified_seq, head.fault) == (35, None)


@pytest.mark.parametrize("copied", [10, 35])
async def test_a_double_at_the_end_of_a_batch_is_found(
    sqlite_engine: Engine, clock: FakeClock, copied: int
) -> None:
    """Finds a duplicated entry also at the boundary of two batches."""
    org = await written(sqlite_engine, clock, 35)
    columns = "org_id, seq, at, actor_kind, actor, action, object_kind, object_id, detail, hash"
    await altered(
        sqlite_engine,
        clock,
        f"INSERT INTO audit_log (id, {columns}) SELECT 'Z' || substr(id, 2), {columns} FROM audit_log"
        f" WHERE seq = {copied}",
    )
    steps = await checked(sqlite_engine, clock, org)
    assert steps[-1].fault == Fault(copied, "doubled")


async def test_the_worker_logs_and_counts_a_fault(sqlite_engine: Engine, clock: FakeClock) -> None:
    """Names the organization, the entry and the reason in the log, as docs/guides/operators.md says."""
    org = await written(sqlite_engine, clock, 3)
    await altered(sqlite_engine, clock, "UPDATE audit_log SET actor = '2' WHERE seq = 2")
    lines: list[str] = []
    log = Log(lines.append, clock, SecretRegister())
    ctx = TaskContext(engine=sqlite_engine, clock=clock, log=log, metrics=Metrics())
    await maintenance.check_audit_logs(ctx, DAY)
    [line] = [json.loads(line) for line in lines if "audit_broken" in line]
    assert (line["level"], line["org"], line["seq"], line["reason"]) == ("error", org, 2, "altered")
    assert ctx.metrics.value("steward_audit_broken_total") == 1


async def altered(engine: Engine, clock: FakeClock, statement: str) -> None:
    """Edits a row as the file's owner could: without the triggers that refuse it."""

    async def act(tx: Tx) -> None:
        for trigger in ("audit_log_no_update", "audit_log_no_delete"):
            await tx.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        assert await tx.execute(statement) == 1

    await engine.write(clock.now(), act)


def test_every_action_is_asserted_by_a_test_that_reads_the_log() -> None:
    """Checks that every action in the table is written by the code and asserted by a test of the log."""
    recorded, asserted = set(), set()
    for path in kept_files():
        name, text = name_of(path), path.read_text("utf-8") if path.suffix == ".py" else ""
        logged_actions = {action for action in ACTIONS if f'"{action}"' in text}
        if name.startswith("steward/") and name != "steward/model/audit.py":
            recorded |= logged_actions
        elif name.startswith("tests/") and _READS_THE_LOG.search(text):
            asserted |= logged_actions
    assert recorded == asserted == set(ACTIONS)
