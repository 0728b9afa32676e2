"""Tests `make imports-report`, which counts a folder of exports and ranks their blockers.

See docs/design/imports-verdict.md#report.
"""

import json
from pathlib import Path

from tests.imports.blockers import SurveyReport, greedy_order
from tests.imports.exports import chain, code, node
from tests.imports.survey import MAX_BYTES, exports_in, survey

CLEAN = chain(node("Pass", "noOp", 1, {}))
ODD = node("Odd", "fluxCapacitor", 1, {})
STRANGE = node("Strange", "warpCore", 1, {})
AGENT = {**node("Agent", "x", 1, {}), "type": "@n8n/n8n-nodes-langchain.agent"}


def written(folder: Path, **exports: object) -> Path:
    """Writes these exports into a folder and returns it; bytes and texts are written as they are."""
    for name, export in exports.items():
        path = folder / f"{name}.json"
        if isinstance(export, bytes):
            path.write_bytes(export)
        else:
            path.write_text(export if isinstance(export, str) else json.dumps(export), "utf-8")
    return folder


async def surveyed(folder: Path) -> SurveyReport:
    """Returns the report of a folder without compiling scripts and expressions."""
    return await survey(exports_in(folder), None)


async def test_unreadable_files_are_counted_and_do_not_stop_the_report(tmp_path: Path) -> None:
    """Reports why a file is not JSON, UTF-8 or an export, or is too long; reads the other files."""
    (tmp_path / "below").mkdir()
    (tmp_path / "folder.json").mkdir()
    written(tmp_path / "below", fine=CLEAN)
    written(tmp_path, bytes=b"\xff\xfe{", broken="{", deep="[" * 100_000, none="[]", number="7")
    over = json.dumps(CLEAN | {"note": "x" * MAX_BYTES})
    timestamp = json.dumps(CLEAN | {"note": ""})
    written(tmp_path, over=over, at=timestamp + " " * (MAX_BYTES - len(timestamp)))
    report = await surveyed(tmp_path)
    facts = report.to_json()
    assert report.broke == []
    assert (facts["exports"], facts["read"]) == (8, 2)
    assert sorted(name for name, _ in report.refused) == [
        "broken.json", "bytes.json", "deep.json", "none.json", "number.json", "over.json"
    ]  # fmt: skip
    assert all(reason.endswith(".") for _, reason in report.refused)


async def test_the_clean_share_is_of_all_and_of_those_without_ai(tmp_path: Path) -> None:
    """Counts a workflow with an AI node in the share of all exports only."""
    written(tmp_path, a=CLEAN, b=chain(ODD), c=chain(AGENT))
    facts = (await surveyed(tmp_path)).to_json()
    assert facts["clean"] == {
        "all": {"exports": 3, "clean": 1, "share": 0.3333},
        "without_ai": {"exports": 2, "clean": 1, "share": 0.5},
    }


async def test_blockers_are_ranked_by_what_they_alone_keep_from_running(tmp_path: Path) -> None:
    """Ranks by node type and by cause; step names do not make causes different."""
    python = code("Py", "") | {"parameters": {"language": "python", "pythonCode": "return []"}}
    written(tmp_path, a=chain(ODD), b=chain(ODD, STRANGE), c=chain(python), d=chain(python | {"name": "Q"}))
    facts = (await surveyed(tmp_path)).to_json()
    rows = [(row["blocker"], row["alone"], row["exports"]) for row in facts["blockers"]["by_node_type"]]
    assert rows == [("code", 2, 2), ("fluxCapacitor", 1, 2), ("warpCore", 0, 1)]
    causes = [(row["blocker"], row["alone"]) for row in facts["blockers"]["by_cause"]]
    assert causes[1:] == [("fluxCapacitor: node_type", 1), ("warpCore: node_type", 0)]
    assert causes[0][0].startswith("code: parameter: ")
    text = "\n".join((await surveyed(tmp_path)).to_text())
    assert "fluxCapacitor: node_type" in text
    assert "slowest: " in text


async def test_the_greedy_order_ranks_blockers_by_the_next_gain(tmp_path: Path) -> None:
    """Fixing one blocker makes the next one gain the export that both of them blocked."""
    written(tmp_path, a=chain(ODD), b=chain(ODD, STRANGE), c=CLEAN)
    report = await surveyed(tmp_path)
    order = [(row["blocker"], row["gains"], row["clean"]) for row in greedy_order(report.exports)]
    assert order == [("fluxCapacitor: node_type", 1, 2), ("warpCore: node_type", 1, 3)]
