"""A shop whose people have a mail server that answers as a test decides."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from steward.model.account import Person
from steward.model.notice import ChannelName
from steward.notifications import close, deliver, fan_out
from steward.notifications.context import NotificationContext
from tests.fake_clock import FakeClock
from tests.notifications.notified_people import join, rows_of
from tests.outbound.mail_server import MailScript, mail_server
from tests.runs.shop import HOST, Shop, connect_all, open_shop


@dataclass
class NotifiedShop:
    """A shop, its scripted mail server and one owner, Ada."""

    shop: Shop
    script: MailScript
    ada: Person

    @property
    def ctx(self) -> NotificationContext:
        """Returns the context of the periodic tasks."""
        return self.shop.service.notifications

    async def turn(self) -> None:
        """Runs every task of notifications once."""
        await fan_out.fan_out_due(self.ctx)
        await close.close_due(self.ctx)
        while await deliver.deliver_due(self.ctx, ChannelName.EMAIL):
            pass

    async def later(self, **time_passed: float) -> None:
        """Advances the clock by this much and runs every task once."""
        await self.shop.clock.advance(timedelta(**time_passed).total_seconds())
        await self.turn()

    async def states(self) -> list[str]:
        """Returns the states of the messages, oldest first."""
        rows = await rows_of(self.shop, "messages")
        return [row["state"] for row in sorted(rows, key=lambda row: (row["created_at"], row["id"]))]


@asynccontextmanager
async def open_office(
    url: str, clock: FakeClock, folder: Path, script: MailScript, **settings: str
) -> AsyncIterator[NotifiedShop]:
    """Opens an office whose mails go to `script`."""
    async with mail_server(script) as port:
        shop = await open_shop(
            url,
            clock,
            folder,
            STEWARD_SMTP_URL=f"smtp://127.0.0.1:{port}",
            STEWARD_MAIL_FROM="Steward <steward@tea.example>",
            STEWARD_ALLOW_PRIVATE_HOSTS=f"{HOST},127.0.0.1:{port}",
            **settings,
        )
        try:
            await connect_all(shop)
            yield NotifiedShop(shop, script, await join(shop, "ada"))
        finally:
            await shop.service.close()
