"""backup and restore of the SQLite database, and the rotation of master keys."""

import asyncio
import base64
import io
import json
import os
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from steward.cli.run import run
from steward.clock import SystemClock
from steward.database.accounts import connections
from steward.database.engine import backup as copies
from steward.database.engine.base import Tx
from steward.database.engine.migrate import migrations, sqlite_path
from steward.database.engine.sqlite import take_lock
from steward.database.notifications import messages
from steward.failpoint import watch
from steward.model.change import Outcome
from steward.model.ids import MessageId
from steward.model.run import Run, RunStatus
from steward.notifications import account_mail, close, fan_out
from steward.notifications.account_mail import AccountMail
from tests.fake_clock import FakeClock
from tests.notifications.mailing_shop import open_office
from tests.notifications.notified_people import failed, join, rows_of, tell
from tests.outbound.mail_server import MailScript
from tests.runs.shop import Shop, connect_all, open_shop


def steward(environ: Mapping[str, str], *words: str) -> tuple[int, dict[str, Any]]:
    """Runs a command with --json; returns its exit code and output."""
    out, err = io.StringIO(), io.StringIO()
    status = run([*words, "--json"], environ, out=out, err=err)
    return status, json.loads(out.getvalue())


async def report_of(shop: Shop, *words: str, **more: str) -> dict[str, Any]:
    """Runs a command beside the service that must succeed; returns its output."""
    status, facts = await asyncio.to_thread(steward, {**shop.environ, **more}, *words)
    assert status == 0, facts
    return facts


async def refused(shop: Shop, *words: str, **more: str) -> tuple[int, str]:
    """Runs a command that must fail; returns its exit code and error code."""
    status, facts = await asyncio.to_thread(steward, {**shop.environ, **more}, *words)
    return status, facts["error"]["code"]


@pytest.fixture
async def shop(sqlite_url: str, tmp_path: Path) -> AsyncIterator[Shop]:
    """Yields a service over a file whose clock agrees with the command line's."""
    folder = tmp_path / "data"
    opened = await open_shop(sqlite_url, FakeClock(SystemClock().now()), folder)
    await connect_all(opened)
    yield opened
    await opened.service.close()


def test_a_copy_that_fails_without_the_disk_says_why(sqlite_url: str, tmp_path: Path) -> None:
    """Gives no advice about room where a copy was put in the database's place by hand."""
    environ = {"STEWARD_ENV": "test", "STEWARD_DATABASE_URL": sqlite_url, "STEWARD_DATA_DIR": str(tmp_path)}
    with closing(sqlite3.connect(sqlite_path(sqlite_url))) as database:
        database.execute("CREATE TABLE backup (singleton INTEGER)")
    status, facts = steward(environ, "backup", "--to", str(tmp_path / "copy.db"))
    assert (status, facts["error"]["code"]) == (1, "unavailable")
    assert facts["error"]["message"] == "The copy cannot be made: table backup already exists."
    assert not list(tmp_path.glob("copy.db*"))


async def approved(shop: Shop) -> Run:
    """Returns a run that will write prices, approved and not yet continued."""
    prices = await shop.waiting(await shop.pricing())
    await shop.approve(prices)
    return prices


async def test_after_a_restore_nothing_is_written_twice(shop: Shop, tmp_path: Path) -> None:
    """Looks up what was written since the backup before sending anything, and writes nothing twice."""
    prices = await approved(shop)
    copy = tmp_path / "copy.db"
    report = await report_of(shop, "backup", "--to", str(copy))
    assert report["bytes"] == copy.stat().st_size
    assert copy.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "copy.db.sha256").read_text() == f"{report['sha256']}  copy.db\n"
    assert report["schema_version"] == max(migration.version for migration in migrations("sqlite"))
    await shop.drain()
    assert (await shop.run(prices)).status is RunStatus.SUCCEEDED
    written = len(shop.writes())
    assert written > 0
    await shop.service.close()

    again = await report_of(shop, "restore", "--from", str(copy), "--force")
    assert (again["taken_at"], again["runs_to_check"]) == (report["taken_at"], 1)
    assert again["data_dir"] == shop.environ["STEWARD_DATA_DIR"]
    await shop.restart()
    assert (await shop.run(prices)).status is RunStatus.RUNNING
    ended = await shop.until_settled(prices)
    assert len(shop.writes()) == written
    assert ended.status is RunStatus.SUCCEEDED
    assert {change.outcome for change in await shop.changes(ended)} <= {Outcome.APPLIED, Outcome.UNCHANGED}


