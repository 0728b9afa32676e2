"""Rate limits per minute of a person, an organization and a web session."""

import asyncio

from steward.accounts import credentials, organizations
from tests.people import ApiResponse, Caller
from tests.service import Service

STATUS = "/v1/automations/status"


async def statuses(caller: Caller, times: int) -> list[int]:
    """Returns the statuses of this many calls."""
    return [(await caller.get(STATUS)).status for _ in range(times)]


def waits(response: ApiResponse) -> int:
    """Returns the seconds that a 429 asks the caller to wait."""
    assert (response.status, response.code) == (429, "rate_limited")
    return int(response.headers["retry-after"])


async def test_a_person_has_a_call_limit_for_each_clock_minute(service: Service) -> None:
    """Limits a person's calls in each minute of the clock; Retry-After counts to its end, at least 1.

    See docs/design/api/conventions.md#rate-limits.

    Interface statements: 7 limit.
    """
    service.restart(limit_person=3)
    service.clock.tick(20.5)
    member, approver = await service.token("member"), await service.token("approver")
    assert await statuses(member, 3) == [200] * 3
    assert waits(await member.get(STATUS)) == 40
    assert await statuses(approver, 3) == [200] * 3
    service.clock.tick(39.4)
    assert waits(await member.get(STATUS)) == 1
    service.clock.tick(0.1)
    assert await statuses(member, 4) == [200, 200, 200, 429]
    assert waits(await member.get(STATUS)) == 60


async def test_an_organization_has_a_call_limit_that_refused_calls_do_not_use(
    service: Service,
) -> None:
    """Limits an organization's calls; a call that one limit refuses uses up no other limit."""
    service.restart(limit_person=3, limit_organization=4)
    member, owner = await service.token("member"), await service.token("owner")
    assert await statuses(member, 3) == [200] * 3
    assert await statuses(member, 5) == [429] * 5
    assert await statuses(owner, 2) == [200, 429]
    assert await statuses(await service.token("stranger"), 3) == [200] * 3
    # Counting the owner's refused calls would have used up the owner's own three.
    assert await statuses(owner, 3) == [429] * 3
    service.restart(limit_organization=6)
    if service.context.engine.dialect == "postgresql":  # in memory a restart clears the counters
        assert await statuses(owner, 3) == [200, 200, 429]


async def test_calls_refused_before_the_limit_are_not_counted(probed: Service) -> None:
    """Counts a call once it is allowed, whatever it answers later; earlier 403, 404 and 405 count nothing."""
    probed.restart(limit_person=2)
    member = await probed.token("member")
    for path in ("/v1/automations/no/such", "/app/session"):
        assert (await member.get(path)).status in (403, 404)
    assert (await member.call("PUT", STATUS)).status == 405
    approving = "/v1/automations/probe/approve/01JD3Z0QH8N2Y5V7W9X1C4B6A8"
    assert (await member.post(approving)).status == 403
    assert (await member.post("/v1/automations/probe/echo", {"surplus": 1})).status == 422
    assert (await member.post("/v1/automations/probe/bug")).status == 500
    assert (await member.get(STATUS)).status == 429


async def test_a_limit_comes_before_the_body(probed: Service) -> None:
    """Refuses a call over the limit with 429 before it reads the body."""
    probed.restart(limit_person=1)
    member = await probed.token("member")
    await member.get(STATUS)
    response = await member.call(
        "POST", "/v1/automations/probe/echo", content=b"{", headers={"Content-Type": "text/plain"}
    )
    assert response.status == 429


async def test_a_revoked_token_is_refused_as_such_over_the_limit_too(service: Service) -> None:
    """Answers 403 or 401 to a revoked token even when its person is over the limit."""
    service.restart(limit_person=1)
    member = await service.token("member")
    assert await statuses(member, 2) == [200, 429]
    await service.write(lambda tx: organizations.switch(tx, service.own.organization.id, False))
    assert await statuses(member, 1) == [403]
    client_id = service.own.issued.credential.client_id
    await service.write(lambda tx: credentials.set_enabled(tx, client_id, False))
    assert await statuses(member, 1) == [401]


async def test_web_sessions_are_counted_apart_by_person(probed: Service) -> None:
    """Counts web calls by person, over sessions and over /v1 and /app together, apart from tokens.

    See docs/design/api/conventions.md#limits and docs/design/api/conventions.md#rate-limits.

    Interface statements: 8 web.
    """
    probed.restart(limit_web=3, limit_person=1, limit_organization=1)
    web, other = await probed.web("owner"), await probed.web("owner")
    token = await probed.token("owner")
    responses = [
        await web.get(STATUS),
        await other.post("/app/probe"),
        await web.get("/app/session"),
        await web.get(STATUS),
        await other.get("/app/session"),
    ]
    assert [response.status for response in responses] == [200, 200, 200, 429, 429]
    assert waits(responses[-1]) == 60
    assert await statuses(token, 2) == [200, 429]
    assert await statuses(await probed.web("member"), 1) == [200]


async def test_a_web_call_without_its_role_is_not_counted(probed: Service) -> None:
    """Counts no web call that lacks the role or the CSRF token."""
    probed.restart(limit_web=1)
    web = await probed.web("member")
    for _ in range(3):
        assert (await web.post("/app/probe")).status == 403
        assert (
            await web.call("POST", "/v1/automations/probe/echo", headers={"X-CSRF-Token": "x"})
        ).status == 403
    assert await statuses(web, 2) == [200, 429]


async def test_simultaneous_calls_are_counted_exactly(service: Service) -> None:
    """Allows exactly five of twelve simultaneous calls under a limit of five."""
    service.restart(limit_person=5)
    member = await service.token("member")
    responses = await asyncio.gather(*(member.get(STATUS) for _ in range(12)))
    assert sorted(response.status for response in responses) == [200] * 5 + [429] * 7


async def test_the_limits_of_the_interface_hold_by_default(service: Service) -> None:
    """Allows 600 calls a person, 3,000 an organization, 1,200 in the web app and 10 logins by default.

    See docs/design/api/conventions.md#limits.

    Interface statements: 8 person, organization.
    """
    rules = service.context.rules
    assert (rules.limit_person, rules.limit_organization, rules.limit_web, rules.limit_login) == (
        600,
        3000,
        1200,
        10,
    )
