"""The data of all fake platforms, and how it is seeded."""

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

import httpx

from steward.fake_platforms import catalogue, files
from steward.fake_platforms.deliveries import WebhookSender
from steward.fake_platforms.faults import FaultList
from steward.fake_platforms.google import FakeGoogle
from steward.fake_platforms.ledger import Ledger
from steward.fake_platforms.mail import FakeMailbox
from steward.fake_platforms.microsoft import FakeTeams
from steward.fake_platforms.object_store import ObjectStore
from steward.fake_platforms.received import FakeReceiver, FakeSlack
from steward.fake_platforms.seed import BUCKET, REGION, WORKFLOW, Keys, dice
from steward.fake_platforms.slow import Slowness
from steward.fake_platforms.woocommerce.shop import FakeShop, Key


@lru_cache(maxsize=4)
def _contents(url: str, seed: int, start: datetime) -> tuple[files.Cells, bytes]:
    """Returns the cells of the price sheet and the supplier's file, which fit the seeded shop."""
    shop = FakeShop(url, lambda: start)
    catalogue.fill(shop, seed, start)
    return files.price_cells(shop, seed), files.stock_file(shop, seed)


class PlatformState:
    """The services, filled from the seed; dates count back from `start`."""

    def __init__(
        self,
        seed: int,
        url: str,
        *,
        now: Callable[[], datetime],
        start: datetime,
        deliver: httpx.AsyncBaseTransport | None,
        slow: Slowness,
    ) -> None:
        self.slow = slow
        self.seed, self.url, self.now, self.start = seed, url.rstrip("/"), now, start
        self.keys = Keys(seed, self.url)
        self.ledger = Ledger()
        self.faults = FaultList()
        self.shop = FakeShop(self.url, now)
        self.shop.keys = {
            self.keys.consumer_key: Key(self.keys.consumer_secret, "read_write"),
            self.keys.read_only_key: Key(self.keys.read_only_secret, "read"),
        }
        catalogue.fill(self.shop, seed, start)
        price_cells, stock_file = _contents(self.url, seed, start)
        self.google = FakeGoogle(self.url, self.keys, now, files.books(price_cells, self.keys))
        self.teams = FakeTeams({WORKFLOW: self.keys.teams_signature}, now)
        self.slack = FakeSlack(self.keys.slack_path, now)
        self.receiver = FakeReceiver(now)
        self.mailbox = FakeMailbox(now)
        pair = (self.keys.access_key_id, self.keys.secret_access_key)
        self.store = ObjectStore(pair, REGION, now)
        self.store.put(BUCKET, "stock.csv", stock_file, modified_at=start)
        self.deliveries = WebhookSender(self.shop, deliver)
        self.events_made = 0
        self.event_dice = dice(seed, "events")
