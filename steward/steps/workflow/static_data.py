"""Data that an imported workflow keeps from run to run, as one run sees it.

n8n calls it static data: an object of the whole workflow (`global`) and one of each node. Beside them are
data tables. A run reads what is stored at its first need. What it changes is in the rows of its steps until
it ends, and stored with its end.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from steward.model.json import JsonObject

MAX_BYTES: Final = 1024 * 1024  # of an automation, as JSON
_GLOBAL: Final = "global"
_NODE: Final = "node"  # of the node whose script asks
_TABLE: Final = "table"
TOO_LARGE: Final = (
    "What the workflow keeps from run to run (static data) is larger than 1 MiB. Delete entries that are no"
    " longer needed in the script, or keep them in a spreadsheet."
)
_BELOW: Final = "\n"  # stands in no name
_EMPTY: Final = b"{}"


class StaticDataTooLarge(Exception):
    """Raised when an automation would keep more than 1 MiB."""


async def _nothing() -> JsonObject:
    return {}


@dataclass(slots=True)
class _Objects:
    """The objects of one automation as JSON, by key."""

    stored: dict[str, bytes] | None = None
    changed: dict[str, bytes] = field(default_factory=dict)
    unrecorded: dict[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class StaticData:
    """The static data of one automation during one run. `load` reads what is stored.

    Keys are `global`, `node:<name>` and `table:<id>`; before the first two of a called workflow stands the
    path of its step. `_caller` is where a workflow that keeps no objects of its own has its tables.
    """

    load: Callable[[], Awaitable[JsonObject]] = _nothing
    _objects: _Objects = field(default_factory=_Objects)
    _path: str = ""
    _caller: "StaticData | None" = None

    def of_called(self, step: str, *, is_kept: bool) -> "StaticData":
        """Returns the static data of the workflow that a step calls, kept with its caller's or for one call.

        Data tables are the caller's either way.
        """
        if not is_kept:
            return StaticData(_caller=self._caller or self)
        return replace(self, _path=f"{self._path}{step}{_BELOW}")

    async def read(self, node: str) -> dict[str, JsonObject]:
        """Returns copies of the objects that a node's script can reach: the workflow's and its own."""
        objects = await self._all()
        return {name: _decoded(objects.get(key, _EMPTY)) for name, key in self._keys(node).items()}

    async def write(self, node: str, objects: Mapping[str, JsonObject]) -> None:
        """Takes over what a script made of them. Raises StaticDataTooLarge."""
        keys = self._keys(node)
        await self._put({keys[name]: value for name, value in objects.items() if name in keys})

    async def read_table(self, table: str) -> JsonObject:
        """Returns a copy of a data table; an empty object before anything is written to it."""
        owner = self._caller or self
        return _decoded((await owner._all()).get(f"{_TABLE}:{table}", _EMPTY))

    async def write_table(self, table: str, content: JsonObject) -> None:
        """Replaces a data table. Raises StaticDataTooLarge."""
        owner = self._caller or self
        await owner._put({f"{_TABLE}:{table}": content})

    async def _put(self, objects: Mapping[str, JsonObject]) -> None:
        before = await self._all()
        written = {key: msgspec.json.encode(value) for key, value in objects.items()}
        changes = {key: value for key, value in written.items() if value != before.get(key, _EMPTY)}
        if changes and sum(map(len, {**before, **changes}.values())) > MAX_BYTES:
            raise StaticDataTooLarge
        self._objects.changed |= changes
        self._objects.unrecorded |= changes

    def take_unrecorded(self) -> JsonObject:
        """Returns what was changed since it was last asked, for the row of the step that ends."""
        unrecorded, self._objects.unrecorded = self._objects.unrecorded, {}
        return {key: _decoded(value) for key, value in unrecorded.items()}

    def restore(self, recorded: JsonObject) -> None:
        """Takes over the changes that the row of a step has, when the step is not run again."""
        self._objects.changed |= {key: msgspec.json.encode(value) for key, value in recorded.items()}

    async def changed(self) -> JsonObject | None:
        """Returns all of it as the run leaves it; None if the run changed nothing."""
        if not self._objects.changed:
            return None
        return {key: _decoded(value) for key, value in (await self._all()).items() if value != _EMPTY}

    async def _all(self) -> dict[str, bytes]:
        if self._objects.stored is None:
            loaded = await self.load()
            self._objects.stored = {key: msgspec.json.encode(value) for key, value in loaded.items()}
        return {**self._objects.stored, **self._objects.changed}

    def _keys(self, node: str) -> dict[str, str]:
        return {_GLOBAL: self._path + _GLOBAL, _NODE: f"{self._path}{_NODE}:{node}"}


def _decoded(encoded: bytes) -> JsonObject:
    decoded: JsonObject = msgspec.json.decode(encoded)
    return decoded
