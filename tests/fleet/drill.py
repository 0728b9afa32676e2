"""`make drill`: a database is destroyed under load, and the operators' script restores it to a random second.

`python -m tests.fleet.drill --times 3 [--plain] [--mib 1000]`. The script is deploy/patroni/restore-drill.sh.
The backup is taken under load by Debian's pgBackRest, with `--plain` by pg_basebackup and an archive command.
"""

import argparse
import asyncio
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg

from steward.model.instants import wire_time
from tests.fleet.clients import Clients, sign_in, stored_acts, working
from tests.fleet.history import Act, History, Outcome
from tests.postgres_server import Server, find_programs, make_place, pid_of, run_program, start
from tests.processes import postgres
from tests.processes.approved_run import assert_written_once, hiding, slow_writes
from tests.processes.forked import environ
from tests.processes.running import CLOCK, Site, eventually, open_site

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/patroni/restore-drill.sh"
PGBACKREST = ROOT / ".cache/fleet/usr/bin/pgbackrest"
ARCHIVE_TIMEOUT = 5  # seconds; 60 in the sample, which would make each drill minutes longer
BEFORE_THE_RUN = 12.0
AFTER_THE_APPROVAL = 15.0
DELAY_MS = 1_500  # of each write, so that the moment is mostly before or within the run's writes
BEFORE_THE_APPROVAL = 8
SETTLED_WITHIN = 600.0  # writes that may have been sent are looked up first, some after a while


class Backup(ABC):
    """How a server is backed up: its archive, a backup, and what the script is told to restore from."""

    def __init__(self) -> None:
        self.folder = make_place(os.getpid(), "", on_disk=True)  # the backup host's disk
        self.archive = self.folder / "archive"
        self._as_owner("mkdir", self.archive)

    def _as_owner(self, *command: str | Path) -> None:
        run_program(list(command), folder=self.folder)

    @property
    @abstractmethod
    def archive_command(self) -> str:
        """What the server calls for each file of its log."""

    @abstractmethod
    def take(self, server: Server) -> None:
        """Backs the running server up."""

    @abstractmethod
    def archived_at(self) -> datetime:
        """When the newest file of the log came into the archive."""

    @abstractmethod
    def options(self) -> Mapping[str, str]:
        """The script's options."""

    @property
    def variables(self) -> Mapping[str, str]:
        """The script's further variables."""
        return {}


class BaseBackup(Backup):
    """pg_basebackup and a command that copies each file of the log."""

    @property
    def archive_command(self) -> str:
        folder = self.archive
        return f"test ! -f {folder}/%f && cp %p {folder}/new && mv {folder}/new {folder}/%f"

    def take(self, server: Server) -> None:
        programs = find_programs()
        assert programs is not None
        self._as_owner(
            programs / "pg_basebackup", "-D", self.folder / "base", "-d", server.url("postgres"),
            "-X", "none", "-c", "fast", "--no-sync",
        )  # fmt: skip

    def archived_at(self) -> datetime:
        files = [file for file in self.archive.iterdir() if len(file.name) == 24]
        return datetime.fromtimestamp(max(file.stat().st_mtime for file in files), UTC)

    def options(self) -> Mapping[str, str]:
        return {"--base": str(self.folder / "base"), "--archive": str(self.archive)}


class PgBackRest(Backup):
    """Debian's pgBackRest with an encrypted repository, as deploy/patroni/pgbackrest.conf has it."""

    _CONFIG = "pgbackrest.conf"

    @property
    def archive_command(self) -> str:
        return f"{PGBACKREST} --config={self.folder / self._CONFIG} --stanza=steward archive-push %p"

    def configure(self, server: Server) -> None:
        """Writes the settings and makes the stanza."""
        settings = {
            "global": {
                "repo1-path": self.archive,
                "repo1-cipher-type": "aes-256-cbc",
                "repo1-cipher-pass": secrets.token_hex(24),
                "compress-type": "zst",
                "start-fast": "y",
                "log-level-file": "off",
                "lock-path": self.folder / "lock",
                "spool-path": self.folder / "spool",
            },
            "steward": {
                "pg1-path": Path(server.folder) / "cluster",
                "pg1-port": server.port,
                "pg1-user": postgres.USER,
                "pg1-socket-path": self.folder,
            },
        }
        lines = [
            line
            for section, values in settings.items()
            for line in (f"[{section}]", *(f"{name}={value}" for name, value in values.items()))
        ]
        (self.folder / self._CONFIG).write_text("\n".join(lines) + "\n", "utf-8")
        self._pgbackrest(server, "stanza-create")

    def _pgbackrest(self, server: Server, *words: str) -> None:
        command: list[str | Path] = [
            PGBACKREST,
            f"--config={self.folder / self._CONFIG}",
            "--stanza=steward",
            *words,
        ]
        self._as_owner("env", f"PGPASSWORD={server.password}", *command)

    def take(self, server: Server) -> None:
        self._pgbackrest(server, "backup", "--type=full")

    def archived_at(self) -> datetime:
        files = [file for file in self.archive.glob("archive/steward/*/*/*") if ".partial" not in file.name]
        return datetime.fromtimestamp(max(file.stat().st_mtime for file in files), UTC)

    def options(self) -> Mapping[str, str]:
        return {}

    @property
    def variables(self) -> Mapping[str, str]:
        return {
            "PGBACKREST_CONFIG": str(self.folder / self._CONFIG),
            "PATH": f"{PGBACKREST.parent}:{os.environ['PATH']}",
        }


