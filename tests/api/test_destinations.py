"""Destinations that a step can write to, read live from the account."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from steward.api.application import create
from steward.api.operations import OPERATIONS
from steward.connectors.base.connector import Destination
from steward.model.connection import ConnectionState
from tests.people import Caller
from tests.populated_service import PopulatedService, populated

__all__ = ["populated"]

PATH = "/v1/automations/destinations"


@pytest.fixture
async def token(populated: PopulatedService) -> Caller:
    """Returns the member's token caller."""
    return await populated.service.token("member")


def reads(populated: PopulatedService) -> int:
    """Returns how many read requests the fake platforms have received."""
    total: int = populated.shop.world.state.ledger.reads_total
    return total


class ChosenDestinations:
    """A connector whose destinations the test chooses and that delegates everything else to the real one."""

    def __init__(self, real: Any, names: list[str]) -> None:
        self._real, self.names, self.waits = real, names, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def destinations(self, http: Any, secrets: Any, parent: str | None) -> list[Destination]:
        """Returns one tab for each name under the parent."""
        return [Destination(f"id {name}", "tab", name, parent) for name in self.names]


def offering(populated: PopulatedService, names: list[str]) -> ChosenDestinations:
    """Replaces the spreadsheet connector of the service by one with these destinations."""
    connectors = dict(populated.service.context.vault.connectors)
    many = ChosenDestinations(connectors["spreadsheet"], names)
    vault = replace(populated.service.context.vault, connectors={**connectors, "spreadsheet": many})
    populated.service.context = replace(populated.service.context, vault=vault)
    populated.service.restart()
    return many


async def test_a_spreadsheet_and_its_tabs_can_be_named(populated: PopulatedService, token: Caller) -> None:
    """Lists a spreadsheet with the target that names it, and its tabs under it.

    See docs/design/api/connections.md#records and docs/design/api/automations.md#bindings-and-readiness.
    """
    sheet = populated.number("spreadsheet")
    response = await token.get(PATH, integration_id=sheet)
    assert response.status == 200
    [book] = response.data["destinations"]
    assert book == {
        "id": "sheet-prices",
        "kind": "spreadsheet",
        "name": book["name"],
        "parent": None,
        "writable": True,
        "target": {"spreadsheet_id": "sheet-prices", "sheet": None},
    }
    tabs = await token.get(PATH, integration_id=sheet, parent=book["id"])
    assert tabs.data == {
        "destinations": [
            {
                "id": "Prices",
                "kind": "tab",
                "name": "Prices",
                "parent": "sheet-prices",
                "writable": True,
                "target": {"spreadsheet_id": "sheet-prices", "sheet": "Prices"},
            }
        ],
        "next_cursor": None,
    }


async def test_a_channel_has_no_target_and_a_shop_no_destination(
    populated: PopulatedService, token: Caller
) -> None:
    """Lists a Teams channel without a target, and nothing for a shop.

    See docs/design/api/connections.md#lists and docs/design/api/automations.md#bindings-and-readiness.
    """
    channel = (await token.get(PATH, integration_id=populated.number("teams"))).data["destinations"]
    assert [(item["kind"], item["target"]) for item in channel] == [("channel", None)]
    shop = await token.get(PATH, integration_id=populated.number("woocommerce"))
    assert shop.data == {"destinations": [], "next_cursor": None}


async def test_a_foreign_or_unknown_connection_matches_nothing(
    populated: PopulatedService, token: Caller
) -> None:
    """Answers an empty list for a foreign or unknown connection without calling any account.

    See docs/design/api/connections.md#lists and docs/design/api/conventions.md#codes.

    Interface statements: 7 filter.
    """
    seen = reads(populated)
    stranger = await populated.service.token("stranger")
    foreign = await stranger.get(PATH, integration_id=populated.number("spreadsheet"))
    absent = await token.get(PATH, integration_id=999_999)
    nothing = await token.get(PATH, integration_id=-1)
    assert foreign.status == 200
    assert foreign.body == absent.body == nothing.body
    assert foreign.data == {"destinations": [], "next_cursor": None}
    assert reads(populated) == seen


async def test_reads_are_cached_for_five_minutes(populated: PopulatedService, token: Caller) -> None:
    """Answers from its cache for 299 seconds and reads the account again after 300."""
    sheet = populated.number("spreadsheet")
    await token.get(PATH, integration_id=sheet)
    seen = reads(populated)
    populated.service.clock.tick(299)
    again = await token.get(PATH, integration_id=sheet, q="a")
    assert (again.status, reads(populated)) == (200, seen)
    populated.service.clock.tick(1)
    await token.get(PATH, integration_id=sheet)
    assert reads(populated) > seen


