"""Replaces the secrets in an export with markers."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from steward.imports.secrets import texts, values
from steward.imports.secrets.names import NameWeight, weight_of, word_set, words_of
from steward.model.json import JsonValue
from steward.model.removed_secrets import MARKER, marker

_PAIR_NAMES: Final = ("name", "key", "field", "fieldName", "fieldId", "header", "parameter", "id")
_PAIR_VALUES: Final = frozenset(("value", "fieldValue", "stringValue", "text", "default", "defaultValue"))
# An expression that consists only of texts, joined or not.
_TEXT: Final = r"(?:'(?:[^'\\\n]|\\.)*+'|\"(?:[^\"\\\n]|\\.)*+\"|`(?:[^`\\$]|\\.)*+`)"
_FIXED: Final = re.compile(r"\{\{\s*+" + _TEXT + r"(?:\s*+\+\s*+" + _TEXT + r")*+\s*+\}\}")
_FIXED_PARAMETER: Final = re.compile(r"[?&]([\w.-]{1,60})=(" + _FIXED.pattern + ")")
# Names of fields that hold ids, hashes or files.
_IDS: Final = word_set(
    """
    id ids gid gids guid uuid uuids hash hashes checksum digest etag sha md5 cursor image images img
    photo thumbnail icon avatar binary base64 sheet document doc folder file files url urls link href
    src path version sku ref reference slug handle number blob picture logo commit revision fingerprint
    integrity name title position spreadsheet drive table base record cache boundary content data
    """
)
_DESCRIBING: Final = frozenset(("id", "name", "type", "mode", "title", "description"))
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_-]{4,40}")
_NO_PARENT: Final = frozenset(("credentials", "authentication", "cookies"))
_LARGE: Final = 9999


@dataclass(slots=True)
class SecretRemoval:
    """A pass over an export: the removed values with their numbers, and their paths."""

    paths: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _next: int = 1

    def start_after(self, export_text: str) -> None:
        """Numbers new markers above those that an earlier pass left in the export."""
        self._next = 1 + max((int(hit[1]) for hit in MARKER.finditer(export_text)), default=0)

    def marker_of(self, value: str) -> str:
        """Returns the marker for a value; equal values share a number."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = self._next
            self._next += 1
        return marker(number)

    def clean(self, value: JsonValue, path: str = "", name: str = "") -> JsonValue:
        """Returns a value without its secrets; `name` is the field that holds it."""
        if isinstance(value, Mapping):
            return {
                member_name: self._member(value, str(member_name), member, path, name)
                for member_name, member in value.items()
            }
        if isinstance(value, list):
            if _is_header_pair(value):
                return [value[0], self.named(value[1], f"{path}.1", weight_of(str(value[0])), str(value[0]))]
            weight = _of_parent(name)
            return [
                self._element(member, f"{path}.{index}", weight, name) for index, member in enumerate(value)
            ]
        return self.text(value, path, name) if isinstance(value, str) else value

    def _element(self, value: JsonValue, path: str, weight: NameWeight, name: str) -> JsonValue:
        return (
            self.named(value, path, weight, name) if isinstance(value, str) else self.clean(value, path, name)
        )

    def _member(
        self, parent: Mapping[str, JsonValue], name: str, value: JsonValue, path: str, parent_name: str
    ) -> JsonValue:
        inner_path = f"{path}.{name}" if path else name
        if isinstance(value, Mapping | list):
            return self.clean(value, inner_path, name)
        effective = name
        weight = weight_of(name)
        if name in _PAIR_VALUES:
            effective = next(
                (label for key in _PAIR_NAMES if isinstance(label := parent.get(key), str) and key != name),
                parent_name,
            )
            weight = weight_of(effective.strip())
        elif weight is NameWeight.NONE and name not in _DESCRIBING:
            weight = _of_parent(parent_name)
        return self.named(value, inner_path, weight, effective)

    def named(self, value: JsonValue, path: str, weight: NameWeight, name: str) -> JsonValue:
        """Returns the value of a name with this weight, with secrets replaced by markers."""
        if isinstance(value, str):
            is_secret = _is_literal(value) and values.is_secret(value, weight)
            if is_secret and (values.is_placeholder(value) or not values.is_name(value)):
                return self._replaced_entirely(value, path)
            return self.text(value, path, name)
        is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGE
        if is_number and weight is NameWeight.STRONG and not words_of(name)[-1].endswith("s"):
            self.paths.append(path)
            return self.marker_of(str(value))
        return value

    def _replaced_entirely(self, value: str, path: str) -> str:
        self.paths.append(path)
        scheme = values.scheme_length(value)
        return value[:scheme] + self.marker_of(value[scheme:].strip())

    def everything(self, value: JsonValue, path: str) -> JsonValue:
        """Replaces every text of a stored credential's value, since all of it is secret."""
        if isinstance(value, Mapping):
            return {name: self.everything(member, f"{path}.{name}") for name, member in value.items()}
        if isinstance(value, list):
            return [self.everything(member, f"{path}.{index}") for index, member in enumerate(value)]
        if (
            not isinstance(value, str)
            or not value.strip()
            or _is_expression(value)
            or values.is_removed(value)
        ):
            return value
        self.paths.append(path)
        return self.marker_of(value)

    def text(self, text: str, path: str, name: str = "") -> str:
        """Returns a text with its secrets replaced by markers."""
        if len(text) < 8:
            return text
        cleaned_json = self._cleaned_json(text, path)
        if cleaned_json is not None:
            return cleaned_json
        spans = texts.secrets_in(text, holds_ids=_names_ids(name))
        spans += [
            hit.span(2)
            for hit in _FIXED_PARAMETER.finditer(text)
            if values.is_secret(hit[2].strip("{} '\"`"), weight_of(hit[1]))
        ]
        if not spans:
            return text
        self.paths.append(path)
        return self._replaced(text, sorted(spans))

    def _replaced(self, text: str, spans: list[tuple[int, int]]) -> str:
        parts: list[str] = []
        position = 0
        for start, end in spans:
            if start >= position:
                parts += [text[position:start], self.marker_of(text[start:end])]
                position = end
        return "".join([*parts, text[position:]])

    def _cleaned_json(self, text: str, path: str) -> str | None:
        """Returns a text that is JSON (a body, headers, a workflow) cleaned; None for any other text."""
        mark = "=" if text.startswith("=") else ""
        bare = text.removeprefix("=")
        if bare.lstrip()[:1] not in ("{", "[") or (mark and "{{" in bare):
            return None
        before = len(self.paths)
        try:
            cleaned = self.clean(json.loads(bare), path)
        except (ValueError, RecursionError):
            del self.paths[before:]
            return None
        if len(self.paths) == before:
            return text
        self.paths[before:] = [path]
        return mark + json.dumps(cleaned, ensure_ascii=False)


@lru_cache(maxsize=4096)
def _names_ids(name: str) -> bool:
    """Returns whether a field of this name holds ids, hashes or files."""
    return not _IDS.isdisjoint(words_of(name)[-1:])


def _is_expression(value: str) -> bool:
    return "{{" in _FIXED.sub("", value)


def _is_literal(value: str) -> bool:
    """Returns whether a text is a literal: it contains no expression and no variable."""
    return not _is_expression(value) and not value.lstrip("=").strip().startswith(
        ("${", "$json", "$node", "$(")
    )


def _of_parent(name: str) -> NameWeight:
    """Returns the weight that a list or object of this name, such as `tokens`, passes to its members."""
    if name in _NO_PARENT or not _PLAIN_NAME.fullmatch(name):
        return NameWeight.NONE
    is_several = name.endswith("s")
    return NameWeight.STRONG if is_several and weight_of(name) is NameWeight.STRONG else NameWeight.NONE


def _is_header_pair(value: list[JsonValue]) -> bool:
    return (
        len(value) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], str)
        and (weight_of(value[0].strip()) is not NameWeight.NONE)
    )
