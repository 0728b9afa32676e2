"""Parses XML like the library xml2js: strict about tags, unaware of declared entities, all text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.entities import name2codepoint

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.workflow.step_types import ItemFailed, Params

_LARGEST = 5 * 1024 * 1024
_DEEPEST = 200
_BLANK = "\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_BLANKS = re.compile(f"[{_BLANK}]*\\Z")
_SEVERAL_BLANKS = re.compile(f"[{_BLANK}]{{2,}}")
_ENDS = re.compile(f"\\A[{_BLANK}]+|[{_BLANK}]+\\Z")
_NAME_START = ":_A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f"
_NAME_START += "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd"
_NAME = re.compile(f"[{_NAME_START}][-{_NAME_START}\xb7\u0300-\u036f\u203f\u2040.0-9]*")
_SPACE = re.compile(r"[ \t\r\n]*")
_ENTITY = re.compile(f"&([#{_NAME_START}][-#{_NAME_START}\xb7\u0300-\u036f\u203f\u2040.0-9]*);")
_ENTITIES = {name: chr(code) for name, code in name2codepoint.items()} | {"apos": "'"}


def read_xml(text: str, params: Params) -> JsonObject:
    """Parses an XML text. Raises ItemFailed."""
    if len(text) > _LARGEST:
        raise ItemFailed("The XML is larger than 5 MiB.")
    if not _trimmed(text):
        return {}
    builder = _Builder(params)
    _Parser(text.removeprefix("\ufeff"), builder).parse()
    assert builder.root is not None
    tag, value = builder.root
    if params.flag("options.explicitRoot", default=True):
        return {tag: value}
    if not isinstance(value, Mapping):
        raise ItemFailed(
            "The XML has no fields below its first element. Keep that element (“Explicit Root”)."
        )
    return dict(value)


def _trimmed(text: str) -> str:
    """Strips white space, as JavaScript defines it, from both ends."""
    return _ENDS.sub("", text)


class _Parser:
    """Parses the markup in one pass up to the end of the root, reporting elements and texts to a builder."""

    def __init__(self, text: str, builder: "_Builder") -> None:
        self.text = text
        self.builder = builder
        self.position = 0

    def parse(self) -> None:
        """Parses up to the end of the root element. Raises ItemFailed."""
        if _SPACE.sub("", self._until("<", "an element")):
            raise _unread("there is text before its first element")
        while self.builder.root is None:
            self._markup()
            if self.builder.root is None:
                self._characters(self._until("<", "the end of its first element"))

    def _until(self, mark: str, missing: str) -> str:
        """Returns the text before the mark and moves past the mark. Raises ItemFailed."""
        end = self.text.find(mark, self.position)
        if end < 0:
            raise _unread(f"{missing} is missing")
        part, self.position = self.text[self.position : end], end + len(mark)
        return part

    def _markup(self) -> None:
        """Parses what follows a `<`."""
        following = self.text[self.position : self.position + 8]
        if following.startswith("!--"):
            self.position += 3
            if "--" in self._until("-->", "the end of a comment"):
                raise _unread("a comment has two dashes in it")
        elif following.upper() == "![CDATA[":
            self.position += 8
            self.builder.characters_of(self._until("]]>", "the end of a CDATA section"), marked=True)
        elif following.startswith("!"):
            self._declaration()
        elif following.startswith("?"):
            self._until("?>", "the end of an instruction")
        elif following.startswith("/"):
            self.position += 1
            self.builder.end(_SPACE.sub("", self._until(">", "the end of a tag")))
        else:
            self._tag()

    def _declaration(self) -> None:
        """Skips a document type declaration; the entities it declares remain unknown."""
        depth = 0
        for match in re.compile(r"""[\[\]>]|"[^"]*"|'[^']*'""").finditer(self.text, self.position):
            depth += {"[": 1, "]": -1}.get(match[0], 0)
            if match[0] == ">" and depth <= 0:
                self.position = match.end()
                return
        raise _unread("the end of a declaration is missing")

    def _tag(self) -> None:
        """Parses an element's name and attributes."""
        name = self._name("an element")
        attributes: dict[str, str] = {}
        while True:
            blanks = self._skip_space()
            sign = self.text[self.position : self.position + 1]
            if sign in (">", "/"):
                self._end_of_tag(name, attributes, closed=sign == "/")
                return
            if not blanks:
                raise _unread("there is no blank between two attributes")
            key, value = self._attribute()
            attributes.setdefault(key, value)

    def _end_of_tag(self, name: str, attributes: Mapping[str, str], *, closed: bool) -> None:
        if closed and self.text[self.position + 1 : self.position + 2] != ">":
            raise _unread("a slash stands within a tag")
        self.position += 2 if closed else 1
        self.builder.start(name, attributes)
        if closed:
            self.builder.end(name)

    def _attribute(self) -> tuple[str, str]:
        key = self._name("an attribute")
        self._skip_space()
        if self.text[self.position : self.position + 1] != "=":
            raise _unread(f"the attribute “{key[:40]}” has no value")
        self.position += 1
        self._skip_space()
        quote = self.text[self.position : self.position + 1]
        if quote not in ('"', "'"):
            raise _unread(f"the value of the attribute “{key[:40]}” is not quoted")
        self.position += 1
        return key, _decoded(self._until(quote, "the end of an attribute"))

    def _name(self, kind: str) -> str:
        match = _NAME.match(self.text, self.position)
        if match is None:
            raise _unread(f"the name of {kind} has another sign than a letter at its beginning")
        self.position = match.end()
        return match[0]

    def _skip_space(self) -> bool:
        match = _SPACE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        return bool(match[0])

    def _characters(self, part: str) -> None:
        self.builder.characters_of(_decoded(part))


