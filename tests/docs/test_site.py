"""The documentation site is built strictly, its links lead somewhere, and its examples are true."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from steward.api import openapi
from steward.cli.settings_page import settings_page
from tests.postgres_server import locked
from tests.source import ROOT, kept_files, name_of

SITE = ROOT / ".cache/site"
TOOL = ROOT / ".cache/docs/bin/zensical"
GUIDES = [
    path for path in kept_files() if re.match(r"docs/guides/.*\.md|clients/.*README\.md", name_of(path))
]
EXTERNAL = {"https://www.standardwebhooks.com"}
LANGUAGES = {"http", "json", "python", "ts", "sh", "text"}
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
needs_tool = pytest.mark.skipif(not TOOL.exists(), reason="`make site` installs it")


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes links, sources and ids."""
        values = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("rel") != "canonical":
            self.loads.append(values.get("href", ""))
        elif "src" in values:
            self.loads.append(values["src"])
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}


@pytest.fixture(scope="module")
def site(session_folder: Path) -> dict[Path, Page]:
    """The pages of the site, built again once a session: its test workers share the folder."""
    built = session_folder / "site.built"
    with locked(session_folder / "site.lock"):
        if not built.exists():
            _build()
            built.touch()
    return {path: Page(path) for path in SITE.rglob("*.html") if path.name != "404.html"}


def _build() -> None:
    openapi.write_public(ROOT / ".cache/openapi.json")
    (ROOT / "docs/settings.md").write_text(settings_page(), "utf-8")
    tool, source = [sys.executable, "tools/site.py"], ".cache/site-source"
    for command in (
        [*tool, "stage", source],
        [TOOL, "build", "--config-file", "zensical.toml", "--strict"],
        [*tool, "finish", source, ".cache/site"],
    ):
        run = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=600)
        assert run.returncode == 0, run.stdout + run.stderr


def blocks() -> Iterator[tuple[str, str, str]]:
    """Each fenced block of the guides: where, its language and its text."""
    for path in GUIDES:
        for number, (language, text) in enumerate(_BLOCK.findall(path.read_text("utf-8")), 1):
            yield f"{name_of(path)} block {number}", language, text


@needs_tool
def test_no_link_of_the_site_is_dead_and_nothing_comes_from_elsewhere(site: dict[Path, Page]) -> None:
    """Links and anchors lead somewhere, other hosts are linked from a list, and none is loaded from."""
    assert len(site) > 100
    dead = []
    for path, page in site.items():
        assert [url for url in page.loads if re.match(r"(https?:)?//", url)] == [], path
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                assert link in EXTERNAL or link.startswith("http://127.0.0.1:8400"), (path, link)
                continue
            name, anchor = urldefrag(unquote(link))
            target = (path.parent / name).resolve() if name else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (anchor and target in site and anchor not in site[target].anchors):
                dead.append(f"{path.relative_to(SITE)}: {link}")
    assert dead == []


@needs_tool
def test_pages_are_there_as_markdown_and_in_one_file(site: dict[Path, Page]) -> None:
    """`llms.txt` names pages that exist; `llms-full.txt` holds every operation of the reference."""
    listed = re.findall(r"\]\((\S+)\)", (SITE / "llms.txt").read_text("utf-8"))
    assert len(listed) > 20
    assert [page for page in listed if not (SITE / page).exists()] == []
    assert all(page.with_suffix(".md").exists() for page in site if page.parent.name == "reference")
    whole = (SITE / "llms-full.txt").read_text("utf-8")
    document = json.loads((ROOT / "docs/reference/openapi.json").read_bytes())
    names = [row["operationId"] for item in document["paths"].values() for row in item.values()]
    assert [name for name in names if f"Operation `{name}`" not in whole] == []


def test_every_block_of_the_guides_has_a_language_and_json_is_json() -> None:
    """Calls are made by tests/test_docs.py, programs by tests/clients; JSON that is shown is whole."""
    for where, language, text in blocks():
        assert language in LANGUAGES, where
        if language == "json":
            json.loads(text)


def test_the_tool_of_the_site_is_small() -> None:
    """At most 200 lines make the reference and finish the site."""
    assert len((ROOT / "tools/site.py").read_text("utf-8").splitlines()) <= 200
