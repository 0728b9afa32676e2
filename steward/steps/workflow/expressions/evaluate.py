"""Evaluates expressions and scripts of imported workflows: paths in-process, all else in the sandbox.

An import parses each string parameter (template.py) and calls `Evaluator.check` once for the whole file. A
run calls `Evaluator.evaluate` once per step, with all templates and items of the step, and `run_code`,
`order`, `matches` and `render` where a step type needs them. The caller supplies the pairing and the steps
that ran (`ExpressionContext`); this module does not depend on plans, runs or storage.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from steward.model.json import JsonObject, JsonValue
from steward.model.limits import MAX_FILE_BYTES
from steward.sandbox.pool import FILES, JAVASCRIPT, LIQUID, SandboxPool, SandboxTime
from steward.sandbox.protocol import (
    CRASHED,
    MEMORY,
    MESSAGE_BYTES,
    STOP_MESSAGES,
    TIMEOUT,
    SandboxStopped,
    stopped,
)
from steward.steps.workflow.expressions import message, problems
from steward.steps.workflow.expressions.native import evaluate_paths
from steward.steps.workflow.expressions.template import Lang, ParameterTemplate, names_in
from steward.steps.workflow.expressions.views import (
    CheckRequest,
    CheckResult,
    CodeFailed,
    CodeResult,
    CodeStopped,
    Environment,
    ExpressionContext,
    ExpressionError,
    FileFailed,
    Outcome,
    Rendered,
    Script,
    ScriptItem,
    ScriptMode,
    StaticObjects,
)

_EXPRESSION_SECONDS: Final = 2.0  # wall time for each part of a message
_SCRIPT_SECONDS: Final = 15.0
_RUN_SECONDS: Final = 120.0
_FILE_STOP_MESSAGES: Final = {
    TIMEOUT: "Reading or writing the file took too long. Use a smaller file, or a simpler one.",
    MEMORY: "The file holds more than a step can take. Use a smaller file, or read fewer rows of it.",
    CRASHED: "The file ended the process that works on it. Save it again, or use another format.",
}


class Evaluator:
    """Evaluates the expressions and scripts of one run, or of one import.

    `organization` and `run` own the sandbox process: one process never serves two organizations or two
    runs. Every method may raise CodeStopped.
    """

    def __init__(self, sandbox_pool: SandboxPool, organization: str, run: str) -> None:
        self._sandbox_pool = sandbox_pool
        self._owner = (organization, run)
        self._used = SandboxTime()

    async def check(self, request: CheckRequest) -> CheckResult:
        """Compiles all code of the request without running it and returns the problems."""
        chunks = [problems.chunks_of(template) for template in request.templates]
        scripts = [[str(script.mode), script.text] for script in request.scripts]
        compiled: JsonObject = {"chunks": [[] for _ in chunks], "scripts": [[] for _ in scripts]}
        if any(chunks) or scripts:
            codes = [[code for _, code in columns] for columns in chunks]
            body = {"chunks": codes, "scripts": scripts}
            reply = await self._ask(JAVASCRIPT, {"op": "check"}, body, _SCRIPT_SECONDS)
            compiled = message.single_part(reply)
        liquid = await self._check_liquid([template.text for template in request.liquid])
        return CheckResult(
            problems.template_problems(chunks, compiled["chunks"]),
            problems.script_problems(compiled["scripts"], len(scripts)),
            problems.liquid_problems(liquid),
        )

    async def _check_liquid(self, texts: list[str]) -> list[JsonValue]:
        if not texts:
            return []
        reply = await self._ask(LIQUID, {"op": "check"}, texts, _EXPRESSION_SECONDS)
        return message.all_parts(reply, len(texts))

    async def evaluate(
        self,
        templates: Sequence[ParameterTemplate],
        context: ExpressionContext,
        places: Sequence[int] | None = None,
        *,
        keep_dates: bool = False,
    ) -> list[list[Outcome]]:
        """Returns the outcomes of each template: `outcomes[template][n]` for the n-th of `places`.

        `places` are indexes of the context's items, or None for all; a step with an empty input may pass
        index 0, for which `$json` is undefined. A template without chunks yields its text. Values are JSON,
        UNDEFINED, ExpressionError, or a float that is NaN or infinite (only as the whole value). They may
        share data with the input: copy them before changing them. Paths are evaluated in this process; all
        else goes to the sandbox in one message. A JavaScript Date becomes its ISO text, or a JsDate with
        `keep_dates`.
        """
        indexes = list(range(len(context.items)) if places is None else places)
        results = _evaluate_all_paths(templates, context, indexes)
        remaining = [template for template, result in zip(templates, results, strict=True) if result is None]
        evaluated: Iterator[list[Outcome]] = iter(())
        if remaining and indexes:
            evaluated = iter(
                await self._evaluate_in_sandbox(remaining, context, indexes, keep_dates=keep_dates)
            )
        return [next(evaluated, []) if result is None else result for result in results]

    async def run_code(self, script: Script, context: ExpressionContext) -> CodeResult:
        """Runs a script over all items of the context. Raises CodeFailed, CodeStopped.

        `ScriptItem.paired` is None if the script did not set the pairing; the general rule then applies (as
        many output as input items, or a single input item).
        """
        reply = await self._run_over_items(script.text, str(script.mode), context)
        items = reply.get("items")
        if not isinstance(items, list):
            raise message.crash_error()
        return CodeResult(tuple(map(_script_item, items)), _lines(reply), _static_data(reply))

    async def run_flow_code(self, text: str, script_input: JsonValue, now: datetime) -> JsonValue:
        """Returns the value of `export default function main(input)`. Raises CodeFailed, CodeStopped."""
        body = message.encode_flow_input(script_input, now)
        reply = await self._run_script(text, str(ScriptMode.FLOW), body)
        return reply.get("value")

    async def order(self, text: str, context: ExpressionContext) -> list[int]:
        """Returns the item indexes in the order of a comparison script of `a` and `b`. Raises CodeFailed."""
        reply = await self._run_over_items(text, "order", context)
        order = reply.get("order")
        if not isinstance(order, list) or sorted(map(_as_index, order)) != list(range(len(context.items))):
            raise message.crash_error()
        return [_as_index(index) for index in order]

    async def matches(self, pairs: Sequence[tuple[str, str, str]]) -> list[bool | None]:
        """Returns whether each (pattern, flags, text) matches; None for an invalid JavaScript pattern.

        Serves patterns that google-re2 does not support: look-around and back-references.
        """
        if not pairs:
            return []
        result = await self._ask(JAVASCRIPT, {"op": "match"}, list(pairs), _EXPRESSION_SECONDS)
        (matched,) = message.all_parts(result, 1)
        if not isinstance(matched, list) or len(matched) != len(pairs):
            raise message.crash_error()
        return [match if isinstance(match, bool) else None for match in matched]

    async def render(
        self, texts: Sequence[ParameterTemplate], environment: Environment, now: datetime
    ) -> list[Rendered]:
        """Renders Liquid texts as Shopify Flow does, in one environment."""
        sources = [template.text for template in texts if template.lang is Lang.LIQUID]
        parts: list[JsonValue] = []
        if sources:
            body = {"texts": sources, "environment": environment, "now": int(now.timestamp() * 1000)}
            result = await self._ask(LIQUID, {"op": "render"}, body, _EXPRESSION_SECONDS)
            parts = message.all_parts(result, len(sources))
        results = iter(parts)
        return [
            _rendered(next(results)) if template.lang is Lang.LIQUID else template.text for template in texts
        ]

    async def read_file(self, format_: str, content: bytes, options: JsonObject) -> JsonValue:
        """Parses a file. Raises FileFailed, CodeStopped."""
        options = {**options, "max_bytes": MAX_FILE_BYTES}
        return await self._ask_files("read", format_, base64.b64encode(content), options)

    async def write_file(self, format_: str, data: JsonValue, options: JsonObject) -> bytes:
        """Writes the data to a file. Raises FileFailed, CodeStopped."""
        body = json.dumps(data, separators=(",", ":")).encode()
        encoded = await self._ask_files("write", format_, body, options)
        return base64.b64decode(str(encoded))

    async def _ask_files(self, operation: str, format_: str, body: bytes, options: JsonObject) -> JsonValue:
        header: dict[str, object] = {"op": operation, "format": format_, "options": options}
        try:
            part = message.single_part(await self._send(FILES, header, body, _SCRIPT_SECONDS))
        except CodeStopped as end:
            raise CodeStopped(end.code, _FILE_STOP_MESSAGES.get(end.code, end.message)) from end
        if "failed" in part:
            raise FileFailed(str(part["failed"]))
        return part.get("value")

    async def _evaluate_in_sandbox(
        self,
        templates: Sequence[ParameterTemplate],
        context: ExpressionContext,
        places: Sequence[int],
        *,
        keep_dates: bool,
    ) -> list[list[Outcome]]:
        body = message.encode_context(
            context, *message.referenced_steps(templates), message.current_item_fields(templates)
        )
        body["templates"] = [message.parts_of(template) for template in templates]
        body["places"] = places
        header: dict[str, object] = {"op": "evaluate", "places": len(places)}
        result = await self._ask(JAVASCRIPT, header, body, _EXPRESSION_SECONDS)
        return message.read_blocks(result, len(templates), len(places), keep_dates=keep_dates)

    async def _run_over_items(self, text: str, mode: str, context: ExpressionContext) -> JsonObject:
        return await self._run_script(text, mode, message.encode_context(context, *names_in([text])))

    async def _run_script(self, text: str, mode: str, body: object) -> JsonObject:
        header: dict[str, object] = {"op": "script", "mode": mode, "text": text}
        reply = message.single_part(await self._ask(JAVASCRIPT, header, body, _SCRIPT_SECONDS))
        if "failed" in reply:
            raise CodeFailed(
                str(reply["failed"]), reply.get("thrown") is True, _lines(reply), _static_data(reply)
            )
        return reply

    async def _ask(self, kind: str, header: dict[str, object], body: object, seconds: float) -> bytes:
        """Sends one message and counts its time against the run's limit. Raises CodeStopped."""
        return await self._send(kind, header, message.encode_message(body), seconds)

    async def _send(self, kind: str, header: dict[str, object], body: bytes, seconds: float) -> bytes:
        remaining_seconds = _RUN_SECONDS - self._used.seconds
        try:
            if remaining_seconds <= 0:
                raise stopped(TIMEOUT)
            return await self._sandbox_pool.send(
                self._owner, kind, header, body, min(seconds, remaining_seconds), self._used
            )
        except SandboxStopped as end:
            raise CodeStopped(end.code, end.message) from end


