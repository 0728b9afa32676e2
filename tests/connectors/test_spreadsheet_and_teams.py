"""Google Sheets and Teams over the fake platforms: whole tabs, keyed appends, raw cells and cards.

See docs/design/connectors.md#limits.
"""

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.connectors.base.commands import AppendRows, PostCard, WriteCells
from steward.connectors.base.queries import TABS, VALUES, TabsQuery, ValuesQuery
from steward.connectors.base.writing import WriteState
from steward.connectors.spreadsheet.cells import column_range, same_rows, tab_range
from steward.connectors.spreadsheet.operations import APPEND, CALL_BYTES
from steward.connectors.teams.card import CARD_BYTES, escaped, message
from steward.model.change import Recovery
from steward.outbound.errors import PlatformUnavailable, RemoteNotFound, Unauthorized
from tests.connectors.fake_connections import ORG, SHEET, Connection, FakePlatformsClient

APPLIED, UNKNOWN, NOT_SENT = WriteState.APPLIED, WriteState.UNKNOWN, WriteState.NOT_SENT


async def rows(sheet: Connection, tab: str | None = None) -> dict[int, tuple[Any, ...]]:
    """Returns a tab's rows by their number."""
    [table] = await sheet.all(VALUES, ValuesQuery(tab))
    return {row.number: row.cells for row in table.rows}


async def test_a_tab_is_read_whole_with_row_numbers_and_exact_numbers(
    sheet: Connection, world: FakePlatformsClient
) -> None:
    """Reads a whole tab with row numbers and exact decimals, and writes nothing.

    See docs/design/connectors.md#google-sheets.
    """
    health = await sheet.check()
    assert (health.ok, health.account_label) == (True, "Prices")
    assert [tab.title for tab in await sheet.all(TABS, TabsQuery())] == ["Prices"]
    found_rows = await rows(sheet)
    assert found_rows[1] == ("SKU", "Price")
    assert len(found_rows) == 21
    assert all(
        cell is None or isinstance(cell, str | Decimal) for cells in found_rows.values() for cell in cells
    )
    assert any(
        isinstance(cell, Decimal) and cell % 1
        for cells in found_rows.values()
        for cell in cells
        if isinstance(cell, Decimal)
    )
    assert world.written() == []


async def test_a_tab_that_is_gone_and_a_sheet_that_is_not_shared(
    sheet: Connection, world: FakePlatformsClient
) -> None:
    """Raises RemoteNotFound for a deleted tab and Unauthorized for a spreadsheet that is not shared.

    See docs/design/connectors.md#google-sheets.
    """
    with pytest.raises(RemoteNotFound):
        await rows(sheet, "Old name")
    other = world.connection("spreadsheet")
    stranger = Connection(world, other.connector, other.secrets)
    stranger.secrets.plain["spreadsheet_id"] = "unknown"  # type: ignore[index]
    with pytest.raises(Unauthorized):
        await rows(stranger)
    assert isinstance((await stranger.check()).error, Unauthorized)


async def test_destinations_are_the_spreadsheet_and_its_tabs(sheet: Connection, teams: Connection) -> None:
    """Lists the spreadsheet, its tabs below it, and the one channel of Teams.

    See docs/design/api/connections.md#lists.
    """
    for held, parent, names in (
        (sheet, None, ["Prices"]),
        (sheet, "sheet-prices", ["Prices"]),
        (sheet, "x", []),
    ):
        http = held.outside.outbound.read_client(ORG, held.number, held.connector.endpoint(held.secrets))
        assert [
            destination.name for destination in await held.connector.destinations(http, held.secrets, parent)
        ] == names
    http = teams.outside.outbound.read_client(ORG, teams.number, teams.connector.endpoint(teams.secrets))
    assert [
        each_destination.kind
        for each_destination in await teams.connector.destinations(http, teams.secrets, None)
    ] == ["channel"]


async def test_one_token_serves_many_calls_and_is_asked_again_at_four_fifths(
    sheet: Connection, world: FakePlatformsClient
) -> None:
    """Fetches one access token for many calls and another at 80 % of its lifetime.

    See docs/design/connectors.md#test-mode.
    """
    requests: list[str] = []
    inner = world.transport.handle_async_request

    async def counted(request: Any) -> Any:
        requests.append(request.url.path)
        return await inner(request)

    world.transport.handle_async_request = counted  # type: ignore[method-assign]
    await sheet.check()
    await rows(sheet)
    assert requests.count("/google/token") == 1
    await world.clock.advance(2_879)
    await sheet.check()
    assert requests.count("/google/token") == 1
    await world.clock.advance(1)
    await sheet.check()
    assert requests.count("/google/token") == 2


