"""Tests extensions as n8n documents them, beyond the recorded ones.

See docs/design/imports-n8n.md#names.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.paths import UNDEFINED
from steward.steps.workflow.expressions.template import read
from steward.steps.workflow.expressions.views import ExpressionContext, ExpressionError

FAILS: Final = object()
EXPECTED_VALUES: Final = {
    "'me@example.com'.extractDomain()": "example.com",
    "'http://n8n.io/workflows'.extractUrlPath()": "/workflows",
    "'Check out http://n8n.io/workflows'.extractUrlPath()": UNDEFINED,
    "'Check out http://n8n.io/workflows'.extractUrl().extractUrlPath()": "/workflows",
    "'hello'.extractEmail()": UNDEFINED,
    "'123E23'.isNumeric()": True,
    "'hello'.hash('crc32')": FAILS,
    "DateTime.fromISO('2025-07-01', { zone: 'America/New_York' }).offsetNameLong": "Eastern Daylight Time",
    "DateTime.fromISO('2025-07-01', { zone: 'America/Sao_Paulo' }).offsetNameLong": FAILS,
    "(5e-7).format()": "0",
    "(-1.5e-7).toLocaleString('en-US', { maximumSignificantDigits: 3 })": "-0.00000015",
    "(2.5e-7).toLocaleString('de-DE', { style: 'percent', maximumFractionDigits: 6 })": "0,000025\u00a0%",
    "new Date(0).toLocaleString('en-US', { minute: '2-digit' })": "0",
    "new Date(25200000).toLocaleString('en', { weekday: 'long', hour: 'numeric', hour12: false })": (
        "Thursday, 07"
    ),
    "new Date(0).toLocaleString('en-US', { weekday: 'long', year: 'numeric' })": FAILS,
    "new Date(0).toLocaleString('en-US', { hour: '2-digit', second: '2-digit' })": FAILS,
    "Interval.fromISO('2024-01-01/P1M').toLocaleString(DateTime.DATE_MED)": FAILS,
    "'*bold*, [link]() <b>x</b>'.removeMarkdown()": "bold, link x",
    "'déjà “vu”…'.replaceSpecialChars()": 'deja "vu"...',
    "'日本'.replaceSpecialChars()": FAILS,
    "'1711732132990'.toDateTime().toMillis()": 1711732132990,
    "'20240329'.toDateTime().toISODate()": "2024-03-29",
    "'Fri, 29 Mar 2024 18:08:01 +0100'.toDateTime().toISO()": "2024-03-29T18:08:01.000+01:00",
    "(45345).toDateTime('excel').toISO()": "2024-02-23T01:00:00.000+01:00",
    "'12abc'.toNumber()": FAILS,
    "'quick! brown FOX'.toSentenceCase()": "Quick! Brown fox",
    "'quick brown $FOX'.toSnakeCase()": "quick_brown_fox",
    "'FastFreight-box Último'.toSnakeCase()": "fastfreight_box_último",
    "'where is the post-box of Lord Of USB-C'.toTitleCase()": "Where Is the Post-Box of Lord Of USB-C",
    "'name%3DNathan%20Automat'.urlDecode(true)": "name%3DNathan Automat",
    "[{ a: 1 }, { b: 2 }, 5, null].pluck('a')": [1],
    "[{ a: 1, b: 2 }, { a: 1 }].pluck('a', 'b')": FAILS,
    "[{ a: 1, b: 1 }, { a: 1, b: 2 }, { a: 1, b: 1 }].removeDuplicates('a, b').length": 2,
    "[{ a: 1, b: 1 }, { a: 1, b: 2 }].unique('a').length": 1,
    "({ name: 'Mr Nathan', city: 'hanoi', age: 42 }).removeFieldsContaining('han')": {"age": 42},
    "({ name: 'Mr Nathan', city: 'hanoi' }).urlEncode()": "name=Mr+Nathan&city=hanoi",
    "(318.65).round(1)": 318.6,
    "(2.5).isEven()": FAILS,
    # isEmpty() and isNotEmpty() accept null and undefined; every other extension fails on them.
    "[null.isEmpty(), $json.gone.isEmpty(), !$json['gone'].isNotEmpty(), [].find(x => x).isEmpty()]": [True]
    * 4,
    "$json.gone?.isEmpty()": UNDEFINED,
    "$json.gone?.[0].isEmpty()": UNDEFINED,
    "(() => { if ([1]) [1].isEmpty(); return new Map([[1, null]]).get(1).isEmpty() })()": True,
    "'a b'.split(' ').isEmpty().toString().isNotEmpty()": True,
    "[0, false, '', 1, $now].map(x => x.isEmpty())": [True, True, True, False, False],
    "$json.gone.toTitleCase()": FAILS,
}


async def test_extensions_do_what_is_documented(
    evaluator: Evaluator, context_of: Callable[[Sequence[Any]], ExpressionContext]
) -> None:
    """Returns what the documentation says; an undocumented use fails instead of giving another value.

    See docs/design/imports-n8n.md#names.
    """
    results = await evaluator.evaluate(
        [read(f"={{{{ {code} }}}}") for code in EXPECTED_VALUES], context_of([{}])
    )
    for (code, expected), (outcome,) in zip(EXPECTED_VALUES.items(), results, strict=True):
        assert isinstance(outcome, ExpressionError) if expected is FAILS else outcome == expected, (
            code,
            outcome,
        )
