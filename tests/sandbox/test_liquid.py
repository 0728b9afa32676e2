"""Tests Shopify's Liquid texts: lists by their members, its filters, and scalars as the only output.

See docs/design/imports-shopify-flow.md#liquid.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator

import pytest

from steward.sandbox.blake3 import blake3
from steward.sandbox.pool import SandboxPool
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.template import read_liquid
from steward.steps.workflow.expressions.views import ExpressionError
from tests.expressions.cases import NOW

ORDER = {
    "order": {
        "id": "gid://1",
        "name": "#1001",
        "total": {"amount": "1234.5", "currencyCode": "EUR"},
        "tags": ["a", "b"],
        "lineItems": [
            {"id": 1, "quantity": 2, "product": {"tags": ["x", "y"]}},
            {"id": 2, "quantity": 3, "product": {"tags": []}},
        ],
        "note": None,
    },
    "price": "19.99",
    "cost": "100.10",
    "list": [None, False, True],
}

TEXTS = {
    "{{ order.lineItems.id | size }}": "2",
    "{{ order.lineItems.id | join: '-' }}": "1-2",
    "{{ order.lineItems.product.tags | join: '' }}": "xy",
    "{{ order.lineItems.size }}{{ order.tags | first }}": "2a",
    "{% for item in order.lineItems %}{{ item.id }}x{{ item.quantity }} {% endfor %}": "1x2 2x3 ",
    "{% if order.note %}n{% elsif order.tags contains 'b' %}b{% endif %}": "b",
    "{{ order.note }}|{{ order.nowhere.at.all }}": "|",
    "{{ order.total | money }} {{ 5 | money: 'CHF' }}": "€1,234.50 5.00 CHF",
    "{{ 'now' | date: '%Y-%m-%d %H:%M' }}": "2026-01-15 10:00",
    "{{ 'March 14, 2016' | date: '%b %d, %y' }} {{ '1700000000' | date: '%F' }}": "Mar 14, 16 2023-11-14",
    "{{ 'Tue, 10 Mar 2026 12:34:56 GMT' | date: '%F %T %Z' }}": "2026-03-10 12:34:56 UTC",
    "{{ '2026-03-10T23:30:00.5-05:00' | date: '%s %L %3N %:z%Z %% %v' }}": (
        "1773203400 500 500 -05:00 % 10-MAR-2026"
    ),
    "{{ '2026-03-10T08:00:00Z' | date }}": "2026-03-10T08:00:00Z",
    "{{ 2.5 | round }} {{ -2.5 | round }} {{ '2.675' | round: 2 }} {{ 1250 | round: -2 }}": "3 -3 2.68 1300",
    "{{ true | append: nil | append: false }} {{ 'a,b' | split: ',' | join: nil }}": "truefalse ab",
    "{% if order.total.amount > 900 and order.total.amount <= 1234.50 %}much{% endif %}": "much",
    "{% if 1234.5 >= order.total.amount and '10' < '9' %}{{ order.total.amount }}{% endif %}": "1234.5",
    "{% if price <= 19.99 and price >= 19.99 and 100.1 <= cost and 100.10 >= cost %}=={% endif %}": "==",
    "{% if price < 19.99 or price > 19.99 or 100.1 < cost or 100.1 > cost %}un{% endif %}equal": "equal",
    "{% if price >= true or price <= true %}a truth value is no number{% endif %}": "",
    "{% if price == '19.99' and cost != '19.99' and 5 == 5.0 and order.name != 5 %}equal{% endif %}": "equal",
    "{% assign l = list | slice: 1, 2 %}{% for x in l %}{% if x %}y{% else %}n{% endif %}{% endfor %}": "ny",
    "{{ list | join: ',' }} {{ true | slice: 0, 2 }} {{ nil | slice: 0 }}": ",false,true tr ",
    "{{ true | strip_html }} {{ true | newline_to_br }} {{ false | strip_newlines }}": "true true false",
    "{{ true | url_decode }} {{ false | base64_url_safe_encode }} {{ true | squish }}": "true ZmFsc2U= true",
    "{{ '.5' | round }} {{ '+5.5' | round }} {{ '1.2E3' | round }} {{ 'x' | round }}": "1 6 1200 0",
    "{{ 1.5 | round: 300 }} {{ '" + "9" * 40 + ".5' | round }}": "1.5 1" + "0" * 40,
    "{{ 0 | date: '%F' }} {{ 86400 | date: '%F' }} {{ 86400.5 | date: '%F %L' }} {{ -1 | date: '%F' }}": (
        "1970-01-01 1970-01-02 1970-01-02 500 1969-12-31"
    ),
    "{{ '20240115' | date: '%F' }} {{ true | date }}": "1970-08-23 true",
    "{{ 'now' | date_plus: '20 days' | date: '%Y-%m-%d' }}": "2026-02-04",
    "{{ '2025-03-31T08:00:00Z' | date_minus: 1, 'month' }}": "2025-02-28T08:00:00+00:00",
    "{{ 'abc' | blake3 }}": "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
    "{{ 'é' | md5 }}": hashlib.md5("é".encode(), usedforsecurity=False).hexdigest(),
    "{{ 'x' | sha1 }}": hashlib.sha1(b"x", usedforsecurity=False).hexdigest(),
    "{{ 'x' | sha256 }}": hashlib.sha256(b"x").hexdigest(),
    "{{ 'x' | hmac_sha1: 'k' }}": hmac.digest(b"k", b"x", "sha1").hex(),
    "{{ 'x' | hmac_sha256: 'k' }}": hmac.digest(b"k", b"x", "sha256").hex(),
}
REFUSED = [
    "{% if price > true %}{% endif %}",
    "{{ '" + "9" * 301 + "' | round }}",
    "{{ '1e9999999999999999999' | round: 2 }}",
    "{{ order.tags | append: '' }}",
    "{{ 'a' | append: order.tags }}",
    "{{ order.lineItems | join: ',' }}",
    "{{ order | upcase }}",
    "{{ order.lineItems }}",
    "{{ order }}",
    "{{ order.lineItems[0].id }}",
    "{% assign n = 0 %}{{ order.tags[n] }}",
    "{{ (1..3) }}",
    "{{ order.name | shout }}",
    "{% if order.name > 5 %}{% endif %}",
    "{{ '2026-13-45' | date: '%F' }}",
    "{{ 5 | round: 999 }}",
    "{{ 'soon' | date_plus: '1 day' }}",
    "{{ 'now' | date_plus: 'a while' }}",
    "{{ 'now' | date_plus: '999999999 years' }}",
    "{{ 'x' | money }}",
    "{% for %}",
    "{{ 1 | divided_by: 0 }}",
]


@pytest.fixture
async def evaluator() -> AsyncIterator[Evaluator]:
    """Provides one run's evaluator and ends its children after the test."""
    children = SandboxPool(1)
    try:
        yield Evaluator(children, "org", "run")
    finally:
        await children.close()


