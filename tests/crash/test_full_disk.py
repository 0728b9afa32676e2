"""Tests a disk that fills up: writes are refused, reads go on, nothing is lost, and all recovers.

See docs/design/storage.md#disk-reserve.
"""

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from steward import periodic_tasks, worker
from steward.database.engine.base import Tx
from steward.database.engine.disk_space import RESERVE_BYTES, DiskFull
from steward.database.engine.migrate import sqlite_path
from steward.model.account import ROLE_SCOPES, Actor, CreatedVia, Role
from steward.model.run import RunStatus
from steward.runs import step_context
from tests.fake_clock import FakeClock
from tests.runs.shop import Shop, connect_all, open_shop
from tests.service import Service, settle
from tests.small_disk import fill, mounted

DISK = 64 * 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Provides a file system of 64 MiB; only root can create one."""
    with mounted(tmp_path / "disk", DISK) as path:
        yield path


async def note_much(tx: Tx) -> None:
    """Inserts a row of one mebibyte."""
    await tx.execute(
        "INSERT INTO deferred_rows (task, key, failures, not_before, message, last_failed_at)"
        " VALUES ('test', :key, 1, 0, :message, 0)",
        {"key": os.urandom(8).hex(), "message": "x" * (1 << 20)},
    )


@dataclass
class SmallDisk:
    """The service on the small disk, and the means to fill it."""

    shop: Shop
    api: Service
    disk: Path

    @property
    def reserve(self) -> Path:
        """Returns the path of the reserve file."""
        return self.disk / "steward.db.reserve"

    def fill(self) -> None:
        """Uses up every free byte."""
        fill(self.disk)

    def make_room(self) -> None:
        """Frees the bytes used up."""
        (self.disk / "ballast").unlink()

    async def write_until_refused(self) -> None:
        """Inserts large rows until one is refused, so that the write-ahead log has no free pages left."""

        engine, space = self.shop.service.context.engine, self.shop.service.worker_context.space
        assert space is not None
        for _ in range(64):
            with contextlib.suppress(DiskFull):
                await engine.write(self.shop.clock.now(), note_much)
        assert space.is_full


@pytest.fixture
async def filled(sqlite_url: str, disk: Path, clock: FakeClock) -> AsyncIterator[SmallDisk]:
    """Provides the service with everything connected; the disk is not full yet."""
    shutil.copyfile(sqlite_path(sqlite_url), disk / "steward.db")
    opened = await open_shop(f"sqlite:///{disk}/steward.db", clock, disk, serve=True)
    api = Service(opened.service.context, clock, lines=[], wake_hints=[])
    await api.write(lambda tx: settle(tx, api))
    owner = api.members["owner"]
    actor = Actor(owner.org, owner.person.id, ROLE_SCOPES[Role.OWNER], CreatedVia.UI, role=Role.OWNER)
    shop = Shop(opened.service, clock, opened.world, actor, opened.environ)
    await connect_all(shop)
    yield SmallDisk(shop, api, disk)
    await api.close()
    await shop.service.close()


async def test_a_full_disk_stops_writes_and_no_read_and_all_continues_by_itself(filled: SmallDisk) -> None:
    """A full disk gives up the reserve, answers writes with 503 and Retry-After, and is checked every 5 s.

    See docs/design/storage.md#disk-reserve.
    """
    shop = filled.shop
    caller = await filled.api.token("owner")
    hired = await shop.registered_worker()
    run = await shop.waiting(await shop.pricing())
    await shop.approve(run)
    queued = await shop.run_now(await shop.hiding())
    assert filled.reserve.stat().st_size == RESERVE_BYTES
    assert (await caller.get("/v1/automations/status")).data["scheduler"] == "ok"

    filled.fill()
    await periodic_tasks.watch_space(hired)
    assert hired.ctx.metrics.value("steward_disk_free_ratio") == 0
    assert (await caller.get("/v1/automations/status")).data["scheduler"] == "delayed"
    await filled.write_until_refused()
    assert not filled.reserve.exists()
    filled.fill()  # what the reserve gave up is taken by somebody else
    path = f"/v1/automations/{queued.automation_id}"
    renamed = {"version": 1, "name": "Another"}
    refused = await caller.patch(path, renamed)
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "unavailable", "5")
    assert (await caller.get(path)).data["automation"]["version"] == 1
    await worker.claim_runs(hired)
    await periodic_tasks.dispatch_due(hired)
    await periodic_tasks.watch_space(hired)
    assert (await shop.run(queued)).status is RunStatus.QUEUED
    assert (await shop.run(run)).status is RunStatus.RUNNING
    assert shop.writes() == []
    assert hired.ctx.metrics.value("steward_disk_full") == 1

    filled.make_room()
    await periodic_tasks.watch_space(hired)
    assert filled.reserve.stat().st_size == RESERVE_BYTES
    assert (await shop.until_settled(run)).status is RunStatus.SUCCEEDED
    assert (await shop.until_settled(queued)).status is RunStatus.WAITING_APPROVAL
    assert len(shop.writes()) == len(shop.applied()) > 0
    assert (await caller.patch(path, renamed)).data["automation"]["name"] == "Another"


async def test_the_worker_finishes_in_the_room_of_the_reserve_and_the_api_waits(filled: SmallDisk) -> None:
    """Runs in progress store their end in the reserve; nothing else is written.

    See docs/design/storage.md#disk-reserve.
    """
    shop = filled.shop
    service = shop.service
    filled.fill()
    await filled.write_until_refused()

    await service.worker_context.engine.write(shop.clock.now(), note_much)
    with pytest.raises(DiskFull):
        await service.context.engine.write(shop.clock.now(), note_much)


async def test_a_write_that_finds_no_room_is_done_again_in_the_reserve(filled: SmallDisk) -> None:
    """The write of an active run that first meets the full disk is repeated in the reserve.

    See docs/design/storage.md#disk-reserve.
    """
    shop = filled.shop
    space = shop.service.worker_context.space
    assert space is not None
    filled.fill()
    done = 0

    while not space.is_full:
        await shop.service.worker_context.engine.write(shop.clock.now(), note_much)
        done += 1
    row = await shop.read(count)
    assert row == done > 0


async def count(tx: Tx) -> int:
    """Returns the number of rows that the test inserted."""
    row = await tx.first("SELECT count(*) AS n FROM deferred_rows WHERE task = 'test'")
    assert row is not None
    return int(row["n"])


async def test_a_file_that_finds_no_room_waits_for_it(filled: SmallDisk) -> None:
    """A step that stores a file waits until there is space, then stores it."""
    ctx = filled.shop.service.worker_context
    run = await filled.shop.run_now(await filled.shop.alerting())
    files = step_context.run_files(ctx, run)
    content = os.urandom(1 << 20)
    filled.fill()
    with pytest.raises(DiskFull):
        await files.put(content)
    assert not ctx.accepts_work
    filled.make_room()
    assert await files.get(await files.put(content)) == content
