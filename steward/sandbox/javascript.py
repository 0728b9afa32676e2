"""JavaScript of imported workflows on QuickJS, with dates, Intl in English and zones."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import _quickjs as quickjs  # the package around it starts a thread, which a child may not have

from steward.sandbox.protocol import CRASHED, MEMORY, MIB, TIMEOUT, SandboxStopped, stopped
from steward.sandbox.zones import Zones

_MEMORY_BYTES: Final = 128 * MIB
_STACK_BYTES: Final = MIB
_EXPRESSION_SECONDS: Final = 1
_SCRIPT_SECONDS: Final = 10
_BLOCK_ITEMS: Final = 100
_FILES_BEFORE_LUXON: Final = 8  # files that come before the date library, which finds Intl there
_MAX_JOBS: Final = 1_000_000
_LINE_PADDING: Final = "\n" * 100_000  # lines of our own, told from those of a script (js/11_scripts.js)

_RETURNED: Final = {"flow": "value", "order": "order"}  # what a script of a mode returns; else items

_FOLDER = Path(__file__).parent
_MODULE_FILES: Final = frozenset(("11_addresses.js", "11_modules.js"))
_MODULE_NAMES = ("require", "Buffer", "crypto", "URL", "TextEncoder", "TextDecoder", "btoa", "atob")
_STATIC_DATA: Final = "etWorkflowStaticData"  # the name with and without $ has it in common
_DATES = ("DateTime", "Duration", "Interval", "$now", "$today", "luxon")


class Sources:
    """The engine's own JavaScript, read once; without `dates` or `modules` that part is left out."""

    def __init__(self) -> None:
        files = sorted((_FOLDER / "js").glob("*.js"))
        parts = [file.read_text("utf-8") for file in files]
        built = {
            name: (_FOLDER / "built" / f"{name}.js").read_text("utf-8") for name in ("luxon", "jmespath")
        }
        ground = "\n".join(parts[:_FILES_BEFORE_LUXON])
        rest = "\n".join(parts[_FILES_BEFORE_LUXON:])
        rest_alone = "\n".join(
            part
            for file, part in list(zip(files, parts, strict=True))[_FILES_BEFORE_LUXON:]
            if file.name not in _MODULE_FILES
        )
        query = (
            f"const jmespath = (() => {{ const exports = {{}};\n{built['jmespath']}\nreturn exports; }})();"
        )
        luxon = f"const luxon = (() => {{\n{built['luxon']}\nreturn luxon; }})();"
        without_luxon = "const luxon = null;"
        self._texts = {
            (dates, modules): self._joined(
                ground, luxon if dates else without_luxon, query, rest if modules else rest_alone
            )
            for dates in (True, False)
            for modules in (True, False)
        }

    @staticmethod
    def _joined(*parts: str) -> str:
        return _LINE_PADDING + "globalThis.$own$ = (() => {\n'use strict';\n" + "\n".join(parts) + "\n})();"

    def text(self, dates: bool, modules: bool) -> str:
        """Returns the sources as one script, with or without dates and modules."""
        return self._texts[dates, modules]


class JavaScriptEngine:
    """An engine: the frozen one for expressions, or a fresh one for a single script."""

    def __init__(
        self,
        sources: Sources,
        zones: Zones,
        *,
        dates: bool = True,
        modules: bool = True,
        frozen: bool = False,
    ) -> None:
        self._zones = zones
        self._context = quickjs.Context()
        self._context.set_memory_limit(_MEMORY_BYTES)
        self._context.set_max_stack_size(_STACK_BYTES)
        self._context.eval(sources.text(dates, modules))
        names = json.loads(self._context.eval("JSON.stringify(Object.keys($own$))"))
        self._functions: dict[str, Callable[..., Any]] = {
            name: self._context.eval(f"$own$.{name}") for name in names
        }
        self._context.eval("delete globalThis.$own$")
        self._missing = set(zones.names)
        self._functions["setZones"](json.dumps(zones.names))
        if frozen:
            self._functions["freezeAll"]()

    def limit(self, seconds: float) -> None:
        """Limits the CPU seconds of each further call."""
        self._context.set_time_limit(seconds)

    def call(self, name: str, *arguments: str | int) -> str:
        """Returns the answer of one of our own functions. Raises SandboxStopped."""
        try:
            return str(self._functions[name](*arguments))
        except quickjs.StackOverflow as end:
            raise stopped(CRASHED) from end
        except quickjs.JSException as end:
            raise _stop_reason(end) from end
        except MemoryError as end:
            raise stopped(MEMORY) from end

    def with_time_zones(self, action: Callable[[], str]) -> str:
        """Does something again until it asks for no time zone it has not been given; there are some 600."""
        while True:
            answer = action()
            missing_zones = set(str(_parsed(self.call("zonesWanted"))).split("\n")) & self._missing
            if not missing_zones:
                return answer
            for name in missing_zones:
                self.call("addZone", name, self._zones.table(name))
            self._missing -= missing_zones

    def run_pending_jobs(self) -> None:
        """Runs the pending jobs of promises. Raises SandboxStopped."""
        try:
            for _ in range(_MAX_JOBS):
                if not self._context.execute_pending_job():
                    return
        except quickjs.JSException as end:
            raise _stop_reason(end) from end
        raise stopped(TIMEOUT)