@dataclass
class Drill:
    """One drill: what was told before, the moment, and what is there after."""

    site: Site
    server: Server
    backup: Backup
    clients: Clients
    random: random.Random

    def expected(self, moment: float) -> History:
        """The history as the copy of a moment must bear it out, in seconds of the monotonic clock.

        What was answered by then is there, what began afterwards is not, and the rest may be.
        """

        def outcome_of(act: Act) -> Outcome:
            if act.began > moment or act.outcome is Outcome.REFUSED:
                return Outcome.REFUSED
            has_response = act.outcome is Outcome.ACKNOWLEDGED and act.ended <= moment
            return Outcome.ACKNOWLEDGED if has_response else Outcome.UNKNOWN

        acts = self.clients.history.acts
        return History([Act(act.key, outcome_of(act), act.began, act.ended) for act in acts])

    async def destroy(self) -> None:
        """Kills the service and the server at once and removes the server's disk."""
        await self.site.service.kill()
        postgres.kill(self.server)
        shutil.rmtree(Path(self.server.folder) / "cluster")

    async def restore(self, moment: datetime) -> tuple[list[str], dict[str, float]]:
        """Runs the operators' script, starts what it made in the server's place, and serves it again."""
        began = CLOCK.monotonic()
        into = Path(self.server.folder) / "restored"
        options = {
            "--into": str(into),
            "--at": wire_time(moment),
            "--user": await asyncio.to_thread(into.parent.owner),
            "--role": postgres.USER,
            "--database": "postgres",
            "--steward": f"{sys.executable} -m steward",
            **self.backup.options(),
        }
        script = await asyncio.create_subprocess_exec(
            *("sh", str(SCRIPT), "--keep", *(word for option in options.items() for word in option)),
            env={**environ(self.site.env), **self.backup.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        out, _ = await script.communicate()
        lines = out.decode().splitlines()
        assert script.returncode == 0, "\n".join(lines)
        by_script = CLOCK.monotonic() - began
        (into / "data").rename(Path(self.server.folder) / "cluster")
        await postgres.start_again(self.server)
        await self.site.serve_again()
        await sign_in(self.site)
        served = CLOCK.monotonic() - began
        return lines, {"script_seconds": round(by_script, 1), "served_after_seconds": round(served, 1)}

    def plain_copy(self) -> float:
        """Seconds that a plain copy of the restored folder takes."""
        began, target = CLOCK.monotonic(), Path(self.server.folder) / "copied"
        shutil.copytree(Path(self.server.folder) / "cluster", target)
        seconds = CLOCK.monotonic() - began
        shutil.rmtree(target)
        return seconds


async def _fill(url: str, mib: int) -> None:
    """Makes the database larger by a table of the bed."""
    connection: Any = await asyncpg.connect(url)
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS bed_ballast AS SELECT i, repeat(md5(i::text), 30) AS filler"
        f" FROM generate_series(1, {mib * 1024}) AS i"
    )
    await connection.close()


async def drill(backup: Backup, folder: Path, *, mib: int, seed: int) -> dict[str, Any]:
    """Carries out one drill; its figures, and what was wrong under `violations`."""
    options = (
        f" -c archive_mode=on -c archive_timeout={ARCHIVE_TIMEOUT}"
        f" -c archive_command='{backup.archive_command}' -c unix_socket_directories={backup.folder}"
    )
    server = start(starter=os.getpid(), options=f"{postgres.OPTIONS}{options}", on_disk=True)
    try:
        return await _drill(backup, server, folder, mib=mib, seed=seed)
    finally:
        if pid_of(Path(server.folder) / "cluster"):
            postgres.remove(server)
        shutil.rmtree(server.folder, ignore_errors=True)
        shutil.rmtree(backup.folder, ignore_errors=True)


async def _drill(backup: Backup, server: Server, folder: Path, *, mib: int, seed: int) -> dict[str, Any]:
    chance = random.Random(seed)
    if isinstance(backup, PgBackRest):
        backup.configure(server)
    url = server.url("postgres")
    async with open_site(url, folder, STEWARD_LEASE_SECONDS="5") as site:
        if mib:
            await _fill(url, mib)
        this = Drill(site, server, backup, Clients(site, History()), chance)
        async with working(this.clients):
            await asyncio.to_thread(backup.take, server)
            backed_up = CLOCK.now()
            await CLOCK.sleep(BEFORE_THE_RUN * chance.random())
            await slow_writes(site, DELAY_MS)
            run, approved, before = await hiding(site)
            approved_at = CLOCK.now()
            await CLOCK.sleep(AFTER_THE_APPROVAL)
            await this.destroy()
        destroyed = CLOCK.monotonic()
        # The last file may have been on its way for a moment.
        latest = backup.archived_at().timestamp() - 2
        earliest = max(backed_up.timestamp() + 1, approved_at.timestamp() - BEFORE_THE_APPROVAL)
        moment = datetime.fromtimestamp(chance.randint(int(earliest), int(latest)), UTC)
        written = len([entry for entry in await site.ledger(before) if entry["applied"]])
        lines, figures = await this.restore(moment)
        away = CLOCK.monotonic() - destroyed
        offset = CLOCK.now().timestamp() - CLOCK.monotonic()
        wrong = this.expected(moment.timestamp() - offset).violations(await stored_acts(url))
        wrong += this.clients.faulty
        was_approved = moment >= approved_at
        await site.world.delete("/sandbox/faults")  # the shop answers at once again
        try:
            if was_approved:
                await eventually(partial(_has_ended, site, run), within=SETTLED_WITHIN)
                await assert_written_once(site, run, approved, before)
            else:
                await _assert_nothing_sent(site, before, written)
        except AssertionError as error:
            wrong.append(f"run {run}: {error}")
        return {
            "by": type(backup).__name__,
            "moment": wire_time(moment),
            "acts": {str(outcome): this.clients.history.count(outcome) for outcome in Outcome},
            "acts_by_the_moment": this.expected(moment.timestamp() - offset).count(Outcome.ACKNOWLEDGED),
            "run_was_approved": was_approved,
            "written_before_the_loss": written,
            **figures,
            "away_seconds": round(away, 1),
            "plain_copy_seconds": round(this.plain_copy(), 1),
            "script": lines[-1],
            "violations": wrong,
        }


async def _has_ended(site: Site, run: str) -> bool:
    return (await site.run(run))["status"] not in ("queued", "running")


async def _assert_nothing_sent(site: Site, before: int, written: int) -> None:
    """A run whose approval came after the moment waits for one again and sends nothing meanwhile."""
    await CLOCK.sleep(ARCHIVE_TIMEOUT)
    now = len([entry for entry in await site.ledger(before) if entry["applied"]])
    assert now == written, f"{now - written} writes were sent that nobody approved since the restore"


async def main(words: Sequence[str]) -> int:
    """Drills, and prints their figures; 1 when something was wrong."""
    parser = argparse.ArgumentParser(prog="make drill")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--plain", action="store_true", help="pg_basebackup in place of pgBackRest")
    parser.add_argument("--mib", type=int, default=0, help="how much larger the database is made")
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args(words)
    seed = secrets.randbelow(1 << 30) if args.seed is None else args.seed
    is_wrong = False
    for number in range(args.times):
        with tempfile.TemporaryDirectory(prefix="steward-drill-") as name:
            backup = BaseBackup() if args.plain else PgBackRest()
            figures = await drill(backup, Path(name), mib=args.mib, seed=seed + number)
            print(json.dumps({"drill": number + 1, "seed": seed + number, **figures}, indent=1), flush=True)
            is_wrong = is_wrong or bool(figures["violations"])
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