async def test_a_changed_connection_is_read_again(populated: PopulatedService, token: Caller) -> None:
    """Drops the cached destinations when the connection changes, and refuses one that needs reconnecting."""
    sheet = populated.number("spreadsheet")
    await token.get(PATH, integration_id=sheet)
    await populated.shop.set_connection_state("spreadsheet", ConnectionState.NEEDS_RECONNECTING)
    response = await token.get(PATH, integration_id=sheet)
    assert (response.status, response.code, response.errors) == (422, "not_connected", {})
    assert "The spreadsheet" in response.body["message"]
    await populated.shop.set_connection_state("spreadsheet", ConnectionState.CONNECTED)
    seen = reads(populated)
    assert (await token.get(PATH, integration_id=sheet)).status == 200
    assert reads(populated) > seen


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ({"kind": "status", "status": 500}, 503, "unavailable"),
        ({"kind": "throttle", "retry_after": 90}, 503, "unavailable"),
        ({"kind": "status", "status": 403}, 422, "not_connected"),
        ({"kind": "status", "status": 404}, 422, "not_connected"),
    ],
)
async def test_the_accounts_own_error_is_shown(
    populated: PopulatedService, token: Caller, fault: dict[str, Any], status: int, code: str
) -> None:
    """Answers 503 when the account fails or throttles and 422 `not_connected` when it refuses access."""
    populated.shop.fault(method="GET", path="/sheets/**", count=-1, **fault)
    task = asyncio.create_task(token.get(PATH, integration_id=populated.number("spreadsheet")))
    while not task.done():
        waiting = asyncio.create_task(populated.service.clock.until_sleeping())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not task.done():
            await populated.service.clock.advance(1.0)
    response = task.result()
    assert (response.status, response.code) == (status, code)
    assert ("retry-after" in response.headers) == (status == 503)
    assert ("errors" in response.body) == (status == 422)
    populated.shop.world.state.faults.clear()
    populated.service.clock.tick(120)
    assert (await token.get(PATH, integration_id=populated.number("spreadsheet"))).status == 200


async def test_a_silent_account_is_not_waited_for(populated: PopulatedService, token: Caller) -> None:
    """Answers 503 after `silent_s`, 10 s by default, when the account does not answer."""
    assert [row.seconds for row in OPERATIONS if row.path == PATH] == [15.0]
    destination_cache = populated.service.context.destinations
    assert destination_cache.silent_s == 10.0
    destination_cache.silent_s = 0.01

    async def silent(*_: Any) -> list[Destination]:
        await asyncio.Event().wait()
        return []

    many = offering(populated, [])
    many.destinations = silent  # type: ignore[method-assign]
    response = await token.get(PATH, integration_id=populated.number("spreadsheet"))
    assert (response.status, response.code) == (503, "unavailable")
    assert int(response.headers["retry-after"]) >= 1


async def test_the_operation_itself_is_bounded(populated: PopulatedService, token: Caller) -> None:
    """Answers 503 when the operation exceeds its own limit, even within `silent_s`."""
    rows = [replace(row, seconds=0.01) if row.path == PATH else row for row in OPERATIONS]
    many = offering(populated, [])

    async def silent(*_: Any) -> list[Destination]:
        await asyncio.Event().wait()
        return []

    many.destinations = silent  # type: ignore[method-assign]
    populated.service.gate = create(populated.service.context, operations=rows)
    response = await token.get(PATH, integration_id=populated.number("spreadsheet"))
    assert (response.status, response.code) == (503, "unavailable")


async def test_destinations_are_searched_and_paged_by_name(
    populated: PopulatedService, token: Caller
) -> None:
    """Searches without regard to case and pages by name without repeating or losing long names."""
    names = [*(f"Straße {number:03}" for number in range(7)), "x" * 200, "\U0001f375" * 150]
    offering(populated, names)
    sheet = populated.number("spreadsheet")
    listed_names: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await token.get(PATH, integration_id=sheet, parent="p", limit=3, **cursor)
        assert page.status == 200
        listed_names += [destination["name"] for destination in page.data["destinations"]]
        if page.data["next_cursor"] is None:
            break
        assert len(page.data["next_cursor"]) <= 512
        cursor = {"cursor": page.data["next_cursor"]}
    assert sorted(listed_names) == sorted(names)
    assert listed_names[:7] == names[:7]
    some = await token.get(PATH, integration_id=sheet, q=" STRASSE 00")
    assert len(some.data["destinations"]) == 7
    other = await token.get(PATH, integration_id=sheet, parent="p", q="x", **cursor)
    assert (other.status, set(other.errors)) == (422, {"cursor"})


WRONG: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"integration_id"}),
    ({"integration_id": "one"}, {"integration_id"}),
    ({"integration_id": 1, "q": "", "parent": "x" * 257, "limit": 0}, {"q", "parent", "limit"}),
    ({"integration_id": 1, "q": "x" * 121, "kind": "tab"}, {"q", "kind"}),
    ({"integration_id": 1, "cursor": "forged"}, {"cursor"}),
]


async def test_a_wrong_query_is_named_before_the_account_is_asked(
    populated: PopulatedService, token: Caller
) -> None:
    """Refuses invalid parameters before it calls the account."""
    for query, wrong in WRONG:
        seen = reads(populated)
        response = await token.get(PATH, **query)
        assert (response.status, set(response.errors)) == (422, wrong), query
        assert reads(populated) == seen, query
