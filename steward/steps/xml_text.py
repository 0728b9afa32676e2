"""xml: text into fields and back, as the origin does by default (imports 6); paired with itself."""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape

from steward.steps import js_values as js
from steward.steps.items import Item
from steward.steps.kinds import Asked, Call, ItemFailed, Params, Problem, Result, StepType, each, same

LARGEST = 5 * 1024 * 1024
_NAME = re.compile(r"[^\W\d][\w.:-]*\Z")


class Xml(StepType):
    """Attributes are merged into fields and single children are no lists, unless the options say so."""

    types = ("xml",)
    known = frozenset(("mode", "dataPropertyName", "options"))

    def check(self, asked: Asked) -> Iterable[Problem]:
        """That it is one of the two ways."""
        if asked.get("mode", "xmlToJson") not in ("xmlToJson", "jsonToxml"):
            yield Problem("error", "parameter", "Its mode is not known. Choose another one.")

    async def run(self, call: Call) -> Result:
        """Each item read or written."""
        return each(call, lambda place, item: [_turned(call.params(place), place, item)])


def _turned(params: Params, place: int, item: Item) -> Item:
    name = params.text("dataPropertyName", "data")
    if params.text("mode", "xmlToJson") == "jsonToxml":
        return Item({name: written(item.json, params)}, same(place))
    text = item.json.get(name)
    if not isinstance(text, str):
        raise ItemFailed(f"The item has no text in the field “{name}”.")
    return Item(read_xml(text, params), same(place))


class _Builder:
    """Builds the fields of an element as its parts are met."""

    def __init__(self, params: Params) -> None:
        self.attributes = params.text("options.attrkey", "$")
        self.characters = params.text("options.charkey", "_")
        self.merge = params.flag("options.mergeAttrs", default=True)
        self.always_list = params.flag("options.explicitArray")
        self.no_attributes = params.flag("options.ignoreAttrs")
        self.trim = params.flag("options.trim")
        self.normalize = params.flag("options.normalize")
        self.lower = params.flag("options.normalizeTags")
        self.stack: list[tuple[str, dict[str, Any], list[str]]] = []
        self.root: tuple[str, Any] | None = None

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""
        fields: dict[str, Any] = {}
        if attributes and not self.no_attributes:
            if self.merge:
                fields.update(
                    {key: [value] if self.always_list else value for key, value in attributes.items()}
                )
            else:
                fields[self.attributes] = dict(attributes)
        self.stack.append((name.lower() if self.lower else name, fields, []))
        if len(self.stack) > 200:
            raise ItemFailed("The XML is nested too deeply.")

    def characters_of(self, text: str) -> None:
        """Characters of the element."""
        if self.stack:
            self.stack[-1][2].append(text)

    def end(self, name: str) -> None:
        """An element is whole."""
        tag, fields, texts = self.stack.pop()
        text = "".join(texts)
        if self.normalize:
            text = re.sub(r"\s+", " ", text).strip()
        elif self.trim:
            text = text.strip()
        value: Any = fields
        if text.strip():
            value = {self.characters: text, **fields} if fields else text
        elif not fields:
            value = ""
        if not self.stack:
            self.root = (tag, value)
            return
        into = self.stack[-1][1]
        if tag not in into:
            into[tag] = [value] if self.always_list else value
        elif isinstance(into[tag], list):
            into[tag].append(value)
        else:
            into[tag] = [into[tag], value]


def read_xml(text: str, params: Params) -> dict[str, Any]:
    """The fields of an XML text. Raises ItemFailed."""
    if len(text) > LARGEST:
        raise ItemFailed("The XML is larger than 5 MiB.")
    builder = _Builder(params)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters_of
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
    return dict(value) if isinstance(value, Mapping) else {tag: value}


def _no_entities(*declared: object) -> None:
    raise ItemFailed("The XML declares entities of its own, which are not read.")


def written(json: Mapping[str, Any], params: Params) -> str:
    """Fields as an XML text."""
    attributes, characters = params.text("options.attrkey", "$"), params.text("options.charkey", "_")
    root = params.text("options.rootName", "root")
    single = next(iter(json), None) if len(json) == 1 else None
    value: Any = json
    if single is not None and not params.has("rootName") and not _given(params, "rootName"):
        root, value = single, json[single]
    head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    if params.flag("options.headless"):
        head = ""
    if js.is_list(value):
        value = {"item": value}
    return head + "\n".join(_element(root, value, 0, attributes, characters))


def _given(params: Params, name: str) -> bool:
    options = params.get("options", {})
    return isinstance(options, Mapping) and name in options


def _element(name: str, value: Any, depth: int, attributes: str, characters: str) -> list[str]:
    if not _NAME.match(name):
        raise ItemFailed(f"“{name[:80]}” is no name of an XML element.")
    pad = "  " * depth
    if not js.is_object(value):
        text = "" if js.is_missing(value) else escape(js.text(value))
        return [f"{pad}<{name}>{text}</{name}>" if text else f"{pad}<{name}/>"]
    own = value.get(attributes)
    tag = name
    for key, one in own.items() if js.is_object(own) else ():
        tag += f' {key}="{escape(js.text(one), {chr(34): "&quot;"})}"'
    inside: list[str] = []
    for key, one in value.items():
        if key in (attributes, characters):
            continue
        for each_ in one if js.is_list(one) else [one]:
            inside += _element(key, each_, depth + 1, attributes, characters)
    text = escape(js.text(value[characters])) if characters in value else ""
    if not inside:
        return [f"{pad}<{tag}>{text}</{name}>" if text else f"{pad}<{tag}/>"]
    return [f"{pad}<{tag}>{text}", *inside, f"{pad}</{name}>"]
