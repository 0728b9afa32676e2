"""Reads every export of a folder and prints what they would come to here.

`make imports-report DIR=folder` prints text; with ARGS=--json the same as JSON.

See docs/design/imports-n8n.md#findings.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from steward.connectors.shopify.hydration import compile_read
from steward.imports.content import Unreadable, content_of
from steward.imports.reading import read_export
from steward.imports.report import Survey
from steward.sandbox.pool import SandboxPool
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import read_liquid
from steward.steps.workflow.expressions.views import CheckRequest

SLOW_MS = 1000.0
_SOURCES = {".json": "workflow_tool", ".flow": "store_flow"}


def exports_in(folder: Path) -> list[Path]:
    """The exports of both tools in a folder."""
    return sorted(path for path in folder.iterdir() if path.suffix in _SOURCES)


async def survey(paths: Sequence[Path], children: SandboxPool | None) -> Survey:
    """Every export, read as keeping it would."""
    found = Survey()
    evaluator = Evaluator(children, "report", "report") if children is not None else None
    for path in paths:
        began = time.perf_counter()
        try:
            # Byte by byte: a flow's checksum is of its line ends too.
            content = content_of(path.read_bytes().decode("utf-8"))
            reading = await read_export(_SOURCES[path.suffix], content, None, evaluator)
            found.add(reading.plan, reading.report)
        except Unreadable:
            found.refused += 1
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            found.broke.append(f"{path.name}: {type(error).__name__}: {error}")
        taken = (time.perf_counter() - began) * 1000
        found.slowest_ms = max(found.slowest_ms, taken)
        if taken > SLOW_MS:
            found.broke.append(f"{path.name}: took {taken:.0f} ms")
    return found


async def _main(paths: Sequence[Path], *, as_json: bool) -> int:
    children = SandboxPool(2)
    try:
        warm = Evaluator(children, "report", "report")
        # The first start of each kind, and the schema's first look, are not an export's.
        await warm.matches([("a", "", "a")])
        await warm.check(CheckRequest(liquid=[read_liquid("{{ a }}")]))
        compile_read("shop", ["shop.name"])
        found = await survey(paths, children)
    finally:
        await children.close()
    print(json.dumps(found.to_json(), indent=1) if as_json else "\n".join(found.to_text()))
    return 1 if found.broke else 0


def main(folder: Path, *, as_json: bool) -> int:
    """The report of a folder; 2 when there is none."""
    if not folder.is_dir():
        print(f"There is no folder {folder}.")
        return 2
    return asyncio.run(_main(exports_in(folder), as_json=as_json))


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), as_json="--json" in sys.argv[2:]))
