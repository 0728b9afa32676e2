"""The node xml: converts XML to JSON and back, as xml2js does by default."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.model.plan import OnError
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
    paired_with,
)

_LARGEST = 5 * 1024 * 1024
_NAME = re.compile(r"[^\W\d][\w.:-]*\Z")


class XmlNode(StepType):
    """By default attributes become fields, and single children are not lists."""

    types = ("xml",)
    options = frozenset(
        (
            "attrkey",
            "charkey",
            "explicitArray",
            "explicitRoot",
            "ignoreAttrs",
            "mergeAttrs",
            "normalize",
            "normalizeTags",
            "trim",
            "allowSurrogateChars",
            "cdata",
            "headless",
            "rootName",
        )
    )
    parameters = frozenset(("mode", "dataPropertyName", "options"))

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unknown modes and options."""
        if node.get("mode", "xmlToJson") not in ("xmlToJson", "jsonToxml"):
            yield StepProblem("error", "parameter", "Its mode is not known. Choose another one.")

    def keeps_files(self, call: StepCall) -> bool:
        """Items keep their files."""
        return True

    async def run(self, call: StepCall) -> NodeResult:
        """Converts each item; an item whose failure is tolerated is in no output, as in n8n."""
        converted = []
        for index, item in enumerate(call.items):
            try:
                converted.append(_turned(call.params(index), index, item))
            except ItemFailed:
                if call.on_error is OnError.STOP:
                    raise
        dropped = len(call.items) - len(converted)
        words = f"{dropped} items could not be converted and are in no output, as in n8n."
        return NodeResult([converted], message=words if dropped else None)


def _turned(params: Params, index: int, item: Item) -> Item:
    name = params.text("dataPropertyName", "data")
    if params.text("mode", "xmlToJson") == "jsonToxml":
        return Item({name: written(item.json, params)}, paired_with(index))
    text = item.json.get(name)
    if not isinstance(text, str):
        raise ItemFailed(f"The item has no text in the field “{name}”.")
    return Item(read_xml(text, params), paired_with(index))


