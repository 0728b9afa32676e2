"""Tests creating an automation: its state, its first run and every refusal.

See docs/design/api/automations.md#states and docs/design/api/automations.md#requests.
"""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from steward.automations import creation, setup
from steward.automations.checks import LARGEST_INPUTS, MAX_CONNECTIONS, RequestedTrigger
from steward.database.automations import history
from steward.database.automations.history import HistoryAction
from steward.model.account import Creator
from steward.model.automation import AutomationState
from steward.model.connection import ConnectionState
from steward.model.ids import IntegrationId
from steward.model.refusals import KeyReused, NotConnected, ValidationFailed
from steward.model.schedule import MANUAL, Cadence
from steward.model.trigger import EventTrigger, ScheduleTrigger, TriggerKind
from steward.scheduling.spread import spread_minutes
from tests.automations.world import BY_HAND, DAILY, HOURLY, ON_ORDERS, World, reads

HOUR = datetime(2026, 5, 1, 8, 0, tzinfo=UTC)


async def refused(world: World, **fields: Any) -> dict[str, list[str]]:
    """Returns the errors that a create is refused with."""
    with pytest.raises(ValidationFailed) as raised:
        await world.create(**fields)
    return {path: list(words) for path, words in (raised.value.errors or {}).items()}


async def test_a_schedule_makes_it_active_at_once(world: World) -> None:
    """A cadence other than manual makes the automation active. See docs/design/api/automations.md#states."""
    automation = await world.create()
    assert (automation.state, automation.version) == (AutomationState.ACTIVE, 1)
    assert automation.next_run_at == HOUR.replace(minute=automation.spread_minutes)
    assert automation == await world.read(automation)


async def test_a_manual_one_is_a_draft_run_by_hand(world: World) -> None:
    """A manual cadence makes a draft. See docs/design/api/automations.md#states."""
    automation = await world.create(schedule=BY_HAND)
    assert (automation.state, automation.next_run_at, automation.schedule) == (
        AutomationState.DRAFT,
        None,
        MANUAL,
    )


async def test_an_event_trigger_is_a_draft_until_resumed(world: World) -> None:
    """An event trigger makes a draft until it is resumed. See docs/design/api/automations.md#states."""
    automation = await world.create(schedule=BY_HAND, trigger=ON_ORDERS)
    assert (automation.state, automation.trigger) == (AutomationState.DRAFT, EventTrigger(("orders/create",)))
    assert automation == await world.read(automation)


async def test_the_record_says_who_made_it_and_how(world: World) -> None:
    """`created_by`, `created_via` and `api_client_id` name the caller.

    Interface statements: 2.3 created_by, created_via, api_client_id.
    """
    automation = await world.create()
    assert automation.maker == Creator(world.owner.person, world.owner.via, "st_TEST")
    find = partial(history.find, org=automation.org, automation=automation.id, limit=10)
    [line] = await world.write(find)
    assert (line.action, line.version, line.person) == (HistoryAction.CREATED, 1, world.owner.person)


async def test_spread_follows_the_id_and_the_setting(world: World) -> None:
    """The spread is derived once from the id and STEWARD_SPREAD_MAX.

    See docs/design/schedule.md#slot-rules.
    """
    automation = await world.create()
    assert automation.spread_minutes == spread_minutes(automation.id, 9)
    world.rules = replace(world.rules, spread_max=0)
    assert (await world.create()).spread_minutes == 0


async def test_inputs_are_returned_with_their_defaults(world: World) -> None:
    """The response contains the inputs with their defaults. See docs/design/api/automations.md#requests."""
    automation = await world.create(inputs={"note": "x"})
    assert automation.inputs == {"note": "x", "threshold": 5}


@pytest.mark.parametrize(
    ("asked", "expected"), [("Asia/Kathmandu", "Asia/Kathmandu"), (None, "Europe/Berlin")]
)
async def test_the_timezone_is_the_stores_unless_given(
    world: World, asked: str | None, expected: str
) -> None:
    """The timezone defaults to the store's. See docs/design/schedule.md#zones."""
    assert (await world.create(timezone=asked)).timezone == expected