def _stop_reason(error: Exception) -> SandboxStopped:
    words = str(error)
    if words.startswith("InternalError: interrupted"):
        return stopped(TIMEOUT)
    if words.startswith("InternalError: out of memory") or words.startswith("null"):
        return stopped(MEMORY)
    return stopped(CRASHED)


def _parsed(answer: str) -> Any:
    """Returns an engine's JSON decoded. Raises SandboxStopped if it is invalid, changed by a script."""
    try:
        return json.loads(answer, parse_constant=_refuse)
    except (ValueError, RecursionError) as end:
        raise stopped(CRASHED) from end


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and the infinities are no JSON


class JavaScript:
    """The operations a child offers on JavaScript: each takes its data as JSON text and gives values.

    What an engine answers is parsed here and encoded again by child.py, so no text a script had a hand in
    reaches the pipe.
    """

    def __init__(self, zones: Zones) -> None:
        self._zones = zones
        self._sources = Sources()
        self._expressions = JavaScriptEngine(self._sources, zones, frozen=True)
        self.operations: dict[str, Callable[[dict[str, Any], str], Iterator[object]]] = {
            "evaluate": self._evaluate,
            "script": self._script,
            "check": self._check,
            "match": self._match,
        }

    def _evaluate(self, request: dict[str, Any], payload: str) -> Iterator[object]:
        """Blocks of items; between two of them the clock restarts."""
        engine = self._expressions
        engine.limit(_SCRIPT_SECONDS)
        engine.call("begin", payload)
        engine.limit(_EXPRESSION_SECONDS)
        for start in range(0, int(request["places"]), _BLOCK_ITEMS):
            end = min(start + _BLOCK_ITEMS, int(request["places"]))
            yield _parsed(engine.with_time_zones(partial(engine.call, "evaluateBlock", start, end)))

    def _script(self, request: dict[str, Any], payload: str) -> Iterator[object]:
        # Half a character, which no engine takes, is written as a question mark.
        text, mode = str(request["text"]).encode("utf-8", "replace").decode(), str(request["mode"])
        engine = JavaScriptEngine(
            self._sources,
            self._zones,
            dates=any(name in text for name in _DATES),
            modules=any(name in text for name in _MODULE_NAMES),
        )
        engine.limit(_SCRIPT_SECONDS)

        def act() -> str:
            engine.call("begin", payload)
            engine.call("scriptStart", mode, text)
            engine.run_pending_jobs()
            return engine.call("scriptEnd")

        end = engine.with_time_zones(act)
        lines = _parsed(engine.call("scriptLines"))
        try:
            answer = _parsed(engine.call("scriptAnswer"))
        except SandboxStopped as unwritable:
            if unwritable.code != CRASHED:
                raise
            end, answer = "refused", "The script returns a value that cannot be written down."
        reply = {"lines": lines}
        if _STATIC_DATA in text:
            try:
                reply["static"] = _parsed(engine.call("scriptStatic"))
            except SandboxStopped as unwritable:
                if unwritable.code != CRASHED:
                    raise
                end, answer = "refused", "The script keeps static data that cannot be written down."
        if end == "done":
            yield {_RETURNED.get(mode, "items"): answer, **reply}
        else:
            yield {"failed": answer, "thrown": end == "failed", **reply}

    def _check(self, request: dict[str, Any], payload: str) -> Iterator[object]:
        self._expressions.limit(_SCRIPT_SECONDS)
        yield _parsed(self._expressions.call("checkAll", payload))

    def _match(self, request: dict[str, Any], payload: str) -> Iterator[object]:
        self._expressions.limit(_EXPRESSION_SECONDS)
        yield _parsed(self._expressions.call("matchAll", payload))
