"""The documents are true: examples of docs/guides/api-clients.md run, and every link leads somewhere."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from steward.api.http.operation import Access
from steward.api.http.router import Routes
from steward.api.http.statuses import STATUS
from steward.api.operations import OPERATIONS, RAW_OPERATIONS
from tests.documents import citations, documents, links, named_paths, problem
from tests.fake_clock import FakeClock
from tests.people import ApiResponse, Caller
from tests.populated_service import PopulatedService, open_populated_service
from tests.service import LOGIN
from tests.source import ROOT, name_of
from tests.web import test_looks, test_setup_looks
from tests.web.open_pages import PICTURES

PAGE = ROOT / "docs/guides/api-clients.md"
GLOSSARY = ROOT / "docs/glossary.md"
INDEX = ROOT / "docs/index.md"
GUIDE = (ROOT / "docs/guides/merchants.md", *sorted((ROOT / "docs/guides/merchants").glob("*.md")))
SCREENS = ROOT / "docs/guides/screens.md"
_ITALICS = re.compile(r"(?<!\*)\*{1,2}([^*`]+?)\*{1,2}(?!\*)")
# A button that names the service, the name of a step in Shopify Flow, and the button of mail programs.
_COMPOSED = {"Sign in with Google", "Send internal email", "Unsubscribe"}
WORK = "<!-- example: a worker does what can be done -->"
_EXAMPLE = re.compile(
    re.escape(WORK)
    + r"|```http\n(?P<request>.*?)```\n\nResponse (?P<status>\d+)(?:, with `(?P<header>[^`]+)`)?:"
    r"\n\n```json\n(?P<response>.*?)```",
    re.S,
)
# What differs from one run to the next: ids, times, hashes, and what stands for a secret.
_VARYING = re.compile(
    r"[0-9A-HJKMNP-TV-Z]{26}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}Z|\+00:00)|[0-9a-f]{64}|<[A-Z_]+>"
)
_NAMES = {1: "Northwind Tea", 2: "Buying sheet", 3: "Ops channel"}


@dataclass(frozen=True)
class Example:
    """A request of the page and its documented response; without a method, the worker runs instead."""

    method: str = ""
    path: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    content: str = ""
    status: int = 0
    header: str | None = None
    response: Any = None


def examples(text: str) -> Iterator[Example]:
    """The page's examples in order."""
    for match in _EXAMPLE.finditer(text):
        if match["request"] is None:
            yield Example()
            continue
        head, _, content = match["request"].partition("\n\n")
        first, *lines = head.strip().splitlines()
        method, path = first.split(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        response = json.loads(match["response"])
        yield Example(method, path, headers, content.strip(), int(match["status"]), match["header"], response)


class Reader:
    """Follows the page: knows what the page's own ids and times stand for in this run."""

    def __init__(self, populated: PopulatedService, token: Caller) -> None:
        self._populated, self._token = populated, token
        body = populated.service.login_body("member")
        self._real = {"<CLIENT_ID>": body["client_id"], "<CLIENT_SECRET>": body["client_secret"]}

    async def follow(self, example: Example) -> ApiResponse | None:
        """Makes the example's call, compares and returns the response; without a call, drains the queue."""
        self._populated.service.clock.tick(1)
        if not example.method:
            await self._populated.shop.drain()
            return None
        response = await self._call(example)
        where = f"{example.method} {example.path}"
        assert response.status == example.status, (where, response.body)
        if example.header is not None:
            name, _, value = example.header.partition(": ")
            assert response.headers[name] == value, where
        self._compare(example.response, response.body, where)
        return response

    def translated(self, example: Example) -> Example:
        """The example as it is sent: with what its ids stand for in this run."""
        return replace(
            example, path=self._translated(example.path), content=self._translated(example.content)
        )

    async def _call(self, example: Example) -> ApiResponse:
        path, content = self._translated(example.path), self._translated(example.content)
        headers = {name: self._translated(value) for name, value in example.headers.items()}
        if content and "Content-Type" not in headers:
            json.loads(content)
            headers["Content-Type"] = "application/json"
        is_open = path.startswith((LOGIN, "/readyz")) or "Authorization" in headers
        caller = self._populated.service.nobody() if is_open else self._token
        return await caller.call(example.method, path, content=content.encode() or None, headers=headers)

    def _translated(self, text: str) -> str:
        for documented, real in self._real.items():
            text = text.replace(documented, real)
        return text

    def _compare(self, documented: Any, real: Any, where: str) -> None:
        """Asserts that the response has everything shown; it may have more fields and further items."""
        if isinstance(documented, dict):
            assert isinstance(real, dict), where
            for name, value in documented.items():
                assert name in real, f"{where}.{name}"
                if name == "next_cursor" and value is not None:
                    assert isinstance(real[name], str), f"{where}.{name}"
                else:
                    self._compare(value, real[name], f"{where}.{name}")
        elif isinstance(documented, list):
            assert isinstance(real, list), where
            assert len(documented) <= len(real), where
            assert bool(documented) == bool(real), where
            for number, value in enumerate(documented):
                self._compare(value, real[number], f"{where}.{number}")
        elif isinstance(documented, str) and documented != real and _VARYING.fullmatch(documented):
            assert isinstance(real, str), where
            if not documented.startswith("<"):
                assert _VARYING.fullmatch(real), where
            self._real[documented] = real
        else:
            assert (type(documented), documented) == (type(real), real), where


async def opened_as_shown(
    database_url: str, clock: FakeClock, folder: Path
) -> tuple[PopulatedService, Caller]:
    """The whole service with the page's names of what is connected, and its owner."""
    populated = await open_populated_service(database_url, clock, folder)
    owner = await populated.service.web("owner")
    for number, name in _NAMES.items():
        renamed = await owner.patch(f"/app/connections/{number}", {"name": name})
        assert renamed.status == 200
    return populated, owner


async def test_the_examples_of_the_page_are_true(database_url: str, clock: FakeClock, tmp_path: Path) -> None:
    """Each request of the page, in order and against a populated service, gets the response shown."""
    populated, _ = await opened_as_shown(database_url, clock, tmp_path)
    reader = Reader(populated, await populated.service.token("member"))
    for example in examples(PAGE.read_text("utf-8")):
        await reader.follow(example)
    await populated.close()


def test_every_operation_of_the_api_has_an_example() -> None:
    """The page has a request for each operation that a token may call, and for the login."""
    routes = Routes([*OPERATIONS, *RAW_OPERATIONS])
    with_example = set()
    for example in examples(PAGE.read_text("utf-8")):
        match = routes.find(example.path.partition("?")[0]) if example.path else None
        if match is not None:
            row = match.methods[example.method]
            with_example.add((row.method, row.path))
    public = {(row.method, row.path) for row in OPERATIONS if row.access is Access.API}
    missing = sorted(public - with_example)
    assert missing == [], "add a request and the answer to it to docs/guides/api-clients.md"
    assert ("POST", LOGIN) in with_example


def test_every_operation_of_the_web_app_is_named() -> None:
    """The page names each operation of the web app by method and path."""
    text = PAGE.read_text("utf-8")
    camel = re.compile(r"_([a-z])")
    missing = [
        row.path
        for row in OPERATIONS
        if row.access is not Access.API
        and f"{row.method} {camel.sub(lambda letter: letter[1].upper(), row.path)}`" not in text
    ]
    assert missing == [], "add them to the table “The web app” of docs/guides/api-clients.md"


@pytest.mark.parametrize("code", sorted(STATUS))
def test_every_refusal_stands_in_the_page_with_its_status(code: str) -> None:
    """Each refusal code has one line, with its HTTP status."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith(f"| `{code}` |")]
    assert [line.split("|")[2].strip() for line in lines] == [str(STATUS[code])]


@pytest.mark.parametrize("document", documents(), ids=name_of)
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    """Links between documents, and from documents to the code, resolve."""
    targets = [target if target[0] != "#" else document.name + target for target in links(document)]
    problems = [problem(target, document.parent) for target in targets]
    assert [reason for reason in problems if reason is not None] == []


def test_every_path_that_a_document_names_exists() -> None:
    """Documents name files and folders where they are; decision records keep the names of their time."""
    problems = [
        f"{name_of(document)}: {reason}"
        for document in documents()
        if not name_of(document).startswith("docs/decisions/")
        for target in named_paths(document)
        if (reason := problem(target, ROOT)) is not None
    ]
    assert problems == []


def test_the_index_lists_every_design_document() -> None:
    """A reader finds every subject from docs/index.md."""
    listed = {(INDEX.parent / target).resolve() for target in links(INDEX)}
    design = {path for path in documents() if path.parent == INDEX.parent / "design"}
    assert {name_of(path) for path in design - listed} == set()


def test_every_citation_in_the_code_leads_to_a_file_and_a_heading() -> None:
    """A rule that the code or a test cites as `docs/….md#anchor` is in the repository."""
    problems = [
        f"{name_of(path)}: {reason}"
        for path, target in citations()
        if (reason := problem(target, ROOT)) is not None
    ]
    assert problems == []


def test_design_documents_and_glossary_stay_short() -> None:
    """A design document has at most 250 lines, the glossary at most 40 terms."""
    lengths = {
        name_of(path): len(path.read_text("utf-8").splitlines())
        for path in documents()
        if name_of(path).startswith("docs/design/")
    }
    assert {name: length for name, length in lengths.items() if length > 250} == {}
    rows = [line for line in GLOSSARY.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert len(rows) - 2 <= 40  # heading and rule


def test_what_the_guide_sets_in_italics_is_in_the_web_app() -> None:
    """Names of buttons, fields and states in the guide for merchants are the words that the app shows."""
    app = " ".join(
        _without_comments(path.read_text("utf-8"))
        for path in (ROOT / "web/src").rglob("*")
        if path.suffix in (".svelte", ".ts") and ".test." not in path.name and path.name != "schema.d.ts"
    )
    shown = " ".join(app.split())
    guide = " ".join(path.read_text("utf-8") for path in GUIDE)
    words = {
        part
        for italics in _ITALICS.findall(" ".join(guide.split()))
        for part in re.split(r" ?[→›] ?", italics)
    }
    assert len(words) > 50
    # A text of its own: what stands before and after it ends a tag, a string or an expression.
    texts = {part: rf"""[">`'}}]\s*{re.escape(part)}\s*[<"'`{{….,]""" for part in words}
    assert {part for part, text in texts.items() if not re.search(text, shown)} == _COMPOSED


def _without_comments(source: str) -> str:
    """Returns a source of the web app without comments and imports, which nobody sees."""
    text = re.sub(r"<!--.*?-->|/\*.*?\*/", "", source, flags=re.S)
    return "\n".join(line for line in text.splitlines() if not re.match(r"\s*(import\b|//)", line))


def test_every_picture_of_the_guide_is_made() -> None:
    """Each picture is one of a screen that is looked at, in a theme and a size."""
    made = {name for name, _ in (*test_looks.OPEN, *test_looks.SCREENS, *test_looks.STATES)}
    made |= set(re.findall(r'check_looks\("([\w-]+)"\)', Path(test_setup_looks.__file__).read_text("utf-8")))
    pictures = {
        name for path in (*GUIDE, SCREENS) for name in re.findall(r"pictures/([\w-]+)\.png", path.read_text())
    }
    assert pictures <= {
        f"{name}-{theme}-{size}" for name in made for theme in ("light", "dark") for size in PICTURES
    }
