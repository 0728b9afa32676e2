"""The node xml: converts XML to JSON and back, as xml2js does by default."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from steward.model.json import JsonObject, JsonValue
from steward.model.plan import OnError
from steward.steps.n8n.markup.xml_reader import read_xml
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

_NAME = re.compile(r"[^\W\d][\w.:-]*\Z")


class XmlNode(StepType):
    """Converts XML; by default attributes become fields and single children are no lists."""

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
        """Converts each item; a tolerated failure drops the item, as in n8n."""
        converted = []
        for index, item in enumerate(call.items):
            try:
                converted.append(_converted(call.params(index), index, item))
            except ItemFailed:
                if call.on_error is OnError.STOP:
                    raise
        dropped = len(call.items) - len(converted)
        message = f"{dropped} items could not be converted and are in no output, as in n8n."
        return NodeResult([converted], message=message if dropped else None)


def _converted(params: Params, index: int, item: Item) -> Item:
    name = params.text("dataPropertyName", "data")
    if params.text("mode", "xmlToJson") == "jsonToxml":
        return Item({name: written(item.json, params)}, paired_with(index))
    text = item.json.get(name)
    if not isinstance(text, str):
        raise ItemFailed(f"The item has no text in the field “{name}”.")
    return Item(read_xml(text, params), paired_with(index))


@dataclass(frozen=True, slots=True)
class _Style:
    """The style of XML output: the keys of attributes and text, and whether to write CDATA."""

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


def _listed(elements: Sequence[JsonValue]) -> list[tuple[str | None, JsonValue]]:
    """Returns the fields of all objects in an unnamed list. Raises ItemFailed if it contains text."""
    inside: list[tuple[str | None, JsonValue]] = []
    for element in elements:
        if js.is_object(element):
            inside += [(name, [member]) for name, member in element.items()]
        elif (isinstance(element, str) or js.is_list(element)) and element:
            raise ItemFailed("A list holds a text or a list without a name, which XML has no element for.")
    return inside


def _attributes(member: JsonValue) -> str:
    if js.is_list(member) and member:
        raise ItemFailed("The attributes of an element are a list. Give an object.")
    fields = member if js.is_object(member) else {}
    return "".join(f' {_named(name)}="{_attribute(value)}"' for name, value in fields.items())


def _element(name: str, value: JsonValue, depth: int, style: _Style) -> list[str]:
    if not js.is_object(value):
        inside: list[tuple[str | None, JsonValue]] = _listed(value) if js.is_list(value) else []
        return _tree(name, "", "" if js.is_list(value) else _text(value, style), inside, depth, style)
    attributes, text = "", ""
    inside = []
    for key, member in value.items():
        if key == style.attributes:
            attributes = _attributes(member)
        elif key == style.characters:
            if js.is_object(member) or js.is_list(member):
                raise ItemFailed(f"“{key[:80]}” stands for text, and is none here.")
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
            lines += _element(key, element, depth + 1, style)
    if not lines:
        return [f"{pad}<{tag}{attributes}>{text}</{tag}>" if text else f"{pad}<{tag}{attributes}/>"]
    return [f"{pad}<{tag}{attributes}>", *lines, f"{pad}</{tag}>"]


def _named(name: str) -> str:
    if not _NAME.match(name):
        raise ItemFailed(f"“{name[:80]}” is not a name of an XML element.")
    return name
