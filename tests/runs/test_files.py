"""Tests files of a run's items: sealed, limited, separate from other runs and removed in time."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from steward import failpoint, periodic_tasks
from steward.database.engine.base import Tx
from steward.database.engine.migrate import sqlite_path
from steward.database.runs import file_folder
from steward.model.run import Mode, Run
from steward.runs import step_context
from steward.runs.storage import files
from steward.runs.tasks.retention import KEEP_FILES, KEEP_TEST_FILES
from steward.steps.base import FileRefused, RunFiles
from tests.runs.shop import Shop, neighbour

MIB = 1024 * 1024
MOMENT = timedelta(milliseconds=1)


async def storage(shop: Shop, run: Run) -> RunFiles:
    """Returns the file storage of a run."""
    return step_context.run_files((await shop.registered_worker()).ctx, run)


async def a_run(shop: Shop, mode: Mode = Mode.LIVE) -> Run:
    """Creates a run that waits to be claimed."""
    return await shop.run_now(await shop.alerting(), mode)


def folder_in(shop: Shop) -> Path | None:
    """Returns the folder of the files; None on PostgreSQL."""
    url = shop.environ["STEWARD_DATABASE_URL"]
    return file_folder.folder_of(sqlite_path(url)) if shop.engine.dialect == "sqlite" else None


def on_disk(shop: Shop) -> list[Path]:
    """Returns all files in the folder."""
    folder = folder_in(shop)
    return [] if folder is None else [path for path in folder.rglob("*") if path.is_file()]


async def rows(shop: Shop, table: str) -> list[Any]:
    """Returns all rows of a table that the organization can see."""
    return list(await shop.read(partial(_all, table=table)))


async def _all(tx: Tx, table: str) -> list[Any]:
    return await tx.all(f"SELECT * FROM {table}")


async def test_a_file_is_stored_once_and_read_again(shop: Shop) -> None:
    """Equal contents are stored once; an empty file is a file."""
    run_files = await storage(shop, await a_run(shop))
    first = await run_files.put(b"tea")
    assert await run_files.put(b"tea") == first
    empty = await run_files.put(b"")
    assert await run_files.get(first) == b"tea"
    assert await run_files.get(empty) == b""
    assert len(await rows(shop, "run_files")) == 2


async def test_a_file_lies_sealed_in_pieces_or_in_a_private_folder(shop: Shop) -> None:
    """No byte of the content is readable in the database or folder; a piece has at most 256 KiB."""
    content = b"Olga Ivanova, Tea Street 5;" * 20_000
    sha256 = await (await storage(shop, await a_run(shop))).put(content)
    parts = await rows(shop, "run_file_parts")
    if shop.engine.dialect == "sqlite":
        [path] = on_disk(shop)
        sealed = path.read_bytes()
        assert parts == []
        assert path.name == sha256
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0
    else:
        sealed = b"".join(part["sealed"] for part in parts)
        assert len(parts) == 3
        assert max(len(part["sealed"]) for part in parts) == 256 * 1024
    assert len(sealed) > len(content)
    assert b"Olga" not in sealed


async def test_a_file_has_at_most_twenty_mebibytes(shop: Shop) -> None:
    """A file of 20 MiB is stored and read; one byte more is refused and nothing is stored."""
    run_files = await storage(shop, await a_run(shop))
    largest = bytes(20 * MIB)
    assert await run_files.get(await run_files.put(largest)) == largest
    with pytest.raises(FileRefused, match="larger than 20 MiB"):
        await run_files.put(largest + b"\0")
    assert len(await rows(shop, "run_files")) == 1


async def test_the_files_of_a_run_have_at_most_a_hundred_mebibytes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run stores exactly 100 MiB and not a byte more; another run has its own limit."""
    assert files.RUN_BYTES == 100 * MIB
    monkeypatch.setattr(files, "RUN_BYTES", MIB)
    run = await a_run(shop)
    run_files = await storage(shop, run)
    half = MIB // 2
    await run_files.put(bytes(half))
    await run_files.put(b"a" * half)
    assert await run_files.put(bytes(half)), "equal content takes no more room"
    with pytest.raises(FileRefused, match="larger than 100 MiB together"):
        await run_files.put(b"b")
    other = await storage(shop, await a_run(shop, Mode.TEST))
    await other.put(b"b")


