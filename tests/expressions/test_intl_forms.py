"""Tests the formats of dates and times and the order of texts against V8 of Node.js 22.

See docs/design/imports-n8n.md#names.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.paths import UNDEFINED
from steward.steps.workflow.expressions.template import read
from steward.steps.workflow.expressions.views import ExpressionContext, ExpressionError

ContextFactory = Callable[[Sequence[Any]], ExpressionContext]
NIGHT: Final = "new Date('2024-09-06T00:05:09Z')"
DAY: Final = "day: 'numeric'"
HM: Final = "hour: '2-digit', minute: '2-digit'"
FORMS: Final = [
    ("en-US", "hour: 'numeric', hour12: false", "00"),
    ("en-US", f"{HM}, hour12: true, hourCycle: 'h23'", "12:05 AM"),
    ("en-GB", f"{HM}, hour12: false, hourCycle: 'h24'", "00:05"),
    ("en-US", f"{HM}, hourCycle: 'h24'", "24:05"),
    ("en-US", f"{HM}, hourCycle: 'h11'", "00:05 AM"),
    ("en-US", f"weekday: 'short', {HM}, hour12: false", "Fri 00:05"),
    ("en-US", "weekday: 'short', hour: '2-digit', hour12: false", "Fri, 00"),
    ("en-GB", f"weekday: 'long', {HM}", "Friday 00:05"),
    ("en-GB", "day: 'numeric', month: '2-digit', year: 'numeric'", "6/09/2024"),
    ("en-GB", "day: 'numeric', month: 'numeric', year: 'numeric'", "06/09/2024"),
    ("fr-FR", "day: '2-digit', month: 'numeric', year: 'numeric'", "06/9/2024"),
    ("fr-FR", "day: '2-digit', month: 'numeric'", "06/09"),
    ("it-IT", "day: 'numeric', month: '2-digit', year: '2-digit'", "6/09/24"),
    ("it-IT", "day: 'numeric', month: '2-digit', year: 'numeric'", "06/09/2024"),
    ("pt-BR", "day: 'numeric', month: '2-digit', year: 'numeric'", "6/09/2024"),
    ("de-DE", "weekday: 'long', day: 'numeric'", "Freitag, 6."),
    ("de-DE", "day: 'numeric', month: '2-digit'", "06.09."),
    ("de-DE", f"weekday: 'short', {HM}", "Fr., 00:05"),
    ("es-ES", "weekday: 'long', day: 'numeric'", "viernes 6"),
    ("es-ES", f"weekday: 'long', {DAY}, month: 'short', year: '2-digit'", "viernes, 6 de sept de 24"),
    ("es-ES", "month: '2-digit'", "09"),
    ("nl-NL", "weekday: 'long', hour: 'numeric', minute: '2-digit'", "vrijdag 00:05"),
    ("en-CA", f"month: 'short', {DAY}, hour: 'numeric', minute: '2-digit', hour12: false", "Sep 6, 00:05"),
    ("en-US", "day: 'numeric', era: 'short'", None),
    ("de-DE", f"{HM}, second: '2-digit', fractionalSecondDigits: 1", None),
    ("fr-FR", f"{HM}, timeZoneName: 'long'", None),
    ("en-US", "minute: '2-digit', fractionalSecondDigits: 1", None),
    ("fr-FR", "month: 'narrow', day: 'numeric', hour: '2-digit'", None),
    ("es-ES", f"{HM}, hourCycle: 'h24'", None),
    ("de-DE", "day: 'numeric', month: 'numeric', timeZoneName: 'short'", None),
    ("en-GB", "hour: 'numeric', timeZoneName: 'short'", None),
]  # fmt: skip
ZONE: Final = "timeZoneName: 'short'"
HOURS: Final = [
    ("hour: 'numeric', minute: '2-digit'", "9:05"),
    ("hour: 'numeric', minute: '2-digit', second: 'numeric'", "09:05:07"),
    ("hour: 'numeric', minute: '2-digit', second: '2-digit'", "9:05:07"),
    ("hour: 'numeric', minute: 'numeric', second: '2-digit'", "09:05:07"),
    (f"hour: 'numeric', minute: '2-digit', {ZONE}", "09:05 UTC"),
    (f"hour: 'numeric', minute: 'numeric', second: 'numeric', {ZONE}", "9:05:07 UTC"),
    (f"hour: '2-digit', minute: 'numeric', second: 'numeric', {ZONE}", "09:05:07 UTC"),
    ("timeStyle: 'long'", "09:05:07 UTC"),
]
SORTED: Final = [
    (["st", "strasse", "straße", "stra", "Stratos"], "en", ["st", "stra", "strasse", "straße", "Stratos"]),
    (
        ["zoo", "ærlig", "adam", "af", "øl", "p", "łuk"],
        "en",
        ["adam", "ærlig", "af", "łuk", "øl", "p", "zoo"],
    ),
    (["zoo", "öl", "ål", "ärta", "ur", "über"], "sv", ["ur", "über", "zoo", "ål", "ärta", "öl"]),
    (["nz", "ña", "na", "oa"], "es", ["na", "nz", "ña", "oa"]),
    (["nz", "ña", "na", "oa"], "en", ["na", "ña", "nz", "oa"]),
    (["j", "ı", "i", "½", "1", "—", ",", "😀", "20"], "en", ["—", ",", "😀", "1", "½", "20", "i", "ı", "j"]),
    ([*"āåãäâàáăąa"], "en", [*"aáàăâåäãąā"]),
    ([*"ėēęëêèéeÉ"], "en", [*"eéÉèêëėęē"]),
    ([*"ñńňn"], "en", [*"nńňñ"]),
    ([*"ôœőøöęæäåűüýy"], "sv", [*"yýüűåäæęöøőœô"]),
    (["ùæ", "uæ", "eá", "éa"], "en", ["eá", "éa", "uæ", "ùæ"]),
]


@pytest.mark.parametrize(("locale", "options", "expected"), FORMS)
async def test_a_date_has_the_form_of_its_locale(
    evaluator: Evaluator, context_of: ContextFactory, locale: str, options: str, expected: str | None
) -> None:
    """Formats a date as V8 does; None marks a format that is refused."""
    code = f"{NIGHT}.toLocaleString('{locale}', {{ timeZone: 'UTC', {options} }} )"
    [[value]] = await evaluator.evaluate([read(f"={{{{ {code} }}}}")], context_of([{}]))
    assert isinstance(value, ExpressionError) if expected is None else value == expected


@pytest.mark.parametrize(("options", "expected"), HOURS)
@pytest.mark.parametrize("locale", ["en-GB", "de-DE", "fr-FR", "it-IT", "nl-NL", "pt-BR", "sv-SE"])
async def test_hours_are_padded_as_in_v8(
    evaluator: Evaluator, context_of: ContextFactory, locale: str, options: str, expected: str
) -> None:
    """Pads the hour depending on the widths of minutes and seconds, and on a zone name."""
    formatter = f"new Intl.DateTimeFormat('{locale}', {{ timeZone: 'UTC', {options} }} )"
    code = f"{formatter}.format(new Date('2024-09-06T09:05:07Z'))"
    [[value]] = await evaluator.evaluate([read(f"={{{{ {code} }}}}")], context_of([{}]))
    assert value == expected


@pytest.mark.parametrize(("texts", "locale", "expected"), SORTED)
async def test_texts_are_ordered_by_their_language(
    evaluator: Evaluator, context_of: ContextFactory, texts: list[str], locale: str, expected: list[str]
) -> None:
    """Sorts ß, æ, ø and ł like their base letters; Swedish å, ä and ö after z, and Spanish ñ after n."""
    code = f"{texts}.sort((a, b) => a.localeCompare(b, '{locale}'))"
    [[value]] = await evaluator.evaluate([read(f"={{{{ {code} }}}}")], context_of([{}]))
    assert value == expected


async def test_parts_and_errors_are_those_of_v8(evaluator: Evaluator, context_of: ContextFactory) -> None:
    """Has a plain space in a text but not in its parts, and each currency's decimal places."""
    formatter = "new Intl.DateTimeFormat('en-US', { hour: 'numeric', timeZone: 'UTC' } )"
    codes = [
        f"{formatter}.format({NIGHT})",
        f"{formatter}.formatToParts({NIGHT})[1].value",
        "(5).toLocaleString('en-US', { style: 'currency' } )",
        "(1234.5).toLocaleString('en-US', { style: 'currency', currency: 'HUF' } )",
        "(1.2345).toLocaleString('en-US', { style: 'currency', currency: 'kwd' } )",
        "(5).toLocaleString('en-US', { style: 'currency', currency: 'XOF' } )",
        "(5).toLocaleString('en-US', { style: 'currency', currency: 'CLF' } )",
    ]
    values = await evaluator.evaluate([read(f"={{{{ {code} }}}}") for code in codes], context_of([{}]))
    assert [value for (value,) in values] == [
        *("12 AM", "\u202f", UNDEFINED),
        *("HUF\xa01,235", "KWD\xa01.235", "F\u202fCFA\xa05", "CLF\xa05.0000"),
    ]


@pytest.mark.parametrize(
    "options",
    ["useGrouping: 'min2'", "style: 'currency', currency: 'AMD', currencyDisplay: 'narrowSymbol'"],
)
async def test_unsupported_number_formats_are_refused(
    evaluator: Evaluator, context_of: ContextFactory, options: str
) -> None:
    """Refuses other group sizes and narrow currency signs that are not known."""
    code = f"(1234).toLocaleString('en-US', {{ {options} }} )"
    [[value]] = await evaluator.evaluate([read(f"={{{{ {code} }}}}")], context_of([{}]))
    assert isinstance(value, ExpressionError)
