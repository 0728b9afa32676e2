"""The data that expressions and scripts read, and their results, as plain values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from steward.model.json import JsonObject, JsonValue
from steward.steps.workflow.expressions.paths import JsDate, Value
from steward.steps.workflow.expressions.template import ParameterTemplate

# The position of an item of another step: (run, output, index).
ItemPosition: TypeAlias = tuple[int, int, int]

# The values of variables of n8n by name, such as `$env.SHOP`. Reading another one fails, unless the code that
# reads it has a fallback for it.
VariableValues: TypeAlias = Mapping[str, str]

# The static data that a script can reach: the objects `global` and `node`.
StaticObjects: TypeAlias = Mapping[str, JsonObject]


@dataclass(frozen=True, slots=True)
class Unpaired:
    """The reason why a paired item is unknown; reading it fails with this message."""

    message: str


# Maps a step's name and the index of a current item to the item of that step from which it came. None means
# that it did not pass through that step, so its fields are undefined. See docs/design/imports-n8n.md#pairing.
_Pairing: TypeAlias = Callable[[str, int], ItemPosition | Unpaired | None]


@dataclass(frozen=True, slots=True)
class StepView:
    """A step that has run, as expressions of another step see it.

    `runs[run][output]` holds the items' JSON; None for a run that failed. `branch` is the default output: the
    one that leads to the reading step, else 0. The default run is the last one.
    """

    runs: Sequence[Sequence[Sequence[JsonObject]] | None]
    branch: int = 0
    params: JsonObject = field(default_factory=dict)
    context: JsonObject = field(default_factory=dict)
    files: Sequence[Sequence[Sequence[JsonObject | None]] | None] = ()  # like runs; empty without files


@dataclass(frozen=True, slots=True)
class ExpressionVariables:
    """The variables that are the same for every item of one execution of a step.

    `now` (with a zone) and `seed` are recorded with the step's start, so that a resumed run sees the same
    values; `timezone` is the automation's IANA zone. `previous` is `$prevNode`: name, outputIndex, runIndex.
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
    parameters: JsonObject = field(
        default_factory=dict
    )  # $parameter: the step's own parameters, as in the file
    previous: JsonObject = field(default_factory=dict)
    input_params: JsonObject = field(default_factory=dict)  # $input.params
    input_context: JsonObject = field(default_factory=dict)  # $input.context
    of_n8n: VariableValues | None = None  # below $env and $vars; None if the workflow has no values


def _never_paired(name: str, index: int) -> ItemPosition | Unpaired | None:
    """Returns None, because these items have no source."""
    return None


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """The data that expressions can read: items of the first input, steps that ran, variables.

    `items` are all items of the input (`$input.all()`). `names` are all steps of the plan: a step in `names`
    but not in `steps` has not run (an expression error, `isExecuted` false); one in neither does not exist
    (an expression error).
    """

    items: Sequence[JsonObject]
    variables: ExpressionVariables
    steps: Mapping[str, StepView] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    pairing: _Pairing = _never_paired
    files: Sequence[JsonObject | None] = ()  # as in `$binary`; empty without files
    static_data: StaticObjects | None = None  # set for a script that reads it


@dataclass(frozen=True, slots=True)
class ExpressionError:
    """The message of an expression that failed; it fails the item or, for some step types, the step."""

    message: str


# The result of an expression for one item.
Outcome: TypeAlias = "Value | JsDate | ExpressionError"


@dataclass(frozen=True, slots=True)
class ExpressionProblem:
    """A problem of an expression or script, detected without running it; becomes a Finding.

    `code` is that of the Finding: `expression_feature`, `locale_fallback`. `level` is `error` (it would fail
    or behave differently), `warning` or `note`. `column` counts characters of the parameter's text from 1.
    """

    code: str
    level: str
    message: str
    what_to_do: str
    column: int = 1
    syntax: bool = False  # invalid JavaScript or Liquid: evaluating it gives an ExpressionError
    variable: str | None = None  # the variable of n8n that it reads; no problem if that gets a value


class ScriptMode(StrEnum):
    """How a script runs: over all items or for each one."""

    ALL = "all"  # code, once for all items: items, $input
    PER_ITEM = "each"  # code, once for each item: $json, $input.item
    FUNCTION = "function"  # function: items as {json}
    FUNCTION_ITEM = "function_item"  # functionItem: item is the json itself
    FLOW = "flow"  # Shopify Flow's Run code: export default function main(input)


@dataclass(frozen=True, slots=True)
class Script:
    """A script and its mode."""

    text: str
    mode: ScriptMode


@dataclass(frozen=True, slots=True)
class ScriptItem:
    """An item that a script returned. `paired` holds input indexes, or None if the script set none.

    `binary` holds its files exactly as the script returned them, any JSON. `error` is set if the script
    failed for this item (only in modes `each` and `function_item`); `json` is then empty.
    """

    json: JsonObject
    paired: tuple[int, ...] | None = None
    error: str | None = None
    binary: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The items that a script returned, and the lines it wrote to its console (at most 200)."""

    items: tuple[ScriptItem, ...]
    lines: tuple[str, ...] = ()
    static_data: StaticObjects | None = None  # as the script left it; None if unread


class CodeFailed(Exception):
    """Raised if a script of mode `all` or `function` failed as a whole.

    `thrown` is true if the script threw; a step that tolerates errors then outputs one item `{error:
    message}`. Otherwise the script did not return items, and the step passes its input on unchanged.
    """

    def __init__(
        self,
        message: str,
        thrown: bool,
        lines: tuple[str, ...] = (),
        static_data: StaticObjects | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.thrown = thrown
        self.lines = lines
        self.static_data = static_data


class FileFailed(Exception):
    """Raised if a file cannot be read or written; `message` says why and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CodeStopped(Exception):
    """Raised if foreign code exceeded a limit or its process died; the step fails.

    `code` is `code_timeout`, `code_memory`, `code_crashed` or `code_refused`; `message` says what to do.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """All code of one import, to compile before the import is saved."""

    templates: Sequence[ParameterTemplate] = ()
    scripts: Sequence[Script] = ()
    liquid: Sequence[ParameterTemplate] = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The problems of each template, script and Liquid text, in the order of the request."""

    templates: tuple[tuple[ExpressionProblem, ...], ...] = ()
    scripts: tuple[tuple[ExpressionProblem, ...], ...] = ()
    liquid: tuple[tuple[ExpressionProblem, ...], ...] = ()


Rendered: TypeAlias = str | ExpressionError
Environment: TypeAlias = Mapping[str, JsonValue]
