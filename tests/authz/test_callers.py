"""Calls every route as every kind of caller, those that must be refused and those that must not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from steward.accounts import credentials, organizations, people
from steward.accounts.credentials import IssuedCredential
from steward.api.http.operation import Access, Operation
from steward.api.operations import OPERATIONS, RAW_OPERATIONS
from steward.database.engine.base import Tx
from steward.model.account import ROLE_SCOPES, TOKEN_SCOPES, Role
from steward.model.ids import OrgId
from steward.model.refusals import ValidationFailed
from tests.authz.rows import at
from tests.authz.two_organizations import TwoOrganizations
from tests.people import Caller
from tests.service import Service

Expected = tuple[int, str] | None
NO_TOKEN = (401, "unauthenticated")
FORBIDDEN = (403, "forbidden")
NO_CSRF = (403, "csrf_failed")
CHANGING = ("POST", "PATCH", "DELETE")
NEEDS_ORGANIZATION = (Access.API, Access.APP)
RANKS = (Role.MEMBER, Role.APPROVER, Role.OWNER)


async def refusals(
    two: TwoOrganizations, caller: Caller, expected: Callable[[Operation], Expected]
) -> list[str]:
    """Returns the routes that answer otherwise than expected; None expects not to be refused.

    The body is broken, so that nothing is changed and a refusal is one of steps 1 to 6.
    """
    wrong = []
    for row in OPERATIONS:
        content = b"{" if row.method in CHANGING else None
        headers = {"Content-Type": "application/json"}
        response = await caller.call(row.method, at(row, two.ours), content=content, headers=headers)
        actual = (response.status, response.code)
        expected_value = expected(row)
        if (
            actual != expected_value
            if expected_value
            else (response.status in (401, 403, 429) or response.status >= 500)
        ):
            wrong.append(f"{row.method} {row.path}: {actual}, not {expected_value}")
    return wrong


def by_role(role: Role) -> Callable[[Operation], Expected]:
    """Returns what a session of this role is answered."""

    def expected(row: Operation) -> Expected:
        lacks_scope = row.scope is not None and row.scope not in ROLE_SCOPES[role]
        lacks_role = row.role is not None and RANKS.index(role) < RANKS.index(row.role)
        return FORBIDDEN if lacks_scope or lacks_role else None

    return expected


async def issued(two: TwoOrganizations) -> tuple[IssuedCredential, Caller]:
    """Issues a new credential of ours and returns it with a token."""
    service = two.service
    ring, org = service.context.keys, service.members["owner"].org
    issued_credential: IssuedCredential = await service.write(
        lambda tx: credentials.issue(tx, ring, org, "one more")
    )
    service.own.issued = issued_credential
    return issued_credential, await service.token("owner")


async def test_an_organization_has_a_bounded_number_of_credentials(service: Service) -> None:
    """Lists every credential up to the limit, disabled or not; of two issued at once one is refused."""
    org, clock = service.own.organization.id, service.clock

    async def copy(tx: Tx) -> None:
        columns = "secret_hmac, pepper, epoch, label, created_at"
        for number in range(credentials.MAX_CREDENTIALS - 2):
            args = {"org": org, "client": f"client {number}", "enabled": number % 2 == 0}
            await tx.execute("INSERT INTO dir_clients (client_id, org_id) VALUES (:client, :org)", args)
            await tx.execute(
                f"INSERT INTO credentials (org_id, client_id, enabled, {columns})"
                f" SELECT org_id, :client, :enabled, {columns} FROM credentials WHERE org_id = :org LIMIT 1",
                args,
            )

    await service.context.engine.write(clock.now(), copy, org=org)
    ring = service.context.keys
    # Opens two connections on PostgreSQL, so that neither credential waits for one.
    await asyncio.gather(*[service.write(lambda tx: tx.first("SELECT 1 AS one")) for _ in range(2)])
    issuing = [service.write(lambda tx: credentials.issue(tx, ring, org, "last")) for _ in range(2)]
    results = await asyncio.gather(*issuing, return_exceptions=True)
    [last] = [result for result in results if isinstance(result, IssuedCredential)]
    [refusal] = [result for result in results if isinstance(result, ValidationFailed)]
    assert "200 credentials already" in str(refusal)
    listed = (await (await service.web("owner")).get("/app/credentials")).data["credentials"]
    assert len(listed) == credentials.MAX_CREDENTIALS
    assert last.credential.client_id in [credential["client_id"] for credential in listed]


async def garbage(two: TwoOrganizations) -> Caller:
    """Returns a caller whose token is random text."""
    caller = two.service.nobody()
    caller.headers["Authorization"] = "Bearer " + "a" * 40
    return caller


async def expired(two: TwoOrganizations) -> Caller:
    """Returns a caller whose token is an hour old."""
    caller = await two.service.token("owner")
    two.service.clock.tick(3600)
    return caller


async def rotated(two: TwoOrganizations) -> Caller:
    """Returns a caller whose credential has a new secret since."""
    credential, caller = await issued(two)
    ring, client = two.service.context.keys, credential.credential.client_id
    await two.service.write(lambda tx: credentials.rotate(tx, ring, client))
    return caller


async def disabled(two: TwoOrganizations) -> Caller:
    """Returns a caller whose credential was disabled."""
    credential, caller = await issued(two)
    await two.service.write(lambda tx: credentials.set_enabled(tx, credential.credential.client_id, False))
    return caller


async def disabled_and_enabled(two: TwoOrganizations) -> Caller:
    """Returns a caller with a token from before its credential was disabled and enabled again."""
    credential, caller = await issued(two)
    for enabled in (False, True):
        await two.service.write(
            lambda tx, to=enabled: credentials.set_enabled(tx, credential.credential.client_id, to)
        )
    return caller


async def of_a_closed_account(two: TwoOrganizations) -> Caller:
    """Returns a caller whose account was deactivated."""
    caller = await two.service.token("approver")
    await deactivate(two.service, "approver")
    return caller


async def of_nobody_here(two: TwoOrganizations) -> Caller:
    """Returns a caller whose membership has ended."""
    caller = await two.service.token("member")
    await end_membership(two.service, "member")
    return caller


async def of_a_stranger(two: TwoOrganizations) -> Caller:
    """Returns a caller with our credential for a person of the other organization."""
    service = two.service
    service.members["ghost"] = service.members["owner"]
    stranger = service.members["stranger"]
    ghost = service.members["owner"]
    service.members["ghost"] = type(ghost)(stranger.person, ghost.org, ghost.organization_name, ghost.role)
    return await service.token("ghost")


async def with_a_session_too(two: TwoOrganizations) -> Caller:
    """Returns a caller with a valid token and a valid session cookie."""
    caller = await two.service.web("owner")
    caller.headers |= (await two.service.token("owner")).headers
    return caller


async def deactivate(service: Service, name: str) -> None:
    """Deactivates an account as the operator does."""
    person = service.members[name].person
    await service.write(lambda tx: people.set_active(tx, person, False))


async def end_membership(service: Service, name: str) -> None:
    """Ends a membership as an owner does."""
    web = await service.web("owner")
    api_response = await web.post(f"/app/people/{service.members[name].person.id}/deactivate")
    assert api_response.status == 200, api_response.body


BAD_TOKENS: list[Callable[[TwoOrganizations], Awaitable[Caller]]] = [
    garbage,
    expired,
    rotated,
    disabled,
    disabled_and_enabled,
    of_a_stranger,
    with_a_session_too,
    of_nobody_here,
    of_a_closed_account,
]


async def test_no_token_that_is_not_good_is_let_in_anywhere(two: TwoOrganizations) -> None:
    """Answers 401 to bad tokens on every route, those of the web app included."""
    for make in BAD_TOKENS:
        caller = await make(two)
        assert await refusals(two, caller, lambda row: NO_TOKEN) == [], make.__name__
        issued_anew = await issued(two)
        assert (await issued_anew[1].get("/v1/automations/status")).status == 200, make.__name__


async def test_without_token_and_session_only_the_open_routes_respond(two: TwoOrganizations) -> None:
    """Answers 401 on every route that is not public and does not have an optional session."""
    public = (Access.PUBLIC, Access.OPTIONAL_SESSION)
    expected: Callable[[Operation], Expected] = lambda row: None if row.access in public else NO_TOKEN  # noqa: E731
    assert await refusals(two, two.service.nobody(), expected) == []


async def test_a_token_reaches_its_scopes_under_v1_automations_and_nothing_else(
    two: TwoOrganizations,
) -> None:
    """Answers 403 to a token on every route outside its scopes, such as approvals and the web app.

    See docs/design/api/conventions.md#order-of-refusals and docs/design/api/conventions.md#scope.
    """
    expected: Callable[[Operation], Expected] = (  # noqa: E731
        lambda row: None if row.scope in TOKEN_SCOPES else FORBIDDEN
    )
    assert await refusals(two, await two.service.token("owner"), expected) == []


@pytest.mark.parametrize("role", RANKS)
async def test_a_session_reaches_what_its_role_allows(two: TwoOrganizations, role: Role) -> None:
    """Answers 403 where the role lacks the scope or rank, and refuses no other route."""
    name = {Role.MEMBER: "member", Role.APPROVER: "approver", Role.OWNER: "owner"}[role]
    assert await refusals(two, await two.service.web(name), by_role(role)) == []


async def test_a_session_without_its_csrf_token_changes_nothing(two: TwoOrganizations) -> None:
    """Refuses changes with a missing, wrong or foreign CSRF token, and changes from another site."""

    def expected(row: Operation) -> Expected:
        return NO_CSRF if row.method in CHANGING and row.access is not Access.PUBLIC else None

    def from_elsewhere(row: Operation) -> Expected:
        return NO_CSRF if row.method in CHANGING else None

    other = await two.service.web("owner")
    for sent in (None, "", "0" * 64, other.csrf):
        caller = await two.service.web("owner")
        caller.csrf = sent
        assert await refusals(two, caller, expected) == [], sent
    for name, value in (("Origin", "https://elsewhere.example"), ("Sec-Fetch-Site", "cross-site")):
        caller = await two.service.web("owner")
        caller.headers[name] = value
        assert await refusals(two, caller, from_elsewhere) == [], name


async def test_switched_off_nothing_responds_but_the_session(two: TwoOrganizations) -> None:
    """Answers 403 to tokens and to sessions, except on the session itself.

    Another organization is not affected.
    See docs/design/api/conventions.md#order-of-refusals and docs/design/api/conventions.md#codes.
    """
    service = two.service
    token, web, role = await service.token("owner"), await service.web("owner"), await service.web("member")
    await service.write(lambda tx: organizations.switch(tx, OrgId(two.ours.organization_id), False))
    assert await refusals(two, token, lambda row: FORBIDDEN) == []
    for session in (web, role):
        expected: Callable[[Operation], Expected] = (  # noqa: E731
            lambda row: FORBIDDEN if row.access in NEEDS_ORGANIZATION else None
        )
        assert await refusals(two, session, expected) == []
    theirs = await service.token("stranger")
    assert (await theirs.get("/v1/automations/status")).status == 200


async def test_a_session_without_an_organization_reaches_only_itself(two: TwoOrganizations) -> None:
    """Answers 403 to a person of two organizations who has chosen none yet, except on the session."""
    service = two.service
    owner, org = service.members["owner"].person, service.members["stranger"].org
    await service.write(lambda tx: people.add_to_organization(tx, owner, org, Role.MEMBER))
    expected: Callable[[Operation], Expected] = (  # noqa: E731
        lambda row: FORBIDDEN if row.access in NEEDS_ORGANIZATION else None
    )
    assert await refusals(two, await service.web("owner"), expected) == []


async def test_a_session_ends(two: TwoOrganizations) -> None:
    """Answers 401 after the account, the membership or the session ends, by sign-out or by its lifetime."""
    service = two.service

    def ended(row: Operation) -> Expected:
        return None if row.access in (Access.PUBLIC, Access.OPTIONAL_SESSION) else NO_TOKEN

    member, approver = await service.web("member"), await service.web("approver")
    await end_membership(service, "member")
    assert await refusals(two, member, ended) == []
    await deactivate(service, "approver")
    assert await refusals(two, approver, ended) == []
    signed_out = await service.web("owner")
    cookies = dict(signed_out.client.cookies)
    assert (await signed_out.delete("/app/session")).status == 200
    signed_out.client.cookies.update(cookies)
    assert await refusals(two, signed_out, ended) == []
    busy, idle = await service.web("owner"), await service.web("owner")
    for _ in range(12 * 3):
        assert (await busy.get("/app/session")).status == 200
        service.clock.tick(20 * 60)
    assert await refusals(two, idle, ended) == []
    assert await refusals(two, busy, ended) == []


async def test_endpoints_outside_the_envelope_ignore_tokens(two: TwoOrganizations) -> None:
    """Answers the same with and without a bad token on login, keys, health and the OpenAPI document."""
    nobody, bad = two.service.nobody(), await garbage(two)
    for row in RAW_OPERATIONS:
        responses = [await caller.call(row.method, row.path, content=b"{}") for caller in (nobody, bad)]
        assert responses[0].status == responses[1].status, row.path
        assert responses[0].status not in (401, 403), row.path
