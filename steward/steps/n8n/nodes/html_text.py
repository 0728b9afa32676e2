"""The node html: extracts values from pages by CSS selectors, or renders a page."""

import re
from collections.abc import Iterable, Sequence
from html import unescape

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n import item_files
from steward.steps.n8n.markup.html_to_text import is_readable, plain_text
from steward.steps.workflow.each_item import convert_each_item
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
    for_each_item,
    paired_with,
)

_LARGEST = 5 * 1024 * 1024


class HtmlNode(StepType):
    """Extracts values from pages and renders pages from a template; does not convert to tables."""

    types: tuple[str, ...] = ("html",)
    versions: tuple[float, ...] = (1, 1.1, 1.2)
    options: frozenset[str] | None = frozenset(("trimValues", "cleanUpText")) | frozenset(
        ("capitalize", "customStyling", "caption", "tableAttributes", "headerAttributes", "rowAttributes")
    )
    parameters = frozenset(
        ("operation", "sourceData", "dataPropertyName", "extractionValues", "options", "html", "notice")
    )
    unjoined_parameters: tuple[str, ...] = ("html",)
    tidies = True

    def stored_parameters(self, node: NodeDefinition) -> JsonObject:
        """Returns the parameters with the template as text with expressions, which is how n8n reads it."""
        page = node.get("html")
        if isinstance(page, str) and not page.startswith("=") and _makes_pages(node):
            return {**node.parameters, "html": f"={page}"}
        return node.parameters

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported operations and invalid selectors."""
        if _makes_pages(node):
            if not isinstance(node.get("html"), str):
                message = "The page it makes is not in the file. Write it, or remove the step."
                yield StepProblem("error", "parameter", message)
            return
        if node.get("operation") != "extractHtmlContent":
            message = "It makes a table of HTML, which is not supported. Make a page, or remove the step."
            yield StepProblem("error", "parameter", message)
        yield from _selector_problems(node)

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the name of the file that holds the page, or none if a field does."""
        return () if _makes_pages(node) else _page_files(node)

    async def run(self, call: StepCall) -> NodeResult:
        """Extracts the values of each page, or makes a page for each item."""
        if call.first.text("operation", "generateHtmlTemplate") == "generateHtmlTemplate":
            return for_each_item(call, lambda index, item: [_page(call.params(index), index)])
        return await _extracts(call, self.tidies)