def _evaluate_all_paths(
    templates: Sequence[ParameterTemplate], context: ExpressionContext, indexes: Sequence[int]
) -> list[list[Outcome] | None]:
    """Returns the outcomes of each template, or None for one that needs JavaScript.

    Raises CodeStopped.
    """
    results, text_budget = [], MESSAGE_BYTES
    for template in templates:
        results.append(result := evaluate_paths(template, context, indexes))
        if result is not None and not template.typed:
            text_budget -= sum(len(outcome) for outcome in result if isinstance(outcome, str))
        if text_budget < 0:
            raise CodeStopped(MEMORY, STOP_MESSAGES[MEMORY])
    return results


def _as_index(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _lines(reply: JsonObject) -> tuple[str, ...]:
    lines = reply.get("lines")
    return tuple(str(line) for line in lines) if isinstance(lines, list) else ()


def _static_data(reply: JsonObject) -> StaticObjects | None:
    static_data = reply.get("static")
    if static_data is None:
        return None
    if not isinstance(static_data, dict) or not all(
        isinstance(value, dict) for value in static_data.values()
    ):
        raise message.crash_error()
    return static_data


def _script_item(encoded: JsonValue) -> ScriptItem:
    if not isinstance(encoded, dict) or not isinstance(encoded.get("json"), dict):
        raise message.crash_error()
    paired = encoded.get("paired")
    error, binary = encoded.get("error"), encoded.get("binary")
    return ScriptItem(
        json=encoded["json"],
        paired=tuple(map(_as_index, paired)) if isinstance(paired, list) else None,
        error=None if error is None else str(error),
        binary=binary if isinstance(binary, dict) else {},
    )


def _rendered(part: JsonValue) -> Rendered:
    if not isinstance(part, list) or len(part) != 2:
        raise message.crash_error()
    text, error = part
    return str(text) if error is None else ExpressionError(f"The text cannot be made: {error}.")
