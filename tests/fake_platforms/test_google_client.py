"""Tests the fake spreadsheets with Google's own client, as a second opinion beside the connector."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.oauth2.service_account import Credentials
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

from steward.clock import SystemClock
from steward.fake_platforms import serve
from steward.fake_platforms.application import FakePlatforms, create

SCOPE = "https://www.googleapis.com/auth/spreadsheets"


@pytest.fixture
async def served() -> AsyncIterator[FakePlatforms]:
    """Provides fake platforms on a socket."""
    bound = serve.listening("127.0.0.1", 0)
    world = create(1, serve.address(bound), SystemClock().now)
    ready = asyncio.Event()
    server = serve.server(world, ready.set, own_signals=False)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    await ready.wait()
    yield world
    server.should_exit = True
    await task
    bound.close()


def drive(spreadsheet: dict[str, Any]) -> dict[str, Any]:
    """Reads and writes through the official client in a thread, and returns what it got."""
    signed = Credentials.from_service_account_info(spreadsheet["service_account"], scopes=[SCOPE])
    options = {"api_endpoint": spreadsheet["sheets_url"]}
    api = build("sheets", "v4", credentials=signed, client_options=options, cache_discovery=False)
    sheets, book = api.spreadsheets(), "sheet-log"
    about = sheets.get(spreadsheetId=book).execute()
    rows = [["=1+1", 2, True], ["text", 0.5, ""]]
    appended = sheets.values().append(
        spreadsheetId=book, range="Log", valueInputOption="RAW", insertDataOption="INSERT_ROWS",
        body={"values": rows},
    ).execute()  # fmt: skip
    read = sheets.values().get(spreadsheetId=book, range="Log!A1:C2").execute()
    cells = {"range": "Log!B2", "values": [[7]]}
    sheets.values().batchUpdate(
        spreadsheetId=book, body={"valueInputOption": "RAW", "data": [cells]}
    ).execute()
    changed = sheets.values().get(
        spreadsheetId=book, range="Log!B:B", valueRenderOption="UNFORMATTED_VALUE"
    ).execute()  # fmt: skip
    tab = {"addSheet": {"properties": {"title": "New"}}}
    added = sheets.batchUpdate(spreadsheetId=book, body={"requests": [tab]}).execute()
    span = {"sheetId": about["sheets"][0]["properties"]["sheetId"], "dimension": "ROWS"}
    gone = {"deleteDimension": {"range": {**span, "startIndex": 0, "endIndex": 1}}}
    sheets.batchUpdate(spreadsheetId=book, body={"requests": [gone]}).execute()
    remaining = sheets.values().get(spreadsheetId=book, range="Log").execute()
    sheets.values().clear(spreadsheetId=book, range="Log", body={}).execute()
    empty = sheets.values().get(spreadsheetId=book, range="Log").execute()
    try:
        sheets.values().get(spreadsheetId=book, range="Nowhere!A1").execute()
        refused = 0
    except HttpError as error:
        refused = error.status_code
    api.close()
    return {
        "title": about["properties"]["title"],
        "rows": appended["updates"]["updatedRows"],
        "read": read["values"],
        "changed": changed["values"],
        "made": added["replies"][0]["addSheet"]["properties"]["title"],
        "left": remaining["values"],
        "empty": empty.get("values"),
        "refused": refused,
    }


async def test_the_official_client_finds_what_the_connector_relies_on(served: FakePlatforms) -> None:
    """Gives the official client what the connector relies on: formulas stay text, a missing tab is 400.

    See docs/design/connectors.md#tests.
    """
    outcomes = await asyncio.to_thread(drive, served.described()["spreadsheet"])
    assert outcomes.pop("title")
    assert outcomes == {
        "rows": 2,
        "read": [["=1+1", "2", "TRUE"], ["text", "0.5"]],
        "changed": [[2], [7]],
        "made": "New",
        "left": [["text", "7"]],
        "empty": None,
        "refused": 400,
    }
