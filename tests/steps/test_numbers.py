"""Tests that numbers as people type them are read in exactly one way, or refused.

See docs/design/templates.md#e5-numbers-as-text and docs/design/templates.md#e6-decimals.
"""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steward.connectors.base.records import currency_decimals
from steward.steps.skus import RowRefused
from steward.templates.parts.currencies import CODES, SIGNS
from steward.templates.parts.numbers import money_text, percent_text, read_number, read_price, round_to

# text, and its value under auto, point and comma: a number, or the code of the refusal
TABLE = [
    ("12", "12", "12", "12"),
    ("12.5", "12.5", "12.5", "12.5"),
    ("12,5", "12.5", "12.5", "12.5"),
    ("12,50", "12.50", "12.50", "12.50"),
    ("1234.5678", "1234.5678", "1234.5678", "1234.5678"),
    (".5", "0.5", "0.5", "0.5"),
    ("0012.50", "12.50", "12.50", "12.50"),
    # one separator, followed by exactly three digits
    ("1,234", "number_ambiguous", "1234", "1.234"),
    ("1.234", "number_ambiguous", "1.234", "1234"),
    ("0.125", "number_ambiguous", "0.125", "not_a_number"),
    ("1234.567", "number_ambiguous", "1234.567", "not_a_number"),
    # both separators: the last one is the decimal separator
    ("1,234.56", "1234.56", "1234.56", "1234.56"),
    ("1.234,56", "1234.56", "1234.56", "1234.56"),
    ("1,234,567.8", "1234567.8", "1234567.8", "1234567.8"),
    ("1.234,567", "1234.567", "1234.567", "1234.567"),
    # one separator several times separates groups
    ("1,234,567", "1234567", "1234567", "1234567"),
    ("1.234.567", "1234567", "1234567", "1234567"),
    # white space and apostrophes separate groups
    ("1 234.50", "1234.50", "1234.50", "1234.50"),
    ("1\u00a0234,50", "1234.50", "1234.50", "1234.50"),
    ("1\u202f234\u202f567", "1234567", "1234567", "1234567"),
    ("1'234.50", "1234.50", "1234.50", "1234.50"),
    # groups have three digits
    ("12 34", "not_a_number", "not_a_number", "not_a_number"),
    ("1,23,456", "not_a_number", "not_a_number", "not_a_number"),
    ("1,23.45", "not_a_number", "not_a_number", "not_a_number"),
    ("1.234.56", "not_a_number", "not_a_number", "not_a_number"),
    ("1234 567", "not_a_number", "not_a_number", "not_a_number"),
    ("1 234'567", "not_a_number", "not_a_number", "not_a_number"),
    ("1.2,3.4", "not_a_number", "not_a_number", "not_a_number"),
    # the sign or code of the store's currency, before or after the number
    ("€12.50", "12.50", "12.50", "12.50"),
    ("12,50 €", "12.50", "12.50", "12.50"),
    ("EUR 12.50", "12.50", "12.50", "12.50"),
    ("12.50\u00a0eur", "12.50", "12.50", "12.50"),
    ("$12.50", "currency_differs", "currency_differs", "currency_differs"),
    ("12.50 USD", "currency_differs", "currency_differs", "currency_differs"),
    ("kr. 12", "currency_differs", "currency_differs", "currency_differs"),
    ("€ 12 EUR", "not_a_number", "not_a_number", "not_a_number"),
    # a minus sign
    ("-5", "-5", "-5", "-5"),
    ("−5", "-5", "-5", "-5"),
    ("-€5.50", "-5.50", "-5.50", "-5.50"),
    ("€-5.50", "-5.50", "-5.50", "-5.50"),
    ("--5", "not_a_number", "not_a_number", "not_a_number"),
    ("5-", "not_a_number", "not_a_number", "not_a_number"),
    # anything else
    ("12%", "not_a_number", "not_a_number", "not_a_number"),
    ("#N/A", "not_a_number", "not_a_number", "not_a_number"),
    ("1e3", "not_a_number", "not_a_number", "not_a_number"),
    ("+5", "not_a_number", "not_a_number", "not_a_number"),
    ("5.", "not_a_number", "not_a_number", "not_a_number"),
    (".", "not_a_number", "not_a_number", "not_a_number"),
    ("twelve", "not_a_number", "not_a_number", "not_a_number"),
    ("12 pcs", "not_a_number", "not_a_number", "not_a_number"),
    ("１２", "not_a_number", "not_a_number", "not_a_number"),
    ("", "not_a_number", "not_a_number", "not_a_number"),
    ("NaN", "not_a_number", "not_a_number", "not_a_number"),
    ("9" * 61, "not_a_number", "not_a_number", "not_a_number"),
]


def _read(cell: object, form: str = "auto", currency: str | None = "EUR") -> str:
    try:
        return str(read_number(cell, form=form, currency=currency))  # type: ignore[arg-type]
    except RowRefused as refused:
        return refused.code


