"""The node rssFeedRead: reads the entries of RSS and Atom feeds in the form of the library rss-parser."""

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC
from types import MappingProxyType
from xml.sax.saxutils import escape, quoteattr

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import StepKind
from steward.outbound.errors import CallError
from steward.steps.n8n.http_sign_in import proposed_account
from steward.steps.n8n.markup.xml_reader import read_xml
from steward.steps.n8n.nodes.lists import names_of
from steward.steps.workflow.addresses import (
    ANY_CERTIFICATE,
    https_address,
    listed_origin,
    uncalled_address_problems,
)
from steward.steps.workflow.external_calls import as_item_failure, read_each_item
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.responses import run_data_in_read_problems
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    Params,
    StepCall,
    StepProblem,
    StepType,
)
from steward.steps.workflow.web_access import KIND, web_access_of

MAX_ENTRIES = 10_000
_Convert = Callable[[JsonObject, Sequence[str]], dict[str, JsonValue]]

_ACCEPT = {"accept": "application/rss+xml, application/atom+xml, application/xml;q=0.9, */*;q=0.5"}
_AS_LISTS = Params({"options": {"explicitArray": True, "mergeAttrs": False}})
# The entry's field for each element; if several elements are present, the last in this table wins.
_FIELDS = MappingProxyType(
    {"author": "creator", "dc:creator": "creator", "dc:date": "date", "dc:language": "language"}
    | {"dc:rights": "rights", "dc:source": "source", "dc:title": "title"}
)
_PLAIN = ("title", "link", "pubDate", "author", "summary", "content:encoded", "enclosure", "dc:creator")
_PLAIN_AFTER = ("dc:date", "comments")
_ITUNES = (
    *("author", "subtitle", "summary", "explicit", "duration"),
    *("image", "episode", "season", "keywords", "episodeType"),
)


