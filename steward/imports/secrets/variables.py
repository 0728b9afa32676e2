"""Reads variables of n8n whose names are those of keys as removed keys, for which an account is bound.

See docs/design/imports-secrets.md#variables-of-n8n.
"""

from collections.abc import Mapping
from typing import Any, Final

from steward.imports.secrets.names import NameWeight, weight_of, word_set, words_of
from steward.imports.secrets.tree import SecretRemoval
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.marked_texts import variable_reads
from steward.steps.workflow.expressions.template import Chunk

_OWNERS: Final = ("$env.", "$vars.")
_REQUESTS: Final = ("httpRequest", "graphql")
_SEVERAL: Final = "tokens"  # of a language model, as in MAX_TOKENS
# The weak words that make a variable a key; others, as in COUNTRY_CODE, leave that to its value.
# Words of variables that are those of one key; as names of fields they hold other values as well.
_CREDENTIALS: Final = word_set("credentials creds otp totp")
_WEAK_KEYS: Final = word_set("key keys auth authkey hmac sig signature salt dsn")


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


def with_marked_keys(workflow: Any, removal: SecretRemoval) -> tuple[Any, dict[str, list[str]]]:
    """Returns the workflow with a marker in place of each key that an expression reads from a variable.

    Also returns the variables, by the paths of the parameters that read them. A read with a fallback stays
    outside of requests, since an account could not put a key there.
    """
    nodes = workflow.get("nodes") if isinstance(workflow, Mapping) else None
    if not isinstance(nodes, list):
        return workflow, {}
    marked, paths = list(nodes), dict[str, list[str]]()
    for index, node in enumerate(nodes):
        if isinstance(node, Mapping) and isinstance(node.get("parameters"), Mapping):
            node_type = str(node.get("type", "")).rpartition(".")[2]
            marking = _Marking(removal, paths, keeps_fallbacks=node_type not in _REQUESTS)
            parameters = marking.of(node["parameters"], f"nodes.{index}.parameters")
            marked[index] = {**node, "parameters": parameters}
    return ({**workflow, "nodes": marked}, paths) if paths else (workflow, paths)


class _Marking:
    """The pass over the parameters of one node."""

    def __init__(self, removal: SecretRemoval, paths: dict[str, list[str]], *, keeps_fallbacks: bool) -> None:
        self._removal = removal
        self._paths = paths
        self._keeps_fallbacks = keeps_fallbacks

    def of(self, value: Any, path: str) -> Any:
        """Returns a parameter, or a part of one, with markers."""
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

    def _chunk(self, code: str, path: str) -> str:
        reads = [
            read
            for read in variable_reads(code)
            if is_key(read.name) and not (read.has_fallback and self._keeps_fallbacks)
        ]
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
