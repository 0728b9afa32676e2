"""splitInBatches: hands items on in batches and gathers what comes back (imports 3.4)."""

from collections.abc import Iterable

from steward.steps.workflow.items import Item, Items, Link, Spot
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    Asked,
    Call,
    ItemFailed,
    Problem,
    Result,
    StepType,
    Takes,
    is_expression,
)


class SplitInBatches(StepType):
    """Version 3: output 0 done, 1 the batch; version 2 the other way; version 1 batches alone, and a flag.

    What it hands on keeps the pairing with the items it came with, so that `.item` works behind the loop.
    """

    types = ("splitInBatches",)
    takes_of = Takes.WHOLE
    versions = (1, 2, 3)
    known = frozenset(("batchSize", "options"))
    per_item = False
    stateful = True

    def ports(self, asked: Asked) -> tuple[str, ...]:
        """As the version has them."""
        if asked.version < 2:
            return ("loop",)
        return ("loop", "done") if asked.version < 3 else ("done", "loop")

    def check(self, asked: Asked) -> Iterable[Problem]:
        """A batch has at least one item."""
        size = asked.get("batchSize", _size_of(asked.version))
        if not is_expression(size) and not (js.is_number(size) and size >= 1):
            yield Problem("error", "parameter", "Its batch size is not a number from 1 on. Give one.")

    async def run(self, call: Call) -> Result:
        """The next batch, or what came back."""
        params, memory = call.first, call.memory
        size = js.number(params.get("batchSize", _size_of(call.version)))
        if not size >= 1:
            raise ItemFailed("The batch size is not a number from 1 on.")
        came = [Item(item.json, _home(call, place)) for place, item in enumerate(call.items)]
        reset = js.truthy(params.get("options.reset", False))
        if "left" not in memory or reset:
            memory.update(left=came, back=[], round=0)
        else:
            memory["back"] = memory["back"] + came
            memory["round"] += 1
        return _next(call, int(size))


def _size_of(version: float) -> int:
    """The size of a batch where the file says none."""
    return 1 if version >= 3 else 10


def _home(call: Call, place: int) -> tuple[Link, ...]:
    """Where an item came from, which is not where those of the run that hands it on come from."""
    source = call.sources[0]
    return () if source is None else (Spot(source.step, source.run, source.output, place),)


def _next(call: Call, size: int) -> Result:
    memory = call.memory
    batch: Items = memory["left"][:size]
    memory["left"] = memory["left"][size:]
    memory["context"] = {
        "noItemsLeft": not memory["left"],
        "currentRunIndex": memory["round"],
        "maxRunIndex": memory["round"] + -(-len(memory["left"]) // size),
        "done": not batch,
    }
    if batch:
        outputs = [[], batch] if call.version >= 3 else [batch, []]
        return Result(outputs[:1] if call.version < 2 else outputs)
    back: Items = memory["back"]
    if call.version < 2:
        return Result([[]])
    return Result([back, []] if call.version >= 3 else [[], back])
