"""Tests what scripts and expressions compute against the results of Node.js 22 and luxon 3.7.

See docs/design/imports-n8n.md#names.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import read
from steward.steps.workflow.expressions.views import ExpressionContext, Script, ScriptMode

ContextFactory = Callable[[Sequence[Any]], ExpressionContext]
_JANUARY: Final = "DateTime.fromISO('2024-01-31')"
_COLLATOR: Final = "['b', 'B', 'a', 'A'].sort(new Intl.Collator('en', { caseFirst: '%s' }).compare).join('')"
RESULTS: Final = {
    f"{_JANUARY}.setZone('+05:45').toISO()": "2024-01-31T04:45:00.000+05:45",
    f"{_JANUARY}.setZone('-0330').toISO()": "2024-01-30T19:30:00.000-03:30",
    f"{_JANUARY}.setZone('+05').toFormat('ZZ ZZZZ z')": "+05:00 GMT+5 +05",
    f"{_JANUARY}.setZone('+25:00').isValid": False,
    "DateTime.fromISO('2024-01-31', { zone: '-08:00' }).toLocaleString(DateTime.DATETIME_FULL)": (
        "January 31, 2024 at 12:00 AM GMT-8"
    ),
    "new Date(0).toLocaleString('en-US', { timeZone: '+05:45', timeZoneName: 'short' })": (
        "1/1/1970, 5:45:00 AM GMT+5:45"
    ),
    _COLLATOR % "upper": "AaBb",
    _COLLATOR % "lower": "aAbB",
    _COLLATOR % "false": "aAbB",
    "'a'.localeCompare('A', undefined, { caseFirst: 'upper' })": 1,
    "Math.hypot(1, 2, 3)": 3.741657386773941,
    "[Math.hypot(), Math.hypot('3', 4), Math.hypot(1e308, 1e308), Math.hypot(NaN, -Infinity)]": [
        *(0, 5, 1.4142135623730951e308),
        None,
    ],
    "Number.isNaN(Math.hypot(NaN, 1))": True,
}
CLONES: Final = """
    const cyclic = { name: 'a' };
    cyclic.self = cyclic;
    const copy = structuredClone(cyclic);
    const shared = { x: 1 };
    const pair = structuredClone({ p: shared, q: shared, d: new Date(5), r: /x/gi, u: undefined });
    const map = structuredClone(new Map([['k', new Set([1, [2]])]]));
    const bytes = new Uint8Array([1, 2]);
    const copied = structuredClone(bytes);
    copied[0] = 9;
    const failed = [() => 1, Symbol('s'), { deep: [function named() {}] }].map((value) => {
      try { return structuredClone(value); } catch (error) { return `${error.name}: ${error.message}`; }
    });
    return {
      cyclic: copy.self === copy && copy !== cyclic,
      shared: pair.p === pair.q && pair.p !== shared,
      kept: [pair.d.getTime(), String(pair.r), 'u' in pair],
      map: [...map.get('k')],
      bytes: [...bytes, ...copied],
      error: structuredClone(new TypeError('no stock')).message,
      failed,
    };
"""


async def test_expressions_give_the_values_of_node(evaluator: Evaluator, context_of: ContextFactory) -> None:
    """Reads zones given as offsets, sorts capitals first, and computes Math.hypot to the last digit."""
    outcomes = await evaluator.evaluate([read(f"={{{{ {text} }}}}") for text in RESULTS], context_of([{}]))
    results = dict(zip(RESULTS, (outcome[0] for outcome in outcomes), strict=True))
    assert results == RESULTS


async def test_clones_share_nothing_and_refuse_functions(
    evaluator: Evaluator, context_of: ContextFactory
) -> None:
    """Copies cycles, maps, sets and bytes; a function or symbol raises a DataCloneError."""
    result = await evaluator.run_code(Script(CLONES, ScriptMode.ALL), context_of([{}]))
    assert result.items[0].json == {
        "cyclic": True,
        "shared": True,
        "kept": [5, "/x/gi", True],
        "map": [1, [2]],
        "bytes": [1, 2, 9, 2],
        "error": "no stock",
        "failed": [
            "DataCloneError: () => 1 could not be cloned.",
            "DataCloneError: Symbol(s) could not be cloned.",
            "DataCloneError: function named() {} could not be cloned.",
        ],
    }