async def test_without_a_stores_zone_it_is_the_organizations(world: World) -> None:
    """Without a zone of the store the organization's is used. See docs/design/schedule.md#zones."""
    assert (await world.create(timezone=None, integration_id=world.other_store)).timezone == "Europe/Vienna"


async def test_a_slot_within_its_spread_is_not_the_first_one(world: World) -> None:
    """A time of today that has passed does not run today because of its spread.

    See docs/design/schedule.md#slot-rules.
    """
    await world.at("2026-05-01T08:00")
    automation = await world.create()
    assert automation.next_run_at is not None
    assert automation.next_run_at.date().isoformat() == "2026-05-02"


async def test_a_template_without_a_platform_lists_connections_in_order(world: World) -> None:
    """A template without a platform lists its connections in order and is labelled by the first.

    See docs/design/api/automations.md#requests.
    """
    bound = reads((world.other_store, "woocommerce"), (world.store, "woocommerce"))
    automation = await world.create(template_id="stores-report", integration_id=None, connections=bound)
    assert (automation.connections, automation.store_label) == (bound, "Second, Corner")
    assert (automation.platform, automation.integration_id) == (None, None)
    assert automation == await world.read(automation)


async def test_all_faults_are_reported_together(world: World) -> None:
    """Errors of all fields are answered together. See docs/design/api/conventions.md#envelope."""
    record = await refused(
        world,
        inputs={"threshold": 101, "more": 1},
        schedule={"cadence": "weekly", "run_at": "24:00"},
        timezone="Mars",
        integration_id=world.foreign_store,
    )
    assert sorted(record) == [
        "inputs.more",
        "inputs.threshold",
        "integration_id",
        "schedule.day_of_week",
        "schedule.run_at",
        "timezone",
    ]


@pytest.mark.parametrize("template_id", ["no-such", "imported-workflow"])
async def test_only_offered_templates_can_be_set_up(world: World, template_id: str) -> None:
    """A withdrawn or unknown template is refused. See docs/design/api/automations.md#requests."""
    assert list(await refused(world, template_id=template_id)) == ["template_id"]


async def test_a_day_that_is_over_is_refused(world: World) -> None:
    """A `once` whose time is not ahead is refused. See docs/design/schedule.md#slot-rules."""
    once = {"cadence": "once", "run_at": "06:00", "date": "2026-05-01"}
    assert list(await refused(world, schedule=once)) == ["schedule.date"]
    automation = await world.create(schedule={**once, "run_at": "06:01"})
    assert automation.next_run_at is not None


async def test_an_event_trigger_has_no_schedule(world: World) -> None:
    """An event trigger refuses a cadence other than manual. See docs/design/schedule.md#slot-rules."""
    assert list(await refused(world, trigger=ON_ORDERS)) == ["schedule.cadence"]


TOPICS = tuple(f"orders/t{number}" for number in range(9))


@pytest.mark.parametrize(
    ("topics", "paths"),
    [
        ((), ["trigger.topics"]),
        (("orders/create", "orders/create"), ["trigger.topics"]),
        (("orders/updated",), ["trigger.topics"]),  # offered by the template, not sent by the store
        (TOPICS, ["trigger.topics"]),
        (("x" * 81,), ["trigger.topics.0"]),
    ],
)
async def test_topics_are_few_unique_and_sent_by_the_store(
    world: World, topics: tuple[str, ...], paths: list[str]
) -> None:
    """Topics must be unique, within the limit, and of the store's platform.

    See docs/design/api/automations.md#trigger and docs/design/api/automations.md#requests.
    """
    trigger = RequestedTrigger(TriggerKind.EVENT, topics)
    assert list(await refused(world, schedule=BY_HAND, trigger=trigger)) == paths


