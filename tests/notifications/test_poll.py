"""The one statement that finds which tasks of notifications have due rows."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from steward import periodic_tasks
from steward.database.engine.base import Act, Autocommit, Engine, Tx
from steward.database.notifications import due_tasks, messages
from steward.model.ids import RouteId
from steward.model.notice import ChannelName, MessageKind
from steward.notifications import close, fan_out, poll
from tests.fake_clock import FakeClock
from tests.notifications.mailing_shop import NotifiedShop, open_office
from tests.notifications.notified_people import failed, rows_of, tell
from tests.outbound.mail_server import MailScript

T = TypeVar("T")


@pytest.fixture
async def office(database_url: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[NotifiedShop]:
    """Yields an office whose mail server accepts everything."""
    async with open_office(database_url, clock, tmp_path, MailScript()) as opened:
        yield opened


async def woken(office: NotifiedShop) -> list[str]:
    """Returns the hints that one pass gives."""
    hints: list[str] = []
    assert not await poll.wake_due(replace(office.ctx, wake=hints.append))
    return hints


async def test_each_task_is_woken_when_it_has_due_rows(office: NotifiedShop) -> None:
    """Wakes fan-out, closing and delivery in turn as a notice becomes a mail, and nothing else."""
    assert await woken(office) == []
    await tell(office.shop, failed(1))
    assert await woken(office) == ["notice"]
    await fan_out.fan_out_due(office.ctx)
    assert await woken(office) == ["message"]
    await close.close_due(office.ctx)
    assert await woken(office) == ["deliver_email"]
    await office.turn()
    assert await office.states() == ["sent"]
    assert await woken(office) == []


async def test_a_message_is_due_at_its_instant(office: NotifiedShop) -> None:
    """Wakes nothing a millisecond before a message is due, and its task at that instant."""
    await tell(office.shop, failed(1))
    await office.turn()
    await tell(office.shop, failed(2))
    await fan_out.fan_out_due(office.ctx)
    [open_message] = [row for row in await rows_of(office.shop, "messages") if row["state"] == "collecting"]
    wait_ms = open_message["due_at"] - int(office.shop.clock.now().timestamp() * 1000)
    assert wait_ms > 0
    await office.shop.clock.advance((wait_ms - 1) / 1000)
    assert await woken(office) == []
    await office.shop.clock.advance(0.001)
    assert await woken(office) == ["message"]


async def test_deferred_rows_wake_nobody(office: NotifiedShop) -> None:
    """Wakes nothing for deferred rows until their time has come."""
    await tell(office.shop, failed(1))
    [notice] = await rows_of(office.shop, "notices")
    later = office.shop.clock.now() + timedelta(minutes=1)
    await office.shop.tamper("UPDATE notices SET not_before = :later", later=later)
    assert await woken(office) == []
    await office.shop.tamper("UPDATE notices SET not_before = :then", then=notice["not_before"])
    await fan_out.fan_out_due(office.ctx)
    [message] = await rows_of(office.shop, "messages")
    put_off = (
        "INSERT INTO deferred_rows (task, key, failures, not_before, message, last_failed_at)"
        " VALUES (:task, :key, 1, :later, 'x', 0)"
    )
    await office.shop.tamper(put_off, task="close_messages", key=message["id"], later=later)
    assert await woken(office) == []
    await office.shop.tamper("DELETE FROM deferred_rows")
    await close.close_due(office.ctx)
    await office.shop.tamper(put_off, task="send", key=message["id"], later=later)
    assert await woken(office) == []
    await office.shop.clock.advance(60)
    assert await woken(office) == ["deliver_email"]


async def test_channels_are_distinguished(office: NotifiedShop) -> None:
    """Wakes the delivery of a message's own channel, and only of channels that are configured."""

    async def add(tx: Tx, *, channel: ChannelName) -> None:
        receiver = messages.Receiver(channel, MessageKind.TEST, route=RouteId("r1"))
        await messages.add_closed(tx, office.shop.owner.org, receiver, count=1, envelope={})

    await office.shop.write(partial(add, channel=ChannelName.SLACK))
    await office.shop.write(partial(add, channel=ChannelName.WEBHOOK))
    assert sorted(await woken(office)) == ["deliver_slack", "deliver_webhook"]
    read = partial(due_tasks.hints, channels=[ChannelName.TEAMS, ChannelName.SLACK])
    assert await office.shop.read(read) == ["deliver_slack"]


class StatementCounter:
    """An engine that counts transactions and the statements within them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.reads = self.writes = self.statements = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def read(self, now: datetime, act: Act[T], **options: Any) -> T:
        """As the engine does, counting."""
        self.reads += 1
        counted = partial(self._counted, act)
        return await self._engine.read(
            now, Autocommit(counted) if isinstance(act, Autocommit) else counted, **options
        )

    async def write(self, now: datetime, act: Act[T], **options: Any) -> T:
        """As the engine does, counting."""
        self.writes += 1
        return await self._engine.write(now, partial(self._counted, act), **options)

    async def _counted(self, act: Act[T], tx: Tx) -> T:
        return await act(_CountedStatements(tx, self))


class _CountedStatements:
    """A transaction that counts its statements."""

    def __init__(self, tx: Tx, engine: StatementCounter) -> None:
        self._tx = tx
        self._counting = engine

    def __getattr__(self, name: str) -> Any:
        if name in ("first", "all", "execute", "many"):
            self._counting.statements += 1
        return getattr(self._tx, name)


async def test_a_second_without_due_rows_costs_one_statement(office: NotifiedShop) -> None:
    """Reads one statement in a second without due rows, writes nothing and wakes no other task."""
    engine = StatementCounter(office.ctx.engine)
    hints: list[str] = []
    ctx = replace(office.ctx, engine=engine, wake=hints.append)
    hired = await office.shop.registered_worker()
    others = {task.name for task in periodic_tasks.of_worker(replace(hired, notifications=None))}
    tasks = periodic_tasks.of_worker(replace(hired, notifications=ctx))
    own_tasks = [task for task in tasks if task.name not in others]
    every_second = [task for task in own_tasks if task.every <= timedelta(seconds=1)]
    assert len(own_tasks) > len(every_second)
    for task in every_second:
        assert not await task.run()
    assert (engine.reads, engine.writes, engine.statements) == (1, 0, 1)
    assert hints == []


async def test_notification_tasks_run_without_hints_every_30_seconds(office: NotifiedShop) -> None:
    """Runs fan-out, closing and each channel's delivery by a hint, and every 30 s otherwise."""
    tasks = periodic_tasks.of_worker(await office.shop.registered_worker())
    names = {"fan_out", "close_messages", *(f"deliver_{channel}" for channel in office.ctx.channels)}
    intervals = {task.name: task.every for task in tasks}
    hints = {task.name: task.hint for task in tasks if task.name in names}
    assert intervals["poll_notifications"] == timedelta(seconds=1)
    assert {intervals[name] for name in names} == {timedelta(seconds=30)}
    assert sorted(str(hint) for hint in hints.values()) == sorted(
        ["notice", "message", *(f"deliver_{channel}" for channel in office.ctx.channels)]
    )
