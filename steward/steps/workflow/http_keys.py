"""The places in a workflow's request from which the import removed keys, for an account to fill.

See docs/design/imports-accounts.md#http-steps.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from steward.model.json import AnyJson, JsonObject
from steward.model.limits import MAX_PATH_KEYS
from steward.steps.workflow.addresses import is_removed_key
from steward.steps.workflow.expressions.marked_texts import (
    KeyReads,
    RemovedKey,
    TextPart,
    VariablePart,
    parts_of,
    reads_nothing,
)
from steward.steps.workflow.step_types import NodeDefinition

BODIES: Final = ("bodyParameters", "bodyParametersUi", "jsonBody", "body", "bodyParametersJson")
_ROWS: Final = {
    "headerParameters.parameters": "header",
    "headerParametersUi.parameter": "header",
    "queryParameters.parameters": "query",
    "queryParametersUi.parameter": "query",
}
_JSON: Final = {
    "jsonHeaders": "header",
    "headerParametersJson": "header",
    "jsonQuery": "query",
    "queryParametersJson": "query",
}
_ADDRESSES: Final = ("url", "endpoint")
IN_REQUEST: Final = frozenset(
    (*(path.partition(".")[0] for path in _ROWS), *_JSON, *_ADDRESSES, *BODIES)
)  # the parameters whose keys an account can restore
# Characters that stand for parts of a text: a key, data of the run, base64 of keys.
_KEY, _DATA, _ENCODED = "\x00", "\x01", "\x02"
_JSON_MEMBER: Final = re.compile(r'"([^"\n]{1,100})"\s*:\s*"([^"\n]*)"')
_USER_PART: Final = re.compile(r"(?<=://)[^\s/?#@]*@")
_ADDRESS: Final = re.compile(r"(?:https?://[^/?#]*|\x01[^/?#]*)?(?P<path>[^?#]*)\??(?P<query>[^#]*)")
_PATH_PREFIX: Final = re.compile(r"/[A-Za-z0-9._~/-]*")
_AUTHORIZATION: Final = ("header", "authorization")


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """A place that holds a key: `location` is `header`, `query`, `basic`, `path` or `body`.

    The name of a path is the text before the key, with `*` for earlier keys; the name in a body is that of
    the key. `scheme` is `bearer` for a bearer header, empty for other texts, and None if the file has no
    text.
    """

    location: str
    name: str
    scheme: str | None = None

    @property
    def position(self) -> tuple[str, str]:
        """The position that one key of an account can fill."""
        return self.location, self.name if self.location == "path" else self.name.lower()


class _NoPlace(Exception):
    """Raised for a key that no account can restore."""


class _TooManyPathKeys(_NoPlace):
    """Raised for a path with more keys than an account can hold."""


def key_places(parameters: JsonObject, reads: KeyReads = reads_nothing) -> list[KeyPlace] | None:
    """Returns the places of removed keys in a request, or None if no account can restore one of them.

    `reads` returns the removed key that an expression reads from its items.
    """
    node = NodeDefinition("", 1, parameters, ())
    try:
        return list(dict.fromkeys(_places(node, reads)))
    except _NoPlace:
        return None


def has_too_many_path_keys(parameters: JsonObject) -> bool:
    """Returns whether the path of a request held more keys than an account can restore."""
    try:
        list(_places(NodeDefinition("", 1, parameters, ()), reads_nothing))
    except _NoPlace as error:
        return isinstance(error, _TooManyPathKeys)
    return False


def sign_in_of(places: Sequence[KeyPlace]) -> tuple[str, str | None]:
    """Returns the sign-in that restores the keys, and its name; the sign-in is empty if there is none."""
    positions = {key.position: key for key in places}
    if not positions or _are_contrary(positions):
        return "", None
    if len(positions) > 1:
        return "custom", None
    [(position, key)] = positions.items()
    if key.location in ("body", "basic"):
        return key.location, None
    if position == _AUTHORIZATION and key.scheme in (None, "bearer"):
        return "bearer", None
    return key.location, key.name


def _are_contrary(positions: Iterable[tuple[str, str]]) -> bool:
    """Returns whether two of the positions are sign-ins in the same header, so that no account fits."""
    return {_AUTHORIZATION, ("basic", "")} <= set(positions)


def _places(node: NodeDefinition, reads: KeyReads) -> Iterable[KeyPlace]:
    for path, location in _ROWS.items():
        rows = node.get(path, [])
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, Mapping):
                yield from _of_row(location, str(row.get("name", "")), row.get("value"), reads)
    for name, location in _JSON.items():
        value = node.get(name)
        for member, text in _members(value, reads):
            yield from _of_text(location, member, text)
    for text in _texts(node.get(name) for name in BODIES):
        yield from _of_body(_parts(text, reads))
    for name in _ADDRESSES:
        if isinstance(address := node.get(name), str):
            yield from _of_address(_written(_parts(address, reads, in_address=True)))


def _of_body(parts: Iterable[TextPart]) -> Iterable[KeyPlace]:
    for part in parts:
        if part is VariablePart.ENCODED:
            raise _NoPlace
        if isinstance(part, RemovedKey):
            yield KeyPlace("body", part.name)


def _of_row(location: str, name: str, value: AnyJson, reads: KeyReads) -> Iterable[KeyPlace]:
    if value in ("", None):
        if is_removed_key(name, value):
            yield KeyPlace(location, name.strip())
    elif isinstance(value, str):
        if any(isinstance(part, RemovedKey) for part in _parts(name, reads)):
            raise _NoPlace
        yield from _of_text(location, name, _written(_parts(value, reads)))


def _of_text(location: str, name: str, text: str) -> Iterable[KeyPlace]:
    """Yields the place of a header or parameter if it contains a key; an account holds its whole text."""
    before, key, after = text.partition(_KEY)
    is_authorization = (location, name.strip().lower()) == _AUTHORIZATION
    if is_authorization and text.replace(_ENCODED, _KEY).lower().split() == ["basic", _KEY]:
        yield KeyPlace("basic", "")
    elif _ENCODED in text:
        raise _NoPlace
    elif key:
        if _DATA in text or not name.strip() or name.startswith("="):
            raise _NoPlace
        is_bearer = is_authorization and before.strip().lower() == "bearer" and not after.strip()
        yield KeyPlace(location, name.strip(), "bearer" if is_bearer else "")


def _members(value: AnyJson, reads: KeyReads) -> Iterable[tuple[str, str]]:
    """Yields the members of an object or of JSON text."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            if isinstance(member, str):
                yield str(name), _written(_parts(member, reads))
    elif isinstance(value, str):
        text = _written(_parts(value, reads))
        pairs = _JSON_MEMBER.findall(text)
        if sum(member.count(_KEY) for _, member in pairs) != text.count(_KEY):
            raise _NoPlace
        yield from pairs