async def test_a_run_reads_its_own_files_alone(shop: Shop) -> None:
    """Neither another run nor another organization reads a file by its hash."""
    sha256 = await (await storage(shop, await a_run(shop))).put(b"tea")
    another_run = await storage(shop, await a_run(shop, Mode.TEST))
    beside = await neighbour(shop)
    stranger = await storage(beside, await a_run(beside))
    for run_files in (another_run, stranger):
        with pytest.raises(FileRefused, match="no longer stored"):
            await run_files.get(sha256)


@pytest.mark.parametrize(("mode", "kept_for"), [(Mode.LIVE, KEEP_FILES), (Mode.TEST, KEEP_TEST_FILES)])
async def test_files_go_after_the_run_s_end(shop: Shop, mode: Mode, kept_for: timedelta) -> None:
    """Files are removed 30 days after the end of a live run and a day after that of a test run."""
    run = await a_run(shop, mode)
    sha256 = await (await storage(shop, run)).put(b"tea" * 100_000)
    run = await shop.until_settled(run)
    assert run.finished_at is not None
    await shop.clock.advance((run.finished_at + kept_for - shop.clock.now()).total_seconds())
    await periodic_tasks.apply_retention(await shop.registered_worker())
    assert len(await (await storage(shop, run)).get(sha256)) == 300_000
    await shop.clock.advance(MOMENT.total_seconds())
    await periodic_tasks.apply_retention(await shop.registered_worker())
    with pytest.raises(FileRefused, match="no longer stored"):
        await (await storage(shop, run)).get(sha256)
    assert await rows(shop, "run_files") == await rows(shop, "run_file_parts") == on_disk(shop) == []


class SimulatedKill(BaseException):
    """Stands for the process being killed at this point."""


async def test_a_kill_between_file_and_row_leaves_an_orphan_that_goes(shop: Shop) -> None:
    """A file without a row is stored again by its run, or removed when it is an hour old."""
    if shop.engine.dialect != "sqlite":
        pytest.skip("file and row are one transaction on PostgreSQL")
    run = await a_run(shop)
    run_files = await storage(shop, run)

    def kill(point: str) -> None:
        if point == "after_file":
            raise SimulatedKill

    failpoint.watch(kill)
    try:
        for content in (b"tea", b"coffee"):
            with pytest.raises(SimulatedKill):
                await run_files.put(content)
    finally:
        failpoint.watch(None)
    assert await rows(shop, "run_files") == []
    assert len(on_disk(shop)) == 2
    assert await run_files.get(await run_files.put(b"tea")) == b"tea"
    await shop.clock.advance(file_folder.ORPHAN_AFTER.total_seconds() - 1)
    await periodic_tasks.apply_retention(await shop.registered_worker())
    assert len(on_disk(shop)) == 2
    await shop.clock.advance(1)
    await periodic_tasks.apply_retention(await shop.registered_worker())
    [stored] = await rows(shop, "run_files")
    assert [path.name for path in on_disk(shop)] == [stored["sha256"]]


async def test_a_file_missing_from_the_folder_is_reported(shop: Shop) -> None:
    """If a database was restored without its folder, the step fails with a plain message."""
    if shop.engine.dialect != "sqlite":
        pytest.skip("the content is in the database")
    run_files = await storage(shop, await a_run(shop))
    sha256 = await run_files.put(b"tea")
    on_disk(shop)[0].unlink()
    with pytest.raises(FileRefused, match="no longer stored"):
        await run_files.get(sha256)


async def test_runs_go_with_their_files(shop: Shop) -> None:
    """Retention removes a run with its files."""
    run = await a_run(shop)
    await (await storage(shop, run)).put(b"tea")
    run = await shop.until_settled(run)
    await shop.pass_time(days=500)
    await periodic_tasks.apply_retention(await shop.registered_worker())
    assert await rows(shop, "run_files") == []
