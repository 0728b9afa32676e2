"""Tests what expressions and scripts read of files by `$binary`, and which files scripts pass on."""

import base64
from typing import Any

import pytest

from steward.steps.workflow.items import BinaryReference, Item, readable_size
from tests.imports.cases import FilesInMemory
from tests.imports.n8n.one_step import items_of


async def item_with(files: FilesInMemory, content: bytes = b"tea") -> Item:
    """Returns an item with one file."""
    file = BinaryReference(await files.put(content), len(content), "image/png", "tea.png")
    return Item({"id": 1}, ((0, 0),), binary={"photo": file})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$binary.photo.fileName", "tea.png"),
        ("$binary.photo.mimeType", "image/png"),
        ("$binary.photo.fileExtension", "png"),
        ("$binary.photo.fileType", "image"),
        ("$binary.photo.fileSize", "3 B"),
        ("Object.keys($binary)", ["photo"]),
        ("$binary.other?.fileName ?? 'none'", "none"),
        ("$input.item.binary.photo.fileName", "tea.png"),
        ("$input.first().binary.photo.mimeType", "image/png"),
        ("$('Start').item.binary.photo.fileName", "tea.png"),
        ("$('Start').all()[0].binary.photo.fileName", "tea.png"),
        ("$node['Start'].binary.photo.fileName", "tea.png"),
        ("JSON.stringify($binary).includes('tea.png')", True),
    ],
)
async def test_an_expression_reads_what_a_file_is(expression: str, value: Any) -> None:
    """Reads name, type, extension and size of files of the item and of earlier steps, never the content."""
    files = FilesInMemory()
    assignment = {"name": "a", "value": f"={{{{ {expression} }}}}", "type": "any"}
    kind = {str: "string", bool: "boolean", list: "array"}[type(value)]
    parameters = {"assignments": {"assignments": [assignment | {"type": kind}]}}
    outputs = await items_of("set", 3.4, parameters, [await item_with(files)], files=files)
    assert not isinstance(outputs, str), outputs
    assert outputs[0][0].json == {"a": value}


@pytest.mark.parametrize(
    "expression",
    [
        "$binary.photo.data === undefined",
        "$input.all().map(i => i.binary.photo.data)",
        "Object.values($('Start').first().binary).map(file => file.data).join()",
        "$('Start').all().sort((a, b) => 0)[0].binary['photo'].data",
    ],
)
async def test_an_expression_that_reads_the_content_of_a_file_fails(expression: str) -> None:
    """Fails instead of giving undefined, whatever name the expression uses for the content."""
    assignment = {"name": "a", "value": f"={{{{ {expression} }}}}", "type": "string"}
    parameters = {"assignments": {"assignments": [assignment]}}
    files = FilesInMemory()
    outputs = await items_of("set", 3.4, parameters, [await item_with(files)], files=files)
    assert "content of a file is not available" in str(outputs)


async def test_an_item_without_files_has_an_empty_binary() -> None:
    """`$binary` of an item without files has no keys."""
    assignment = {"name": "a", "value": "={{ Object.keys($binary).length }}", "type": "number"}
    parameters = {"assignments": {"assignments": [assignment]}}
    outputs = await items_of("set", 3.4, parameters, [Item({}, ((0, 0),))])
    assert not isinstance(outputs, str), outputs
    assert outputs[0][0].json == {"a": 0}


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1234, "1.23 kB"), (20_971_520, "21 MB")]
)
def test_sizes_have_three_digits_and_a_unit(size: int, text: str) -> None:
    """Writes sizes with at most three digits in units of a thousand bytes."""
    assert readable_size(size) == text


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("return $input.all()", {"photo": "tea.png"}),
        ("return items", {"photo": "tea.png"}),
        ("return items.map(item => ({json: {}, binary: item.binary}))", {"photo": "tea.png"}),
        ("items[0].binary.photo.fileName = 'new.png'; return items", {"photo": "new.png"}),
        ("return [{json: {}, binary: {copy: $('Start').first().binary.photo}}]", {"copy": "tea.png"}),
        ("return [{json: {name: items[0].binary.photo.fileName}}]", {}),
    ],
)
async def test_a_script_passes_files_on(script: str, names: dict[str, str]) -> None:
    """Passes on the files of the items that the script returns, also under other names."""
    files = FilesInMemory()
    outputs = await items_of("code", 2, {"jsCode": script}, [await item_with(files)], files=files)
    assert not isinstance(outputs, str), outputs
    [item] = outputs[0]
    assert {name: file.file_name for name, file in item.binary.items()} == names
    for file in item.binary.values():
        assert (await files.get(file.sha256), file.size, file.mime_type) == (b"tea", 3, "image/png")


@pytest.mark.parametrize(
    "script",
    [
        "const { photo } = items[0].binary; return [{ json: { t: photo.data } }]",
        "return Object.values($input.first().binary).map(({ data }) => ({ json: { data } }))",
        "const b = $('Start').first().binary; return [{ json: { t: b.photo.data } }]",
        "const { photo } = $('Start').all()[0].binary; return [{ json: { t: photo.data } }]",
    ],
)
async def test_a_script_that_reads_the_content_of_a_file_fails(script: str) -> None:
    """Fails instead of giving undefined, whatever name the script uses for the content."""
    files = FilesInMemory()
    outputs = await items_of("code", 2, {"jsCode": script}, [await item_with(files)], files=files)
    assert "content of a file is not available" in str(outputs)


async def test_a_script_replaces_the_content_of_a_file() -> None:
    """Stores the content that the script sets, and keeps the name of the file."""
    script = "items[0].binary.photo.data = 'dGVhIQ=='; return items"
    files = FilesInMemory()
    outputs = await items_of("code", 2, {"jsCode": script}, [await item_with(files)], files=files)
    assert not isinstance(outputs, str), outputs
    file = outputs[0][0].binary["photo"]
    assert (file.file_name, await files.get(file.sha256)) == ("tea.png", b"tea!")


async def test_a_script_makes_a_file_of_base64() -> None:
    """Stores the file that a script makes of Base64, with its file name and the type of that name."""
    data = base64.b64encode(b"a,b\n1,2").decode()
    script = f"return [{{json: {{}}, binary: {{data: {{data: '{data}', fileName: 'a.csv'}}}}}}]"
    files = FilesInMemory()
    outputs = await items_of("code", 2, {"jsCode": script}, [Item({}, ((0, 0),))], files=files)
    assert not isinstance(outputs, str), outputs
    file = outputs[0][0].binary["data"]
    assert (file.file_name, file.mime_type, file.size) == ("a.csv", "text/csv", 7)
    assert await files.get(file.sha256) == b"a,b\n1,2"


@pytest.mark.parametrize(
    ("binary", "words"),
    [
        ("{data: {data: 'no base64!'}}", "not Base64"),
        ("{data: {fileName: 'a.csv'}}", "without data"),
        ("{data: 7}", "is not an object"),
    ],
)
async def test_an_invalid_binary_fails_the_script(binary: str, words: str) -> None:
    """Fails a script whose `binary` has no data, data that is not Base64, or is not an object."""
    script = f"return [{{json: {{}}, binary: {binary}}}]"
    outputs = await items_of("code", 2, {"jsCode": script}, [Item({}, ((0, 0),))], files=FilesInMemory())
    assert words in str(outputs)
