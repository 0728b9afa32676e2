"""Tests steps that write and read local files, which here exist only within a run."""

from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.model.finding import FindingLevel
from steward.model.run import RunStatus
from steward.steps.n8n.nodes.local_files import selected
from tests.crash.killing import kill_at
from tests.imports.exports import automated, chain, code, node
from tests.runs.shop import Shop

PATH = "/files/prices.txt"
TEXT = {"operation": "toText", "sourceProperty": "text"}


def written(name: str = PATH, **options: Any) -> list[dict[str, Any]]:
    """Returns steps that make a file and write it to a path."""
    return [
        code("Make", "return [{json: {text: 'tea 4'}}]"),
        node("File", "convertToFile", 1.1, TEXT),
        node("Write", "readWriteFile", 1, {"operation": "write", "fileName": name, "options": options}),
    ]


def read_back(selector: str) -> list[dict[str, Any]]:
    """Returns steps that drop the file, read it again, and fail with its name, type and text."""
    text = {"operation": "text", "destinationKey": "text", "options": {"keepSource": "json"}}
    file_properties = "={{ $json.fileName + '|' + $json.mimeType + '|' + $json.text }}"
    return [
        node("Drop", "aggregate", 1, {"aggregate": "aggregateAllItemData"}),
        node("Read", "readWriteFile", 1, {"fileSelector": selector, "options": {}}),
        node("Text", "extractFromFile", 1, text),
        node("Stop", "stopAndError", 1, {"errorMessage": file_properties}),
    ]


@pytest.mark.parametrize("selector", [PATH, "/files/*.txt", "/**/prices.*"])
async def test_a_file_is_read_by_a_later_step_of_its_run(shop: Shop, selector: str) -> None:
    """Finds the file by its path or a pattern; its name and type come from the path it was written to."""
    run = await shop.run_and_drain(await automated(shop, chain(*written(), *read_back(selector))))
    assert (await shop.steps(run))[-1]["message"] == "prices.txt|text/plain|tea 4"


async def test_a_file_can_be_appended_to(shop: Shop) -> None:
    """Appends what a second step writes to the same path."""
    second_write = node("Again", "writeBinaryFile", 1, {"fileName": PATH, "options": {"append": True}})
    run = await shop.run_and_drain(await automated(shop, chain(*written(), second_write, *read_back(PATH))))
    assert (await shop.steps(run))[-1]["message"] == "prices.txt|text/plain|tea 4tea 4"


async def test_the_older_steps_pass_files_on(shop: Shop) -> None:
    """readBinaryFile adds the file to the item; readBinaryFiles makes an item of each file."""
    file_names = "={{ [$json.fileName, $binary.tea.fileName].join('|') }}"
    stop = node("Stop", "stopAndError", 1, {"errorMessage": file_names})
    read_one = node("Read", "readBinaryFile", 1, {"filePath": PATH, "dataPropertyName": "tea"})
    run = await shop.run_and_drain(await automated(shop, chain(*written(), read_one, stop)))
    assert (await shop.steps(run))[-1]["message"] == f"{PATH}|prices.txt"
    read_all = node("Read", "readBinaryFiles", 1, {"fileSelector": "/files/*", "dataPropertyName": "tea"})
    run = await shop.run_and_drain(await automated(shop, chain(*written(), read_all, stop)))
    assert (await shop.steps(run))[-1]["message"] == "|prices.txt"


@pytest.mark.parametrize("point", ["after_file_row", "after_checkpoint"])
async def test_a_resumed_run_reads_the_files_it_wrote(shop: Shop, point: str) -> None:
    """A killed run that is continued reads the file that it wrote before the kill."""
    run = await shop.run_now(await automated(shop, chain(*written(), *read_back(PATH))))
    await kill_at(shop, point)
    ended = await shop.until_settled(run)
    assert (await shop.steps(ended))[-1]["message"] == "prices.txt|text/plain|tea 4"


async def test_a_pattern_without_a_matching_file_fails_the_step(shop: Shop) -> None:
    """Fails the step at run time when the path is an expression that the import cannot check."""
    run = await shop.run_and_drain(
        await automated(shop, chain(*written("={{ '/files/' + $json.x }}"), *read_back(PATH)))
    )
    assert run.status is RunStatus.FAILED
    assert "No step of this run has written" in (await shop.steps(run))[-1]["message"]


def _errors(*steps: dict[str, Any]) -> list[str | None]:
    findings = read_value(chain(*steps)).findings
    return [finding.step for finding in findings if finding.level is FindingLevel.ERROR]


def test_reading_a_file_that_no_step_writes_is_an_error() -> None:
    """Reports a path that no enabled earlier step writes as an error of the step that reads it."""
    read = node("Read", "readBinaryFile", 1, {"filePath": PATH})
    assert _errors(*written(), read) == []
    assert _errors(read) == ["Read"]
    assert _errors(*written("/files/other.txt"), read) == ["Read"]
    make, file, write = written()
    assert _errors(read, make, file, write) == ["Read"]
    assert _errors(make, file, {**write, "disabled": True}, read) == ["Read"]


def test_writing_warns_where_the_file_is_stored() -> None:
    """Warns that the file is stored with the run."""
    [warning] = [
        finding.message
        for finding in read_value(chain(*written())).findings
        if finding.step == "Write" and finding.level is FindingLevel.WARNING
    ]
    assert "kept with the run" in warning


@pytest.mark.parametrize(
    ("selector", "path", "expected"),
    [
        ("/a/*.csv", "/a/b.csv", True),
        ("/a/*.csv", "/a/b/c.csv", False),
        ("/a/**/c.csv", "/a/b/b/c.csv", True),
        ("/a/**/c.csv", "/a/c.csv", True),
        ("/a/?.csv", "/a/b.csv", True),
        ("/a/(b).csv", "/a/(b).csv", True),
        ("/a/b.csv", "/a/bxcsv", False),
        ("*a" * 50 + "z", "a" * 10_000, False),
    ],
)
def test_selectors_match_paths(selector: str, path: str, expected: bool) -> None:
    """One star matches within a folder, two match below it; a hostile pattern ends quickly."""
    assert selected(selector, [path]) == ([path] if expected else [])