async def test_liquid_renders_values_of_the_environment(evaluator: Evaluator) -> None:
    """Renders filters and paths of lists, and gives an error with a message for objects and wrong filters.

    See docs/design/imports-shopify-flow.md#liquid.
    """
    templates = [read_liquid(text) for text in (*TEXTS, *REFUSED, "plain")]
    results = await evaluator.render(templates, ORDER, NOW)
    assert dict(zip(TEXTS, results, strict=False)) == TEXTS
    assert results[-1] == "plain"
    for text, result in zip(REFUSED, results[len(TEXTS) :], strict=False):
        assert isinstance(result, ExpressionError), text
        assert result.message.endswith(".")


MESSAGES = {
    "{% if price == 19.99 %}{% endif %}": "“19.99” is a text and 19.99 a number; compare them with <= and >=",
    "{% unless 0 != price %}{% endunless %}": "“19.99” is a text and 0 a number; compare them with <= and >=",
    "{% case price %}{% when 20 %}{% endcase %}": "“19.99” is a text and 20 a number; compare",
    "{{ 'January 5, 2026 10:00:61' | date: '%F' }}": "“January 5, 2026 10:00:61” is not a date; write it as",
    "{{ 'January 5, 2026 10:00 +2400' | date: '%F' }}": "is not a date; write it as",
    "{{ true | date: '%F' }}": "“true” is not a date; write it as",
    "{{ nil | date_plus: '1 day' }}": "an empty value is not a date; write it as",
    "{{ 99999999999999 | date: '%F' }}": "the date lies outside the calendar",
    "{{ 'now' | date_plus: 'a while' }}": "“a while” is not a time span; write it as “2 days”",
    "{{ true | money }}": "“true” is not an amount; give a number such as 19.99",
    "{{ 'NaN' | money }}": "“NaN” is not an amount; give a number such as 19.99",
    "{{ nil | money }}": "an empty value is not an amount",
    "{{ 1 | round: 301 }}": "a number is rounded to 300 digits at most",
}


async def test_refusals_say_what_is_wrong_and_what_to_write(evaluator: Evaluator) -> None:
    """Names the value and a replacement, in comparisons, dates, amounts and rounding.

    See docs/decisions/0287-liquid-compares-amounts-with-numbers-by-value.md.
    """
    results = await evaluator.render([read_liquid(text) for text in MESSAGES], ORDER, NOW)
    for (text, message), result in zip(MESSAGES.items(), results, strict=True):
        assert isinstance(result, ExpressionError), text
        assert message in result.message


async def test_each_price_is_compared_exactly(evaluator: Evaluator) -> None:
    """Finds every seventh price up to 999.99 neither below nor above the same number, and others in order.

    See docs/decisions/0287-liquid-compares-amounts-with-numbers-by-value.md.
    """
    prices = [
        {"text": f"{cents // 100}.{cents % 100:02d}", "number": cents / 100, "next": (cents + 1) / 100}
        for cents in range(1, 100_000, 7)
    ]
    text = (
        "{% for p in prices %}{% if p.text <= p.number and p.text >= p.number and p.number <= p.text"
        " and p.text < p.next and p.next > p.text %}{% else %}{{ p.text }} {% endif %}"
        "{% if p.text < p.number or p.number < p.text %}{{ p.text }} {% endif %}{% endfor %}{{ prices.size }}"
    )
    assert await evaluator.render([read_liquid(text)], {"prices": prices}, NOW) == [str(len(prices))]


def test_blake3_of_more_than_one_chunk_is_that_of_its_tree() -> None:
    """Gives the digests of the specification for inputs of more than one chunk.

    See docs/design/imports-shopify-flow.md#liquid.
    """
    digest_by_length = {
        1024: "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
        1025: "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
        3073: "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3",
        7168: "61da957ec2499a95d6b8023e2b0e604ec7f6b50e80a9678b89d2628e99ada77a",
    }
    for length, digest in digest_by_length.items():
        assert blake3(bytes(index % 251 for index in range(length))).hex() == digest
