"""Compares zones, dates, numbers and hashes as scripts see them with Python's own.

See docs/design/imports-n8n.md#where-expressions-run.
"""

import base64
import hashlib
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from steward.sandbox.pool import SandboxPool
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import read
from steward.steps.workflow.expressions.views import ExpressionContext, ExpressionVariables, Outcome
from tests.expressions.cases import NOW


@pytest.fixture
async def evaluator() -> AsyncIterator[Evaluator]:
    """Provides one run's evaluator and ends its children after the test."""
    children = SandboxPool(1)
    try:
        yield Evaluator(children, "org", "run")
    finally:
        await children.close()


async def _of(evaluator: Evaluator, code: str, items: list[Any], zone: str = "UTC") -> list[Outcome]:
    context = ExpressionContext(items=items, variables=ExpressionVariables(now=NOW, timezone=zone))
    (result,) = await evaluator.evaluate([read(f"={{{{ {code} }}}}")], context)
    return result


def _packaged(name: str) -> ZoneInfo:
    with (resources.files("tzdata") / "zoneinfo" / name).open("rb") as file:
        return ZoneInfo.from_file(file, name)


async def test_offsets_equal_those_of_python(evaluator: Evaluator) -> None:
    """Gives the same offsets as the service's zone data for random instants from 1950 to 2099.

    See docs/design/imports-n8n.md#where-expressions-run.
    """
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    print("seed", seed)
    zones = [
        *dice.sample((resources.files("tzdata") / "zones").read_text().split(), 10),
        "Europe/Berlin",
        "Africa/Casablanca",
    ]
    items = []
    for zone in zones:
        for _ in range(25):
            moment = datetime(1950, 1, 1, tzinfo=UTC) + timedelta(seconds=dice.randrange(149 * 365 * 86400))
            items.append({"zone": zone, "at": int(moment.timestamp() * 1000)})
    results = await _of(evaluator, "DateTime.fromMillis($json.at).setZone($json.zone).offset", items)
    rules = {zone: _packaged(zone) for zone in zones}
    for item, minutes in zip(items, results, strict=True):
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=item["at"])
        offset = moment.astimezone(rules[item["zone"]]).utcoffset()
        assert offset is not None
        assert minutes == pytest.approx(offset.total_seconds() / 60), item


async def test_common_date_formats_are_parsed_as_by_luxon(evaluator: Evaluator) -> None:
    """Converts a text with an offset to the workflow's zone, and gives null for an impossible date.

    See docs/design/imports-n8n.md#names.
    """
    texts = [
        "2025-02-29T10:00:00Z", "2024-02-29T10:00:00Z", "2025-13-01T00:00:00Z", "2025-01-31T24:00:00Z",
        "2025-06-10T18:29:03.123Z", "2025-06-10T18:29:03+05:30", "2025-06-10T18:29:03-14:00",
        "0099-01-01T00:00:00Z",
        "2025-06-10T18:29:60Z", "2025-04-31T00:00:00.000Z", "2025-01-00T00:00:00Z",
    ]  # fmt: skip
    items = [{"t": text} for text in texts]
    soon = await _of(evaluator, "DateTime.fromISO($json.t).toISO()", items, "Europe/Berlin")
    slow = await _of(evaluator, "DateTime.fromISO($json.t, {}).toISO()", items, "Europe/Berlin")
    assert soon == slow
    assert soon[1] == "2024-02-29T11:00:00.000+01:00"
    assert soon[0] is None


