"""The documentation site: stages its pages, with the API reference, and finishes what was built.

`python tools/site.py stage FOLDER` and, after the build, `python tools/site.py finish FOLDER SITE`.
"""

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Json = dict[str, Any]
# Documents beside docs/ that are pages too, and where they stand in the site.
BESIDE = {
    "README.md": "start.md",
    "CONTRIBUTING.md": "inside/contributing.md",
    "SECURITY.md": "inside/security.md",
    "CHANGELOG.md": "changelog.md",
    "bench/README.md": "inside/bench.md",
    "web/README.md": "inside/web.md",
    "clients/python/README.md": "clients/python.md",
    "clients/typescript/README.md": "clients/typescript.md",
}
# Folders that documents link to, and the page that is meant.
FOLDERS = {
    "docs/decisions": "decisions/README.md",
    "docs/design": "index.md",
    "docs/design/api": "design/api/conventions.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^()\s]+)\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.M | re.S)


def pages() -> dict[Path, str]:
    """Every document and picture, and what it becomes."""
    found = {
        path: path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))
    }
    pictures = {path: f"pictures/{path.name}" for path in (ROOT / "docs/pictures").glob("*.png")}
    return found | pictures | {ROOT / name: page for name, page in BESIDE.items()}


def stage(folder: Path) -> None:
    """Writes all pages into `folder`: documents with their links set right, and the reference."""
    shutil.rmtree(folder, ignore_errors=True)
    places = pages()
    for path, page in places.items():
        if path.suffix == ".md":
            write(folder / page, relinked(path, page, places))
        else:
            (folder / page).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / page)
    document = json.loads((ROOT / ".cache/openapi.json").read_bytes())
    for tag in document["tags"]:
        write(folder / f"reference/{tag['name'].lower()}.md", Reference(document).page(tag))


def relinked(path: Path, page: str, places: dict[Path, str]) -> str:
    """The text of a document; a link to what is no page of the site becomes its words."""

    def link(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        name, _, anchor = target.partition("#")
        if not name or re.match(r"[a-z]+:", target):
            return match[0]
        source = (path.parent / name).resolve()
        inside = source.relative_to(ROOT).as_posix() if source.is_relative_to(ROOT) else ""
        place = places.get(source) or FOLDERS.get(inside)
        if place is None:
            return "" if mark else words
        relative = os.path.relpath(place, Path(page).parent)
        return f"{mark}[{words}]({relative}{'#' + anchor if anchor else ''})"

    # Code is set aside while links are looked for: a link's words may hold a code span.
    text = path.read_text("utf-8")
    code = _CODE.findall(text)
    text = _LINK.sub(link, _CODE.sub("\0", text))
    return re.sub("\0", lambda _: code.pop(0), text)


class Reference:
    """Pages of the API reference, one a tag."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._schemas = document["components"]["schemas"]

    def page(self, tag: Json) -> str:
        """One tag with its operations."""
        text = f"# {tag['name']}\n\n{tag['description']}\n"
        for path, item in self._document["paths"].items():
            for method, row in item.items():
                if tag["name"] in row["tags"]:
                    text += self._operation(method.upper(), path, row)
        return text

    def _operation(self, method: str, path: str, row: Json) -> str:
        text = f"\n## {row['summary']}\n\n`{method} {path}`\n\n"
        scope = f" · scope `{row['x-scope']}`" if "x-scope" in row else ""
        text += f"Operation `{row['operationId']}` · sent again: `{row['x-idempotent']}`{scope}.\n"
        rows = [(one["name"], one["schema"], one["required"]) for one in row["parameters"]]
        text += self._table("Parameter", rows)
        for kind, content in row.get("requestBody", {}).get("content", {}).items():
            text += f"\nBody, `{kind}`:\n" + self._fields(content["schema"])
            text += example("Request", content)
        refusals = []
        for status, answer in row["responses"].items():
            content = answer["content"]["application/json"]
            if status < "400":
                text += f"\nAnswer {status}: {answer['description']}.\n"
                if status == next(iter(row["responses"])):
                    text += self._fields(self._data(content["schema"])) + example("Answer", content)
            else:
                refusals.append(f"{status} " + ", ".join(f"`{code}`" for code in answer["x-codes"]))
        return text + f"\nRefusals: {'; '.join(refusals)}.\n"

    def _data(self, schema: Json) -> Json:
        fields = self._resolved(schema)["properties"]
        return fields["data"] if "$ref" in fields.get("data", {}) else schema

    def _fields(self, schema: Json) -> str:
        resolved = self._resolved(schema)
        required = resolved.get("required", [])
        return self._table(
            "Field", [(name, one, name in required) for name, one in resolved["properties"].items()]
        )

    def _table(self, kind: str, rows: list[tuple[str, Json, bool]]) -> str:
        if not rows:
            return ""
        lines = [
            f"| `{name}` | {self._type(schema)} | {'yes' if required else 'no'} |"
            for name, schema, required in rows
        ]
        return f"\n| {kind} | Type | Always |\n| - | - | - |\n" + "\n".join(lines) + "\n"

    def _type(self, schema: Json) -> str:
        if "$ref" in schema:
            target = self._resolved(schema)
            return self._type(target) if "enum" in target else f"`{schema['$ref'].rpartition('/')[2]}`"
        for union in (schema.get("anyOf"), schema.get("oneOf")):
            if union:
                return " or ".join(self._type(one) for one in union)
        if "enum" in schema:
            return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
        if "const" in schema:
            return f"`{json.dumps(schema['const'])}`"
        types = schema.get("type", "any")
        words = " or ".join([types] if isinstance(types, str) else types)
        return f"{words} of {self._type(schema['items'])}" if "items" in schema else words

    def _resolved(self, schema: Json) -> Json:
        return self._schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def example(words: str, content: Json) -> str:
    """A recorded call as a fenced block."""
    if "example" not in content:
        return ""
    return f"\n{words}:\n\n```json\n{json.dumps(content['example'], indent=1, ensure_ascii=False)}\n```\n"


def finish(folder: Path, site: Path) -> None:
    """Puts each page beside itself as Markdown, and writes `llms.txt` and `llms-full.txt`."""
    for path in folder.rglob("*.md"):
        target = site / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    settings = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    listed = list(navigation(settings["project"]["nav"]))
    lines = [f"- [{title}]({page})" for title, page in listed]
    write(
        site / "llms.txt",
        "\n".join(["# Steward", "", f"> {settings['project']['site_description']}", "", *lines, ""]),
    )
    write(site / "llms-full.txt", "\n\n".join((folder / page).read_text("utf-8") for _, page in listed))


def navigation(entries: list[Any]) -> Iterator[tuple[str, str]]:
    """Titles and pages of the navigation, in its order."""
    for title, target in (pair for entry in entries for pair in entry.items()):
        if isinstance(target, str):
            yield title, target
        else:
            yield from navigation(target)


def write(path: Path, text: str) -> None:
    """Writes a page and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


if __name__ == "__main__":
    {"stage": stage, "finish": finish}[sys.argv[1]](*map(Path, sys.argv[2:]))
