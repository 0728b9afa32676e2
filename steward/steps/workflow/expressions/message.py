"""What goes to a confined child and what comes back, as JSON; the child's word is taken as a stranger's."""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from steward.model.json import JsonObject, JsonValue
from steward.sandbox.protocol import CRASHED, MEMORY, MESSAGE_BYTES, WORDS
from steward.steps.workflow.expressions.paths import UNDEFINED
from steward.steps.workflow.expressions.template import Chunk, Template
from steward.steps.workflow.expressions.views import CodeStopped, Fault, Outcome, Seen, Unpaired, World


class _Told(msgspec.Struct):
    """One template's answers of a block: values, and those that JSON cannot say: [place, kind, words]."""

    v: list[Any]
    odd: list[list[int | str]]


_BLOCKS = msgspec.json.Decoder(list[list[_Told]])


def crashed() -> CodeStopped:
    """An answer that is none: the child is not itself any more."""
    return CodeStopped(CRASHED, WORDS[CRASHED])


def packed(value: object) -> bytes:
    """Data of a message. Raises CodeStopped (`code_memory`) above what a message may hold (imports 5.3)."""
    try:
        text = msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a character somewhere in the data
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    if len(text) > MESSAGE_BYTES:
        raise CodeStopped(MEMORY, WORDS[MEMORY])
    return text


_CURRENT = re.compile(r"\$json(?![\w$])")
_FIELD = re.compile(r"\$json\s*\??\.\s*([A-Za-z_]\w*)(?![\w$])(?!\s*(?:\?\.)?\s*\()", re.ASCII)
_WHOLE = re.compile(
    r"\$(?:input|data|items?|thisItem|evaluateExpression)\b|\b(?:this|globalThis|arguments)\b"
)


def fields_of(templates: Iterable[Template]) -> frozenset[str] | None:
    """The fields of the current item some templates name; None: more than those may be looked at."""
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


def of_world(
    world: World,
    steps: frozenset[str] | None,
    paired: frozenset[str] | None,
    fields: frozenset[str] | None = None,
) -> dict[str, object]:
    """The world cut down to the steps and the fields named (imports 5.3); None: all, as any may be meant."""
    seen = {name: step for name, step in world.seen.items() if steps is None or name in steps}
    asked = sorted(seen if paired is None else paired & seen.keys())
    scope = world.scope
    return {
        "items": _cut(world.items, fields),
        "names": sorted(world.names if steps is None else world.names & steps),
        "seen": {name: _seen(step) for name, step in seen.items()},
        "pairs": {name: _pairs(world, name) for name in asked},
        "now": int(scope.now.timestamp() * 1000),
        "zone": scope.timezone,
        "seed": scope.seed % 2**31,
        "scope": {
            "run_index": scope.run_index,
            "node_id": scope.node_id,
            "node_version": scope.node_version,
            "workflow": scope.workflow,
            "execution": scope.execution,
            "parameters": scope.parameters,
            "previous": scope.previous,
            "input_params": scope.input_params,
            "input_context": scope.input_context,
        },
    }


def of_given(given: JsonValue, now: datetime) -> dict[str, object]:
    """What a script of the store's product is given: its input, the clock, and nothing else."""
    moment = int(now.timestamp() * 1000)
    return {"items": [], "names": [], "seen": {}, "now": moment, "zone": "UTC", "seed": 0, "given": given}


def _seen(step: Seen) -> dict[str, object]:
    return {"runs": step.runs, "branch": step.branch, "params": step.params, "context": step.context}


def _pairs(world: World, name: str) -> list[object]:
    found: list[object] = []
    for place in range(len(world.items)):
        spot = world.pairing(name, place)
        found.append(spot.message if isinstance(spot, Unpaired) else None if spot is None else list(spot))
    return found


def parts_of(template: Template) -> list[object]:
    """A template as the child takes it: texts, and chunks as lists of one."""
    return [[part.code] if isinstance(part, Chunk) else part for part in template.parts]


def read_blocks(answer: bytes, templates: int, places: int) -> list[list[Outcome]]:
    """The outcomes of every template for every place. Raises CodeStopped when the answer is no such thing."""
    try:
        blocks = _BLOCKS.decode(answer)
    except (msgspec.MsgspecError, RecursionError, ValueError) as end:
        raise crashed() from end
    outcomes: list[list[Outcome]] = [[] for _ in range(templates)]
    for block in blocks:
        if len(block) != templates:
            raise crashed()
        for told, known in zip(block, outcomes, strict=True):
            known += _outcomes(told)
    if any(len(known) != places for known in outcomes):
        raise crashed()
    return outcomes


def _outcomes(told: _Told) -> list[Outcome]:
    made: list[Outcome] = list(told.v)
    for one in told.odd:
        if len(one) < 2:
            raise crashed()
        at, kind, *words = one
        if not isinstance(at, int) or not 0 <= at < len(made):
            raise crashed()
        made[at] = _odd(kind, [str(word) for word in words])
    return made


def _odd(kind: object, words: Sequence[str]) -> Outcome:
    if kind == "u":
        return UNDEFINED
    if kind == "f" and words:
        return Fault(words[0])
    numbers = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
    if kind == "n" and words and words[0] in numbers:
        return numbers[words[0]]
    raise crashed()


def only_part(answer: bytes) -> JsonObject:
    """The one part of an answer, an object. Raises CodeStopped when it is no such thing."""
    part = _decoded(answer)
    if not isinstance(part, list) or len(part) != 1 or not isinstance(part[0], dict):
        raise crashed()
    return part[0]


def each_part(answer: bytes, count: int) -> list[JsonValue]:
    """The parts of an answer, so many. Raises CodeStopped when it is no such thing."""
    parts = _decoded(answer)
    if not isinstance(parts, list) or len(parts) != count:
        raise crashed()
    return parts


def _decoded(answer: bytes) -> JsonValue:
    try:
        decoded: JsonValue = msgspec.json.decode(answer)
    except (msgspec.MsgspecError, RecursionError, ValueError) as end:
        raise crashed() from end
    return decoded


def named_by(templates: Iterable[Template]) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """The steps some templates name, and those they ask the paired item of; None: any."""
    steps: frozenset[str] | None = frozenset()
    paired: frozenset[str] | None = frozenset()
    for template in templates:
        steps = None if steps is None or template.steps is None else steps | template.steps
        paired = None if paired is None or template.paired is None else paired | template.paired
    return steps, paired