async def test_rows_are_appended_raw_and_a_keyed_append_is_found_again(sheet: Connection) -> None:
    """Appends cells as raw text, leaves present keys out, and finds a keyed append again.

    See docs/design/connectors.md#operations and docs/design/connectors.md#google-sheets.
    """
    new_cells = (("=1+1", Decimal("8.40")), ("X-2", Decimal(3)), ("GIF-015-L", None))
    query = AppendRows("Prices", new_cells, key_column=0, present=frozenset({"GIF-015-L"}))
    [proposal] = sheet.plan("sheet.append_rows", query).proposals
    [part] = proposal.parts
    assert APPEND.recovery_of(part) is Recovery.MARKED
    assert not await sheet.reader().find_marker(part, "key")
    assert await sheet.apply([proposal]) == [APPLIED]
    found_rows = await rows(sheet)
    assert (found_rows[22], found_rows[23], len(found_rows)) == (
        ("=1+1", Decimal("8.4")),
        ("X-2", Decimal(3)),
        23,
    )
    assert await sheet.reader().find_marker(part, "key")
    assert (await sheet.reader().confirm(part)).state is APPLIED
    [now] = await sheet.reader().current([part])
    assert now.value == part.after


async def test_a_blind_append_stays_unknown(sheet: Connection, world: FakePlatformsClient) -> None:
    """Leaves an append without keys unknown when its response is lost, and never sends it again.

    See docs/design/writes.md#idempotency-classes.
    """
    [proposal] = sheet.plan("sheet.append_rows", AppendRows("Prices", (("a",),))).proposals
    [part] = proposal.parts
    assert APPEND.recovery_of(part) is Recovery.AT_MOST_ONCE
    world.world.state.faults.make({"method": "POST", "path": "/sheets/**", "kind": "drop_after"})
    [outcome] = await sheet.send([part])
    assert outcome.state is UNKNOWN
    assert (await sheet.reader().confirm(part)).state is UNKNOWN
    assert len(world.written()) == 1


@pytest.mark.parametrize(
    ("fault", "state", "settled"),
    [
        ({"kind": "drop_after"}, UNKNOWN, APPLIED),
        ({"kind": "drop_before"}, UNKNOWN, NOT_SENT),
        ({"kind": "status", "status": 500}, UNKNOWN, NOT_SENT),
        ({"kind": "throttle", "retry_after": 3}, NOT_SENT, NOT_SENT),
        ({"kind": "status_after", "status": 200, "body": "<html>"}, UNKNOWN, APPLIED),
    ],
)
@pytest.mark.parametrize("keyed", [True, False])
async def test_a_lost_response_is_settled_by_the_keys_or_the_cells(
    sheet: Connection,
    world: FakePlatformsClient,
    keyed: bool,
    fault: dict[str, Any],
    state: WriteState,
    settled: WriteState,
) -> None:
    """Settles a write whose response was lost by the keys or cells in the sheet, without a second write.

    See docs/design/writes.md#idempotency-classes.
    """
    before = (await rows(sheet))[2][1]
    planned = (
        sheet.plan("sheet.append_rows", AppendRows("Prices", (("K-1", "v"),), key_column=0))
        if keyed
        else sheet.plan("sheet.write_cells", WriteCells("Prices", "B2", ((Decimal("9.99"),),), ((before,),)))
    )
    [part] = planned.proposals[0].parts
    world.world.state.faults.make({"method": "POST", "path": "/sheets/**", **fault})
    [outcome] = await sheet.send([part])
    assert outcome.state is state
    await world.clock.advance(60)
    assert (await sheet.reader().confirm(part)).state is settled
    assert len(world.written()) == 1