async def test_a_template_without_event_trigger_refuses_one(world: World) -> None:
    """A template without event triggers refuses one. See docs/design/api/connections.md#templates."""
    record = await refused(
        world,
        template_id="stores-report",
        integration_id=None,
        connections=reads((world.store, "woocommerce")),
        schedule=BY_HAND,
        trigger=ON_ORDERS,
    )
    assert list(record) == ["trigger.kind"]


@pytest.mark.parametrize(
    ("which", "path"),
    [("none", "integration_id"), ("foreign", "integration_id"), ("teams", "integration_id")],
)
async def test_the_store_is_the_organizations_and_of_its_platform(
    world: World, which: str, path: str
) -> None:
    """`integration_id` must be a store of the organization and of the template's platform.

    See docs/design/api/automations.md#requests.
    """
    ids = {"none": None, "foreign": world.foreign_store, "teams": world.teams}
    assert list(await refused(world, integration_id=ids[which])) == [path]


async def test_foreign_and_absent_stores_are_refused_in_the_same_way(world: World) -> None:
    """Another organization's store and an absent one give the same error.

    See docs/design/security.md#roles.
    """
    foreign = await refused(world, integration_id=world.foreign_store)
    absent = await refused(world, integration_id=IntegrationId(9_999_999))
    assert foreign == absent


async def test_a_store_that_is_not_connected_is_named(world: World) -> None:
    """A known store that is not connected is refused by name. See docs/design/api/automations.md#requests."""
    await world.set_connection(world.store, ConnectionState.NEEDS_RECONNECTING)
    with pytest.raises(NotConnected, match="Corner") as raised:
        await world.create()
    assert list(raised.value.errors or {}) == ["integration_id"]


async def test_connections_in_inputs_are_checked_on_their_path(world: World) -> None:
    """A wrong connection in the inputs is refused at its path."""
    record = await refused(world, inputs={"teams": {"integration_id": world.store}})
    assert list(record) == ["inputs.teams.integration_id"]
    await world.set_connection(world.teams, ConnectionState.DISCONNECTED)
    with pytest.raises(NotConnected, match="Alerts") as raised:
        await world.create(inputs={"teams": {"integration_id": world.teams}})
    assert list(raised.value.errors or {}) == ["inputs.teams.integration_id"]


@pytest.mark.parametrize(
    "case", ["none", "too many", "twice", "foreign", "wrong kind", "kind it does not read"]
)
async def test_connections_fit_what_the_template_reads(world: World, case: str) -> None:
    """`connections` accepts only kinds that the template reads.

    See docs/design/api/automations.md#requests.
    """
    item = (world.store, "woocommerce")
    third = await world.connect("woocommerce", "Third")
    bound = {
        "none": [],
        "too many": [item, (world.other_store, "woocommerce"), (third, "woocommerce")],
        "twice": [item, item],
        "foreign": [item, (world.foreign_store, "woocommerce")],
        "wrong kind": [(world.store, "shopify")],
        "kind it does not read": [item, (world.teams, "teams")],
    }[case]
    record = await refused(world, template_id="stores-report", integration_id=None, connections=reads(*bound))
    assert list(record) == ["connections"]


@pytest.mark.parametrize(("count", "is_right"), [(MAX_CONNECTIONS, True), (MAX_CONNECTIONS + 1, False)])
async def test_at_most_twenty_connections(world: World, count: int, is_right: bool) -> None:
    """Twenty connections are accepted, 21 refused. See docs/design/api/automations.md#requests."""
    sheets = [(await world.connect("spreadsheet", f"S{n}"), "spreadsheet") for n in range(count)]
    fields = {"template_id": "sheets-report", "integration_id": None, "connections": reads(*sheets)}
    if is_right:
        assert len((await world.create(**fields)).connections) == count
    else:
        assert list(await refused(world, **fields)) == ["connections"]


async def test_connections_belong_to_what_runs_on_nothing(world: World) -> None:
    """A template with a platform refuses `connections`, one without refuses `integration_id`.

    See docs/design/api/automations.md#requests.
    """
    bound = reads((world.store, "woocommerce"))
    assert list(await refused(world, connections=bound)) == ["connections"]
    record = await refused(world, template_id="stores-report", connections=bound)
    assert list(record) == ["integration_id"]


