"""What migration 0027 takes out of the record of who did what, on both engines."""

import json

from steward.database.engine.migrate import migrate
from tests.cli.planted import tables_of
from tests.database.earlier import make_earlier
from tests.fake_clock import FakeClock

DETAILS = {
    "01JD3Z0RECORD000000000000A": ("organization_changed", {"name": "Quellenhof", "zone": "UTC"}),
    "01JD3Z0RECORD000000000000B": ("organization_changed", {"zone": "UTC"}),
    "01JD3Z0RECORD000000000000C": ("role_changed", {"role": "owner", "name": "kept"}),
}
ROWS = "".join(
    "INSERT INTO audit_log (org_id, id, at, actor_kind, actor, action, object_kind, object_id, detail)"
    f" VALUES (7, '{number}', 1000, 'person', '3', '{action}', 'organization', '7', '{json.dumps(detail)}');"
    for number, (action, detail) in DETAILS.items()
)


async def test_names_of_organisations_leave_the_record(database_url: str, clock: FakeClock) -> None:
    """GDPR 17: the record stays when an organisation is erased, and is append-only afterwards as before"""
    await make_earlier(database_url, 22, ROWS)
    await migrate(database_url, clock.now())
    kept = {row["id"]: json.loads(row["detail"]) for row in (await tables_of(database_url))["audit_log"]}
    assert kept == {
        "01JD3Z0RECORD000000000000A": {"name": True, "zone": "UTC"},
        "01JD3Z0RECORD000000000000B": {"zone": "UTC"},
        "01JD3Z0RECORD000000000000C": {"role": "owner", "name": "kept"},
    }