def _of_address(address: str) -> Iterable[KeyPlace]:
    address = address.strip().partition("#")[0]
    user_part = _USER_PART.search(address)
    if user_part and (_KEY in user_part[0]):
        yield KeyPlace("basic", "")
    if user_part:
        address = address.replace(user_part[0], "", 1)
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        if _KEY in address:
            raise _NoPlace
        return
    yield from _of_query(parts["query"])
    if _ENCODED in address or _KEY in address[: parts.start("path")]:
        raise _NoPlace
    fixed = parts["path"].split(_KEY)[:-1]
    if len(fixed) > MAX_PATH_KEYS:
        raise _TooManyPathKeys
    for count in range(1, len(fixed) + 1):
        if not _PATH_PREFIX.fullmatch("".join(fixed[:count])):
            raise _NoPlace
        yield KeyPlace("path", "*".join(fixed[:count]))


def _of_query(query: str) -> Iterable[KeyPlace]:
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if _KEY in pair or is_removed_key(name, value):
            if re.search(rf"[{_KEY}{_DATA}]", name) or _DATA in value:
                raise _NoPlace
            yield KeyPlace("query", name)


def _texts(values: Iterable[AnyJson]) -> Iterable[str]:
    """Yields every text within some values, including the names of members."""
    stack = list(values)
    while stack:
        value = stack.pop(0)
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            stack[:0] = [*value, *value.values()]
        elif isinstance(value, list):
            stack[:0] = value


def _parts(text: str, reads: KeyReads, *, in_address: bool = False) -> tuple[TextPart, ...]:
    parts = parts_of(text, reads, in_address=in_address)
    if parts is None:
        raise _NoPlace
    return parts


def _written(parts: Iterable[TextPart]) -> str:
    signs = {VariablePart.DATA: _DATA, VariablePart.ENCODED: _ENCODED}
    texts = (_KEY if isinstance(part, RemovedKey) else part for part in parts)
    return "".join(text if isinstance(text, str) else signs[text] for text in texts)
