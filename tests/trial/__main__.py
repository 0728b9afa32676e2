"""`make try-woocommerce`: the connector against a real shop, which is left as it was found."""

import asyncio
import os
import signal
import sys

import httpx

from steward.connectors.base.deliveries import DesiredSubscriptions
from steward.outbound.errors import CallError
from steward.telemetry.redact import Secret
from tests.trial.receiver import Receiver
from tests.trial.rows import SECRET, Table, changes, reads, webhooks
from tests.trial.shop import Shop, TrialObjects, counts, open_shop
from tests.trial.signing import is_private, way_in

_TROUBLE = (CallError, RuntimeError, httpx.HTTPError, LookupError, ValueError)


async def trial(url: str, key: str, secret: str, authorities: str | None) -> bool:
    """Tries everything, puts everything back also when interrupted; whether all held and nothing is left."""
    words, transport = await way_in(url, key, secret)
    shop = await open_shop(url, key, secret, transport=transport, authorities=authorities)
    table = Table()
    print(f"Trying {shop.secrets.plain['url']} ({words})", flush=True)
    health = await shop.connector.check(shop.upkeep(), shop.secrets)
    if not health.ok:
        sys.exit(f"The check failed: {health.error.message if health.error else 'no reason was given'}")
    table.add(
        "check", True, f"{health.name}, {health.zone}, {health.currency}, rights {', '.join(health.rights)}"
    )
    if health.missing_rights:
        sys.exit("This key cannot write. Give one with the right to read and write.")
    before = await counts(shop)
    things, receiver = TrialObjects(shop), None
    print(f"What is made for the trial is named {things.mark}", flush=True)
    trying = asyncio.current_task()
    assert trying is not None
    stops = [0]
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stop, trying, stops)
    try:
        if is_private(url):
            receiver = Receiver()
            await receiver.start()
        try:
            await things.make()
        except _TROUBLE as error:
            table.add("things to try on", False, str(error)[:300])
        else:
            await reads(shop, things, table)
            await changes(shop, things, table)
            await webhooks(shop, things, table, receiver)
    except asyncio.CancelledError:
        table.add("the trial", None, "interrupted")
        trying.uncancel()
    finally:
        stops[0] = 1
        remaining = await _put_back(shop, things, before)
        if receiver is not None:
            await receiver.stop()
        await shop.raw.aclose()
        await shop.outbound.aclose()
    for line in remaining:
        print(f"LEFT IN THE SHOP: {line}")
    good = sum(held is True for _, held, _ in table.rows)
    print(
        f"{good} of {len(table.rows)} held; "
        + ("not all could be put back" if remaining else "the shop is as it was found")
    )
    return not remaining and all(held is not False for _, held, _ in table.rows) and good > 1


def _stop(trying: "asyncio.Task[object]", stops: list[int]) -> None:
    """The first interruption ends the trial; while the shop is put back further ones are only answered."""
    if stops[0]:
        print("Still putting the shop back. Wait a moment.", flush=True)
        return
    stops[0] = 1
    trying.cancel()


async def _put_back(shop: Shop, things: TrialObjects, before: dict[str, int]) -> list[str]:
    """Removes webhooks and things by their mark; what could not be, or is not as before, in words."""
    print("Putting the shop back", flush=True)
    remaining: list[str] = []
    try:
        await _remove_webhooks(shop, things)
    except _TROUBLE as error:
        remaining.append(f"webhooks to {things.webhook_address}: {error}")
    remaining += await things.remove()
    try:
        after = await counts(shop)
    except _TROUBLE as error:
        return [*remaining, f"how much there is could not be read: {error}"]
    return remaining + [
        f"{name}: {after[name]} where there were {count}"
        for name, count in before.items()
        if after[name] != count
    ]


async def _remove_webhooks(shop: Shop, things: TrialObjects) -> None:
    if things.webhook_address:
        events = shop.connector.events
        assert events is not None
        await events.subscribe(
            shop.upkeep(),
            shop.secrets,
            DesiredSubscriptions(things.webhook_address, (), Secret(SECRET.decode())),
        )


def main() -> None:
    """Arguments by the environment, so that keys stand in no list of processes: URL, KEY, SECRET, CA."""
    missing = [name for name in ("URL", "KEY", "SECRET") if not os.environ.get(name)]
    if missing:
        sys.exit("Give the shop: make try-woocommerce URL=https://shop.example KEY=ck_… SECRET=cs_…")
    url = os.environ["URL"].rstrip("/")
    key, secret = os.environ["KEY"], os.environ["SECRET"]
    sys.exit(0 if asyncio.run(trial(url, key, secret, os.environ.get("CA") or None)) else 1)


if __name__ == "__main__":
    main()
