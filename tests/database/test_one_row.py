"""What migration 0022 makes of an installation's rows, on both engines: a run and its facts become one."""

from functools import partial

from steward.database.automations import records as automations
from steward.database.engine.base import at
from steward.database.engine.migrate import migrate
from steward.database.runs import records as runs
from steward.model.ids import AutomationId, OrgId, RunId
from steward.model.run import EventRef, RunStatus, StartedBy
from steward.model.trigger import EventTrigger
from tests.database.earlier import make_earlier, open_engine
from tests.fake_clock import FakeClock

ORG, AUTOMATION, RUN = (
    OrgId(7),
    AutomationId("01JD3Z0AUTOMATION000000000"),
    RunId("01JD3Z0RUN0000000000000000"),
)
BARE = RunId("01JD3Z0RUN1111111111111111")  # whose facts somebody has taken away by hand
BEFORE = 21
ROWS = f"""
INSERT INTO automations (org_id, id, version, kind, template_id, template_version, store_label, name,
    name_folded, state, inputs, schedule, timezone, spread_minutes, trigger_json, connections, bindings,
    created_at, updated_at)
VALUES ({ORG}, '{AUTOMATION}', 3, 'template', 'hide', 2, 'Shop', 'Hide', 'hide', 'active', '{{}}',
    '{{"cadence":"manual"}}', 'Etc/UTC', 0, '{{"kind":"event","topics":["orders/create"]}}', '[]', '{{}}',
    1, 2);
INSERT INTO schedules (org_id, automation_id, slots_after, consecutive_failures, audited_until)
VALUES ({ORG}, '{AUTOMATION}', 0, 2, 0);
INSERT INTO lanes (org_id, automation_id, holder_run_id, dropped, dropped_at)
VALUES ({ORG}, '{AUTOMATION}', NULL, 5, 9);
INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq, leased_ms,
    queued_at, started_at, finished_at)
VALUES ({ORG}, '{RUN}', '{AUTOMATION}', 'live', 'succeeded', 'done', 4, 1, 1, 2, 40, 1000, 2000, 3000),
    ({ORG}, '{BARE}', '{AUTOMATION}', 'live', 'expired', 'done', 4, 1, 1, 0, 0, 1000, NULL, 3000);
INSERT INTO run_facts (org_id, run_id, automation_id, automation_name, automation_version, template_id,
    template_version, started_by, event_id, event_topic, event_received_at, created_by, message, summary,
    result)
VALUES ({ORG}, '{RUN}', '{AUTOMATION}', 'Hide', 3, 'hide', 2, 'event', '01JD3Z0EVENT00000000000000',
    'orders/create', 900, NULL, 'Done.', '{{"seen":1}}', '{{"hidden":2}}')
"""


async def test_what_an_installation_holds_stays(database_url: str, clock: FakeClock) -> None:
    """engine 2 "Migrations": a run reads as it did; interface 2.5: dropped events stay counted"""
    await make_earlier(database_url, BEFORE, ROWS)
    done = await migrate(database_url, clock.now())
    assert (done.before, done.applied[0]) == (BEFORE, "0022_one_row")
    engine = await open_engine(database_url, clock)
    run = await engine.read(clock.now(), partial(runs.get, org=ORG, run=RUN), org=ORG)
    bare = await engine.read(clock.now(), partial(runs.get, org=ORG, run=BARE), org=ORG)
    automation = await engine.read(
        clock.now(), partial(automations.get, org=ORG, automation=AUTOMATION), org=ORG
    )
    await engine.close()
    assert (run.status, run.started_by, run.last_seq) == (RunStatus.SUCCEEDED, StartedBy.EVENT, 2)
    assert run.event == EventRef("01JD3Z0EVENT00000000000000", "orders/create", at(900))
    assert (run.automation_name, run.automation_version, run.template_version) == ("Hide", 3, 2)
    assert (run.message, run.summary, run.result) == ("Done.", {"seen": 1}, {"hidden": 2})
    assert (bare.status, bare.automation_name, bare.summary) == (RunStatus.EXPIRED, "", None)
    assert isinstance(automation.trigger, EventTrigger)
    assert (automation.trigger.events_dropped, automation.trigger.events_dropped_at) == (5, at(9))
