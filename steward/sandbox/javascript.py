"""Runs JavaScript of imported workflows on QuickJS, with dates, English Intl and time zones."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import _quickjs as quickjs  # the package around it starts a thread, which a child may not do

from steward.sandbox.protocol import CRASHED, MEMORY, MIB, TIMEOUT, SandboxStopped, stopped
from steward.sandbox.zones import Zones

_MEMORY_BYTES: Final = 128 * MIB
_STACK_BYTES: Final = MIB
_EXPRESSION_SECONDS: Final = 1
_SCRIPT_SECONDS: Final = 10
_BLOCK_ITEMS: Final = 100
_FILES_BEFORE_LUXON: Final = 8  # files before luxon, which expects Intl to be defined
_MAX_JOBS: Final = 1_000_000
_LINE_PADDING: Final = "\n" * 100_000  # numbers our lines above those of any script (js/11_scripts.js)

_RETURNED: Final = {"flow": "value", "order": "order"}  # by mode: what a script returns instead of items

_FOLDER = Path(__file__).parent
_MODULE_FILES: Final = frozenset(("11_addresses.js", "11_modules.js"))
_MODULE_NAMES = ("require", "Buffer", "crypto", "URL", "TextEncoder", "TextDecoder", "btoa", "atob")
_STATIC_DATA: Final = "etWorkflowStaticData"  # the shared part of its names with and without $
_DATES = ("DateTime", "Duration", "Interval", "$now", "$today", "luxon")


class Sources:
    """The engine's own JavaScript files, read once."""

    def __init__(self) -> None:
        files = sorted((_FOLDER / "js").glob("*.js"))
        parts = [file.read_text("utf-8") for file in files]
        built = {
            name: (_FOLDER / "built" / f"{name}.js").read_text("utf-8") for name in ("luxon", "jmespath")
        }
        base_files = "\n".join(parts[:_FILES_BEFORE_LUXON])
        after_luxon = "\n".join(parts[_FILES_BEFORE_LUXON:])
        no_modules = "\n".join(
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
                base_files, luxon if dates else without_luxon, query, after_luxon if modules else no_modules
            )
            for dates in (True, False)
            for modules in (True, False)
        }

    @staticmethod
    def _joined(*parts: str) -> str:
        return _LINE_PADDING + "globalThis.$own$ = (() => {\n'use strict';\n" + "\n".join(parts) + "\n})();"

    def text(self, dates: bool, modules: bool) -> str:
        """Returns the files as one script, optionally without dates and modules."""
        return self._texts[dates, modules]


class JavaScriptEngine:
    """A JavaScript engine: the frozen one for expressions, or a fresh one for a single script."""

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
        """Limits the CPU seconds of each following call."""
        self._context.set_time_limit(seconds)

    def call(self, name: str, *arguments: str | int) -> str:
        """Calls one of our own functions and returns its result. Raises SandboxStopped."""
        try:
            return str(self._functions[name](*arguments))
        except quickjs.StackOverflow as end:
            raise stopped(CRASHED) from end
        except quickjs.JSException as end:
            raise _stop_reason(end) from end
        except MemoryError as end:
            raise stopped(MEMORY) from end

    def with_time_zones(self, action: Callable[[], str]) -> str:
        """Repeats an action, loading the time zones it asks for, until none is missing.

        There are about 600 zones, so they are not all loaded in advance.
        """
        while True:
            result = action()
            missing_zones = set(str(_parsed(self.call("missingZones"))).split("\n")) & self._missing
            if not missing_zones:
                return result
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


def _parsed(result: str) -> Any:
    """Decodes an engine's JSON. Raises SandboxStopped if it is invalid, which a script may have caused."""
    try:
        return json.loads(result, parse_constant=_refuse)
    except (ValueError, RecursionError) as end:
        raise stopped(CRASHED) from end


def _refuse(constant: str) -> None:
    raise ValueError(constant)  # NaN and the infinities are not JSON


class JavaScript:
    """The JavaScript operations of a child process; each takes JSON text and yields values.

    Answers of an engine are parsed here and encoded again by child.py, so that no text influenced by a script
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
        """Yields blocks of items; the clock restarts after each."""
        engine = self._expressions
        engine.limit(_SCRIPT_SECONDS)
        engine.call("begin", payload)
        engine.limit(_EXPRESSION_SECONDS)
        for start in range(0, int(request["places"]), _BLOCK_ITEMS):
            end = min(start + _BLOCK_ITEMS, int(request["places"]))
            yield _parsed(engine.with_time_zones(partial(engine.call, "evaluateBlock", start, end)))

    def _script(self, request: dict[str, Any], payload: str) -> Iterator[object]:
        # Lone surrogates, which engines reject, become question marks.
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
            result = _parsed(engine.call("scriptAnswer"))
        except SandboxStopped as unwritable:
            if unwritable.code != CRASHED:
                raise
            end, result = "refused", "The script returns a value that cannot be written down."
        reply = {"lines": lines}
        if _STATIC_DATA in text:
            try:
                reply["static"] = _parsed(engine.call("scriptStatic"))
            except SandboxStopped as unwritable:
                if unwritable.code != CRASHED:
                    raise
                end, result = "refused", "The script keeps static data that cannot be written down."
        if end == "done":
            yield {_RETURNED.get(mode, "items"): result, **reply}
        else:
            yield {"failed": result, "thrown": end == "failed", **reply}

    def _check(self, request: dict[str, Any], payload: str) -> Iterator[object]:
        self._expressions.limit(_SCRIPT_SECONDS)
        yield _parsed(self._expressions.call("checkAll", payload))

    def _match(self, request: dict[str, Any], payload: str) -> Iterator[object]:
        self._expressions.limit(_EXPRESSION_SECONDS)
        yield _parsed(self._expressions.call("matchAll", payload))
