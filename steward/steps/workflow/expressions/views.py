"""What an expression or script is given to look at, and what comes back; plain values, no behaviour."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from steward.model.json import JsonObject, JsonValue
from steward.steps.workflow.expressions.paths import Value
from steward.steps.workflow.expressions.template import ParameterTemplate

# An item of another step: (run, output, place).
ItemPosition: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Which item belongs to the current one cannot be told, and why: to ask for it is an expression error."""

    message: str


# The item of step `name` that the item at a place of the current input came from. None: that item did not
# come through there, so its fields are undefined (imports 3.6).
Pairing: TypeAlias = Callable[[str, int], ItemPosition | Unpaired | None]


@dataclass(frozen=True, slots=True)
class StepView:
    """A step that has run, as expressions of another step see it.

    `runs[run][output]` are the items' json; None for a run that failed. `branch` is the output taken when an
    expression names none: the one the asking step hangs on, else 0. The last run is taken when none is named.
    """

    runs: Sequence[Sequence[Sequence[JsonObject]] | None]
    branch: int = 0
    params: JsonObject = field(default_factory=dict)
    context: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExpressionVariables:
    """What is the same for every item of one execution of a step (imports 5.2).

    `now` (with a zone) and `seed` are journaled with the step's start, so that a resumed run sees the same;
    `timezone` is the automation's IANA zone. `previous` is `$prevNode`: name, outputIndex, runIndex.
    """

    now: datetime
    timezone: str
    run_index: int = 0
    seed: int = 0
    node_id: str = ""
    node_name: str = ""
    node_version: float = 1
    workflow: JsonObject = field(default_factory=dict)  # id, name, active
    execution: JsonObject = field(default_factory=dict)  # id, mode
    parameters: JsonObject = field(default_factory=dict)  # $parameter: the step's own, as in the file
    previous: JsonObject = field(default_factory=dict)
    input_params: JsonObject = field(default_factory=dict)  # $input.params
    input_context: JsonObject = field(default_factory=dict)  # $input.context


def never_paired(name: str, index: int) -> ItemPosition | Unpaired | None:
    """A pairing for steps whose items came from nowhere."""
    return None


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """What the step looks at: the items of its first input, the steps that ran, and the scope.

    `items` are all items of the input (`$input.all()`), whichever are worked on. `names` are all steps of the
    plan: a step in `names` but not in `seen` has not run (an expression error, `isExecuted` false), one in
    neither does not exist (an expression error).
    """

    items: Sequence[JsonObject]
    variables: ExpressionVariables
    steps: Mapping[str, StepView] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    pairing: Pairing = never_paired


@dataclass(frozen=True, slots=True)
class ExpressionError:
    """An expression error, in plain words: it fails the item (or the step, as the type has it)."""

    message: str


# What one expression comes to for one item.
Outcome: TypeAlias = "Value | ExpressionError"


@dataclass(frozen=True, slots=True)
class ExpressionProblem:
    """What was found by looking at an expression or script without running it; for a Finding.

    `code` is the Finding's: `expression_feature`, `locale_fallback`. `level` is `error` (it would stop or do
    something else), `warning` or `note`. `column` counts characters of the parameter's text from 1.
    """

    code: str
    level: str
    message: str
    what_to_do: str
    column: int = 1
    syntax: bool = False  # it is no JavaScript (or Liquid) at all: at run it is a Fault, here as there


class ScriptMode(StrEnum):
    """How a script is run (imports 5.4)."""

    ALL = "all"  # code, once for all items: items, $input
    PER_ITEM = "each"  # code, once for each item: $json, $input.item
    FUNCTION = "function"  # function: items as {json}
    FUNCTION_ITEM = "function_item"  # functionItem: item is the json itself
    FLOW = "flow"  # the store product's run code: export default function main(input)


@dataclass(frozen=True, slots=True)
class Script:
    """A script and how it is run."""

    text: str
    mode: ScriptMode


@dataclass(frozen=True, slots=True)
class ScriptItem:
    """An item a script put out. `paired` are places of the input, None: the script said nothing of it.

    `error`: the script failed at this item (mode `each` and `function_item` alone); `json` is then empty.
    """

    json: JsonObject
    paired: tuple[int, ...] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CodeResult:
    """What a script put out, and the lines it wrote to its console (at most 200)."""

    items: tuple[ScriptItem, ...]
    lines: tuple[str, ...] = ()


class CodeFailed(Exception):
    """A script of mode `all` or `function` failed as a whole.

    `thrown`: it threw; with a tolerated error the step then puts out the one item `{error: message}`. Not
    thrown: what it returned is not items; the step's input goes on unchanged (imports 3.5, last rule).
    """

    def __init__(self, message: str, thrown: bool, lines: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.thrown = thrown
        self.lines = lines


class CodeStopped(Exception):
    """Foreign code went past a limit or its process died: the step fails (safety 8).

    `code`: `code_timeout`, `code_memory`, `code_crashed` or `code_refused`; `message` says what to do.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Everything of one import that is compiled before it is kept; answers come in the same order."""

    templates: Sequence[ParameterTemplate] = ()
    scripts: Sequence[Script] = ()
    liquid: Sequence[ParameterTemplate] = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Problems of each template, script and Liquid text, in the order asked."""

    templates: tuple[tuple[ExpressionProblem, ...], ...] = ()
    scripts: tuple[tuple[ExpressionProblem, ...], ...] = ()
    liquid: tuple[tuple[ExpressionProblem, ...], ...] = ()


Rendered: TypeAlias = str | ExpressionError
Environment: TypeAlias = Mapping[str, JsonValue]
