"""The overview's numbers, open failures and strips equal the stored runs and are cheap to read."""

import json
import os
import random
from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from time import process_time
from typing import Any
from zoneinfo import ZoneInfo

from steward.database.engine.base import PerEngine, Tx, from_ms, ms
from steward.database.runs import totals
from steward.model.ids import OrgId, new_id
from steward.run_queue import totals as run_totals
from tests.api.test_automations import AutomationsApi, desk
from tests.people import Caller
from tests.service import Service

__all__ = ["desk"]

OVERVIEW, STRIPS = "/app/overview", "/app/automations/strips"
DAY = timedelta(days=1)
NAMES = ("succeeded", "waiting", "failed", "stopped", "changes_made", "left_alone")
ENDS = ("succeeded", "failed", "expired", "refused", "cancelled")
KEYS = {"succeeded": "succeeded", "failed": "failed", "expired": "failed"}
_INTO = (
    "INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq,"
    " leased_ms, queued_at, finished_at, automation_name, automation_version, template_id,"
    " template_version, started_by, summary)"
)
_RUN = (
    f"{_INTO} VALUES (:org, :id, :automation, :mode, :status, :queue, 0, 0, 1, 0, 0, :queued, :finished,"
    " 'Hide', 1, 'hide-out-of-stock-products', 1, 'hand', :summary)"
)
_MANY_VALUES = (
    " 'live', 'succeeded', 'done', 0, 0, 1, 0, 0, CAST(:first AS bigint) + n * :step,"
    " CAST(:first AS bigint) + n * :step, 'Hide', 1, 'hide-out-of-stock-products', 1, 'schedule', :summary"
)
_MANY = PerEngine(
    "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :number - 1) "
    f"{_INTO} SELECT :org, printf('01JD3Z0QH8N2Y5V7W9X1%06d', n), :automation,{_MANY_VALUES} FROM numbers",
    f"{_INTO} SELECT :org, '01JD3Z0QH8N2Y5V7W9X1' || lpad(n::text, 6, '0'), :automation,{_MANY_VALUES}"
    " FROM generate_series(0, :number - 1) AS n",
)
# Counts are stored by quarters of an hour, so that reading costs the same whatever the number of runs.
MANY = int(os.environ.get("OVERVIEW_RUNS", "20000"))


def summary(applied: int, conflicts: int = 0, unknown: int = 0) -> str:
    """Returns a run's summary with these counts."""
    return json.dumps({"counts": {"applied": applied, "conflicts": conflicts, "unknown": unknown}})


async def automation(desk: AutomationsApi, name: str) -> str:
    """Creates an automation that runs by hand and returns its id."""
    automation_id: str = (await desk.create(name=name, schedule={"cadence": "manual"}))["id"]
    return automation_id


async def put(
    service: Service,
    org: OrgId,
    automation: str,
    status: str,
    queued: datetime,
    counts: str | None = None,
    mode: str = "live",
) -> str:
    """Stores a run and returns its id."""
    id_ = new_id(queued)
    row = {
        "org": org,
        "id": id_,
        "automation": automation,
        "mode": mode,
        "status": status,
        "queue": "done" if status in ENDS else "blocked" if status == "queued" else "parked",
        "queued": queued,
        "finished": queued if status in ENDS else None,
        "summary": counts,
    }

    async def insert(tx: Tx) -> None:
        await tx.execute(_RUN, row)

    await service.write(insert, org=org)
    return id_


async def end(service: Service, org: OrgId, run: str, status: str, counts: str) -> None:
    """Ends a stored run with this status and these counts."""

    async def update(tx: Tx) -> None:
        await tx.execute(
            "UPDATE runs SET status = :status, queue = 'done', finished_at = :now, summary = :counts"
            " WHERE org_id = :org AND id = :run",
            {"org": org, "run": run, "status": status, "counts": counts, "now": tx.now},
        )

    await service.write(update, org=org)


