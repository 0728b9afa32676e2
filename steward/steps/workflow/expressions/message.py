"""Encodes messages to the sandbox as JSON and decodes its replies, which it never trusts."""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.sandbox.protocol import CRASHED, MEMORY, MESSAGE_BYTES, STOP_MESSAGES
from steward.steps.workflow.expressions.paths import UNDEFINED, JsDate
from steward.steps.workflow.expressions.template import Chunk, ParameterTemplate
from steward.steps.workflow.expressions.views import (
    CodeStopped,
    ExpressionContext,
    ExpressionError,
    Outcome,
    StepView,
    Unpaired,
)


class _EncodedOutcomes(msgspec.Struct):
    """The values of one template in a block; `odd` has those that JSON lacks: [index, kind, text]."""

    v: list[AnyJson]
    odd: list[list[int | str]]


_BLOCKS = msgspec.json.Decoder(list[list[_EncodedOutcomes]])


def crash_error() -> CodeStopped:
    """Returns the error for an invalid reply, after which the sandbox process is not trusted."""
    return CodeStopped(CRASHED, STOP_MESSAGES[CRASHED])


def encode_message(value: object) -> bytes:
    """Encodes the data of a message. Raises CodeStopped (`code_memory`) if it is too large."""
    try:
        text = msgspec.json.encode(value)
    except UnicodeEncodeError:  # the data has an unpaired surrogate
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    if len(text) > MESSAGE_BYTES:
        raise CodeStopped(MEMORY, STOP_MESSAGES[MEMORY])
    return text


_CURRENT = re.compile(r"\$json(?![\w$])")
_FIELD = re.compile(r"\$json\s*\??\.\s*([A-Za-z_]\w*)(?![\w$])(?!\s*(?:\?\.)?\s*\()", re.ASCII)
_WHOLE = re.compile(
    r"\$(?:input|data|items?|thisItem|evaluateExpression)\b|\b(?:this|globalThis|arguments)\b"
)


def current_item_fields(templates: Iterable[ParameterTemplate]) -> frozenset[str] | None:
    """Returns the fields of the current item that the templates read, or None if they may read any."""
    fields: set[str] = set()
    for template in templates:
        for part in template.parts:
            if not isinstance(part, Chunk):
                continue
            named = _FIELD.findall(part.code)
            if len(named) != len(_CURRENT.findall(part.code)) or _WHOLE.search(part.code):
                return None
            fields.update(named)
    return frozenset(fields)


def _cut(items: Sequence[JsonObject], fields: frozenset[str] | None) -> Sequence[JsonObject]:
    if fields is None:
        return items
    return [{name: item[name] for name in fields if name in item} for item in items]


def encode_context(
    context: ExpressionContext,
    steps: frozenset[str] | None,
    paired: frozenset[str] | None,
    fields: frozenset[str] | None = None,
) -> dict[str, object]:
    """Encodes the context with the given steps and fields; None means all of them."""
    steps_read = {name: step for name, step in context.steps.items() if steps is None or name in steps}
    paired_steps = sorted(steps_read if paired is None else paired & steps_read.keys())
    variables = context.variables
    files = {"files": context.files} if context.files else {}
    static = {} if context.static_data is None else {"static": context.static_data}
    return (
        files
        | static
        | {
            "items": _cut(context.items, fields),
            "names": sorted(context.names if steps is None else context.names & steps),
            "seen": {name: _encode_step(step) for name, step in steps_read.items()},
            "pairs": {name: _pairs(context, name) for name in paired_steps},
            "now": int(variables.now.timestamp() * 1000),
            "zone": variables.timezone,
            "seed": variables.seed % 2**31,
            "scope": {
                "run_index": variables.run_index,
                "node_id": variables.node_id,
                "node_version": variables.node_version,
                "workflow": variables.workflow,
                "execution": variables.execution,
                "parameters": variables.parameters,
                "previous": variables.previous,
                "input_params": variables.input_params,
                "input_context": variables.input_context,
                "variables": variables.of_n8n,
            },
        }
    )


