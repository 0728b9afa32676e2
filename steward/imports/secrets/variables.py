"""Treats variables of n8n that hold keys as removed keys, in whose place an account is bound.

A variable holds a key if its own name says so, or the name of the header or parameter in which a request
sends it. See docs/design/imports-secrets.md#variables-of-n8n.
"""

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from steward.imports.secrets.names import NameWeight, weight_of, word_set, words_of
from steward.imports.secrets.tree import SecretRemoval
from steward.model.removed_secrets import marker
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.marked_texts import VariableRead, is_fixed, parts_of, variable_reads
from steward.steps.workflow.expressions.template import Chunk

_OWNERS: Final = ("$env.", "$vars.")
_REQUESTS: Final = ("httpRequest", "graphql")
_SEVERAL: Final = "tokens"  # of a language model, as in MAX_TOKENS
# The weak words that make a variable a key; for other words, as in COUNTRY_CODE, its value decides.
# Words that denote a key in a variable's name, but also other values in a field's name.
_CREDENTIALS: Final = word_set("credentials creds otp totp")
_WEAK_KEYS: Final = word_set("key keys auth authkey hmac sig signature salt dsn")
# A query parameter, or a member of an object, whose value begins or ends at a variable.
_PARAMETER_BEFORE: Final = re.compile(
    r"""(?:[?&]([\w.-]{1,60})=|["']([\w.-]{1,60})["']\s{0,9}:\s{0,9}(?:["'`](?:[A-Za-z-]{1,20}[ ])?)?)"""
    r"""(?:\{\{\s{0,9}|["'`]\s{0,9}\+\s{0,9}|\$\{\s{0,9})?\Z"""
)
_PARAMETER_AFTER: Final = re.compile(
    r"""\s{0,9}(?:\}\}|\})?(?:\s{0,9}["'`&#,}]|\s{0,9}\+\s{0,9}["'`][&#]|\s{0,9}\Z)"""
)
_LONGEST_BEFORE: Final = 160


def is_key(variable: str) -> bool:
    """Returns whether a variable such as `$env.API_KEY` has the name of a key."""
    name = variable.partition(".")[2]
    words = ["credential" if word in _CREDENTIALS else word for word in words_of(name)]
    weight = max(weight_of(name), weight_of("_".join(words)))
    if weight is not NameWeight.NONE:
        return weight is NameWeight.STRONG or not _WEAK_KEYS.isdisjoint(words)
    return bool(words) and words[-1] != _SEVERAL and weight_of(words[-1]) is NameWeight.STRONG


def holds_key(variable: str, value: str) -> bool:
    """Returns whether a value that a person gives for a variable is or contains a key."""
    name = variable.partition(".")[2]
    return SecretRemoval().named(value, "", weight_of(name), name) != value


def _is_key_place(name: str, *, is_header_or_query: bool) -> bool:
    """Returns whether a header, parameter or field with this name holds a key."""
    weight = weight_of(name)
    if weight is NameWeight.WEAK:
        return is_header_or_query and words_of(name)[-1] in _WEAK_KEYS
    return weight is NameWeight.STRONG


def with_marked_keys(workflow: Any, removal: SecretRemoval) -> tuple[Any, dict[str, list[str]]]:
    """Returns the workflow with a marker in place of each key that an expression reads from a variable.

    Also returns the variables, by the paths of the parameters that read them. A read with a fallback stays
    outside of requests, since an account could not put a key there.
    """
    nodes = workflow.get("nodes") if isinstance(workflow, Mapping) else None
    if not isinstance(nodes, list):
        return workflow, {}
    marked, paths = list(nodes), dict[str, list[str]]()
    sent_as_keys = {name for node in nodes if _is_request(node) for name in _sent_as_keys(node["parameters"])}
    for index, node in enumerate(nodes):
        if isinstance(node, Mapping) and isinstance(node.get("parameters"), Mapping):
            marking = _Marking(removal, paths, sent_as_keys, keeps_fallbacks=not _is_request(node))
            parameters = marking.of(node["parameters"], f"nodes.{index}.parameters")
            marked[index] = {**node, "parameters": parameters}
    return ({**workflow, "nodes": marked}, paths) if paths else (workflow, paths)


def _is_request(node: Any) -> bool:
    if not isinstance(node, Mapping) or not isinstance(node.get("parameters"), Mapping):
        return False
    return str(node.get("type", "")).rpartition(".")[2] in _REQUESTS