class HtmlExtractNode(HtmlNode):
    """The predecessor of html, which only extracts, and joins the texts of all matches."""

    types = ("htmlExtract",)
    versions = (1,)
    options = frozenset(("trimValues",))
    parameters = frozenset(("sourceData", "dataPropertyName", "extractionValues", "options"))
    unjoined_parameters = ()
    tidies = False

    def stored_parameters(self, node: NodeDefinition) -> JsonObject:
        """Returns the parameters unchanged."""
        return node.parameters

    def file_names(self, node: NodeDefinition) -> Sequence[str]:
        """Returns the name of the file that holds the page, or none if a field does."""
        return _page_files(node)

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields invalid selectors."""
        return _selector_problems(node)

    async def run(self, call: StepCall) -> NodeResult:
        """Extracts the values of each page."""
        return await _extracts(call, self.tidies)


def _page_files(node: NodeDefinition) -> Sequence[str]:
    return (node.file_name("dataPropertyName"),) if node.get("sourceData", "json") == "binary" else ()


def _selector_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    rows = node.get("extractionValues.values", [])
    for row in rows if isinstance(rows, list) else ():
        selector = row.get("cssSelector", "") if isinstance(row, dict) else ""
        if isinstance(selector, str) and selector and not selector.startswith("=") and not _reads(selector):
            message = f"Its selector “{selector[:80]}” cannot be read. Write a plain CSS selector."
            yield StepProblem("error", "parameter", message)


async def _extracts(call: StepCall, tidies: bool) -> NodeResult:
    async def convert(index: int, item: Item) -> list[Item]:
        return _extracted(call, index, await _pages_of(call, index, item), tidies)

    return await convert_each_item(call, convert)


async def _pages_of(call: StepCall, index: int, item: Item) -> list[JsonValue]:
    """Returns the pages of an item: the text or texts of a field, or the content of a file."""
    params = call.params(index)
    name = params.text("dataPropertyName", "data")
    if params.text("sourceData", "json") == "binary":
        content = await item_files.content_of(call, item_files.file_of(item, name))
        return [content.decode("utf-8", "replace")]
    source = item.json.get(name)
    return source if isinstance(source, list) else [source]


def _makes_pages(node: NodeDefinition) -> bool:
    return str(node.get("operation", "generateHtmlTemplate")) == "generateHtmlTemplate"


def _page(params: Params, index: int) -> Item:
    page = params.get("html", "")
    text = page if isinstance(page, str) else "".join(js.text(part) for part in page.parts)
    return Item({"html": text}, paired_with(index))


def _reads(selector: str) -> bool:
    try:
        LexborHTMLParser("<p></p>").css(selector)
    except (SelectolaxError, ValueError):
        return False
    return True


def _extracted(call: StepCall, index: int, pages: Sequence[JsonValue], tidies: bool) -> list[Item]:
    params = call.params(index)
    tidy = tidies and params.flag("options.cleanUpText")
    extracted = []
    for page in pages:
        if not isinstance(page, str):
            raise ItemFailed("The field with the HTML is missing or is not text.")
        if len(page) > _LARGEST:
            raise ItemFailed("The page is larger than 5 MiB.")
        if not is_readable(page):
            raise ItemFailed("The page has too many elements, or elements too deep in one another.")
        _check_noframes(page, params)
        text = _with_scripting(page)
        tree = LexborHTMLParser(text)
        json: dict[str, JsonValue] = {}
        for row in params.rows("extractionValues.values"):
            value = _value(tree, row, params, first_only=call.version >= 1.2, tidy=tidy)
            js.set_path(json, row.text("key"), value if text is page else _renamed_back(value))
        extracted.append(Item(js.to_json(json), paired_with(index)))
    return extracted


_NOSCRIPT = re.compile(r"(?<=<)(/?)(noscript)(?=[\s/>])", re.IGNORECASE)
_NOFRAMES = re.compile(r"(?<=<)(/?)(noframes)(?=[\s/>])", re.IGNORECASE)
_NAMES_IN_SELECTOR = re.compile(  # text in brackets or quotes does not name elements
    r"""(?P<kept>\[(?:"(?:\\.?|[^"\\])*+(?:"|\Z)|'(?:\\.?|[^'\\])*+(?:'|\Z)|[^]"'])*+(?:\]|\Z)"""
    r"""|"(?:\\.?|[^"\\])*+(?:"|\Z)|'(?:\\.?|[^'\\])*+(?:'|\Z))"""
    r"""|(?<![\w.#:\\-])(?P<name>noscript|noframes)(?![\w-])""",
    re.IGNORECASE | re.DOTALL,
)
_BEHIND_HEAD = re.compile(
    r"</head\b[^>]*(?:>|\Z)"
    r"(?:\s++|<!--.*?(?:-->|\Z)|<[!?/][^>]*(?:>|\Z)|<(?:base|link|meta|head|html)\b[^>]*(?:>|\Z)"
    r"|<(script|style|title|template)\b.*?(?:</\1\s*>|\Z))*+"
    r"(?P<noscript><noscript[\s/>])?",
    re.IGNORECASE | re.DOTALL,
)


def _check_noframes(page: str, params: Params) -> None:
    """Raises ItemFailed if `_with_scripting` cannot rename `noscript` in this page without a conflict."""
    has_noscript = _NOSCRIPT.search(page) is not None
    if has_noscript and any(match["noscript"] for match in _BEHIND_HEAD.finditer(page)):
        message = "The page has a noscript element between </head> and <body>, which cannot be read here."
        raise ItemFailed(f"{message} Remove the element first.")
    names = {
        match["name"].lower()
        for row in params.rows("extractionValues.values")
        for name in ("cssSelector", "skipSelectors")
        for match in _NAMES_IN_SELECTOR.finditer(row.text(name))
        if match["name"]
    }
    has_noframes = "noframes" in page.lower() and _NOFRAMES.search(unescape(page)) is not None
    if (has_noscript or "noscript" in names) and (has_noframes or "noframes" in names):
        message = "The page or a selector uses both noscript and noframes, which cannot be told apart here."
        raise ItemFailed(f"{message} Remove one of them first.")


def _with_scripting(page: str) -> str:
    """Returns the page with `noscript` renamed to `noframes`, whose content is also parsed as text.

    n8n's parser acts as if scripts were enabled: the content of `noscript` is text and not elements.
    """
    return _NOSCRIPT.sub(lambda tag: tag[1] + _in_case_of(tag[2], "noframes"), page)


def _in_case_of(name: str, other_name: str) -> str:
    """Returns `other_name` in the case of `name`, letter by letter; both have the same length."""
    letters = zip(name, other_name, strict=True)
    return "".join(other.upper() if letter.isupper() else other for letter, other in letters)


def _renamed_back(value: AnyJson) -> AnyJson:
    if isinstance(value, list):
        return [_renamed_back(element) for element in value]
    if not isinstance(value, str):
        return value
    return _NOFRAMES.sub(lambda tag: tag[1] + _in_case_of(tag[2], "noscript"), value)


def _value(tree: LexborHTMLParser, row: Params, params: Params, *, first_only: bool, tidy: bool) -> AnyJson:
    nodes = _selected(tree, row.text("cssSelector"))
    trim = params.flag("options.trimValues")
    kind = row.text("returnValue", "text")
    if row.flag("returnArray"):
        return [_of(node, kind, row, trim=trim, tidy=tidy, has_lines=first_only) for node in nodes]
    if kind == "text" and not first_only:  # older versions join the texts of all matches
        joined = "".join(_text(node, row) for node in nodes)
        return _tidied(joined, trim=trim, tidy=tidy)
    if nodes:
        return _of(nodes[0], kind, row, trim=trim, tidy=tidy, has_lines=first_only)
    return {"text": "", "html": None}.get(kind, js.UNDEFINED)  # an attribute without a match adds no field


def _of(node: LexborNode, kind: str, row: Params, *, trim: bool, tidy: bool, has_lines: bool) -> JsonValue:
    if kind == "attribute":
        value = _attribute(node, row.text("attribute"))
    elif kind == "html":
        value = node.inner_html
    elif kind == "value":
        value = _value_of(node)
    else:
        text = _text_with_lines(node, row) if has_lines else _text(node, row)
        return _tidied(text, trim=trim, tidy=tidy)
    return js.trimmed(value) if isinstance(value, str) and trim else value


_BOOLEAN_ATTRIBUTES = frozenset(
    ("autofocus", "autoplay", "async", "checked", "controls", "defer", "disabled", "hidden")
)
_BOOLEAN_ATTRIBUTES |= {"loop", "multiple", "open", "readonly", "required", "scoped", "selected"}


def _attribute(node: LexborNode, name: str) -> AnyJson:
    """Returns an attribute's text as cheerio does, or UNDEFINED if it is absent.

    A boolean attribute has its name as text; options and check boxes without a value get one.
    """
    if name in node.attributes:
        return name if name.lower() in _BOOLEAN_ATTRIBUTES else (node.attributes[name] or "")
    if name == "value" and node.tag == "option":
        return node.text()
    is_box = node.tag == "input" and node.attributes.get("type") in ("checkbox", "radio")
    return "on" if name == "value" and is_box else js.UNDEFINED


def _value_of(node: LexborNode) -> AnyJson:
    """Returns the value of a form element: its text, or the selected or first option."""
    if node.tag == "textarea":
        return node.text()
    if node.tag != "select":
        return _attribute(node, "value") if node.tag in ("input", "option") else js.UNDEFINED
    return _choice_of(node)


def _choice_of(node: LexborNode) -> AnyJson:
    """Returns the values of the selected options of a list, or of its one selected or first option."""
    options = node.css("option")
    chosen = [option for option in options if "selected" in option.attributes]
    if "multiple" in node.attributes:
        return [
            value for value in (_attribute(option, "value") for option in chosen) if value is not js.UNDEFINED
        ]
    picked = next(iter([*chosen, *options]), None)
    return js.UNDEFINED if picked is None else _attribute(picked, "value")


def _text(node: LexborNode, row: Params) -> str:
    """Returns the text of an element without added line breaks, as versions before 1.2 do."""
    skipped = row.text("skipSelectors")
    if not skipped:
        return node.text()
    copy = LexborHTMLParser(f"<body>{node.inner_html or ''}</body>")
    for element in _selected(copy, skipped):
        element.decompose()
    return copy.body.text() if copy.body is not None else ""


def _text_with_lines(node: LexborNode, row: Params) -> str:
    """Returns the text of an element with line breaks, list markers and link addresses."""
    skipped = row.text("skipSelectors")
    return plain_text(node, {element.mem_id for element in _selected(node, skipped)} if skipped else ())


def _selected(tree: LexborHTMLParser | LexborNode, selector: str) -> list[LexborNode]:
    try:
        renamed = _NAMES_IN_SELECTOR.sub(lambda part: part["kept"] or "noframes", selector)
        return tree.css(renamed)
    except (SelectolaxError, ValueError):
        raise ItemFailed(f"The selector “{selector[:80]}” cannot be read.") from None


def _tidied(text: str, *, trim: bool, tidy: bool) -> str:
    if trim or tidy:
        text = js.trimmed(text)
    if tidy:
        text = re.sub(r"[ \t]{2,}", " ", re.sub(r"[\r\n]+", " ", text))
    return text
