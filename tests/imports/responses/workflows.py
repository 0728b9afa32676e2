"""Provides steps that send and read responses, and helpers that return the output of steps."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from steward.database.runs import steps as step_values
from steward.model.run import Run
from tests.imports.exports import code, node
from tests.imports.responses.orders_address import ADDRESS
from tests.runs.shop import Shop


def three() -> dict[str, Any]:
    """Returns a code step that makes three items numbered from 1."""
    return code("Three", "return [1, 2, 3].map(n => ({json: {n}}))")


def posted(name: str = "Post", body: str = '={"n": {{ $json.n }}}', **more: Any) -> dict[str, Any]:
    """Returns a step that sends each item to the address; `more` holds `options` and node settings."""
    request_body = {
        "method": "POST",
        "url": f"{ADDRESS}/orders",
        "sendBody": True,
        "specifyBody": "json",
        "jsonBody": body,
        "options": more.pop("options", {}),
    }
    return node(name, "httpRequest", 4.2, request_body, **more)


def numbered(name: str = "Read") -> dict[str, Any]:
    """Returns a step that reads the number in the response and the `n` of the sent item."""
    values = [
        {"name": "number", "value": "={{ $json.number }}", "type": "number"},
        {"name": "n", "value": "={{ $('Three').item.json.n }}", "type": "number"},
    ]
    return node(name, "set", 3.4, {"assignments": {"assignments": values}, "options": {}})


async def output_items(shop: Shop, run: Run, name: str, output: int = 0) -> list[Mapping[str, Any]]:
    """Returns the items that a step's last execution passed on at an output."""
    values = await shop.read(partial(step_values.values, org=shop.owner.org, run=run.id))
    [value] = [value for value in values if value.name == name]
    assert isinstance(value.output, dict)
    out = value.output["out"]
    return [item[0] for item in out[output]] if output < len(out) else []


async def step_row(shop: Shop, run: Run, name: str) -> dict[str, Any] | None:
    """Returns the last row of a step, or None if it did not run."""
    rows = [row for row in await shop.steps(run) if row["name"] == name]
    return rows[-1] if rows else None