WRITTEN = {
    "(1234567.891).toLocaleString()": "1,234,567.891",
    "(0.5).toLocaleString('en-US', { style: 'percent' })": "50%",
    "(1234.5).toLocaleString('en-US', { style: 'currency', currency: 'EUR' })": "€1,234.50",
    "(-5).toLocaleString('en-US', { style: 'currency', currency: 'USD' })": "-$5.00",
    "(12345).toLocaleString('en-US', { notation: 'compact' })": "12K",
    "new Intl.NumberFormat('en-US', { minimumFractionDigits: 2 }).format(3)": "3.00",
    "(1.005).toLocaleString('en-US', { style: 'currency', currency: 'USD' })": "$1.01",
    "(1e21).toLocaleString()": "1,000,000,000,000,000,000,000",
    "(0.256).toLocaleString('en-US', { style: 'percent', maximumFractionDigits: 1 })": "25.6%",
    "(999999).toLocaleString('en-US', { notation: 'compact' })": "1M",
    "(1234567.891).toLocaleString('en-US', { maximumSignificantDigits: 3 })": "1,230,000",
    "['_', '-', '9', 'a', 'A', 'z'].sort((x, y) => y.localeCompare(x)).join('')": "zAa9-_",
    "Intl.DateTimeFormat().resolvedOptions().timeZone": "UTC",
    "DateTime.fromFormat('Jan 5, 2024, 10:11 AM', 'ff').hour": 10,
    "DateTime.fromISO('2024-01-05').startOf('week', { useLocaleWeeks: true }).toISODate()": "2023-12-31",
    "new Date(0).toLocaleString()": "1/1/1970, 12:00:00 AM",
    "new Date(0).toLocaleDateString('en-US', { dateStyle: 'full' })": "Thursday, January 1, 1970",
    "new Date(0).toLocaleTimeString('en-US', { timeZone: 'Asia/Tokyo', timeStyle: 'short' })": "9:00 AM",
    "DateTime.fromISO('2025-07-01').toLocaleString(DateTime.DATETIME_FULL)": (
        "July 1, 2025 at 12:00\u202fAM UTC"
    ),
    "DateTime.fromISO('2025-07-01').setZone('America/New_York').toFormat('ZZZZZ')": "Eastern Daylight Time",
    "DateTime.fromISO('2025-07-01T12:00Z').setZone('Europe/Berlin').toFormat('cccc d LLLL HH:mm')": (
        "Tuesday 1 July 14:00"
    ),
    "DateTime.fromISO('2025-05-05').toRelative({ base: DateTime.fromISO('2025-05-08') })": "3 days ago",
    "Duration.fromObject({ hours: 1, minutes: 2 }).toHuman()": "1 hour, 2 minutes",
    "['b', 'é', 'a', 'Z', 'e'].slice().sort((x, y) => x.localeCompare(y)).join('')": "abeéZ",
    "['a10', 'a9'].slice().sort(new Intl.Collator('en', { numeric: true }).compare).join()": "a9,a10",
    "$now.setLocale('fr').toFormat('cccc d LLLL')": "jeudi 15 janvier",
    "(1234.5).toLocaleString('de-DE', { style: 'currency', currency: 'EUR' })": "1.234,50\u00a0€",
    "(1234567.5).toLocaleString('fr')": "1\u202f234\u202f567,5",
    "(1234.5).format('es')": "1234,5",
    "(-5).toLocaleString('nl-NL', { style: 'currency', currency: 'EUR' })": "€\u00a0-5,00",
    "new Date(0).toLocaleString('en-GB')": "01/01/1970, 00:00:00",
    "new Date(0).toLocaleDateString('de-DE')": "1.1.1970",
    "$now.setLocale('de').toFormat('ccc, d. MMM')": "Do, 15. Jan.",
    "$now.setLocale('de').toLocaleString()": "15.1.2026",
    "$now.setLocale('es').toLocaleString(DateTime.DATE_HUGE)": "jueves, 15 de enero de 2026",
    "$now.setLocale('pt-BR').toLocaleString({ month: 'short', day: 'numeric' })": "15 de jan.",
    "new Date(0).toLocaleDateString('en-CA', { timeZone: 'America/Toronto' })": "1969-12-31",
    "new Date(0).toLocaleString('en-CA')": "1970-01-01, 12:00:00 a.m.",
    "new Date(0).toLocaleString('sv-SE')": "1970-01-01 00:00:00",
    "new Date(0).toLocaleDateString('sv', { weekday: 'short', month: '2-digit', day: '2-digit' })": (
        "tors 01/01"
    ),
    "new Date(0).toLocaleDateString('sv', { month: 'numeric', day: '2-digit', year: 'numeric' })": (
        "1970-1-01"
    ),
    "new Date(0).toLocaleDateString('en-CA', { dateStyle: 'full' })": "Thursday, January 1, 1970",
    "(-1234.5).toLocaleString('sv-SE', { style: 'currency', currency: 'SEK' })": (
        "\u22121\u00a0234,50\u00a0kr"
    ),
    "$now.setZone('Nowhere/Else').isValid": False,
    "new Date('2026-01-15T10:00:00Z') - $now": 0,
    "Date.now() === +$now": True,
    "new Date().toString()": "Thu Jan 15 2026 10:00:00 GMT+0000 (Coordinated Universal Time)",
}  # fmt: skip


async def test_numbers_and_dates_are_formatted_by_locale(evaluator: Evaluator) -> None:
    """Formats numbers and dates in English, and in the common ways of nine other locales.

    See docs/design/imports-n8n.md#where-expressions-run.
    """
    for code, text in WRITTEN.items():
        assert await _of(evaluator, code, [{}]) == [text], code


# Moments that Node.js 20 reads in texts in UTC; None where it reads none.
READ_MOMENTS = {
    "15 Jun 2024 12:30:45-0700": 1718479845000,
    "Sat, 15 Jun 2024 12:30 CET": None,
    "2024-06-15 12:30:45.123+00": 1718454645123,
    "2024-06-15T12:00:00-07": None,
    "15. June 2024": 1718409600000,
    "31/12/2024": None,
    "2024-06-15t12:30:45z": 1718454645000,
    "6/15/24 9:05 PM": 1718485500000,
    "June 2024 GMT+0200 (CEST)": 1717192800000,
    "2024-06-15 12:30:45,5": None,
    "Jun 15": 992563200000,
    "2024-06-15T10:00:00.1234567891Z": 1718445600123,
    "Order 12": 1007164800000,
    "1 " * 600: None,
}


async def test_dates_are_parsed_as_by_node(evaluator: Evaluator) -> None:
    """Dates in any usual form are read as Node.js reads them, or are none where they are none there."""
    code = "Number($itemIndex % 2 ? new Date($json) : Date.parse($json)) || null"
    texts = list(READ_MOMENTS)
    assert await _of(evaluator, code, texts) == [READ_MOMENTS[text] for text in texts]


async def test_hashes_and_base64_are_those_of_the_standards(evaluator: Evaluator) -> None:
    """Gives the digests and base64 texts that Python gives, for texts of many lengths.

    See docs/design/imports-n8n.md#names.
    """
    dice = random.Random(5)
    items = [
        {"t": "".join(dice.choice("aZ09é€😀\n") for _ in range(length))}
        for length in (0, 1, 3, 55, 56, 63, 64, 65, 111, 112, 119, 127, 128, 300)
    ]
    for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512"):
        results = await _of(evaluator, f"$json.t.hash('{name}')", items)
        assert results == [hashlib.new(name, item["t"].encode()).hexdigest() for item in items]
    encoded = await _of(evaluator, "$json.t.base64Encode()", items)
    assert encoded == [base64.b64encode(item["t"].encode()).decode() for item in items]
    assert await _of(evaluator, "$json.t.base64Encode().base64Decode() === $json.t", items) == [True] * len(
        items
    )
