"""Replays recorded exchanges of a real shop against the fake one and reports where they differ."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from steward.fake_platforms import application
from steward.fake_platforms.woocommerce.shop import FakeShop, Key
from steward.outbound.errors import CallError
from tests.fake_platforms.connector_view import delivery_differences, view_differences
from tests.fake_platforms.recorded_shop import NUMBERS, Recording, Row, catch_up, target, views

_NOW = datetime(2026, 11, 20, 17, 45, tzinfo=UTC)
_RIGHTS = {"read_write": "read_write", "read_only": "read", "write_only": "write", "customer_user": "person"}
_OFFERED = re.compile(
    r"/wc/v3/(products(/\d+(/variations(/(\d+|batch))?)?|/batch|/(tags|categories)(/(\d+|batch))?)?"
    r"|orders(/\d+(/(notes|refunds)(/\d+)?)?|/batch)?|customers(/(\d+|batch))?|variations|webhooks(/(\d+|batch))?"
    r"|system_status|settings/\w+(/\w+)?|data/currencies/current)/?$"
)
# Errors that a new kind of recording may raise: each is reported, and the next exchange follows.
_ODD = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, RecursionError),
    *(httpx.HTTPError, CallError),
)
# Maps from data to data, whose keys are not part of a response's shape.
_FREE_MAPS = ("options", "params", "details")


def out_of_scope(exchange: Row) -> str | None:
    """Returns why an exchange is not compared, or None. Every line has its reason."""
    request, response = exchange["request"], exchange["response"]
    body = response.get("body")
    code = body.get("code") if isinstance(body, dict) else None
    if "/wc/v3/" in request["path"] and not _OFFERED.search(request["path"]) and code != "rest_no_route":
        return "the fake shop does not have this resource (contract 9.1 does not list it)"
    if exchange["scheme"] == "http" and exchange["auth"] in _RIGHTS:
        return "the fake shop takes Basic over http on purpose (contract 9.1)"
    if response["status"] >= 500 and (code == "wp_die" or not isinstance(body, dict)):
        return "a state of the shop's machine, not of its data; a fault stands for it (contract 9.2)"
    return None


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return type(value).__name__
    return "number" if isinstance(value, int | float) else type(value).__name__


def shape_differences(theirs: Any, ours: Any, where: str = "") -> Iterator[str]:
    """Yields where two responses differ in keys or types of values; lists are compared item by item."""
    if _kind(theirs) != _kind(ours):
        yield f"{where or 'body'}: {_kind(theirs)} in the recording, {_kind(ours)} here"
    elif isinstance(theirs, dict):
        if where.rpartition(".")[2] in _FREE_MAPS:
            return
        for key in sorted(set(theirs) ^ set(ours)):
            yield f"{where}.{key}: only {'in the recording' if key in theirs else 'here'}"
        for key in theirs.keys() & ours.keys():
            yield from shape_differences(theirs[key], ours[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        for index, (recorded, current) in enumerate(zip(theirs, ours, strict=False)):
            yield from shape_differences(recorded, current, f"{where}[{index}]")


def _projected(value: Any, requested: Any) -> Any:
    """Returns the part of an answered value that the request wrote."""
    if isinstance(requested, dict) and isinstance(value, dict):
        return {key: _projected(value[key], requested[key]) for key in requested if key in value}
    if (
        isinstance(requested, list)
        and isinstance(value, list)
        and requested
        and isinstance(requested[0], dict)
    ):
        names = {name for item in requested for name in item}
        return [{name: item.get(name) for name in names} for item in value if isinstance(item, dict)]
    return value


def value_differences(requested: Any, theirs: Any, ours: Any) -> Iterator[str]:
    """Yields the fields of a request that came back with another value than in the recording."""
    if not isinstance(requested, dict) or not isinstance(theirs, dict) or not isinstance(ours, dict):
        return
    for name in requested.keys() & theirs.keys():
        recorded, current = (_projected(response.get(name), requested[name]) for response in (theirs, ours))
        if recorded != current:
            yield f"{name}: {recorded!r} in the recording, {current!r} here"


def _written_differences(exchange: Row, ours: Any) -> Iterator[str]:
    theirs, requested = exchange["response"].get("body"), exchange["request"].get("body")
    addressed = target(exchange["request"]["path"])
    if addressed is None or not addressed.is_batch or not isinstance(requested, dict):
        yield from value_differences(requested, theirs, ours)
        return
    for name in ("create", "update"):
        for index, item in enumerate(requested.get(name, []) if isinstance(theirs, dict) else []):
            recorded, current = theirs[name][index], ours[name][index]
            if "error" in recorded or "error" in current:
                codes = [response.get("error", {}).get("code") for response in (recorded, current)]
                if codes[0] != codes[1]:
                    yield f"{name}[{index}]: {codes[0]} in the recording, {codes[1]} here"
                continue
            # The shop replaces an unknown status by a known one: both must choose the same.
            for difference in value_differences(item, recorded, current):
                yield f"{name}[{index}].{difference}"


def _steer_numbers(shop: FakeShop, exchange: Row) -> None:
    """Gives objects that are created here the numbers of the recording."""
    new = [view for view in views(exchange) if view.is_new]
    if new:
        shop.set_next_id(NUMBERS[new[0].kind], min(view.id for view in new))


def _differences(exchange: Row, response: httpx.Response) -> list[str]:
    recorded = exchange["response"]
    if response.status_code != recorded["status"]:
        return [f"status {recorded['status']} recorded, {response.status_code} here: {response.text[:200]}"]
    differences = [
        f"header {name}: only {'in the recording' if name in recorded['headers'] else 'here'}"
        for name in ("x-wp-total", "x-wp-totalpages", "location", "allow")
        if (name in recorded["headers"]) != (name in response.headers) and name != "allow"
    ]
    if exchange["request"]["method"] == "HEAD":
        return differences + (["a body was sent"] if response.content else [])
    is_json = "json" in response.headers.get("content-type", "")
    if is_json != ("body" in recorded):
        return [*differences, f"{'JSON' if is_json else 'a page'} here, and not in the recording"]
    if not is_json:
        return differences
    theirs, ours = recorded["body"], response.json()
    if recorded["status"] >= 400 and theirs.get("code") != ours.get("code"):
        return [*differences, f"code {theirs.get('code')} in the recording, {ours.get('code')} here"]
    differences += shape_differences(theirs, ours)
    if recorded["status"] < 300:
        differences += _written_differences(exchange, ours)
    return differences


class _Replay:
    """Replays one exchange file against one new fake shop."""

    def __init__(self, recording: Recording, name: str) -> None:
        self.content = recording.files[name]
        self.platforms = application.create(1, self.content["store_url"], lambda: _NOW)
        # The recording's receiver answered 500 below /fail (data/woocommerce/README.md).
        self.platforms.set_webhook_transport(
            httpx.MockTransport(
                lambda sent: httpx.Response(500 if sent.url.path.startswith("/fail") else 200)
            )
        )
        shop = FakeShop(self.content["store_url"], lambda: _NOW)
        shop.keys = {f"ck_{name}": Key(f"cs_{name}", rights) for name, rights in _RIGHTS.items()}
        shop.orders_in_own_tables = self.content.get("order_storage") != "posts"
        recording.load(shop, name)
        self.shop = shop
        self.platforms.replace_shop(shop)

    def _request(self, exchange: Row) -> httpx.Request:
        recorded, auth = exchange["request"], exchange["auth"]
        host = self.content["store_url"].partition("://")[2]
        query = dict(recorded.get("query") or {})
        headers = dict(recorded.get("headers") or {})
        pair = {"bad_key": ("ck_unknown", "cs_x"), "bad_secret": ("ck_read_write", "cs_wrong")}.get(auth)
        if auth in _RIGHTS:
            pair = (f"ck_{auth}", f"cs_{auth}")
        if auth == "query":
            query |= {"consumer_key": "ck_read_write", "consumer_secret": "cs_read_write"}
        if pair is not None:
            basic = httpx.BasicAuth(*pair)
            headers |= next(basic.auth_flow(httpx.Request("GET", "http://x"))).headers
            headers.pop("host")
        body = (
            {"json": recorded["body"]} if "body" in recorded else {"content": recorded.get("body_text", "")}
        )
        url = f"{exchange['scheme']}://{host}{recorded['path']}"
        return httpx.Request(recorded["method"], url, params=query, headers=headers, **body)

    async def run(self) -> list[Row]:
        """Returns one row for each exchange: its id, why it was left out, and what differs."""
        rows: list[Row] = []
        async with httpx.AsyncClient(transport=self.platforms.transport()) as client:
            for exchange in self.content["exchanges"]:
                left_out = out_of_scope(exchange)
                differences = (
                    []
                    if left_out
                    else [f"shop: {difference}" for difference in await self._shop(client, exchange)]
                )
                differences += [f"connector: {difference}" for difference in await _viewed(exchange)]
                rows.append({"id": exchange["id"], "left_out": left_out, "differences": differences})
            await self.platforms.settle()
        return rows

    async def _shop(self, client: httpx.AsyncClient, exchange: Row) -> list[str]:
        try:
            catch_up(self.shop, exchange)
            _steer_numbers(self.shop, exchange)
            return _differences(exchange, await client.send(self._request(exchange)))
        except _ODD as error:
            return [f"could not be replayed: {type(error).__name__} {error}"[:300]]


async def _viewed(exchange: Row) -> list[str]:
    try:
        return await view_differences(exchange)
    except _ODD as error:
        return [f"could not be read: {type(error).__name__} {error}"[:300]]


def _deliveries(folder: Path) -> Iterator[Row]:
    """Yields recorded webhook deliveries with what the connector judges wrongly."""
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text("utf-8"))
        held = content.get("deliveries") if isinstance(content, dict) else None
        if not isinstance(held, list):
            continue
        signed = [row["request"]["headers"] for row in held if row["signed"]]
        named = [{name.lower(): value for name, value in headers.items()} for headers in signed]
        hooks = {headers["x-wc-webhook-id"]: headers["x-wc-webhook-topic"] for headers in named}
        for delivery in held:
            try:
                differences = list(delivery_differences(delivery, content["secret"], hooks))
            except _ODD as error:
                differences = [f"could not be read: {type(error).__name__} {error}"[:300]]
            row = {"id": f"delivery {delivery['seq']}", "left_out": None}
            yield {
                "file": path.name,
                **row,
                "differences": [f"connector: {difference}" for difference in differences],
            }


async def _replayed(folder: Path) -> list[Row]:
    recording = Recording(folder)
    rows: list[Row] = []
    for name in recording.files:
        rows += [{"file": name, **row} for row in await _Replay(recording, name).run()]
    return rows + list(_deliveries(folder))


def replay(folder: Path) -> list[Row]:
    """Replays every exchange and delivery of a folder and returns a row for each.

    A row holds file, id, why the fake shop was not asked, and the differences from the shop's and the
    connector's side. The shop's side compares status, error code, keys and types, and the values of
    written fields; the connector's side compares error, record and outcomes (connector_view.py).
    """
    return asyncio.run(_replayed(folder))


def main() -> None:
    """Prints a line for each file and difference: `python -m tests.fake_platforms.replay FOLDER`."""
    folder = Path(sys.argv[1])
    if not folder.is_dir():
        sys.exit(f"There is no folder {folder}.")
    rows = replay(folder)
    for name in dict.fromkeys(row["file"] for row in rows):
        file_rows = [row for row in rows if row["file"] == name]
        good = sum(not row["differences"] for row in file_rows)
        connector_only = sum(row["left_out"] is not None for row in file_rows)
        note = f", {connector_only} of them by the connector alone" if connector_only else ""
        print(f"{name}: {good} of {len(file_rows)}{note}")
    for reason in dict.fromkeys(row["left_out"] for row in rows if row["left_out"]):
        ids = [row["id"] for row in rows if row["left_out"] == reason]
        print(f"by the connector alone, {reason}: {', '.join(ids)}")
    for row in rows:
        for difference in row["differences"]:
            print(f"{row['file']} {row['id']}: {difference}")
    print(f"{sum(not row['differences'] for row in rows)} of {len(rows)} agree")


if __name__ == "__main__":
    main()
