"""What migration 0023 makes of inputs that an earlier release filled in, on both engines."""

from functools import partial

from steward.database.automations import records as automations
from steward.database.engine.migrate import migrate
from steward.model.ids import AutomationId, OrgId
from steward.templates.tag_products_by_rule import TEMPLATE
from tests.database.earlier import make_earlier, open_engine
from tests.fake_clock import FakeClock

ORG = OrgId(7)
INPUTS = {
    "01JD3Z0AUTOMATION000000000": '{"tag":"new","when":"new","days":30,"vendors":[],"types":[],"limit":500}',
    "01JD3Z0AUTOMATION111111111": '{"tag":"a","when":"vendor","vendors":["\\",\\"types\\":[]"],"types":[]}',
}
ROWS = "".join(
    "INSERT INTO automations (org_id, id, version, kind, template_id, template_version, store_label, name,"
    " name_folded, state, inputs, schedule, timezone, spread_minutes, trigger_json, connections, bindings,"
    f" created_at, updated_at) VALUES ({ORG}, '{number}', 3, 'template', 'tag-products-by-rule', 1, 'Shop',"
    f""" 'Tag', 'tag', 'active', '{inputs}', '{{"cadence":"manual"}}', 'Etc/UTC', 0,"""
    """ '{"kind":"schedule"}', '[]', '{}', 1, 2);"""
    f" INSERT INTO schedules (org_id, automation_id, slots_after, consecutive_failures, audited_until)"
    f" VALUES ({ORG}, '{number}', 0, 0, 0);"
    for number, inputs in INPUTS.items()
)


async def test_defaults_that_the_schema_refuses_are_taken_out(database_url: str, clock: FakeClock) -> None:
    """Inputs as answered can be sent back, also those of an automation made long ago"""
    await make_earlier(database_url, 22, ROWS)
    await migrate(database_url, clock.now())
    engine = await open_engine(database_url, clock)
    kept = {
        number: await engine.read(
            clock.now(), partial(automations.get, org=ORG, automation=AutomationId(number)), org=ORG
        )
        for number in INPUTS
    }
    await engine.close()
    new, vendor = (one.inputs for one in kept.values())
    assert new == {"tag": "new", "when": "new", "days": 30, "limit": 500}
    assert vendor == {"tag": "a", "when": "vendor", "vendors": ['","types":[]']}
    assert TEMPLATE.check_inputs(new).errors == TEMPLATE.check_inputs(vendor).errors == {}
