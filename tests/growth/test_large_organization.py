"""No list costs more in an organization with many automations, connections, people and closings."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any, cast

from steward.database.automations import lists
from steward.database.automations.lists import AutomationFilter, Sort
from steward.database.engine.base import Engine
from steward.model.automation import Automation, AutomationKind, AutomationState
from steward.model.ids import IntegrationId, OrgId
from steward.model.trigger import TriggerKind
from tests.authz.two_organizations import PREFIX
from tests.fake_clock import FakeClock
from tests.growth.organization import LargeOrganization
from tests.growth.test_reads import READS, SHARE, SLACK, Query, Reads, label, open_reads

# Both have more automations that are not archived than a page reads.
FEW, MANY = lists.MAX_SCANNED + 200, 2 * lists.MAX_SCANNED + 400
# What reads these rows. Templates count the connections of each kind, and a search compares 5,000 names.
PATHS = {
    PREFIX,
    f"{PREFIX}/connections",
    f"{PREFIX}/occurrences",
    f"{PREFIX}/stores",
    "/app/closed-periods",
    "/app/closings",
    "/app/connections",
    "/app/holidays/countries",
    "/app/overview",
    "/app/people",
}


async def _costs(reads: Reads) -> dict[tuple[str, str], int]:
    """Returns what each call reads; of lists of automations, with each filter in one of the orders."""
    costs, sorts = {}, cycle(Sort)
    for operation in READS:
        for query in reads.queries(operation) if operation.path in PATHS else ():
            if "automation_id" not in query:
                sort: Query = {"sort": next(sorts).value} if operation.path == PREFIX else {}
                costs[label(operation, query | sort)] = await reads.cost(operation, query | sort)
    return costs


def _filters(reads: Reads) -> Iterator[tuple[AutomationFilter, Callable[[Automation], bool]]]:
    """Yields filters, and what an automation that matches is."""
    ids, history = reads.two.ours, reads.history
    store, since = IntegrationId(ids.integration_id), history.instant(FEW - 100)
    for state in AutomationState:
        yield AutomationFilter(states=[state]), partial(_has, "state", state)
    for kind in AutomationKind:
        yield AutomationFilter(kind=kind), partial(_has, "kind", kind)
    for trigger in TriggerKind:
        yield AutomationFilter(trigger=trigger), lambda each, trigger=trigger: each.trigger.kind == trigger
    for source in ("workflow_tool", "store_flow"):
        yield AutomationFilter(source=source), partial(_has, "source", source)
    for template in (ids.template_id, "grown"):
        yield AutomationFilter(template_id=template), partial(_has, "template_id", template)
    for platform in ("woocommerce", "shopify"):
        yield AutomationFilter(platform=platform), partial(_has, "platform", platform)
    yield (
        AutomationFilter(integration_id=store),
        lambda each: store in (each.integration_id, *(bound.integration_id for bound in each.connections)),
    )
    yield AutomationFilter(q="N 11"), lambda each: "n 11" in each.name.casefold()
    yield AutomationFilter(updated_since=since), lambda each: each.updated_at >= since
    yield (
        AutomationFilter(states=[AutomationState.ACTIVE], template_id="grown", q="9"),
        lambda each: each.state == "active" and each.template_id == "grown" and "9" in each.name,
    )


def _has(name: str, value: object, automation: Automation) -> bool:
    return bool(getattr(automation, name) == value)


async def _pages(engine: Engine, reads: Reads, query: AutomationFilter, sort: Sort) -> list[Automation]:
    automations: list[Automation] = []
    org, now = OrgId(reads.two.ours.organization_id), reads.two.service.clock.now()
    after: Any = None
    while True:
        act = partial(lists.find, org=org, query=query, sort=sort, limit=200, after=after)
        page = await engine.read(now, act, org=org)
        assert len(page.automations) <= 200
        automations += page.automations
        if page.next_key is None:
            return automations
        after = page.next_key


async def _check_filters(engine: Engine, reads: Reads) -> None:
    """Each filter lists in its order what the whole list has of it, however short its pages are."""
    everything = {sort: await _pages(engine, reads, AutomationFilter(), sort) for sort in Sort}
    for sort, automations in everything.items():
        keys = [lists.sort_key(automation, sort) for automation in automations]
        ordered = sorted(keys, key=lambda key: (key[0] is None, key[0] or 0, key[1]))
        assert keys == (ordered[::-1] if sort is Sort.NEWEST else ordered)
        assert len(set(keys)) == len(keys) > FEW
    for (query, is_match), sort in zip(_filters(reads), cycle(Sort), strict=False):
        expected = [automation.id for automation in everything[sort] if is_match(automation)]
        listed = [automation.id for automation in await _pages(engine, reads, query, sort)]
        assert listed == expected != [], (sort, query)


async def _are_all_counted(reads: Reads) -> bool:
    """Whether the list of connections says that every automation was counted."""
    response = await reads.callers[True].get("/app/connections", limit="200")
    [is_part] = {connection["used_by_more"] for connection in response.data["connections"]}
    return not is_part


async def test_a_large_organization_makes_no_list_dearer(
    engine: Engine, clock: FakeClock, database_url: str
) -> None:
    """Filters list what they say, and each list costs the same with more automations and the like."""
    reads = await open_reads(engine, clock, database_url, MANY)
    service = reads.two.service
    service.context = replace(service.context, engine=cast("Engine", reads.engine))
    service.restart()
    organization = LargeOrganization(reads.history)
    assert await _are_all_counted(reads)
    await organization.write(database_url, range(FEW))
    assert not await _are_all_counted(reads)
    await _check_filters(engine, reads)
    few = await _costs(reads)
    await organization.write(database_url, range(FEW, MANY))
    many = await _costs(reads)
    reads.engine.close_own()
    slack = SLACK[engine.dialect]
    dearer = {call: (few[call], cost) for call, cost in many.items() if cost > SHARE * few[call] + slack}
    assert not dearer, "\n".join(f"{call}: {costs}" for call, costs in dearer.items())
    await service.close()