@pytest.mark.parametrize(("more", "is_right"), [(0, True), (1, False)])
async def test_inputs_have_at_most_256_kib(world: World, more: int, is_right: bool) -> None:
    """Inputs of 256 KiB are accepted, one byte more is refused.

    See docs/design/api/automations.md#requests.
    """
    inputs = {"note": "x" * (LARGEST_INPUTS - len('{"note":""}') + more)}
    if is_right:
        assert (await world.create(inputs=inputs)).version == 1
    else:
        assert list(await refused(world, inputs=inputs)) == ["inputs"]


async def test_a_refused_request_leaves_nothing(world: World) -> None:
    """A refused create leaves no row. See docs/design/api/conventions.md#order-of-refusals."""
    await refused(world, idempotency_key="k", timezone="Mars")
    automation = await world.create(idempotency_key="k")
    assert automation.version == 1


class TestIdempotencyKey:
    """Tests repeated creates with an idempotency key. See docs/design/api/automations.md#requests."""

    async def again(self, world: World, **fields: Any) -> creation.CreatedAutomation:
        """Repeats the request with its key, with some fields changed."""
        query = world.ask(idempotency_key="key-1", **fields)
        return await world.write(partial(setup.create, actor=world.owner, command=query, rules=world.rules))

    async def test_the_same_request_gives_the_automation_as_it_now_is(self, world: World) -> None:
        """The same key with an equal body answers the automation as it is now."""
        first = await self.again(world)
        changed = await world.update(first.automation, name="Renamed")
        schedule = {"run_at": "08:00", "cadence": "daily", "days": None}
        second = await self.again(world, schedule=schedule)
        assert (first.replayed, second.replayed) == (False, True)
        assert second.automation == changed

    async def test_another_body_is_refused(self, world: World) -> None:
        """The same key with another body answers 422 `key_reused`."""
        await self.again(world)
        with pytest.raises(KeyReused) as raised:
            await self.again(world, name="Other")
        assert list(raised.value.errors or {}) == ["idempotency_key"]

    async def test_a_replay_comes_before_the_state_of_the_world(self, world: World) -> None:
        """A replay answers even if a create would now be refused.

        See docs/design/api/conventions.md#order-of-refusals.
        """
        once = {"cadence": "once", "run_at": "08:00", "date": "2026-05-01"}
        first = await self.again(world, schedule=once)
        await world.at("2026-06-01T00:00")
        await world.set_connection(world.store, ConnectionState.DISCONNECTED)
        assert (await self.again(world, schedule=once)).automation.id == first.automation.id

    async def test_two_organizations_have_their_own_keys(self, world: World) -> None:
        """Two organizations can use the same key.

        See docs/design/api/automations.md#requests and docs/design/security.md#roles.
        """
        await self.again(world)
        query = world.ask(idempotency_key="key-1", integration_id=world.foreign_store, name="Theirs")
        second = await world.write(
            partial(setup.create, actor=world.stranger, command=query, rules=world.rules), world.stranger.org
        )
        assert not second.replayed

    async def test_simultaneous_requests_make_one(self, world: World) -> None:
        """Simultaneous requests with one key create one automation."""
        created_automations = await asyncio.gather(*(self.again(world) for _ in range(4)))
        assert len({created.automation.id for created in created_automations}) == 1
        assert sorted(each_created.replayed for each_created in created_automations) == [
            False,
            True,
            True,
            True,
        ]


@pytest.mark.parametrize("schedule", [DAILY, HOURLY, BY_HAND])
async def test_the_schedule_is_stored_as_returned(world: World, schedule: dict[str, object]) -> None:
    """Fields that the cadence does not use are stored as null. See docs/design/schedule.md#shape."""
    automation = await world.create(schedule={**schedule, "day_of_week": 3})
    assert automation.schedule.day_of_week is None
    assert automation.schedule.cadence is Cadence(str(schedule["cadence"]))
    assert isinstance(automation.trigger, ScheduleTrigger)
