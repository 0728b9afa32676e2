"""Failed sign-ins: one audit entry for an account and ten minutes, without a name or an address."""

import asyncio
from functools import partial
from typing import Any

import pytest

from steward.accounts import failed_sign_ins, people, sessions
from steward.database.accounts import audit
from steward.database.accounts import failed_sign_ins as rows
from steward.database.engine.base import Tx
from steward.model.account import Role
from steward.model.audit import ChainedEntry
from steward.model.ids import OrgId
from steward.model.refusals import InvalidCredentials
from tests.people import PASSWORD
from tests.service import Service

SESSION, AUDIT = "/app/session", "/app/audit"
TEN_MINUTES = 600


async def sign_in_wrongly(
    service: Service, email: str, times: int = 1, *, source: str = "203.0.113.7"
) -> None:
    """Signs in this many times with a wrong password."""
    for _ in range(times):
        response = await service.nobody(source).post(SESSION, {"email": email, "password": "not this one"})
        assert response.code == "invalid_credentials"


async def record(service: Service) -> bool:
    """Runs the worker's task that records ended windows; returns whether more remain."""
    return await failed_sign_ins.record_ended(service.context.engine, service.clock.now())


async def failures(service: Service, org: OrgId) -> list[ChainedEntry]:
    """Returns the audit entries of refused sign-ins and logins."""
    engine, now = service.context.engine, service.clock.now()
    entries = await engine.read(now, partial(audit.after, org=org, seq=0, limit=1000), org=org)
    return [entry for entry in entries if entry.action in ("sign_in_failed", "login_failed")]


async def counted(service: Service) -> int:
    """Returns how many counted windows wait to be recorded."""

    async def act(tx: Tx) -> int:
        row = await tx.first("SELECT count(*) AS n FROM failed_sign_ins")
        return 0 if row is None else int(row["n"])

    return await service.write(act)


async def test_failures_of_ten_minutes_are_one_entry_in_every_organization(service: Service) -> None:
    """Writes one entry in each of the person's organizations, ten minutes after the first failure."""
    person = service.members["member"].person
    orgs = (service.own.organization.id, service.other.organization.id)
    await service.write(lambda tx: people.add_to_organization(tx, person, orgs[1], Role.MEMBER))
    began = service.clock.now()
    await sign_in_wrongly(service, "member@example.com", 3)
    await sign_in_wrongly(service, "MEMBER@example.com ")
    service.clock.tick(TEN_MINUTES - 1)
    await sign_in_wrongly(service, "member@example.com")
    assert await record(service) is False
    assert await failures(service, orgs[0]) == []
    service.clock.tick(1)
    await asyncio.gather(record(service), record(service))
    for org in orgs:
        [entry] = await failures(service, org)
        assert (entry.actor_kind, entry.actor, entry.action) == ("service", None, "sign_in_failed")
        assert (entry.object_kind, entry.object_id) == ("person", str(person.id))
        assert entry.detail == f'{{"times":5,"since":"{began:%Y-%m-%dT%H:%M:%S}.000Z"}}'
    await record(service)
    assert len(await failures(service, orgs[0])) == 1
    assert await counted(service) == 0


async def test_owners_see_failures_as_worth_a_look(service: Service) -> None:
    """Names the person in the sentence and marks the entry with the level `attention`."""
    owner = await service.web("owner")
    await owner.patch("/app/organization", {"timezone": "Europe/Paris"})
    await sign_in_wrongly(service, "approver@example.com", 2)
    service.clock.tick(TEN_MINUTES)
    await record(service)
    entries = (await owner.get(AUDIT)).data["entries"]
    approver = service.members["approver"].person
    name = f"{approver.first_name} {approver.last_name}"
    assert entries[0]["words"] == f"Steward refused sign-ins as {name} (2)"
    assert [entry["level"] for entry in entries[:2]] == ["attention", "info"]


async def test_a_refused_login_is_recorded_under_its_credential(service: Service) -> None:
    """Counts a refused login for its credential whichever value is wrong; unknown ids count nowhere."""
    client = service.own.issued.credential.client_id
    for changes in ({"client_secret": "wrong"}, {"username": "somebody"}, {"client_id": "st_unknown"}):
        assert (await service.log_in("member", **changes)).code == "invalid_credentials"
    assert await counted(service) == 2
    service.clock.tick(TEN_MINUTES)
    await record(service)
    [entry] = await failures(service, service.own.organization.id)
    assert (entry.action, entry.object_kind, entry.object_id) == ("login_failed", "credential", client)
    assert '"times":2' in entry.detail
    assert await failures(service, service.other.organization.id) == []
    assert await counted(service) == 0


async def test_a_flood_makes_one_entry_in_ten_minutes(service: Service) -> None:
    """Writes one entry with the total for an account, however many sources and unknown addresses try."""
    for minute in range(10):
        await sign_in_wrongly(service, "owner@example.com", 10, source=f"198.51.100.{minute}")
        await sign_in_wrongly(service, f"nobody{minute}@example.com", source=f"198.51.101.{minute}")
        service.clock.tick(60)
    assert await counted(service) == 11
    await record(service)
    [entry] = await failures(service, service.own.organization.id)
    assert '"times":100' in entry.detail


class _Recorded:
    """Wraps a transaction and records its statements."""

    def __init__(self, tx: Tx, statements: list[str]) -> None:
        self._tx = tx
        self._statements = statements

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._tx, name)
        if name not in ("first", "all", "execute"):
            return attribute

        def run(sql: Any, *args: Any) -> Any:
            self._statements.append(str(sql))
            return attribute(sql, *args)

        return run


class _Engine:
    """Wraps an engine whose transactions record their statements."""

    def __init__(self, service: Service) -> None:
        self._engine = service.context.engine
        self.statements: list[str] = []

    async def read(self, now: Any, act: Any, **options: Any) -> Any:
        """Runs one read and records its statements."""
        return await self._engine.read(now, lambda tx: act(_Recorded(tx, self.statements)), **options)

    async def write(self, now: Any, act: Any, **options: Any) -> Any:
        """Runs one write and records its statements."""
        return await self._engine.write(now, lambda tx: act(_Recorded(tx, self.statements)), **options)


async def test_an_unknown_address_runs_the_same_statements(service: Service) -> None:
    """Runs the same two statements for a known and an unknown address, so that timing reveals no account."""
    statements = []
    for email in ("owner@example.com", "nobody@example.com"):
        engine: Any = _Engine(service)
        with pytest.raises(InvalidCredentials):
            await sessions.verify(
                engine, service.clock.now(), service.context.hashing, email=email, password="not this one"
            )
        statements.append(engine.statements)
    known_statements, unknown = statements
    assert known_statements == unknown
    assert len(known_statements) == 2
    assert "INSERT INTO failed_sign_ins" in known_statements[1]


async def test_a_right_password_counts_no_failure(service: Service) -> None:
    """Counts nothing for a sign-in that succeeds."""
    body = {"email": "owner@example.com", "password": PASSWORD}
    assert (await service.nobody().post(SESSION, body)).status == 200
    assert await counted(service) == 0


async def test_more_than_a_batch_is_taken_in_turns(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records at most one batch in a pass, and returns True while a full batch suggests more."""
    for name in ("owner", "approver", "member"):
        await sign_in_wrongly(service, f"{name}@example.com")
    service.clock.tick(rows.WINDOW_MS / 1000)
    monkeypatch.setattr(failed_sign_ins, "_RECORDED", 2)
    assert await record(service) is True
    assert await record(service) is False
    assert len(await failures(service, service.own.organization.id)) == 3
