"""Tests the size of what the first view loads. See docs/design/web.md#speed."""

import gzip

from tests.source import ROOT
from tests.web.open_pages import manifest

STATIC = ROOT / "steward/static"


def _zipped(name: str) -> int:
    return len(gzip.compress((STATIC / name).read_bytes(), 9))


def test_the_script_of_the_first_view_stays_small(built: None) -> None:
    """The entry script and its static imports have at most 60 KB gzip. See docs/design/web.md#speed."""
    chunks = manifest()
    [entry] = [name for name, chunk in chunks.items() if chunk.get("isEntry")]
    pending, modules = [entry], set[str]()
    while pending:
        name = pending.pop()
        if name not in modules:
            modules.add(name)
            pending += chunks[name].get("imports", [])
    scripts = [chunks[name]["file"] for name in modules]
    assert sum(map(_zipped, scripts)) <= 60 * 1024
    # With the page itself and the sheet: at most 4 files before the first row.
    assert len(scripts) <= 2


def test_the_sheet_of_the_first_view_stays_small(built: None) -> None:
    """The style sheet has at most 16 KB gzip. See docs/design/web.md#speed."""
    sheets = [path.name for path in (STATIC / "assets").glob("*.css")]
    assert len(sheets) == 1
    assert _zipped(f"assets/{sheets[0]}") <= 16 * 1024


def test_the_graph_is_fetched_apart_and_stays_small(built: None) -> None:
    """The graph is loaded on demand and has at most 90 KB gzip with its style sheet.

    See docs/design/web.md#speed.
    """
    chunks = manifest()
    graph = chunks["src/parts/plan/Drawing.svelte"]
    assert graph["isDynamicEntry"]
    own_values = [
        graph["file"],
        *(chunks[name]["file"] for name in graph["imports"] if "index.html" not in name),
    ]
    assert sum(map(_zipped, own_values)) <= 90 * 1024