def _unread(reason: str) -> ItemFailed:
    return ItemFailed(f"The XML cannot be read: {reason}.")


def _decoded(text: str) -> str:
    """Replaces numeric, XML and HTML entities. Raises ItemFailed for others."""
    if "&" not in text:
        return text
    parts, position = [], 0
    for match in _ENTITY.finditer(text):
        parts += [text[position : match.start()], _entity(match[1])]
        position = match.end()
    if any("&" in part for part in parts[::2]) or "&" in text[position:]:
        raise _unread("there is a “&” that begins no entity")
    return "".join([*parts, text[position:]])


def _entity(name: str) -> str:
    if name in _ENTITIES:
        return _ENTITIES[name]
    number = re.fullmatch(r"#(?:0*([0-9]{1,8})|[xX]0*([0-9a-fA-F]{1,7}))", name)
    code = 0 if number is None else int(number[1]) if number[1] else int(number[2], 16)
    if not 0 < code < 0x110000:
        raise _unread(f"the entity “{name[:40]}” is not known")
    return chr(code)


@dataclass(slots=True)
class _Element:
    name: str
    fields: dict[str, AnyJson]
    texts: list[str] = field(default_factory=list)
    marked: bool = False


class _Builder:
    """Builds the fields of elements during parsing."""

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
        """Opens an element. Raises ItemFailed if it is nested too deeply."""
        fields: dict[str, JsonValue] = {}
        if attributes and not self.no_attributes:
            if self.merge:
                fields.update(
                    {key: [value] if self.always_list else value for key, value in attributes.items()}
                )
            else:
                fields[self.attributes] = dict(attributes)
        self.stack.append(_Element(name, fields))
        if len(self.stack) > _DEEPEST:
            raise ItemFailed("The XML is nested too deeply.")

    def characters_of(self, text: str, *, marked: bool = False) -> None:
        """Adds text to the open element; text of a CDATA section (`marked`) counts even if it is blank."""
        if self.stack and text:
            self.stack[-1].texts.append(text)
            self.stack[-1].marked |= marked

    def end(self, name: str) -> None:
        """Closes the open element. Raises ItemFailed."""
        if not self.stack or self.stack[-1].name != name:
            raise _unread(f"“{name[:40]}” is closed where it is not open")
        element = self.stack.pop()
        value = self._value_of(element)
        tag = element.name.lower() if self.lower else element.name
        if not self.stack:
            self.root = (tag, value)
            return
        into = self.stack[-1].fields
        if tag not in into:
            into[tag] = [value] if self.always_list else value
        elif isinstance(into[tag], list):
            into[tag].append(value)
        else:
            into[tag] = [into[tag], value]

    def _value_of(self, element: _Element) -> JsonValue:
        """Returns the element's fields, its text, or both. Raises ItemFailed."""
        fields, whole = element.fields, "".join(element.texts)
        if self.characters in fields:
            raise ItemFailed(
                f"The XML has a field “{self.characters}”, which stands for text. Choose another."
            )
        if element.marked or not _BLANKS.match(whole):
            text = _trimmed(whole) if self.trim else whole
            if self.normalize:
                text = _trimmed(_SEVERAL_BLANKS.sub(" ", text))
            return {self.characters: text, **fields} if fields else text
        return fields or whole  # blank text is the value of an element only if it has no fields
