"""Tests files in runs: fetched, read, passed on, and available again after a kill."""

from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.model.finding import FindingLevel
from steward.model.run import Mode, RunStatus
from tests.crash.killing import kill_at
from tests.imports.exports import automated, chain, code, node
from tests.runs.shop import Shop

ADDRESS = "https://elsewhere.example/wp-json/prices.csv"
FILE = {"options": {"response": {"response": {"responseFormat": "file"}}}}


def fetched(**more: Any) -> dict[str, Any]:
    """Returns a step that fetches the file."""
    return node("Fetch", "httpRequest", 4.2, {"url": ADDRESS, **FILE, **more})


def reading() -> dict[str, Any]:
    """Returns an export that fetches and reads a price list, and fails with what two steps received."""
    actual = "const f = $('Fetch').first().binary.data; return [{json: {n: items.length, ...f}}]"
    stop = "={{ $json.n + ' ' + $json.fileName + ' ' + $json.mimeType + ' ' + $json.bytes }}"
    ending = node("Tell", "stopAndError", 1, {"errorType": "errorMessage", "errorMessage": stop})
    return chain(fetched(), node("Read", "extractFromFile", 1, {}), code("Look", actual), ending)


def responses(shop: Shop, *, status: int = 200, times: int = 1) -> None:
    """Makes the address respond with the price list."""
    for _ in range(times):
        shop.fault("status", "GET", "/wp-json/prices.csv", status=status, body="sku,price\nA,1\nB,2\n")


EXPECTED = "2 prices.csv "


@pytest.mark.parametrize("mode", [Mode.LIVE, Mode.TEST])
async def test_a_file_is_fetched_and_read(shop: Shop, mode: Mode) -> None:
    """Names the file after the address and makes items of its rows, also in a test run."""
    responses(shop)
    run = await shop.run_and_drain(await automated(shop, reading()), mode)
    rows = await shop.steps(run)
    assert rows[-1]["message"].startswith(EXPECTED), rows
    counts = {row["name"]: row["counts"]["read"] for row in rows}
    assert counts["Fetch"] == 1


async def test_an_error_status_fails_a_file_download(shop: Shop) -> None:
    """Fails the step like any other request."""
    responses(shop, status=404)
    run = await shop.run_and_drain(await automated(shop, chain(fetched())))
    assert run.status is RunStatus.FAILED
    assert "status 404" in (await shop.steps(run))[-1]["message"]


@pytest.mark.parametrize("point", ["after_file", "after_file_row", "before_checkpoint", "after_checkpoint"])
async def test_a_killed_run_finds_its_file(shop: Shop, point: str) -> None:
    """A run killed between file, row and checkpoint ends as if undisturbed, with one stored file."""
    if point == "after_file" and shop.engine.dialect != "sqlite":
        pytest.skip("file and row are one transaction on PostgreSQL")
    responses(shop, times=4)
    run = await shop.run_now(await automated(shop, reading()))
    await kill_at(shop, point)
    ended = await shop.until_settled(run)
    assert (await shop.steps(ended))[-1]["message"].startswith(EXPECTED)

    async def count(tx: Any) -> int:
        row = await tx.first("SELECT count(*) AS n FROM run_files")
        return int(row["n"])

    assert await shop.read(count) == 1


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"method": "POST"}, "sends and takes the response as a file"),
        (
            {
                "options": {
                    **FILE["options"],
                    "pagination": {"pagination": {"paginationMode": "updateAParameterInEachRequest"}},
                }
            },
            "page by page",
        ),
    ],
)
def test_files_that_cannot_be_fetched_are_reported(parameters: dict[str, Any], words: str) -> None:
    """Reports each request whose file cannot be fetched as an error of its step."""
    findings = read_value(chain(fetched(**parameters))).findings
    assert any(words in finding.message for finding in findings if finding.level is FindingLevel.ERROR), (
        findings
    )
