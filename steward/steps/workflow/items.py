"""The items of imported workflows, and their pairing with the items they came from.

See docs/design/imports-n8n.md#items and docs/design/imports-n8n.md#pairing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from steward.model.json import AnyJson, JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class ItemRef:
    """A reference to an item in the history: step, run, output and index."""

    step: str
    run: int
    output: int
    item: int


# The source of an output item: an input item as (item, input), or an item of an earlier run (loops).
Link: TypeAlias = tuple[int, int] | ItemRef


@dataclass(frozen=True, slots=True)
class BinaryReference:
    """A file of an item; its content is in the run's storage under its SHA-256."""

    sha256: str
    size: int
    mime_type: str
    file_name: str | None = None

    @property
    def extension(self) -> str:
        """The extension of the file's name without the dot, or an empty text."""
        _, dot, end = (self.file_name or "").rpartition(".")
        return end if dot and end.isalnum() else ""

    def view(self) -> JsonObject:
        """Returns the file in the form of `$binary`, without its content; `id` is its hash."""
        kind = self.mime_type.partition("/")[0]
        view: dict[str, JsonValue] = {
            "id": self.sha256,
            "mimeType": self.mime_type,
            "fileType": {"application": self.mime_type.rpartition("/")[2]}.get(kind, kind),
            "fileExtension": self.extension,
            "fileSize": readable_size(self.size),
            "bytes": self.size,
        }
        return view if self.file_name is None else view | {"fileName": self.file_name}


def readable_size(size: int) -> str:
    """Returns a size with three digits and its unit, such as 1.23 kB."""
    for unit, factor in (("MB", 10**6), ("kB", 1000)):
        if size >= factor:
            return f"{float(f'{size / factor:.3g}'):g} {unit}"
    return f"{size} B"


_NO_BINARY: Mapping[str, BinaryReference] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Item:
    """An item. `paired` is None if its source is unknown; `error` is set if it represents a failure.

    `partial` marks an item of a test run that may have further, unknown fields. `binary` holds its files by
    field name. See docs/design/files.md#reference.
    """

    json: Mapping[str, JsonValue]
    paired: tuple[Link, ...] | None = None
    error: str | None = None
    partial: bool = False
    binary: Mapping[str, BinaryReference] = field(default_factory=lambda: _NO_BINARY)

    def encoded(self) -> JsonValue:
        """Encodes the item for the journal."""
        paired: JsonValue = None if self.paired is None else [_encode_link(link) for link in self.paired]
        if self.binary:
            return [self.json, paired, self.error, self.partial, _encode_binary(self.binary)]
        if self.partial:
            return [self.json, paired, self.error, True]
        return [self.json, paired] if self.error is None else [self.json, paired, self.error]


def _encode_binary(binary: Mapping[str, BinaryReference]) -> JsonValue:
    return {name: [file.sha256, file.size, file.mime_type, file.file_name] for name, file in binary.items()}


def _encode_link(link: Link) -> JsonValue:
    return [link.step, link.run, link.output, link.item] if isinstance(link, ItemRef) else list(link)


Items: TypeAlias = list[Item]
Outputs: TypeAlias = list[Items]


@dataclass(frozen=True, slots=True)
class Source:
    """The output of a step's run that supplied the items of an input."""

    step: str
    output: int = 0
    run: int = 0


@dataclass(slots=True)
class PastRun:
    """A run of a step, as later steps see it. `outputs` is None if it failed."""

    outputs: Outputs | None
    sources: Sequence[Source | None]
    error: str | None = None
    params: JsonObject = field(default_factory=dict)


# Every run of every step so far, including the trigger, by step name and run index.
History: TypeAlias = dict[str, list[PastRun]]


class PairingUnknown(Exception):
    """Raised if the paired item is unknown: pairing is missing on the way or leads to several items."""


def file_views(items: Sequence[Item]) -> list[JsonObject | None]:
    """Returns the files of items in the form of `$binary`; an empty list if no item has any."""
    if not any(item.binary for item in items):
        return []
    return [
        {name: file.view() for name, file in item.binary.items()} if item.binary else None for item in items
    ]


def encode_outputs(outputs: Outputs) -> JsonValue:
    """Encodes outputs for the journal."""
    return [[item.encoded() for item in items] for items in outputs]


def decode_outputs(encoded: JsonValue) -> Outputs:
    """Decodes outputs from the journal."""
    return [[_decode_item(item) for item in items] for items in _lists(encoded)]


