"""Reads every export of a folder and prints the verdict on them.

`make imports-report DIR=folder` prints text; with ARGS=--json it prints JSON. See
docs/design/imports-verdict.md#report.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from steward.connectors.shopify.hydration import compile_read
from steward.imports.content import Unreadable, content_of
from steward.imports.reading import ImportReading, read_export
from steward.sandbox.pool import SandboxPool
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import read_liquid
from steward.steps.workflow.expressions.views import CheckRequest
from tests.imports.blockers import SurveyedExport, SurveyReport, blockers_of, has_ai_node

SLOW_MS = 5000.0
MAX_BYTES = 2 * 1024 * 1024  # the limit of the API
# Whatever a file causes in the reader, the other files are still reported.
_DEFECTS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError),
    *(OSError, RuntimeError, TypeError, ValueError),
)
_SOURCES = {".json": "workflow_tool", ".flow": "store_flow"}


def exports_in(folder: Path) -> list[Path]:
    """Returns the exports of both tools in a folder and the folders below it."""
    return sorted(path for path in folder.rglob("*") if path.suffix in _SOURCES and path.is_file())


async def survey(paths: Sequence[Path], children: SandboxPool | None) -> SurveyReport:
    """Reads every export as storing it would. A file that cannot be read is counted."""
    report = SurveyReport()
    evaluator = Evaluator(children, "report", "report") if children is not None else None
    for path in paths:
        began = time.perf_counter()
        try:
            reading = await _read(path, evaluator)
        except Unreadable as refusal:
            report.refused.append((path.name, refusal.message))
        except _DEFECTS as error:
            report.broke.append(f"{path.name}: {type(error).__name__}: {error}")
        else:
            report.add(_surveyed(path.name, reading))
        duration_ms = (time.perf_counter() - began) * 1000
        report.slowest = max(report.slowest, (duration_ms, path.name))
        if duration_ms > SLOW_MS:
            report.broke.append(f"{path.name}: took {duration_ms:.0f} ms")
    return report


async def _read(path: Path, evaluator: Evaluator | None) -> ImportReading:
    content = content_of(_text_of(path))
    return await read_export(_SOURCES[path.suffix], content, None, evaluator)


def _text_of(path: Path) -> str:
    try:
        # Read as bytes, because a flow's checksum covers its line ends too.
        raw = path.read_bytes()
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        raise Unreadable("The file cannot be read, or its text is not UTF-8.") from None
    if len(raw) > MAX_BYTES:
        raise Unreadable("The file is over 2 MiB.")
    return text


def _surveyed(name: str, reading: ImportReading) -> SurveyedExport:
    plan, report = reading.plan, reading.report
    findings = {f"{finding.code} {finding.level}" for finding in report.findings}
    return SurveyedExport(
        name, report.supported, has_ai_node(plan), blockers_of(plan, report.findings), findings
    )


async def _main(paths: Sequence[Path], *, as_json: bool) -> int:
    children = SandboxPool(2)
    try:
        warm = Evaluator(children, "report", "report")
        # The first start of each kind and of the schema would otherwise count as time of the first export.
        await warm.matches([("a", "", "a")])
        await warm.check(CheckRequest(liquid=[read_liquid("{{ a }}")]))
        compile_read("shop", ["shop.name"])
        report = await survey(paths, children)
    finally:
        await children.close()
    print(json.dumps(report.to_json(), indent=1) if as_json else "\n".join(report.to_text()))
    return 1 if report.broke else 0


def main(folder: Path, *, as_json: bool) -> int:
    """Prints the report of a folder; returns 2 if it does not exist, 1 if an export broke, else 0."""
    if not folder.is_dir():
        print(f"There is no folder {folder}.")
        return 2
    return asyncio.run(_main(exports_in(folder), as_json=as_json))


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), as_json="--json" in sys.argv[2:]))
