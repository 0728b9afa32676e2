"""Parses dates with the `fromFormat` option of Date & Time steps, using luxon in the sandbox."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from steward.model.json import JsonObject
from steward.steps.workflow.expressions import template
from steward.steps.workflow.javascript import date_patterns
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, Params, StepCall

_READ: Final = template.read(
    "={{ DateTime.fromFormat($json.text, $json.format, {zone: $json.zone, setZone: true}).toISO() }}"
)
_LUXON_TOKENS: Final = {
    **{"YYYY": "yyyy", "YY": "yy", "Y": "y", "Q": "q", "MMMM": "MMMM", "MMM": "MMM", "MM": "MM", "M": "M"},
    **{"DD": "dd", "D": "d", "DDDD": "ooo", "DDD": "o", "dddd": "EEEE", "ddd": "EEE", "HH": "HH", "H": "H"},
    **{"hh": "hh", "h": "h", "mm": "mm", "m": "m", "ss": "ss", "s": "s", "SSS": "SSS", "a": "a", "A": "a"},
    **{"Z": "ZZ", "ZZ": "ZZZ", "GGGG": "kkkk", "WW": "WW", "W": "W", "E": "E"},
}


def luxon_pattern(pattern: str) -> str | None:
    """Translates a moment pattern into the luxon pattern that parses it; returns None if none does.

    Returns "" for seconds or milliseconds since 1970, which need no pattern.
    """
    if pattern in ("X", "x"):
        return ""
    parts: list[str] = []
    for is_literal, token in date_patterns.moment_parts(pattern):
        part = _literal(token) if is_literal else _LUXON_TOKENS.get(token)
        if part is None:
            return None
        parts.append(part)
    return "".join(parts)


def _literal(text: str) -> str | None:
    """Quotes text for a luxon pattern so that no letter acts as a token; returns None if it has a quote."""
    if "'" in text:
        return None
    return f"'{text}'" if any(character.isalpha() for character in text) else text


async def with_dates_read(
    call: StepCall, field: str, format_of: Callable[[Params], tuple[str, str]]
) -> Callable[[int], Params]:
    """Returns a function from an item's index to its parameters, with the date converted to ISO text.

    `format_of` returns luxon's pattern, or "" to leave the date unchanged, and the zone of dates without an
    offset. The function raises ItemFailed for a date that does not match.
    """
    requests: dict[int, JsonObject] = {}
    failures: dict[int, ItemFailed] = {}
    for index in range(len(call.items)):
        try:
            value, (pattern, zone) = call.params(index).get(field), format_of(call.params(index))
        except ItemFailed as failure:
            failures[index] = failure
            continue
        if pattern and not js.is_missing(value) and value != "":
            requests[index] = {"text": js.text(value), "format": pattern, "zone": zone}
    dates: dict[int, object] = {}
    if requests:
        context = replace(call.expression_context(()), items=list(requests.values()), files=())
        [texts] = await call.evaluator.evaluate([_READ], context)
        dates = dict(zip(requests, texts, strict=True))

    def params(index: int) -> Params:
        if index in failures:
            raise failures[index]
        date = dates.get(index, "")
        if not isinstance(date, str):
            text = str(requests[index]["text"])[:80]
            raise ItemFailed(f"“{text}” does not have the format that “From Format” names.")
        return Params({**call.params(index).tree, field: date}) if date else call.params(index)

    return params