def encode_flow_input(script_input: JsonValue, now: datetime) -> dict[str, object]:
    """Encodes the input of a Shopify Flow script: only its input and the time."""
    moment = int(now.timestamp() * 1000)
    return {
        "items": [],
        "names": [],
        "seen": {},
        "now": moment,
        "zone": "UTC",
        "seed": 0,
        "given": script_input,
    }


def _encode_step(step: StepView) -> dict[str, object]:
    encoded = {"runs": step.runs, "branch": step.branch, "params": step.params, "context": step.context}
    return encoded | {"files": step.files} if step.files else encoded


def _pairs(context: ExpressionContext, name: str) -> list[object]:
    pairs: list[object] = []
    for index in range(len(context.items)):
        position = context.pairing(name, index)
        pairs.append(
            position.message
            if isinstance(position, Unpaired)
            else None
            if position is None
            else list(position)
        )
    return pairs


def parts_of(template: ParameterTemplate) -> list[object]:
    """Encodes a template: texts unchanged, each chunk as a one-element list."""
    return [[part.code] if isinstance(part, Chunk) else part for part in template.parts]


def read_blocks(
    result: bytes, templates: int, index_count: int, *, keep_dates: bool = False
) -> list[list[Outcome]]:
    """Decodes the outcomes of each template for each of `index_count` items.

    Raises CodeStopped for an invalid reply.
    """
    try:
        blocks = _BLOCKS.decode(result)
    except (msgspec.MsgspecError, RecursionError, ValueError) as end:
        raise crash_error() from end
    outcomes: list[list[Outcome]] = [[] for _ in range(templates)]
    for block in blocks:
        if len(block) != templates:
            raise crash_error()
        for encoded, template_outcomes in zip(block, outcomes, strict=True):
            template_outcomes += _outcomes(encoded, keep_dates=keep_dates)
    if any(len(template_outcomes) != index_count for template_outcomes in outcomes):
        raise crash_error()
    return outcomes


def _outcomes(encoded: _EncodedOutcomes, *, keep_dates: bool) -> list[Outcome]:
    outcomes: list[Outcome] = list(encoded.v)
    for entry in encoded.odd:
        if len(entry) < 2:
            raise crash_error()
        index, kind, *words = entry
        if not isinstance(index, int) or not 0 <= index < len(outcomes):
            raise crash_error()
        if kind == "d":
            if keep_dates:
                outcomes[index] = _date(outcomes[index])
            continue
        outcomes[index] = _special_value(kind, [str(word) for word in words])
    return outcomes


def _date(value: Outcome) -> Outcome:
    """Returns a date's ISO text, or null for an invalid date."""
    if value is not None and not isinstance(value, str):
        raise crash_error()
    return None if value is None else JsDate(value)


def _special_value(kind: object, words: Sequence[str]) -> Outcome:
    if kind == "u":
        return UNDEFINED
    if kind == "f" and words:
        return ExpressionError(words[0])
    numbers = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
    if kind == "n" and words and words[0] in numbers:
        return numbers[words[0]]
    raise crash_error()


def single_part(result: bytes) -> JsonObject:
    """Decodes a reply of exactly one object. Raises CodeStopped for an invalid reply."""
    part = _decoded(result)
    if not isinstance(part, list) or len(part) != 1 or not isinstance(part[0], dict):
        raise crash_error()
    return part[0]


def all_parts(result: bytes, count: int) -> list[JsonValue]:
    """Decodes a reply of `count` parts. Raises CodeStopped for an invalid reply."""
    parts = _decoded(result)
    if not isinstance(parts, list) or len(parts) != count:
        raise crash_error()
    return parts


def _decoded(result: bytes) -> JsonValue:
    try:
        decoded: JsonValue = msgspec.json.decode(result)
    except (msgspec.MsgspecError, RecursionError, ValueError) as end:
        raise crash_error() from end
    return decoded


def referenced_steps(
    templates: Iterable[ParameterTemplate],
) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """Returns the steps that templates name and those whose paired item they read; None means any."""
    steps: frozenset[str] | None = frozenset()
    paired: frozenset[str] | None = frozenset()
    for template in templates:
        steps = None if steps is None or template.steps is None else steps | template.steps
        paired = None if paired is None or template.paired is None else paired | template.paired
    return steps, paired
