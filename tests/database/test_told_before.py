"""What a database of an earlier release knows of a store's objects once it is migrated, on both engines."""

from datetime import timedelta
from functools import partial

from steward.connectors.base.deliveries import Derived, Event
from steward.connectors.woocommerce.topics import TOPICS
from steward.database.engine.base import at
from steward.database.engine.migrate import migrate
from steward.database.events import last_seen
from steward.events import telling
from steward.model.ids import IntegrationId, OrgId
from tests.database.earlier import make_earlier, open_engine
from tests.fake_clock import FakeClock

ORG, STORE, OTHER = OrgId(7), IntegrationId(3), IntegrationId(4)
DELIVERED = 1_790_000_000_000
ROWS = "".join(
    "INSERT INTO last_seen (org_id, integration_id, object_type, object_id, fields, modified_at, seen_at)"
    f" VALUES ({ORG}, {store}, 'order', '{number}', '{{\"paid\":true}}', {modified}, {DELIVERED});"
    for store, number, modified in ((STORE, 71, DELIVERED), (STORE, 72, "NULL"), (OTHER, 71, DELIVERED))
) + "".join(
    "INSERT INTO topics_heard (org_id, integration_id, topic, state)"
    f" VALUES ({ORG}, {STORE}, '{topic}', 'yes');"
    for topic in ("orders/create", "orders/updated")
)


async def test_what_was_delivered_before_an_upgrade_is_neither_lost_nor_told_again(
    database_url: str, clock: FakeClock
) -> None:
    """Catch-up reads the last minutes again: what was delivered starts nothing, a change after it does"""
    await make_earlier(database_url, 25, ROWS)
    await migrate(database_url, clock.now())
    engine = await open_engine(database_url, clock)
    keys = [("order", "71"), ("order", "72")]
    of_store = {
        store: await engine.read(
            clock.now(), partial(last_seen.of, org=ORG, integration=store, keys=keys), org=ORG
        )
        for store in (STORE, OTHER)
    }
    await engine.close()
    known = of_store[STORE]
    assert (known["order", "72"].told, of_store[OTHER]["order", "71"].told) == ({}, {})

    def fresh(native: str, topic: str, later: timedelta = timedelta()) -> tuple[str, ...]:
        made = at(DELIVERED)
        event = Event(native, "order", "71", modified_at=made + later, created_at=made)
        heard = dict.fromkeys(("orders/create", "orders/updated"))
        return telling.fresh_topics(
            event, Derived((topic,)), known["order", "71"], heard=heard, offered=TOPICS
        )

    assert fresh("order.created", "orders/create") == ()
    assert fresh("order.updated", "orders/updated") == ()
    assert fresh("order.updated", "orders/updated", timedelta(seconds=1)) == ("orders/updated",)
