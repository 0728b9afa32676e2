"""The data that an imported workflow keeps between runs, as seen by one run.

n8n's static data is one object for the workflow (`global`) and one for each node; data tables are stored
beside them. A run loads the stored data when it first needs it. Its changes are recorded with its steps and
stored when it ends.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from steward.model.json import JsonObject

MAX_BYTES: Final = 1024 * 1024  # per automation, as JSON
_GLOBAL: Final = "global"
_NODE: Final = "node"  # of the node whose script reads it
_TABLE: Final = "table"
TOO_LARGE: Final = (
    "What the workflow keeps from run to run (static data) is larger than 1 MiB. Delete entries that are no"
    " longer needed in the script, or keep them in a spreadsheet."
)
_BELOW: Final = "\n"  # occurs in no name
_EMPTY: Final = b"{}"


class StaticDataTooLarge(Exception):
    """Raised if an automation would keep more than 1 MiB."""


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
    """The static data of one automation during one run. `load` returns the stored data.

    Keys are `global`, `node:<name>` and `table:<id>`; in a called workflow, the first two are prefixed with
    the path of the calling step. `_caller` holds the tables of a workflow that keeps no objects of its own.
    """

    load: Callable[[], Awaitable[JsonObject]] = _nothing
    _objects: _Objects = field(default_factory=_Objects)
    _path: str = ""
    _caller: "StaticData | None" = None

    def of_called(self, step: str, *, is_kept: bool) -> "StaticData":
        """Returns the static data of a called workflow, stored with its caller's if `is_kept`, else
        discarded.

        Data tables are always the caller's.
        """
        if not is_kept:
            return StaticData(_caller=self._caller or self)
        return replace(self, _path=f"{self._path}{step}{_BELOW}")

    async def read(self, node: str) -> dict[str, JsonObject]:
        """Returns copies of the objects that a node's script can reach: the workflow's and its own."""
        objects = await self._all()
        return {name: _decoded(objects.get(key, _EMPTY)) for name, key in self._keys(node).items()}

    async def write(self, node: str, objects: Mapping[str, JsonObject]) -> None:
        """Stores the objects that a script left. Raises StaticDataTooLarge."""
        keys = self._keys(node)
        await self._put({keys[name]: value for name, value in objects.items() if name in keys})

    async def read_table(self, table: str) -> JsonObject:
        """Returns a copy of a data table, or an empty object if nothing was written to it."""
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
        """Returns the changes since the last call, to record them with the step that ends."""
        unrecorded, self._objects.unrecorded = self._objects.unrecorded, {}
        return {key: _decoded(value) for key, value in unrecorded.items()}

    def restore(self, recorded: JsonObject) -> None:
        """Applies the changes recorded with a step that is not run again."""
        self._objects.changed |= {key: msgspec.json.encode(value) for key, value in recorded.items()}

    async def changed(self) -> JsonObject | None:
        """Returns all data at the end of the run, or None if the run changed nothing."""
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