async def expected(service: Service, org: OrgId, zone: str) -> list[dict[str, int]]:
    """Returns the counts of a zone's last seven days, computed run by run."""

    async def read(tx: Tx) -> list[Any]:
        return await tx.all("SELECT * FROM runs WHERE org_id = :org AND mode = 'live'", {"org": org})

    now = service.clock.now()
    today = now.astimezone(ZoneInfo(zone)).date()
    days: dict[str, Counter[str]] = {(today - DAY * ago).isoformat(): Counter() for ago in range(6, -1, -1)}
    for row in await service.context.engine.read(now, read, org=org):
        day = days.get(from_ms(row["queued_at"]).astimezone(ZoneInfo(zone)).date().isoformat())
        if day is None:
            continue
        waits = row["status"] in ("queued", "waiting_approval")
        day["waiting" if waits else KEYS.get(row["status"], "stopped")] += 1
        counts = json.loads(row["summary"])["counts"] if row["summary"] else {}
        day["changes_made"] += counts.get("applied", 0)
        day["left_alone"] += counts.get("conflicts", 0)
    return [{name: counted[name] for name in NAMES} for counted in days.values()]


async def listed_days(web: Caller, zone: str) -> list[dict[str, int]]:
    """Returns the counts of the last seven days as the overview answers them."""
    response = await web.get(OVERVIEW, timezone=zone)
    assert response.status == 200, response.body
    data = response.data
    assert data["complete"]
    return [
        {name: value for name, value in day.items() if name not in ("day", "from", "to")}
        for day in data["days"]
    ]


