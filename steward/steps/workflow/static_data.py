"""What the scripts of a workflow keep from run to run, as one run sees it.

n8n calls it static data: an object of the whole workflow (`global`) and one of each node. A run reads what is
stored at its first need. What it changes is in the rows of its steps until it ends, and stored with its end.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from steward.model.json import JsonObject

MAX_BYTES: Final = 1024 * 1024  # of an automation, as JSON
GLOBAL: Final = "global"
NODE: Final = "node"  # of the node whose script asks
TOO_LARGE: Final = (
    "What the workflow keeps from run to run (static data) is larger than 1 MiB. Delete entries that are no"
    " longer needed in the script, or keep them in a spreadsheet."
)


class StaticDataTooLarge(Exception):
    """Raised when an automation would keep more than 1 MiB."""


async def _nothing() -> JsonObject:
    return {}


@dataclass(slots=True)
class StaticData:
    """The static data of one automation during one run; objects as JSON, by the key of each.

    `load` reads what is stored. Objects that a called workflow keeps have the path of its steps in their key.
    """

    load: Callable[[], Awaitable[JsonObject]] = _nothing
    _stored: dict[str, bytes] | None = None
    _changed: dict[str, bytes] = field(default_factory=dict)
    _unrecorded: dict[str, bytes] = field(default_factory=dict)

    async def read(self, node: str) -> dict[str, JsonObject]:
        """Returns copies of the objects that a node's script can reach: the workflow's and its own."""
        objects = await self._objects()
        return {name: _decoded(objects.get(key, b"{}")) for name, key in _keys(node).items()}

    async def write(self, node: str, objects: Mapping[str, JsonObject]) -> None:
        """Takes over what a script made of them. Raises StaticDataTooLarge."""
        before = await self._objects()
        keys = _keys(node)
        written = {keys[name]: msgspec.json.encode(value) for name, value in objects.items() if name in keys}
        changes = {key: value for key, value in written.items() if value != before.get(key, b"{}")}
        if changes and sum(map(len, {**before, **changes}.values())) > MAX_BYTES:
            raise StaticDataTooLarge
        self._changed |= changes
        self._unrecorded |= changes

    def take_unrecorded(self) -> JsonObject:
        """Returns what was changed since it was last asked, for the row of the step that ends."""
        taken, self._unrecorded = self._unrecorded, {}
        return {key: _decoded(value) for key, value in taken.items()}

    def restore(self, recorded: JsonObject) -> None:
        """Takes over the changes that the row of a step has, when the step is not run again."""
        self._changed |= {key: msgspec.json.encode(value) for key, value in recorded.items()}

    async def changed(self) -> JsonObject | None:
        """Returns all of it as the run leaves it; None if the run changed nothing."""
        if not self._changed:
            return None
        return {key: _decoded(value) for key, value in (await self._objects()).items() if value != b"{}"}

    async def _objects(self) -> dict[str, bytes]:
        if self._stored is None:
            self._stored = {key: msgspec.json.encode(value) for key, value in (await self.load()).items()}
        return {**self._stored, **self._changed}


def _keys(node: str) -> dict[str, str]:
    return {GLOBAL: GLOBAL, NODE: f"{NODE}:{node}"}


def _decoded(encoded: bytes) -> JsonObject:
    decoded: JsonObject = msgspec.json.decode(encoded)
    return decoded
