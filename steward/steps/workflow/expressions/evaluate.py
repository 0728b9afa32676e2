"""Works out the expressions and scripts of imported workflows: paths here, anything else in a confined child.

How it is used (imports 5, safety 8). At import: `read` each string parameter (template.py), then one
`Evaluator.check` for the whole file. At run: one `Evaluator.evaluate` a step, with all its templates and all
items it works on; `run_code`, `order`, `matches` and `render` where the type needs them. The caller resolves
pairing (`World.pairing`) and says which steps ran (`World.seen`); nothing here knows plans, runs or storage.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from steward.model.json import JsonObject, JsonValue
from steward.sandbox.pool import JAVASCRIPT, LIQUID, Children, Used
from steward.sandbox.protocol import MEMORY, MESSAGE_BYTES, TIMEOUT, WORDS, Stopped, stopped
from steward.steps.workflow.expressions import message, problems
from steward.steps.workflow.expressions.native import natively
from steward.steps.workflow.expressions.template import Lang, Template, names_in
from steward.steps.workflow.expressions.views import (
    Checked,
    CodeFailed,
    CodeResult,
    CodeStopped,
    Environment,
    Fault,
    Made,
    Mode,
    Outcome,
    Rendered,
    Script,
    ToCheck,
    World,
)

EXPRESSION_SECONDS: Final = 2.0  # of wall time, each part of a message (safety 8)
SCRIPT_SECONDS: Final = 15.0
RUN_SECONDS: Final = 120.0


class Evaluator:
    """Expressions and scripts of one organisation's run (or of one import being read).

    `organization` and `run` say whose the child is: never two organisations, nor two runs, in one child's
    life. Every method may raise CodeStopped: the step fails with its code.
    """

    def __init__(self, children: Children, organization: str, run: str) -> None:
        self._children = children
        self._owner = (organization, run)
        self._used = Used()

    async def check(self, asked: ToCheck) -> Checked:
        """Compiles, without running, all that is asked."""
        chunks = [problems.chunks_of(template) for template in asked.templates]
        scripts = [[str(script.mode), script.text] for script in asked.scripts]
        found: JsonObject = {"chunks": [[] for _ in chunks], "scripts": [[] for _ in scripts]}
        if any(chunks) or scripts:
            codes = [[code for _, code in columns] for columns in chunks]
            given = {"chunks": codes, "scripts": scripts}
            answer = await self._ask(JAVASCRIPT, {"op": "check"}, given, SCRIPT_SECONDS)
            found = message.only_part(answer)
        liquid: list[JsonValue] = []
        texts = [template.text for template in asked.liquid]
        if texts:
            answer = await self._ask(LIQUID, {"op": "check"}, texts, EXPRESSION_SECONDS)
            liquid = message.each_part(answer, len(texts))
        return Checked(
            problems.of_templates(chunks, found["chunks"]),
            problems.of_scripts(found["scripts"], len(scripts)),
            problems.of_liquid(liquid),
        )

    async def evaluate(
        self, templates: Sequence[Template], world: World, places: Sequence[int] | None = None
    ) -> list[list[Outcome]]:
        """What each template comes to for each item: `answer[template][n]` for the n-th of `places`.

        `places` are places in `world.items`, all of them when None; a step with an empty input may still ask
        for place 0, where `$json` is undefined. A template without chunks is its text. Values are JSON,
        UNDEFINED, Fault, or a float that is NaN or infinite (only as the value itself). They may be parts of
        the input: copy before changing them. Paths never leave the process; the rest goes in one message.
        """
        asked = list(range(len(world.items)) if places is None else places)
        answers, text = [], MESSAGE_BYTES
        for template in templates:
            answers.append(answer := natively(template, world, asked))
            if answer is not None and not template.typed:
                text -= sum(len(one) for one in answer if isinstance(one, str))
            if text < 0:
                raise CodeStopped(MEMORY, WORDS[MEMORY])
        left = [number for number, answer in enumerate(answers) if answer is None]
        if left and asked:
            found = await self._elsewhere([templates[number] for number in left], world, asked)
            for number, outcomes in zip(left, found, strict=True):
                answers[number] = outcomes
        return [[] if answer is None else answer for answer in answers]

    async def run_code(self, script: Script, world: World) -> CodeResult:
        """Runs a script over all of `world.items`. Raises CodeFailed, CodeStopped (imports 5.4).

        Pairing is what the script said; where it says nothing `Made.paired` is None and the general rule
        holds (as many out as in, or one in).
        """
        told = await self._script(script.text, str(script.mode), world)
        items = told.get("items")
        if not isinstance(items, list):
            raise message.crashed()
        return CodeResult(tuple(_made(item) for item in items), _lines(told))

    async def run_flow_code(self, text: str, given: JsonValue, now: datetime) -> JsonValue:
        """The value `export default function main(input)` returns. Raises CodeFailed, CodeStopped."""
        body = message.of_given(given, now)
        told = await self._answer(text, str(Mode.FLOW), body)
        return told.get("value")

    async def order(self, text: str, world: World) -> list[int]:
        """Places of the items in the order a comparing script (`a`, `b`) gives. Raises CodeFailed."""
        told = await self._script(text, "order", world)
        order = told.get("order")
        if not isinstance(order, list) or sorted(map(_whole, order)) != list(range(len(world.items))):
            raise message.crashed()
        return [_whole(place) for place in order]

    async def matches(self, pairs: Sequence[tuple[str, str, str]]) -> list[bool | None]:
        """Whether each text has the JavaScript pattern in it: (pattern, flags, text); None: no such pattern.

        For patterns google-re2 does not take: look-around and back-references (imports 4).
        """
        if not pairs:
            return []
        answer = await self._ask(JAVASCRIPT, {"op": "match"}, list(pairs), EXPRESSION_SECONDS)
        (found,) = message.each_part(answer, 1)
        if not isinstance(found, list) or len(found) != len(pairs):
            raise message.crashed()
        return [one if isinstance(one, bool) else None for one in found]

    async def render(
        self, texts: Sequence[Template], environment: Environment, now: datetime
    ) -> list[Rendered]:
        """Liquid texts as the store's product writes them, in one environment (imports 8.4)."""
        asked = [template.text for template in texts if template.lang is Lang.LIQUID]
        told: list[JsonValue] = []
        if asked:
            body = {"texts": asked, "environment": environment, "now": int(now.timestamp() * 1000)}
            answer = await self._ask(LIQUID, {"op": "render"}, body, EXPRESSION_SECONDS)
            told = message.each_part(answer, len(asked))
        answers = iter(told)
        return [
            _rendered(next(answers)) if template.lang is Lang.LIQUID else template.text for template in texts
        ]

    async def _elsewhere(
        self, templates: Sequence[Template], world: World, places: Sequence[int]
    ) -> list[list[Outcome]]:
        body = message.of_world(world, *message.named_by(templates), message.fields_of(templates))
        body["templates"] = [message.parts_of(template) for template in templates]
        body["places"] = places
        asked: dict[str, object] = {"op": "evaluate", "places": len(places)}
        answer = await self._ask(JAVASCRIPT, asked, body, EXPRESSION_SECONDS)
        return message.read_blocks(answer, len(templates), len(places))

    async def _script(self, text: str, mode: str, world: World) -> JsonObject:
        return await self._answer(text, mode, message.of_world(world, *names_in([text])))

    async def _answer(self, text: str, mode: str, body: object) -> JsonObject:
        asked: dict[str, object] = {"op": "script", "mode": mode, "text": text}
        told = message.only_part(await self._ask(JAVASCRIPT, asked, body, SCRIPT_SECONDS))
        if "failed" in told:
            raise CodeFailed(str(told["failed"]), told.get("thrown") is True, _lines(told))
        return told

    async def _ask(self, kind: str, asked: dict[str, object], body: object, seconds: float) -> bytes:
        """One message; the time its children take for the run in all is counted (safety 8)."""
        left = RUN_SECONDS - self._used.seconds
        try:
            if left <= 0:
                raise stopped(TIMEOUT)
            given = message.packed(body)
            return await self._children.ask(self._owner, kind, asked, given, min(seconds, left), self._used)
        except Stopped as end:
            raise CodeStopped(end.code, end.message) from end


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _lines(told: JsonObject) -> tuple[str, ...]:
    lines = told.get("lines")
    return tuple(str(line) for line in lines) if isinstance(lines, list) else ()


def _made(item: JsonValue) -> Made:
    if not isinstance(item, dict) or not isinstance(item.get("json"), dict):
        raise message.crashed()
    paired = item.get("paired")
    error = item.get("error")
    return Made(
        json=item["json"],
        paired=tuple(map(_whole, paired)) if isinstance(paired, list) else None,
        error=None if error is None else str(error),
    )


def _rendered(told: JsonValue) -> Rendered:
    if not isinstance(told, list) or len(told) != 2:
        raise message.crashed()
    text, problem = told
    return str(text) if problem is None else Fault(f"The text cannot be made: {problem}.")
