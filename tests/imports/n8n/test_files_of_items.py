"""Tests which steps keep the files of items, and how the journal stores their references."""

import json
from typing import Any

import pytest

from steward.steps.workflow.items import (
    BinaryReference,
    Item,
    ItemRef,
    carry_files,
    decode_outputs,
    encode_outputs,
)
from steward.steps.workflow.memory_budget import STEP_BYTES, MemoryBudget, MemoryBudgetExceeded
from tests.imports.n8n.one_step import items_of

PHOTO = BinaryReference("a" * 64, 1234, "image/png", "tea.png")
PRICES = BinaryReference("b" * 64, 99, "text/csv")
OTHER = BinaryReference("c" * 64, 7, "text/plain", "notes")


def test_the_journal_stores_references() -> None:
    """Decodes what it encoded; an item without files has no field for them."""
    outputs = [
        [
            Item({"a": 1}, ((0, 0),), binary={"data": PHOTO, "prices": PRICES}),
            Item({"a": 2}, None, "failed", partial=True, binary={"data": OTHER}),
            Item({"a": 3}, ((1, 0),)),
            Item({}, None, partial=True),
        ]
    ]
    encoded = encode_outputs(outputs)
    assert decode_outputs(json.loads(json.dumps(encoded))) == outputs
    assert isinstance(encoded, list)
    assert isinstance(encoded[0], list)
    assert encoded[0][2:] == [[{"a": 3}, [[1, 0]]], [{}, None, None, True]]


@pytest.mark.parametrize(
    ("name", "extension"), [("tea.png", "png"), ("tea.tar.gz", "gz"), ("tea", ""), (None, ""), ("tea.", "")]
)
def test_the_extension_is_the_end_of_the_name(name: str | None, extension: str) -> None:
    """Takes the extension after the last dot; a name without one has none."""
    assert BinaryReference("a" * 64, 1, "image/png", name).extension == extension


def test_files_follow_the_pairing() -> None:
    """Carries files from all paired sources, the last of one name; items with own files keep those.

    A pairing by ItemRef, as a loop makes, carries none.
    """
    inputs = [
        [Item({}, binary={"data": PHOTO}), Item({}, binary={"data": PRICES, "more": PHOTO})],
        [Item({}, binary={"data": OTHER})],
    ]
    outputs = [
        [
            Item({}, ((1, 0), (0, 1))),
            Item({}, ((0, 0),), binary={"own": PRICES}),
            Item({}, (ItemRef("Start", 0, 0, 0),)),
            Item({}, None),
            Item({}, ((5, 0), (0, 7))),
        ]
    ]
    [carried] = carry_files(outputs, inputs)
    assert [dict(item.binary) for item in carried] == [
        {"data": OTHER, "more": PHOTO},
        {"own": PRICES},
        {},
        {},
        {},
    ]


def test_references_count_against_the_memory_of_a_run() -> None:
    """Counts 256 bytes for each file: as many as fit into a step's share pass, one more does not."""
    files = {str(number): PHOTO for number in range((STEP_BYTES - 18) // 256)}
    MemoryBudget().reserve([[Item({}, binary=files)]])
    with pytest.raises(MemoryBudgetExceeded):
        MemoryBudget().reserve([[Item({}, binary=files | {"more": PHOTO})]])


SET = {"assignments": {"assignments": [{"name": "b", "value": 1, "type": "number"}]}}
FILE_CASES: list[tuple[str, float, dict[str, Any], bool]] = [
    ("noOp", 1, {}, True),
    ("limit", 1, {"maxItems": 5}, True),
    ("sort", 1, {"sortFieldsUi": {"sortField": [{"fieldName": "a"}]}}, True),
    ("removeDuplicates", 1, {}, True),
    ("renameKeys", 1, {"keys": {"key": [{"currentKey": "a", "newKey": "b"}]}}, True),
    ("splitInBatches", 3, {}, False),
    ("set", 3.4, {**SET, "includeOtherFields": True}, True),
    ("set", 3.4, {**SET, "includeOtherFields": True, "options": {"stripBinary": True}}, False),
    ("set", 3.4, SET, False),
    ("set", 3.2, {"include": "all", "options": {"includeBinary": True}}, True),
    ("set", 3.2, {"include": "all"}, False),
    ("set", 2, {}, True),
    ("set", 2, {"keepOnlySet": True}, False),
    ("splitOut", 1, {"fieldToSplitOut": "list"}, False),
    ("splitOut", 1, {"fieldToSplitOut": "list", "options": {"includeBinary": True}}, True),
    ("itemLists", 3, {"operation": "limit", "maxItems": 5}, True),
    ("itemLists", 3, {"fieldToSplitOut": "list"}, False),
    ("aggregate", 1, {"aggregate": "aggregateAllItemData"}, False),
]


@pytest.mark.parametrize(("kind", "version", "parameters", "keeps_files"), FILE_CASES)
async def test_steps_keep_files_as_in_n8n(
    kind: str, version: float, parameters: dict[str, Any], keeps_files: bool
) -> None:
    """Every item that the step passes on has the files of its source, or none has, as in n8n."""
    items = [Item({"a": 1, "list": [1]}, ((0, 0),), binary={"data": PHOTO})]
    outputs = await items_of(kind, version, parameters, items)
    assert not isinstance(outputs, str)
    expected = {"data": PHOTO} if keeps_files else {}
    assert outputs[0] or kind == "splitInBatches"
    assert all(dict(item.binary) == expected for item in outputs[0])


async def test_batches_keep_files() -> None:
    """A batch has the files of its items, though it is paired with the step before the loop."""
    outputs = await items_of("splitInBatches", 3, {}, [Item({}, ((0, 0),), binary={"data": PHOTO})])
    assert not isinstance(outputs, str)
    assert [dict(item.binary) for item in outputs[1]] == [{"data": PHOTO}]


@pytest.mark.parametrize(
    ("kind", "version", "unique", "names"),
    [
        ("aggregate", 1, False, {"data": PHOTO, "data_1": PRICES, "data_2": PHOTO}),
        ("aggregate", 1, True, {"data": PHOTO, "data_1": PRICES}),
        ("itemLists", 2, False, {"data": PHOTO, "data_1": PRICES, "data_2": PHOTO}),
    ],
)
async def test_aggregate_gathers_files(
    kind: str, version: float, unique: bool, names: dict[str, BinaryReference]
) -> None:
    """Appends a number to a name in use; with “Keep Only Unique” equal files are added once."""
    parameters = {
        "operation": "aggregateItems",
        "aggregate": "aggregateAllItemData",
        "options": {"includeBinaries": True, **({"keepOnlyUnique": True} if unique else {})},
    }
    if kind == "aggregate":
        del parameters["operation"]
    items = [Item({"a": 1}, ((0, 0),), binary={"data": file}) for file in (PHOTO, PRICES, PHOTO)]
    outputs = await items_of(kind, version, parameters, items)
    assert not isinstance(outputs, str)
    assert [dict(item.binary) for item in outputs[0]] == [names]