def _sent_as_keys(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yields the variables that a request sends as the whole value of a header or parameter for a key."""
    for setting, value in parameters.items():
        is_header_or_query = setting == "url" or "header" in setting.lower() or "query" in setting.lower()
        yield from _keys_sent_in(value, is_header_or_query)


def _keys_sent_in(value: Any, is_header_or_query: bool) -> Iterator[str]:
    """Yields the variables sent as keys in a setting of a request, or in a part of one."""
    if isinstance(value, Mapping):
        if _is_key_place(str(value.get("name", "")), is_header_or_query=is_header_or_query):
            yield from _whole_reads(value.get("value"))
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from _keys_sent_in(member, is_header_or_query)
    elif isinstance(value, str):
        for name, read in _reads_in_parameters(value):
            if _is_key_place(name, is_header_or_query=is_header_or_query):
                yield read


def _whole_reads(value: Any) -> list[str]:
    """Returns the variables that a value consists of, or none if it contains other data."""
    if not isinstance(value, str) or not value.startswith("="):
        return []
    written, names = "", list[str]()
    for code, reads, text in _pieces(value):
        position = 0
        for read in reads:
            text += f'{code[position : read.start]}"{marker(len(names) + 1)}"'
            names.append(read.name)
            position = read.end
        written += text + code[position:]
    return names if is_fixed(parts_of(f"={written}")) else []


def _pieces(text: str) -> Iterator[tuple[str, list[VariableRead], str]]:
    """Yields the code of each expression in a text, its reads of variables, and the text before it."""
    before = ""
    for part in template.read(text).parts:
        if isinstance(part, Chunk):
            yield part.code, variable_reads(part.code), before + "{{"
            before = "}}"
        else:
            before += part
    yield "", [], before


def _reads_in_parameters(text: str) -> Iterator[tuple[str, str]]:
    """Yields each query parameter and object member whose value is a variable, with the variable."""
    written, position = text.removeprefix("="), 0
    for code, reads, before in _pieces(text):
        position += len(before)
        for read in reads:
            start = position + read.start
            name = _PARAMETER_BEFORE.search(written[max(0, start - _LONGEST_BEFORE) : start])
            if name is not None and _PARAMETER_AFTER.match(written, position + read.end):
                yield name[1] or name[2], read.name
        position += len(code)


class _Marking:
    """The pass over the parameters of one node."""

    def __init__(
        self,
        removal: SecretRemoval,
        paths: dict[str, list[str]],
        sent_as_keys: Set[str],
        *,
        keeps_fallbacks: bool,
    ) -> None:
        self._removal = removal
        self._paths = paths
        self._sent_as_keys = sent_as_keys
        self._keeps_fallbacks = keeps_fallbacks

    def of(self, value: Any, path: str) -> Any:
        """Returns a parameter, or a part of one, with markers in place of keys."""
        if isinstance(value, Mapping):
            return {name: self.of(member, f"{path}.{name}") for name, member in value.items()}
        if isinstance(value, list):
            return [self.of(member, f"{path}.{index}") for index, member in enumerate(value)]
        if not isinstance(value, str) or not any(owner[:-1] in value for owner in _OWNERS):
            return value
        return self._text(value, path)

    def _text(self, text: str, path: str) -> str:
        parts = template.read(text).parts
        written = "".join("{{" + part.code + "}}" if isinstance(part, Chunk) else part for part in parts)
        if text != f"={written}":
            return text  # no expression, or one that does not end
        return "=" + "".join(
            self._chunk(part.code, path) if isinstance(part, Chunk) else part for part in parts
        )

    def _is_marked(self, read: VariableRead) -> bool:
        if read.has_fallback and self._keeps_fallbacks:
            return False
        return is_key(read.name) or read.name in self._sent_as_keys

    def _chunk(self, code: str, path: str) -> str:
        reads = [read for read in variable_reads(code) if self._is_marked(read)]
        if not reads:
            return "{{" + code + "}}"
        self._paths.setdefault(path, []).extend(read.name for read in reads)
        if len(reads) == 1 and code[: reads[0].start].strip() == code[reads[0].end :].strip() == "":
            return self._removal.marker_of(reads[0].name)
        written, position = "", 0
        for read in reads:
            written += code[position : read.start] + f'"{self._removal.marker_of(read.name)}"'
            position = read.end
        return "{{" + written + code[position:] + "}}"