async def test_cells_are_written_and_what_is_already_so_is_dropped(sheet: Connection) -> None:
    """Writes a block of cells, reports an equal block as unchanged and a bad cell name as a problem.

    See docs/design/connectors.md#operations.
    """
    block = ((Decimal("1.5"), "=x"), (None, True))
    query = WriteCells("Prices", "D2", block, ((None, None), (None, None)))
    assert await sheet.apply(sheet.plan("sheet.write_cells", query).proposals) == [APPLIED]
    found_rows = await rows(sheet)
    assert (found_rows[2][3:], found_rows[3][4]) == ((Decimal("1.5"), "=x"), True)
    assert sheet.plan("sheet.write_cells", WriteCells("Prices", "D2", block, block)).unchanged == (
        "'Prices'!D2:E3",
    )
    bad = sheet.plan("sheet.write_cells", WriteCells("Prices", "2D", block, ((),)))
    assert [problem.code for problem in bad.problems] == ["not_a_cell"]


def test_appends_are_cut_into_calls_of_one_mebibyte_and_bad_rows_are_problems() -> None:
    """Splits appends into calls of at most 1 MiB and reports invalid rows as problems.

    See docs/design/connectors.md#google-sheets.
    """
    many = tuple((f"K-{number}", "x" * 1_000) for number in range(2_500))
    planned = APPEND.plan([AppendRows("Log", many, key_column=0)], integration_id=SHEET)
    sizes = [len(json.dumps(proposal.parts[0].arguments["rows"])) for proposal in planned.proposals]
    assert len(sizes) == 3
    assert max(sizes) <= CALL_BYTES
    for wrong in (
        AppendRows("Log", (("x" * 50_001,),)),
        AppendRows("", (("x",),)),
        AppendRows("Log", ((None, "a"),), key_column=0),
        AppendRows("Log", (("a",),), key_column=1),
    ):
        assert len(APPEND.plan([wrong], integration_id=SHEET).problems) == 1
    assert APPEND.plan([AppendRows("Log", (("x" * 50_000,),))], integration_id=SHEET).proposals


def test_ranges_name_the_tab_safely() -> None:
    """Quotes tab names in ranges and compares cells by value and type.

    See docs/design/connectors.md#rules.
    """
    assert tab_range("It's") == "'It''s'"
    assert tab_range("T", "AA9", [["x"] * 28, ["y"]]) == "'T'!AA9:BB10"
    assert column_range("T", 26) == "'T'!AA:AA"
    assert same_rows({"rows": [[{"number": "8.40"}, None]]}, {"rows": [[{"number": "8.4"}], []]})
    assert not same_rows({"rows": [["8.4"]]}, {"rows": [[{"number": "8.4"}]]})
    assert not same_rows({"rows": [[True]]}, {"rows": [["True"]]})


async def test_a_message_is_handed_over_once_with_its_mark(
    teams: Connection, world: FakePlatformsClient
) -> None:
    """Sends a message once with its idempotency key, logs no signature and refuses an empty title.

    See docs/design/connectors.md#teams and docs/design/fake-platforms.md#control.
    """
    planned = teams.plan("teams.post", PostCard("Low stock", ("3 variants",), (("SKU-1", "2"),)))
    assert await teams.apply(planned.proposals) == [APPLIED]
    [entry] = world.written()
    assert entry["marks"] == [entry["idempotency_key"]]
    assert "sig" not in "".join(world.lines)
    assert teams.connector.writes["teams.post"].plan([PostCard(" ")], integration_id=SHEET).problems


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        ({"kind": "drop_after"}, UNKNOWN),
        ({"kind": "drop_before"}, UNKNOWN),
        ({"kind": "status", "status": 500}, UNKNOWN),
        ({"kind": "throttle", "retry_after": 5}, NOT_SENT),
        ({"kind": "status", "status": 413}, WriteState.REFUSED),
        (
            {"kind": "status", "status": 200, "body": "failed: returned HTTP error 429 with ContextId x"},
            NOT_SENT,
        ),
        (
            {"kind": "status", "status": 200, "body": "failed: returned HTTP error 500 with ContextId x"},
            UNKNOWN,
        ),
        ({"kind": "status", "status": 200}, APPLIED),
        ({"kind": "status", "status": 302}, UNKNOWN),
        ({"kind": "status", "status": 408}, UNKNOWN),
        ({"kind": "status", "status": 425}, UNKNOWN),
    ],
)
async def test_a_teams_message_is_sent_once_whatever_teams_responds(
    teams: Connection, world: FakePlatformsClient, fault: dict[str, Any], state: WriteState
) -> None:
    """Sends a message once whatever Teams answers, and cannot confirm it afterwards.

    See docs/design/connectors.md#teams and docs/design/writes.md#idempotency-classes.
    """
    [proposal] = teams.plan("teams.post", PostCard("Hello")).proposals
    world.world.state.faults.make({"method": "POST", "path": "/teams/**", **fault})
    [outcome] = await teams.send(proposal.parts)
    assert outcome.state is state
    assert len(world.written()) == 1
    assert (await teams.reader().confirm(proposal.parts[0])).state is UNKNOWN
    assert not await teams.reader().find_marker(proposal.parts[0], "key")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "unauthorized"),
        (403, "unauthorized"),
        (404, "unauthorized"),
        (400, "invalid"),
        (500, "unavailable"),
    ],
)
async def test_the_class_of_a_failed_message_follows_the_status(
    teams: Connection, world: FakePlatformsClient, status: int, kind: str
) -> None:
    [proposal] = teams.plan("teams.post", PostCard("Reconnect")).proposals
    world.world.state.faults.make({"method": "POST", "path": "/teams/**", "kind": "status", "status": status})
    [outcome] = await teams.send(proposal.parts)
    assert outcome.error == kind