class RssFeedReadNode(StepType):
    """Outputs an item per entry; version 1 reads a single feed, later versions one per item."""

    types = ("rssFeedRead",)
    versions = (1, 1.1, 1.2)
    kind = StepKind.READ
    field_use = FieldUse.REPLACES_ITEMS
    parameters = frozenset(("url", "options"))
    options = frozenset(("ignoreSSL", "customFields"))

    def required_connection(self, node: NodeDefinition) -> str | None:
        """Returns http_api for the address of a private host, or None."""
        return None if listed_origin(node.get("url")) is None else KIND

    def account(self, node: NodeDefinition) -> JsonObject | None:
        """Returns the account to bind: the private host."""
        return None if self.required_connection(node) is None else proposed_account(node.parameters, None)

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unsupported or insecure addresses, and options that have no effect."""
        url = node.get("url", "")
        if not isinstance(url, str) or not url.strip():
            yield StepProblem("error", "parameter", "It names no feed. Write the address of one.")
        else:
            yield from uncalled_address_problems(url, allows_http=True, takes_account=True)
            if re.match(r"=?http://", url.strip(), re.IGNORECASE) and listed_origin(url) is None:
                message = (
                    "It reads an http address: others can change the data. Use https if the server has it."
                )
                yield StepProblem("warning", "parameter", message)
        if node.get("options.ignoreSSL"):
            yield StepProblem("warning", "parameter", ANY_CERTIFICATE)
        yield from run_data_in_read_problems(node, "url")

    async def run(self, call: StepCall) -> NodeResult:
        """Reads the feed of each item."""
        web = web_access_of(call)

        async def read(index: int) -> list[dict[str, JsonValue]]:
            params = call.params(index)
            if call.version < 1.1 and index > 0:
                return []
            try:
                response = await web.read("GET", https_address(params.text("url"), allows_http=True), _ACCEPT)
            except CallError as error:
                raise as_item_failure(error) from error
            if not response.ok:
                raise ItemFailed(f"The address answered with status {response.status}.")
            custom = names_of(params.get("options.customFields", ""))
            return entries_in(_decoded(response.body, response.headers.get("content-type", "")), custom)

        return await read_each_item(call, read)


def _decoded(body: bytes, content_type: str) -> str:
    """Decodes a feed by the charset of its header, else of its declaration, else as UTF-8."""
    declared = re.search(rb"<\?xml[^>]*encoding=[\"']([\w-]+)[\"']", body[:200])
    named = re.search(r"charset=[\"']?([\w-]+)", content_type, re.IGNORECASE)
    charset = named[1] if named else declared[1].decode() if declared else "utf-8"
    try:
        return body.decode(charset, "replace").removeprefix("\ufeff")
    except LookupError:
        return body.decode("utf-8", "replace").removeprefix("\ufeff")


def entries_in(text: str, custom: Sequence[str] = ()) -> list[dict[str, JsonValue]]:
    """Parses the entries of a feed. Raises ItemFailed if the text is no feed or too long."""
    document = read_xml(text.strip(), _AS_LISTS)
    entries, convert = _entries(*next(iter(document.items()), ("", None)))
    if len(entries) > MAX_ENTRIES:
        raise ItemFailed(f"The feed has more than {MAX_ENTRIES:,} entries.")
    return [convert(entry if isinstance(entry, Mapping) else {}, custom) for entry in entries]


def _entries(root: str, value: JsonValue) -> tuple[list[AnyJson], _Convert]:
    """Returns the entries of a feed, and what makes an item of one. Raises ItemFailed."""
    if root == "feed":
        return _members(value, "entry"), _atom
    if root == "rdf:RDF":
        return _members(value, "item"), _rss
    version = _attribute(value, "version")
    channels = _members(value, "channel")
    if root != "rss" or not version.startswith(("2", "0.9")) or not channels:
        raise ItemFailed("The address answers with no feed of RSS or Atom.")
    is_podcast = version.startswith("2") and _attribute(value, "xmlns:itunes")
    return _members(channels[0], "item"), _podcast if is_podcast else _rss


def _attribute(value: JsonValue, name: str) -> str:
    attributes = value.get("$") if isinstance(value, Mapping) else None
    return str(attributes.get(name, "")) if isinstance(attributes, Mapping) else ""


def _members(value: JsonValue, name: str) -> list[AnyJson]:
    members = value.get(name, []) if isinstance(value, Mapping) else []
    return list(members) if isinstance(members, list) else []


def _first(entry: JsonObject, name: str) -> AnyJson:
    """Returns the text or the content of an element, or UNDEFINED if it is absent."""
    value = next(iter(_members(entry, name)), js.UNDEFINED)
    return value["_"] if isinstance(value, Mapping) and isinstance(value.get("_"), str) else value


def _copied(entry: JsonObject, fields: Iterable[tuple[str, str]]) -> dict[str, JsonValue]:
    copied = {}
    for name, field in fields:
        value = _first(entry, name)
        if value is not js.UNDEFINED:
            copied[field] = value
            if name == "content:encoded" and isinstance(value, str):
                copied[f"{field}Snippet"] = _snippet(value)
    return copied


def _rss(entry: JsonObject, custom: Sequence[str]) -> dict[str, JsonValue]:
    plain = ((name, name) for name in (*_PLAIN, *_PLAIN_AFTER, *custom))
    item = _copied(entry, (*_FIELDS.items(), *plain))
    enclosure = next(iter(_members(entry, "enclosure")), None)
    if isinstance(enclosure, Mapping):
        item["enclosure"] = enclosure.get("$", {})
    _add_content(item, entry, "description", "content")
    guid = _first(entry, "guid")
    if guid is not js.UNDEFINED:
        item["guid"] = guid
    if "category" in entry:
        item["categories"] = entry["category"]
    if about := _attribute(entry, "rdf:about"):
        item["rdf:about"] = about
    return _dated(item)


def _podcast(entry: JsonObject, custom: Sequence[str]) -> dict[str, JsonValue]:
    item = _rss(entry, custom)
    about: dict[str, JsonValue] = {}
    for name in _ITUNES:
        values = _members(entry, f"itunes:{name}")
        if values:
            about[name] = (_attribute(values[0], "href") if name == "image" else "") or values[0]
    return {**item, "itunes": about}


def _atom(entry: JsonObject, custom: Sequence[str]) -> dict[str, JsonValue]:
    item = _copied(entry, ((name, name) for name in custom))
    title = _first(entry, "title")
    if title is not js.UNDEFINED and title != "":
        item["title"] = title
    link = _link(_members(entry, "link"))
    if link is not None:
        item["link"] = link
    published = _iso(_first(entry, "published")) or _iso(_first(entry, "updated"))
    if published is not None:
        item["pubDate"] = published
    author = next(iter(_members(entry, "author")), None)
    name = _first(author, "name") if isinstance(author, Mapping) else js.UNDEFINED
    if name is not js.UNDEFINED:
        item["author"] = name
    _add_content(item, entry, "content", "content")
    _add_content(item, entry, "summary", "summary")
    item.pop("summarySnippet", None)
    identifier = _first(entry, "id")
    if identifier is not js.UNDEFINED:
        item["id"] = identifier
    return _dated(item)


def _link(links: Sequence[AnyJson]) -> JsonValue:
    """Returns the URL of the alternate link, else of the first link."""
    attributes = [link.get("$", {}) for link in links if isinstance(link, Mapping)]
    chosen = [link for link in attributes if link.get("rel") == "alternate"] or attributes
    return chosen[0].get("href") if chosen else None


def _add_content(item: dict[str, JsonValue], entry: Mapping[str, AnyJson], name: str, field: str) -> None:
    content = _text_of(entry, name)
    if content is not None:
        item[field] = content
        item[f"{field}Snippet"] = _snippet(content)


def _text_of(entry: Mapping[str, AnyJson], name: str) -> str | None:
    """Returns the text of an element, or its elements written as text within a `div`."""
    content = _first(entry, name)
    if isinstance(content, Mapping):
        return _markup("div", content)
    return content if isinstance(content, str) else None


def _markup(name: str, value: JsonValue) -> str:
    """Writes an element that was read: its text before its elements."""
    fields = value if isinstance(value, Mapping) else {"_": value}
    attributes = fields.get("$", {})
    pairs = attributes.items() if isinstance(attributes, Mapping) else ()
    opening = name + "".join(f" {key}={quoteattr(str(text))}" for key, text in pairs)
    inside = escape(str(fields.get("_", "")))
    for key, members in fields.items():
        if key not in ("$", "_"):
            inside += "".join(
                _markup(key, member) for member in (members if isinstance(members, list) else ())
            )
    return f"<{opening}>{inside}</{name}>" if inside else f"<{opening}/>"


_BLOCKS = re.compile(r"([^\n])</?(?:h|br|p|ul|ol|li|blockquote|section|table|tr|div)[^>]*>([^\n])", re.DOTALL)
_TAGS = re.compile(r"<[^>]*>", re.DOTALL)


def _snippet(content: str) -> str:
    """Returns the text without its tags."""
    return html.unescape(_TAGS.sub("", _BLOCKS.sub(r"\1\n\2", content))).strip()


def _iso(value: JsonValue) -> str | None:
    date = js_dates.parse(value.strip(), UTC) if isinstance(value, str) else None
    if date is None:
        return None
    moment = date.astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _dated(item: dict[str, JsonValue]) -> dict[str, JsonValue]:
    iso = _iso(item.get("pubDate") or item.get("date"))
    if iso is not None:
        item["isoDate"] = iso
    return item