@pytest.mark.parametrize(("text", "auto", "point", "comma"), TABLE)
def test_a_text_is_one_number_or_is_refused(text: str, auto: str, point: str, comma: str) -> None:
    """Parses the number, or refuses it with this code.

    See docs/design/templates.md#e5-numbers-as-text.
    """
    readings = [_read(text, form) for form in ("auto", "point", "comma")]
    expected = [auto, point, comma]
    assert [_same(text) for text in readings] == [_same(text) for text in expected]


def _same(text: str) -> object:
    return text if text[-1:].isalpha() else Decimal(text)


@pytest.mark.parametrize("currency", ["USD", "CAD", "AUD", "SGD", "TWD"])
def test_a_plain_dollar_fits_every_dollar(currency: str) -> None:
    """Accepts a plain `$` for every dollar currency.

    See docs/design/templates.md#e5-numbers-as-text.
    """
    assert _read("$5", currency=currency) == "5"


@pytest.mark.parametrize("sign", ["US$", "A$", "C$"])
def test_a_specific_dollar_sign_fits_only_its_currency(sign: str) -> None:
    """Accepts the sign of a certain dollar only for its own currency.

    See docs/design/templates.md#e5-numbers-as-text.
    """
    assert _read(f"{sign}5", currency="SGD") == "currency_differs"


def test_a_sign_is_refused_when_the_currency_of_the_store_is_not_known() -> None:
    """Refuses currency signs if the store's currency is unknown.

    See docs/design/templates.md#e5-numbers-as-text.
    """
    assert _read("€5", currency=None) == "currency_differs"
    assert _read("5", currency=None) == "5"


def test_every_sign_stands_for_known_currencies() -> None:
    """Every sign in the table belongs to known currencies; a misspelled code would refuse valid prices."""
    assert set().union(*SIGNS.values()) <= CODES
    assert not CODES & set(SIGNS)


def test_number_cells_stay_unchanged() -> None:
    """Takes number cells as they are, since they are never ambiguous.

    See docs/design/templates.md#e5-numbers-as-text.
    """
    assert _read(Decimal("1.234")) == "1.234"
    assert _read(True) == "not_a_number"
    assert _read(None) == "not_a_number"


def _price(cell: object, currency: str) -> str:
    try:
        return money_text(read_price(cell, form="point", currency=currency), currency)  # type: ignore[arg-type]
    except RowRefused as refused:
        return refused.code


@pytest.mark.parametrize(
    ("text", "currency", "expected"),
    [
        ("12.5", "EUR", "12.50"),
        ("12.50", "EUR", "12.50"),
        ("12.500", "EUR", "12.50"),
        ("12.505", "EUR", "too_many_decimals"),
        ("12", "JPY", "12"),
        ("12.0", "JPY", "12"),
        ("12.5", "JPY", "too_many_decimals"),
        ("1.234", "KWD", "1.234"),
        ("1.2345", "KWD", "too_many_decimals"),
        ("-1", "EUR", "negative"),
        ("0", "EUR", "0.00"),
        (Decimal("19.990000000000002"), "EUR", "too_many_decimals"),
        (Decimal("1E+30"), "EUR", "not_a_number"),
    ],
)
def test_a_price_has_the_decimals_of_its_currency(text: object, currency: str, expected: str) -> None:
    """Ignores trailing zeros, and refuses more decimal places than the currency has.

    See docs/design/templates.md#e6-decimals.
    """
    assert _price(text, currency) == expected


def test_computed_amounts_round_half_up() -> None:
    """Rounds half up in decimal arithmetic.

    See docs/design/templates.md#e6-decimals.
    """
    assert [str(round_to(Decimal(item), 2)) for item in ("0.125", "0.135", "2.675", "-0.125")] == [
        "0.13",
        "0.14",
        "2.68",
        "-0.13",
    ]
    assert percent_text(Decimal("6.25")) == "+6.3 %"
    assert percent_text(Decimal("-6.25")) == "-6.3 %"


@given(st.decimals("0.01", "999999999", places=2), st.sampled_from(["point", "comma"]))
def test_formatted_amounts_are_read_back_in_every_country_format(amount: Decimal, form: str) -> None:
    """Reads amounts grouped by comma, point, space or apostrophe, with the currency beside them.

    See docs/design/templates.md#e5-numbers-as-text.
    """
    english = f"{amount:,}"
    german = english.translate(str.maketrans(",.", ".,"))
    swiss = english.replace(",", "'")
    french = german.replace(".", "\u202f")
    for text in (english, german, swiss, french, f"€ {english}", f"{german} EUR"):
        assert read_number(text, form=form, currency="EUR") == amount


@given(st.text(max_size=70), st.sampled_from(["auto", "point", "comma"]))
def test_any_text_is_a_number_or_a_refusal(text: str, form: str) -> None:
    """Returns a number or a refusal for any text.

    See docs/design/templates.md#data-rules.
    """
    assert _read(text, form)


@given(st.sampled_from(sorted(CODES)), st.integers(1, 10**6))
def test_an_amount_has_exactly_the_minor_units(currency: str, number: int) -> None:
    """Formats an amount with exactly the minor units of its currency.

    See docs/design/templates.md#change-rows.
    """
    text = money_text(Decimal(number), currency)
    assert len(text.partition(".")[2]) == currency_decimals(currency)