async def test_messages_start_a_second_apart(teams: Connection, world: FakePlatformsClient) -> None:
    """Starts messages at least a second apart. See docs/design/connectors.md#teams."""
    for expected in (0, 1, 2):
        [proposal] = teams.plan("teams.post", PostCard(f"Message {expected}")).proposals
        begun = world.clock.monotonic()
        task = asyncio.create_task(teams.send(proposal.parts))
        await world.clock.advance(1 if expected else 0)
        [outcome] = await task
        assert outcome.state is APPLIED
        assert world.clock.monotonic() - begun == (1 if expected else 0)


def test_a_long_message_is_cut_below_twenty_thousand_bytes_and_says_how_much() -> None:
    """Cuts a card below 20,000 bytes and counts the lines left out.

    See docs/design/connectors.md#teams and docs/design/templates.md#e17-sends.
    """
    lines = tuple(f"line {number} " + "ä*" * 60 for number in range(400))
    new_message = message(
        PostCard("Long", lines[:200], tuple((f"k{n}", line) for n, line in enumerate(lines[200:])))
    )
    raw = json.dumps(new_message, ensure_ascii=False, separators=(",", ":")).encode()
    assert len(raw) <= CARD_BYTES
    attachments: Any = new_message["attachments"]
    body = attachments[0]["content"]["body"]
    stored = sum(block["type"] == "TextBlock" for block in body) - 2
    assert body[-1]["text"] == f"and {400 - stored} more"
    assert attachments[0]["content"]["version"] == "1.4"


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300), st.lists(st.text(max_size=3_000), max_size=40), st.text(max_size=80))
def test_every_message_fits_and_uses_nothing_but_text(title: str, lines: list[str], link: str) -> None:
    """Fits any text within the limit without `Action.Submit` or tables.

    See docs/design/connectors.md#teams.
    """
    query = PostCard(title, tuple(lines), tuple((line, line) for line in lines[:3]), link=("Open", link))
    raw = json.dumps(message(query), ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )
    assert len(raw) <= CARD_BYTES
    assert b"Action.Submit" not in raw
    assert b'"Table"' not in raw


@pytest.mark.parametrize(
    ("text", "expected_text"),
    [
        ("a *b* _c_", "a \\*b\\* \\_c\\_"),
        ("[x](https://e.vil)", "\\[x\\]\\(https:\u200b//e.vil\\)"),
        ("<at>all</at>", "\\<at\\>all\\</at\\>"),
        ("www.e.vil", "www.\u200be.vil"),
        ("a\u202eb\u200bc\x07", "abc"),
        ("two\nlines", "two\nlines"),
        ("&lt;", "\\&lt;"),
        ("HTTPS://X", "HTTPS:\u200b//X"),
        ("1. Cup\n12.\n2.5", "1\\. Cup\n12\\.\n2.5"),
    ],
)
def test_store_text_is_text(text: str, expected_text: str) -> None:
    """Escapes markup, links and mentions in a store's text. See docs/design/connectors.md#teams."""
    assert escaped(text) == expected_text


def test_a_call_error_never_carries_the_secret_address(teams: Connection) -> None:
    """Keeps the secret address out of errors and reprs. See docs/design/connectors.md#redaction."""
    url = teams.secrets.sealed["webhook_url"].reveal()
    error = PlatformUnavailable("x", platform_text=str(teams.secrets))
    assert url not in f"{error} {error.platform_text} {teams.connector.endpoint(teams.secrets)!r}"
