"""Works out the expressions and scripts of imported workflows: paths here, anything else in a confined child.

How it is used (imports 5, safety 8). At import: `read` each string parameter (template.py), then one
`Evaluator.check` for the whole file. At run: one `Evaluator.evaluate` a step, with all its templates and all
items it works on; `run_code`, `order`, `matches` and `render` where the type needs them. The caller resolves
pairing (`World.pairing`) and says which steps ran (`World.seen`); nothing here knows plans, runs or storage.
"""

from collections.abc import Sequence

from steward.confined.pool import Children
from steward.expressions.template import Template
from steward.expressions.views import (
    Checked,
    CodeResult,
    Environment,
    Outcome,
    Rendered,
    Script,
    ToCheck,
    World,
)
from steward.model.json import JsonValue


class Evaluator:
    """Expressions and scripts of one organisation's run (or of one import being read).

    `organization` and `run` say whose the child is: never two organisations, nor two runs, in one child's
    life. Every method but `check` may raise CodeStopped: the step fails with its code.
    """

    def __init__(self, children: Children, organization: str, run: str) -> None:
        self._children = children
        self._owner = (organization, run)

    async def check(self, asked: ToCheck) -> Checked:
        """Compiles, without running, all that is asked; raises CodeStopped past a limit."""
        raise NotImplementedError

    async def evaluate(
        self, templates: Sequence[Template], world: World, places: Sequence[int] | None = None
    ) -> list[list[Outcome]]:
        """What each template comes to for each item: `answer[template][n]` for the n-th of `places`.

        `places` are places in `world.items`, all of them when None; of no item at all (a step with empty
        input) give `places=[]`. A template without chunks is its text. Values are JSON, UNDEFINED, Fault, or
        a float that is NaN or infinite (only as the value itself). They may be parts of the input: copy
        before changing them. Paths never leave the process; the rest goes in one message.
        """
        raise NotImplementedError

    async def run_code(self, script: Script, world: World) -> CodeResult:
        """Runs a script over all of `world.items`. Raises CodeFailed, CodeStopped (imports 5.4).

        Pairing is what the script said; where it says nothing `Made.paired` is None and the general rule
        holds (as many out as in, or one in).
        """
        raise NotImplementedError

    async def run_flow_code(self, text: str, given: JsonValue) -> JsonValue:
        """The value `export default function main(input)` returns. Raises CodeFailed, CodeStopped."""
        raise NotImplementedError

    async def order(self, text: str, world: World) -> list[int]:
        """Places of the items in the order a comparing script (`a`, `b`) gives. Raises CodeFailed."""
        raise NotImplementedError

    async def matches(self, pairs: Sequence[tuple[str, str, str]]) -> list[bool | None]:
        """Whether each text has the JavaScript pattern in it: (pattern, flags, text); None: no such pattern.

        For patterns google-re2 does not take: look-around and back-references (imports 4).
        """
        raise NotImplementedError

    async def render(self, texts: Sequence[Template], environment: Environment) -> list[Rendered]:
        """Liquid texts as the store's product writes them, in one environment (imports 8.4)."""
        raise NotImplementedError