def _lists(value: object) -> Sequence[Sequence[object]]:
    return value if isinstance(value, list) else []


def _decode_item(encoded: object) -> Item:
    parts = encoded if isinstance(encoded, list) else [{}, None]
    links = None if parts[1] is None else tuple(_decode_link(link) for link in parts[1])
    error = parts[2] if len(parts) > 2 else None
    if len(parts) < 5:
        return Item(parts[0], links, error, len(parts) > 3)
    binary = {name: BinaryReference(*file) for name, file in parts[4].items()}
    return Item(parts[0], links, error, parts[3], binary)


def _decode_link(encoded: Sequence[AnyJson]) -> Link:
    return (
        (encoded[0], encoded[1])
        if len(encoded) == 2
        else ItemRef(encoded[0], encoded[1], encoded[2], encoded[3])
    )


def trigger_items(objects: Iterable[JsonObject]) -> Items:
    """Returns the items of a trigger."""
    return [Item(json, ((index, 0),)) for index, json in enumerate(objects)]


def fill_pairing(outputs: Outputs, inputs: Sequence[Items]) -> Outputs:
    """Pairs unpaired outputs if there is one input item, or as many output as input items."""
    filled_inputs = [items for items in inputs if items]
    total = sum(len(items) for items in filled_inputs)
    return [_fill(items, inputs, total) for items in outputs]


def _fill(items: Items, inputs: Sequence[Items], total: int) -> Items:
    if all(item.paired is not None for item in items):
        return items
    if total == 1:
        only = next(index for index, input_items in enumerate(inputs) if input_items)
        return [_paired(item, ((0, only),)) for item in items]
    if len(inputs) == 1 and len(items) == len(inputs[0]):
        return [_paired(item, ((index, 0),)) for index, item in enumerate(items)]
    return items


def _paired(item: Item, links: tuple[Link, ...]) -> Item:
    """Returns the item with its own links, or with these if it has none."""
    if item.paired is not None:
        return item
    return replace(item, paired=links)


def carry_files(outputs: Outputs, inputs: Sequence[Items]) -> Outputs:
    """Gives output items without files the files of the input items they came from.

    With several sources, files of the same name come from the last one.
    """
    if not any(item.binary for items in inputs for item in items):
        return outputs
    return [[_with_files(item, inputs) for item in items] for items in outputs]


def _with_files(item: Item, inputs: Sequence[Items]) -> Item:
    if item.binary or item.paired is None:
        return item
    files: dict[str, BinaryReference] = {}
    for link in item.paired:
        if isinstance(link, ItemRef):
            continue
        index, number = link
        if number < len(inputs) and index < len(inputs[number]):
            files |= inputs[number][index].binary
    return replace(item, binary=files) if files else item


def trace(history: History, start: ItemRef, step_name: str) -> ItemRef | None:
    """Returns the item of `step_name` that `start` came from, or None if it did not pass through it.

    Raises PairingUnknown if pairing is missing on the way or leads to several items.
    """
    matches: set[ItemRef] = set()
    seen: set[ItemRef] = set()
    open_: list[ItemRef] = [start]
    while open_:
        ref = open_.pop()
        if ref in seen:
            continue
        seen.add(ref)
        if ref.step == step_name:
            matches.add(ref)
            continue
        open_ += _source_items(history, ref)
    if len(matches) > 1:
        raise PairingUnknown(
            f"Several items of “{step_name}” lead to this item. Use .first(), .last() or .all()."
        )
    return next(iter(matches), None)


def _source_items(history: History, ref: ItemRef) -> list[ItemRef]:
    past_run = history[ref.step][ref.run]
    if not past_run.sources:
        return []  # a trigger has no sources
    item = _item_at(past_run, ref)
    if item is None or item.paired is None:
        raise PairingUnknown(f"It is unknown which item of “{ref.step}” this item came from.")
    refs = []
    for link in item.paired:
        if isinstance(link, ItemRef):
            refs.append(link)
            continue
        index, input_ = link
        source = past_run.sources[input_] if input_ < len(past_run.sources) else None
        if source is not None:
            refs.append(ItemRef(source.step, source.run, source.output, index))
    return refs


def _item_at(past_run: PastRun, ref: ItemRef) -> Item | None:
    if (
        past_run.outputs is None
        or ref.output >= len(past_run.outputs)
        or ref.item >= len(past_run.outputs[ref.output])
    ):
        return None
    return past_run.outputs[ref.output][ref.item]
