"""Tests that revoked rights end with the next call, no matter who revokes them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from steward.accounts import credentials, organizations, people
from steward.database.engine.base import Engine
from steward.database.engine.postgres import PostgresEngine
from steward.model.ids import OrgId
from tests.fake_clock import FakeClock
from tests.people import Caller
from tests.service import Service

STATUS = "/v1/automations/status"
TIMES = 25
Write = Callable[[Any], Awaitable[Any]]


@pytest.fixture
async def elsewhere(
    service: Service, database_url: str, clock: FakeClock
) -> AsyncIterator[Callable[[Any], Awaitable[Any]]]:
    """Provides a write as another process makes it: on PostgreSQL with its own engine."""
    engine: Engine = service.context.engine
    opened = None
    if engine.dialect == "postgresql":
        engine = opened = await PostgresEngine.open(database_url, size=1, clock=clock, test=True)

    async def write(act: Any) -> Any:
        return await engine.write(clock.now(), act)

    yield write
    if opened is not None:
        await opened.close()


async def status(caller: Caller, path: str = STATUS) -> int:
    """Returns the status of the next call."""
    return (await caller.get(path)).status


async def test_a_rotated_or_disabled_credential_ends_its_tokens_at_once(
    service: Service, elsewhere: Write
) -> None:
    """Rotating or disabling a credential ends its tokens; a new token works at once.

    See docs/design/api/sign-in.md#tokens.
    """
    service.restart(limit_person=10_000, limit_organization=10_000)
    ring, client = service.context.keys, service.own.issued.credential.client_id
    for round_ in range(TIMES):
        token = await service.token("member")
        assert await status(token) == 200
        if round_ % 2:
            service.own.issued = await elsewhere(lambda tx: credentials.rotate(tx, ring, client))
        else:
            await elsewhere(lambda tx: credentials.set_enabled(tx, client, False))
        assert await status(token) == 401
        if not round_ % 2:
            enabled = await elsewhere(lambda tx: credentials.set_enabled(tx, client, True))
            service.own.issued = replace(service.own.issued, credential=enabled)
            assert await status(token) == 401


async def test_a_deactivated_person_is_refused_at_once_and_let_in_again(
    service: Service, elsewhere: Write
) -> None:
    """A deactivated person's tokens and sessions are refused; after reactivation only tokens work."""
    service.restart(limit_person=10_000, limit_organization=10_000, limit_login=10_000)
    person = service.members["member"].person
    for _ in range(TIMES):
        token, web = await service.token("member"), await service.web("member")
        assert (await status(token), await status(web)) == (200, 200)
        await elsewhere(lambda tx: people.set_active(tx, person, False))
        assert (await status(token), await status(web)) == (401, 401)
        assert (await service.log_in("member")).status == 401
        await elsewhere(lambda tx: people.set_active(tx, person, True))
        assert (await status(token), await status(web)) == (200, 401)


async def test_a_membership_ended_by_an_owner_is_refused_at_once(service: Service) -> None:
    """Refuses a member's tokens and sessions after the membership ends; tokens work once it is restored."""
    service.restart(limit_login=10_000, limit_web=10_000)
    owner, person = await service.web("owner"), service.members["member"].person
    for _ in range(5):
        token, web = await service.token("member"), await service.web("member")
        assert (await status(token), await status(web)) == (200, 200)
        assert (await owner.post(f"/app/people/{person.id}/deactivate")).status == 200
        assert await status(token) == 401
        assert await status(web) in (401, 403)
        assert (await owner.post(f"/app/people/{person.id}/activate")).status == 200
        assert await status(token) == 200


async def test_switched_off_is_refused_at_once_and_on_lets_in(service: Service, elsewhere: Write) -> None:
    """Switching an organization off refuses its tokens and sessions and nobody else's.

    See docs/design/api/conventions.md#codes and docs/design/api/conventions.md#order-of-refusals.
    """
    service.restart(limit_person=10_000, limit_organization=10_000, limit_web=10_000)
    org = OrgId(service.members["member"].org)
    token, web = await service.token("member"), await service.web("member")
    stranger = await service.token("stranger")
    for _ in range(TIMES):
        assert (await status(token), await status(web)) == (200, 200)
        await elsewhere(lambda tx: organizations.switch(tx, org, False))
        assert (await status(token), await status(web), await status(stranger)) == (403, 403, 200)
        assert await status(web, "/app/session") == 200
        await elsewhere(lambda tx: organizations.switch(tx, org, True))


async def test_a_revocation_holds_in_every_process(
    service: Service, database_url: str, clock: FakeClock
) -> None:
    """Of two API processes over one PostgreSQL, each reads revocations on every call.

    See docs/design/api/sign-in.md#tokens.
    """
    if service.context.engine.dialect == "sqlite":
        pytest.skip("SQLite has one process (engine 2)")
    engine = await PostgresEngine.open(database_url, size=2, clock=clock, test=True)
    second = Service(
        replace(service.context, engine=engine), clock, lines=service.lines, wake_hints=service.wake_hints
    )
    second.members, second.own, second.other = service.members, service.own, service.other
    token, web = await service.token("member"), await service.web("member")
    there = second.nobody()
    there.headers |= token.headers
    there_web = second.nobody()
    there_web.client.cookies.update(web.client.cookies)
    assert [await status(caller) for caller in (token, there, web, there_web)] == [200] * 4
    web.csrf, there_web.csrf = None, web.csrf
    assert (await there_web.delete("/app/session")).status == 200
    assert await status(web) == 401
    client = service.own.issued.credential.client_id
    await second.write(lambda tx: credentials.set_enabled(tx, client, False))
    assert [await status(each_caller) for each_caller in (token, there)] == [401] * 2
    await engine.close()