async def test_numbers_are_those_of_the_runs_in_random_histories(desk: AutomationsApi) -> None:
    """Answers the counts of random histories in three zones while runs end, writes settle and time passes."""
    service, owner = desk.service, await desk.service.web("owner")
    org = service.members["owner"].org
    ids = [await automation(desk, str(number)) for number in range(12)]
    for seed in range(4):
        chance = random.Random(seed)
        waiting: list[str] = []
        await service.write(partial(totals.forget, org=org, before=service.clock.now()), org=org)
        for number in range(60):
            queued = service.clock.now() - DAY * chance.random() * 9
            status = chance.choice((*ENDS, "queued", "succeeded"))
            automation_id = ids[seed * 3 + number // 20]
            counts = summary(chance.randrange(5), chance.randrange(2), int(chance.randrange(8) == 0))
            mode = chance.choice(("live", "live", "live", "test"))
            run = await put(service, org, automation_id, status, queued, counts, mode)
            if status == "queued" or '"unknown": 1' in counts:
                waiting.append(run)
        for _ in range(4):
            for zone in ("Europe/Berlin", "Asia/Kolkata", "America/St_Johns"):
                assert await listed_days(owner, zone) == await expected(service, org, zone), (seed, zone)
            for run in [run for run in waiting if chance.random() < 0.4]:
                await end(service, org, run, chance.choice(ENDS), summary(chance.randrange(9)))
                waiting.remove(run)
            assert await listed_days(owner, "UTC") == await expected(service, org, "UTC")
            service.clock.tick(60 * chance.randrange(25))
            await put(service, org, automation_id, "failed", service.clock.now() - timedelta(minutes=1))
        strip = (await owner.get(STRIPS, automation_ids=automation_id)).data["strips"][0]
        assert len(strip["runs"]) <= 30
        assert [run["at"] for run in strip["runs"]] == sorted(run["at"] for run in strip["runs"])


async def test_many_runs_are_added_up_in_passes_and_read_cheaply(desk: AutomationsApi) -> None:
    """Adds a week of runs up in bounded passes and reads the sums in at most 10 ms of CPU.

    See docs/design/web.md#overview.
    """
    service, owner = desk.service, await desk.service.web("owner")
    org = service.members["owner"].org
    automation_id = await automation(desk, "Many")
    week = 7 * 24 * 3_600_000 - 1
    args = {
        "number": MANY,
        "step": week // MANY,
        "first": ms(service.clock.now()) - week,
        "summary": summary(2),
    }

    async def fill(tx: Tx) -> None:
        await tx.execute(_MANY, {"org": org, "automation": automation_id, **args})

    await service.write(fill, org=org)
    engine, clock = service.context.engine, service.clock
    assert await run_totals.add_up_ended(engine, clock, org)
    bounds = [totals.quarter_of(clock.now()) - DAY * ago for ago in range(7, -2, -1)]
    costs = []
    for _ in range(5):
        began = process_time()
        days = await engine.read(clock.now(), partial(totals.by_days, org=org, bounds=bounds), org=org)
        costs.append(process_time() - began)
    assert sum(day.succeeded for day in days) == MANY
    assert sum(day.applied for day in days) == 2 * MANY
    assert min(costs) <= 0.010, costs
    strip = (await owner.get(STRIPS, automation_ids=automation_id)).data["strips"][0]
    assert (len(strip["runs"]), strip["changes_made"]) == (30, 2 * MANY)


async def test_a_failure_goes_with_a_newer_success_or_approval(desk: AutomationsApi) -> None:
    """Shows one open failure for each automation until a newer run succeeds or waits for approval."""
    service, owner = desk.service, await desk.service.web("owner")
    org = service.members["owner"].org
    now = service.clock.now()
    ids = {name: await automation(desk, name) for name in ("fails", "mended", "waits", "skipped")}

    async def began(tx: Tx) -> None:
        await tx.execute(
            "UPDATE schedules SET last_run_at = :now WHERE org_id = :org", {"org": org, "now": now}
        )

    await service.write(began, org=org)
    for name, id_ in ids.items():
        for hours in (3, 2):
            await put(service, org, id_, "failed", now - timedelta(hours=hours))
        newer = {"mended": "succeeded", "waits": "waiting_approval", "skipped": "refused"}.get(name)
        if newer:
            await put(service, org, id_, newer, now - timedelta(hours=1))
    failures = (await owner.get(OVERVIEW)).data["failures"]
    assert {failure["run"]["automation_id"] for failure in failures} == {ids["fails"], ids["skipped"]}
    assert all(each_failure["run"]["status"] == "failed" for each_failure in failures)


async def test_many_expired_runs_of_one_automation_hide_no_failure_of_another(desk: AutomationsApi) -> None:
    """Shows an old open failure although 201 newer runs of another automation have expired."""
    service, owner = desk.service, await desk.service.web("owner")
    org, now = service.members["owner"].org, service.clock.now()
    weekly, hourly = await automation(desk, "weekly"), await automation(desk, "hourly")
    await put(service, org, weekly, "expired", now - 7 * DAY)
    for minutes in range(201):
        await put(service, org, hourly, "expired", now - timedelta(minutes=minutes))
    failures = (await owner.get(OVERVIEW)).data["failures"]
    assert [failure["run"]["automation_id"] for failure in failures] == [hourly, weekly]


async def test_other_organizations_count_nothing_of_it(desk: AutomationsApi) -> None:
    """Leaves another organization's runs out of numbers and strips."""
    service, owner = desk.service, await desk.service.web("owner")
    stranger = await service.web("stranger")
    automation_id = await automation(desk, "Ours")
    await put(service, service.members["owner"].org, automation_id, "failed", service.clock.now() - DAY)
    assert sum(day["failed"] for day in (await owner.get(OVERVIEW)).data["days"]) == 1
    assert sum(day["failed"] for day in (await stranger.get(OVERVIEW)).data["days"]) == 0
    assert (await stranger.get(STRIPS, automation_ids=automation_id)).data["strips"] == []


async def test_a_zone_and_ids_are_checked(desk: AutomationsApi) -> None:
    """Refuses an unknown zone, no automations, and 51 of them; answers 50."""
    service, owner = desk.service, await desk.service.web("owner")
    assert (await owner.get(OVERVIEW, timezone="Mars/Base")).status == 422
    ids = ",".join(new_id(service.clock.now()) for _ in range(51))
    assert (await owner.get(STRIPS, automation_ids=ids)).status == 422
    assert (await owner.get(STRIPS, automation_ids=ids.rpartition(",")[0])).status == 200
    assert (await owner.get(STRIPS)).status == 422