async def test_after_a_restore_a_message_nobody_can_look_up_is_not_sent_again(
    shop: Shop, sqlite_url: str, tmp_path: Path
) -> None:
    """Leaves a message unknown that was sent after the backup and cannot be looked up."""
    copy = tmp_path / "copy.db"

    def take(point: str) -> None:
        if point == "before_intent" and not copy.exists():
            copies.create(sqlite_path(sqlite_url), copy, shop.clock.now())

    watch(take)
    try:
        alert = await shop.run_and_drain(await shop.alerting())
    finally:
        watch(None)
    assert alert.status is RunStatus.SUCCEEDED
    assert len(shop.writes()) == 1
    await shop.service.close()
    assert (await report_of(shop, "restore", "--from", str(copy), "--force"))["runs_to_check"] == 1
    await shop.restart()
    sent = await shop.until_settled(alert)
    assert len(shop.writes()) == 1
    assert (sent.status, sent.code) == (RunStatus.FAILED, "outcome_unknown")
    assert {change.outcome for change in await shop.changes(sent)} == {Outcome.UNKNOWN}


async def test_messages_sent_since_the_copy_are_not_sent_again(sqlite_url: str, tmp_path: Path) -> None:
    """Mails none of the notices again after a restore of an older backup; the inboxes show all of them."""
    clock, copy = FakeClock(SystemClock().now()), tmp_path / "copy.db"
    async with open_office(sqlite_url, clock, tmp_path / "data", MailScript()) as office:
        shop = office.shop
        owners = len(await rows_of(shop, "members"))
        for number in range(100 - owners):
            await join(shop, f"owner{number}")
        await tell(shop, failed(1))
        await fan_out.fan_out_due(office.ctx)
        await close.close_due(office.ctx)
        assert Counter(await office.states()) == {"due": 100}
        await tell(shop, failed(2))
        await report_of(shop, "backup", "--to", str(copy))
        await office.turn()
        await office.later(hours=1)
        assert Counter(await office.states()) == {"sent": 200}
        assert len(office.script.received) == 200
        await shop.service.close()

        await report_of(shop, "restore", "--from", str(copy), "--force")
        await shop.restart()
        await office.turn()
        await office.later(hours=2)
        assert len(office.script.received) == 200
        assert Counter(await office.states()) == {"obsolete": 100}
        assert [row["count"] for row in await rows_of(shop, "inbox")] == [2] * 100


async def test_an_unwritten_change_is_written_once_after_a_restore(shop: Shop, tmp_path: Path) -> None:
    """Looks up what was not written yet, does not find it and writes it once."""
    prices = await approved(shop)
    copy = tmp_path / "copy.db"
    await report_of(shop, "backup", "--to", str(copy))
    await shop.service.close()
    await report_of(shop, "restore", "--from", str(copy), "--force")
    await shop.restart()
    assert (await shop.until_settled(prices)).status is RunStatus.SUCCEEDED
    assert {change.outcome for change in await shop.changes(prices)} == {Outcome.APPLIED}