class _Builder:
    """Builds the fields of an element while it is parsed."""

    def __init__(self, params: Params) -> None:
        self.attributes = params.text("options.attrkey", "$")
        self.characters = params.text("options.charkey", "_")
        self.merge = params.flag("options.mergeAttrs", default=True)
        self.always_list = params.flag("options.explicitArray")
        self.no_attributes = params.flag("options.ignoreAttrs")
        self.trim = params.flag("options.trim")
        self.normalize = params.flag("options.normalize")
        self.lower = params.flag("options.normalizeTags")
        self.stack: list[_Element] = []
        self.root: tuple[str, JsonValue] | None = None

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Opens an element."""
        fields: dict[str, JsonValue] = {}
        if attributes and not self.no_attributes:
            if self.merge:
                fields.update(
                    {key: [value] if self.always_list else value for key, value in attributes.items()}
                )
            else:
                fields[self.attributes] = dict(attributes)
        self.stack.append(_Element(name.lower() if self.lower else name, fields))
        if len(self.stack) > 200:
            raise ItemFailed("The XML is nested too deeply.")

    def characters_of(self, text: str) -> None:
        """Adds text to the element."""
        if self.stack:
            self.stack[-1].texts.append(text)

    def marked(self) -> None:
        """Adds CDATA, which counts even if it is blank."""
        if self.stack:
            self.stack[-1].marked = True

    def end(self, name: str) -> None:
        """Closes an element."""
        element = self.stack.pop()
        value = self._value_of(element)
        if not self.stack:
            self.root = (element.name, value)
            return
        into = self.stack[-1].fields
        if element.name not in into:
            into[element.name] = [value] if self.always_list else value
        elif isinstance(into[element.name], list):
            into[element.name].append(value)
        else:
            into[element.name] = [into[element.name], value]

    def _value_of(self, element: "_Element") -> JsonValue:
        """Returns the fields of an element, its text, or both. Raises ItemFailed."""
        fields, whole = element.fields, "".join(element.texts)
        if self.characters in fields:
            raise ItemFailed(
                f"The XML has a field “{self.characters}”, which stands for text. Choose another."
            )
        if whole.strip() or element.marked:
            text = whole.strip() if self.trim else whole
            if self.normalize:
                text = re.sub(r"\s{2,}", " ", text).strip()
            return {self.characters: text, **fields} if fields else text
        return fields or whole  # blanks alone are the text of an element that has nothing else


@dataclass(slots=True)
class _Element:
    name: str
    fields: dict[str, AnyJson]
    texts: list[str] = field(default_factory=list)
    marked: bool = False


def read_xml(text: str, params: Params) -> JsonObject:
    """Parses an XML text. Raises ItemFailed."""
    if len(text) > _LARGEST:
        raise ItemFailed("The XML is larger than 5 MiB.")
    builder = _Builder(params)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters_of
    parser.StartCdataSectionHandler = builder.marked
    parser.EntityDeclHandler = _no_entities
    try:
        parser.Parse(text.encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        raise ItemFailed(f"The XML cannot be read: {error}.") from None
    if builder.root is None:
        return {}
    tag, value = builder.root
    if params.flag("options.explicitRoot", default=True):
        return {tag: value}
    if not isinstance(value, Mapping):
        raise ItemFailed(
            "The XML has no fields below its first element. Keep that element (“Explicit Root”)."
        )
    return dict(value)


def _no_entities(*declared: object) -> None:
    raise ItemFailed("The XML declares its own entities, which are not supported.")


@dataclass(frozen=True, slots=True)
class _Style:
    """How fields become XML: the keys of attributes and text, and whether to write CDATA."""

    attributes: str
    characters: str
    cdata: bool


def written(json: JsonObject, params: Params) -> str:
    """Writes fields as an XML text. Raises ItemFailed."""
    style = _Style(
        attributes=params.text("options.attrkey", "$"),
        characters=params.text("options.charkey", "_"),
        cdata=params.flag("options.cdata"),
    )
    root = params.text("options.rootName", "root")
    value: JsonValue = json
    if len(json) == 1 and root == "root":
        root, value = next(iter(json.items()))
    head = "" if params.flag("options.headless") else _HEAD
    if js.is_list(value):  # each element beside the others below the root, without a name of its own
        inside: list[tuple[str | None, JsonValue]] = []
        for element in value:
            inside += list(element.items()) if js.is_object(element) else []
        return head + "\n".join(_tree(root, "", "", inside, 0, style))
    return head + "\n".join(_element(root, value, 0, style))


_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_ODD = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def _text(value: object, style: _Style) -> str:
    text = "" if js.is_missing(value) else js.text(value)
    if _ODD.search(text):
        raise ItemFailed("A text has a character that XML does not have.")
    if style.cdata and re.search("[<>&]", text):
        inside = text.replace("]]>", "]]]]><![CDATA[>")
        return f"<![CDATA[{inside}]]>"
    return escape(text, {"\r": "&#xD;"})


def _attribute(value: object) -> str:
    text = "" if js.is_missing(value) else js.text(value)
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;")):
        text = text.replace(sign, entity)
    return text.replace("\t", "&#x9;").replace("\n", "&#xA;").replace("\r", "&#xD;")


def _element(name: str, value: JsonValue, depth: int, style: _Style) -> list[str]:
    if not js.is_object(value):
        return _tree(name, "", _text(value, style), [], depth, style)
    attributes, text = "", ""
    inside: list[tuple[str | None, JsonValue]] = []
    for key, member in value.items():
        if key == style.attributes and js.is_object(member):
            for attribute, attribute_value in member.items():
                attributes += f' {_named(attribute)}="{_attribute(attribute_value)}"'
        elif key == style.characters:
            text = _text(member, style)
            inside.append((None, text))
        else:
            inside.append((key, member))
    if all(key is None for key, _ in inside):
        return _tree(name, attributes, text, [], depth, style)
    return _tree(name, attributes, "", inside, depth, style)


def _tree(
    name: str,
    attributes: str,
    text: str,
    inside: Sequence[tuple[str | None, JsonValue]],
    depth: int,
    style: _Style,
) -> list[str]:
    pad, tag = "  " * depth, _named(name)
    lines: list[str] = []
    for key, child in inside:
        if key is None:
            lines += [f"{pad}  {child}"] if child else []
            continue
        for element in child if js.is_list(child) else [child]:
            if js.is_list(element):
                raise ItemFailed(f"“{key[:80]}” is a list of lists, which XML has no names for.")
            lines += _element(key, element, depth + 1, style)
    if not lines:
        return [f"{pad}<{tag}{attributes}>{text}</{tag}>" if text else f"{pad}<{tag}{attributes}/>"]
    return [f"{pad}<{tag}{attributes}>", *lines, f"{pad}</{tag}>"]


def _named(name: str) -> str:
    if not _NAME.match(name):
        raise ItemFailed(f"“{name[:80]}” is no name of an XML element.")
    return name