async def test_a_copy_is_not_put_over_anything_nor_anything_else_restored(
    shop: Shop, sqlite_url: str, tmp_path: Path
) -> None:
    """Refuses to overwrite, to restore beside a running service, and to restore a damaged or foreign file."""
    copy, file = tmp_path / "copy.db", sqlite_path(sqlite_url)
    await report_of(shop, "backup", "--to", str(copy))
    assert await refused(shop, "backup", "--to", str(copy)) == (1, "exists")
    with closing(take_lock(file)):
        assert await refused(shop, "restore", "--from", str(copy)) == (1, "already_served")
        assert await refused(shop, "migrate") == (1, "already_served")
    await shop.service.close()
    assert await refused(shop, "restore", "--from", str(copy)) == (1, "not_empty")
    assert await refused(shop, "restore", "--from", str(tmp_path / "none.db")) == (1, "not_found")
    other = base64.b64encode(os.urandom(32)).decode()
    wrong = {"STEWARD_MASTER_KEYS": f"other:{other}"}
    status = await refused(shop, "restore", "--from", str(copy), "--force", **wrong)
    assert status == (1, "wrong_master_keys")
    torn = bytearray(copy.read_bytes())
    torn[len(torn) // 2] ^= 0xFF
    (tmp_path / "torn.db").write_bytes(torn)
    (tmp_path / "torn.db.sha256").write_text((tmp_path / "copy.db.sha256").read_text())
    assert await refused(shop, "restore", "--from", str(tmp_path / "torn.db"), "--force") == (1, "damaged")
    (tmp_path / "text.db").write_text("not a database")
    assert await refused(shop, "restore", "--from", str(tmp_path / "text.db"), "--force") == (1, "damaged")
    before = file.read_bytes()
    assert sorted(path.name for path in file.parent.glob("steward.db.*")) == ["steward.db.lock"]
    await report_of(shop, "restore", "--from", str(copy), "--force")
    [aside] = file.parent.glob("steward.db.before-*")
    assert aside.read_bytes() == before
    elsewhere = {
        "STEWARD_DATABASE_URL": f"sqlite:///{tmp_path}/fresh/steward.db",
        "STEWARD_DATA_DIR": str(tmp_path / "fresh"),
    }
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "master.keys").write_bytes((tmp_path / "data" / "master.keys").read_bytes())
    assert (await report_of(shop, "restore", "--from", str(copy), **elsewhere))["runs_to_check"] == 0


async def _waiting_mail(tx: Tx, shop: Shop) -> AccountMail:
    """Returns the one waiting account mail, opened under the newest data key."""
    [row] = await tx.all("SELECT id, sealed_key FROM messages WHERE kind = 'transactional'")
    keys = await connections.data_keys(tx, shop.owner.org)
    assert row["sealed_key"] == keys[-1].key_no > 1
    [stored] = await messages.lock_many(tx, shop.owner.org, [MessageId(row["id"])])
    return await account_mail.opened(tx, shop.service.worker_context.vault, cast("Any", stored))


async def test_master_and_data_keys_are_replaced_while_the_service_runs(shop: Shop) -> None:
    """Rotates master and data keys beside the service; the old master key is not needed afterwards."""
    [held] = (Path(shop.environ["STEWARD_DATA_DIR"]) / "master.keys").read_text().split()
    fresh = (await report_of(shop, "keys", "new"))["key"]
    mail = AccountMail(
        "guest@example.com", "Olga invites you", ("Come in.",), "https://shop.example/#token=x"
    )
    vault, org, person = shop.service.worker_context.vault, shop.owner.org, shop.owner.person
    await shop.write(partial(account_mail.send, vault=vault, org=org, person=person, mail=mail))
    both = {"STEWARD_MASTER_KEYS": f"{fresh},{held}"}
    assert await refused(shop, "keys", "rotate", "encryption", STEWARD_MASTER_KEYS=fresh) == (
        1,
        "wrong_master_keys",
    )
    done = await report_of(shop, "keys", "rotate", "encryption", **both)
    assert done == {"wrapped": 4, "reencrypted": 0, "kek_id": fresh.partition(":")[0]}
    assert (await report_of(shop, "keys", "rotate", "encryption", **both))["wrapped"] == 0
    output = io.StringIO()
    words = ["keys", "rotate", "encryption"]
    assert await asyncio.to_thread(run, words, {**shop.environ, **both}, out=output, err=io.StringIO()) == 0
    assert output.getvalue().startswith(f"Nothing to wrap: every data key is under {done['kek_id']} already")
    alone = {"STEWARD_MASTER_KEYS": fresh}
    done = await report_of(shop, "keys", "rotate", "encryption", "--data", **alone)
    assert (done["wrapped"], done["reencrypted"] > 2) == (0, True)
    log = Path(shop.environ["STEWARD_DATA_DIR"]) / "log.csv"
    await report_of(shop, "audit", "export", "--org", "1", "--to", str(log), "--format", "csv", **alone)
    assert log.read_text("utf-8").count("encryption_rotated") == 2
    assert (await report_of(shop, "keys", "rotate", "encryption", "--data", **alone))["reencrypted"] == done[
        "reencrypted"
    ]
    await shop.service.close()
    shop.environ = {**shop.environ, **alone}
    await shop.restart()
    assert await shop.write(partial(_waiting_mail, shop=shop)) == mail
    assert (await shop.run_and_drain(await shop.hiding())).status is RunStatus.WAITING_APPROVAL
