"""Authentication of calls and the order in which refusals are checked."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from steward.accounts import credentials, keys, organizations, people
from steward.security.tokens import Signer, SigningKey
from tests.people import Caller
from tests.service import BASE_URL, MASTERS, Service

STATUS = "/v1/automations/status"
ID = "01JD3Z0QH8N2Y5V7W9X1C4B6A8"


async def bearing(service: Service, token: str) -> Caller:
    """Returns a caller with this token."""
    caller = service.nobody()
    caller.headers["Authorization"] = f"Bearer {token}"
    return caller


async def test_a_call_without_token_is_refused_with_a_challenge(nobody: Caller) -> None:
    """Answers 401 with a Bearer challenge that has no `error`, since no token was sent.

    See docs/design/api/conventions.md#codes.

    Interface statements: 5.4 challenge; 7 token.
    """
    response = await nobody.get(STATUS)
    assert (response.status, response.code) == (401, "unauthenticated")
    assert response.headers["www-authenticate"] == 'Bearer realm="steward"'


async def test_the_path_does_not_matter_without_a_token(nobody: Caller) -> None:
    """Answers 401 without a token also for unknown paths and methods."""
    assert (await nobody.get("/v1/automations/no/such/path")).status == 401
    assert (await nobody.call("PUT", STATUS, body={})).status == 401


async def test_other_kinds_of_authorization_are_no_token(service: Service, nobody: Caller) -> None:
    """Accepts a token neither in the query, nor as Basic, nor without the word Bearer."""
    token = (await service.token("member")).headers["Authorization"].partition(" ")[2]
    assert (await nobody.get(STATUS, access_token=token)).status == 401
    assert (await nobody.call("GET", STATUS, headers={"Authorization": f"Basic {token}"})).status == 401
    assert (await nobody.call("GET", STATUS, headers={"Authorization": token})).status == 401


def _changed(part: int, change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def forge(token: str) -> str:
        parts = token.split(".")
        plain = json.loads(base64.urlsafe_b64decode(parts[part] + "=="))
        change(plain)
        parts[part] = base64.urlsafe_b64encode(json.dumps(plain).encode()).rstrip(b"=").decode()
        return ".".join(parts)

    return forge


FORGED: list[Callable[[str], str]] = [
    lambda token: token[:-4] + ("AAAA" if not token.endswith("AAAA") else "BBBB"),
    lambda token: token + "=",
    lambda token: token + ".x",
    lambda token: token.rpartition(".")[0] + ".",
    lambda token: "",
    lambda token: "x" * 5000,
    _changed(0, lambda header: header.update(alg="none")),
    _changed(0, lambda header: header.update(alg="HS256")),
    _changed(0, lambda header: header.update(crit=["exp"])),
    _changed(0, lambda header: header.update(kid="other")),
    _changed(1, lambda claims: claims.update(org=2)),
    _changed(1, lambda claims: claims.update(scope="automations:approve")),
    _changed(1, lambda claims: claims.update(exp=claims["exp"] + 1)),
]


async def test_a_changed_token_is_refused(service: Service) -> None:
    """Refuses a token with any change in its header, claims or signature as `invalid_token`.

    See docs/design/api/sign-in.md#tokens.

    Interface statements: 5.4 changed.
    """
    for forge in FORGED:
        token = (await service.token("member")).headers["Authorization"].partition(" ")[2]
        response = await (await bearing(service, forge(token))).get(STATUS)
        assert (response.status, response.code) == (401, "unauthenticated"), FORGED.index(forge)
        assert response.headers["www-authenticate"] == 'Bearer realm="steward", error="invalid_token"', (
            FORGED.index(forge)
        )


async def test_a_token_signed_by_a_foreign_key_is_refused(service: Service) -> None:
    """Refuses a token that another key signed under the id of a known one."""
    foreign = SigningKey(service.context.keys.kid, generate_private_key(SECP256R1()))
    signer = Signer(foreign, issuer=BASE_URL, audience=BASE_URL)
    member = service.members["member"]
    token = signer.sign(
        person=member.person.id,
        org=member.org,
        client_id=service.own.issued.credential.client_id,
        scopes=["automations:read", "automations:write"],
        epoch=1,
        jti=ID,
        now=int(service.clock.now().timestamp()),
    )
    assert jwt.get_unverified_header(token)["kid"] == service.context.keys.kid
    assert (await (await bearing(service, token)).get(STATUS)).status == 401


async def test_a_token_ends_after_exactly_an_hour(service: Service, member: Caller) -> None:
    """Accepts a token for 3,599 seconds and refuses it from 3,600 on.

    See docs/design/api/sign-in.md#tokens.

    Interface statements: 5.4 lifetime; 8 token.
    """
    service.clock.tick(3599)
    assert (await member.get(STATUS)).status == 200
    service.clock.tick(1)
    assert (await member.get(STATUS)).status == 401


@pytest.mark.parametrize("enabled", [False, True])
async def test_disabling_and_enabling_end_tokens_on_the_next_call(
    service: Service, member: Caller, enabled: bool
) -> None:
    """Refuses tokens issued before their credential was disabled or enabled again.

    See docs/design/api/sign-in.md#tokens.

    Interface statements: 5.4 disabled.
    """
    client_id = service.own.issued.credential.client_id
    assert (await member.get(STATUS)).status == 200
    await service.write(lambda tx: credentials.set_enabled(tx, client_id, enabled))
    response = await member.get(STATUS)
    assert (response.status, response.headers["www-authenticate"]) == (
        401,
        'Bearer realm="steward", error="invalid_token"',
    )


async def test_rotating_ends_tokens_on_the_next_call(service: Service, member: Caller) -> None:
    """Refuses tokens issued before their credential's secret was rotated.

    See docs/design/api/sign-in.md#tokens.

    Interface statements: 5.4 rotated.
    """
    client_id = service.own.issued.credential.client_id
    await service.write(lambda tx: credentials.rotate(tx, service.context.keys, client_id))
    assert (await member.get(STATUS)).status == 401


async def test_deactivating_a_person_ends_their_tokens_alone(
    service: Service, member: Caller, owner: Caller
) -> None:
    """Refuses the tokens of a deactivated person and accepts those of others.

    See docs/design/api/sign-in.md#tokens.

    Interface statements: 5 active.
    """
    person = service.members["member"].person
    await service.write(lambda tx: people.set_active(tx, person, False))
    assert (await member.get(STATUS)).status == 401
    assert (await owner.get(STATUS)).status == 200


async def test_switching_an_organization_off_refuses_every_call(
    service: Service, member: Caller, stranger: Caller
) -> None:
    """Answers 403 to every call of a switched-off organization, also on unknown paths, until it is on again.

    See docs/design/api/conventions.md#order-of-refusals.

    Interface statements: 5.2 rule 2; 7 off.
    """
    org = service.own.organization.id
    await service.write(lambda tx: organizations.switch(tx, org, False))
    for path in (STATUS, "/v1/automations/no-such", "/app/session"):
        response = await member.get(path)
        assert (response.status, response.code) == (403, "forbidden")
        assert response.body["message"] == "Automations are switched off for this organisation"
    assert (await stranger.get(STATUS)).status == 200
    await service.write(lambda tx: organizations.switch(tx, org, True))
    assert (await member.get(STATUS)).status == 200


async def test_a_token_outside_the_automations_api_is_refused(probed: Service, member: Caller) -> None:
    """Answers 403 to a valid token on any path outside /v1/automations, and 401 to an invalid one.

    See docs/design/api/sign-in.md#callers.

    Interface statements: 7 outside.
    """
    for path in ("/app/session", "/app/no-such", "/", "/v1/other", "/v1/automationsx"):
        response = await member.get(path)
        assert (response.status, response.code) == (403, "forbidden")
    bad = await (await bearing(probed, "x.y.z")).get("/app/session")
    assert bad.status == 401


async def test_a_token_does_not_matter_on_open_paths(member: Caller) -> None:
    """Ignores a token on health, OpenAPI and key endpoints."""
    for path in ("/healthz", "/readyz", "/openapi.json", "/.well-known/jwks.json"):
        assert (await member.get(path)).status == 200


async def test_an_unknown_path_returns_404_without_a_token(nobody: Caller) -> None:
    """Answers 404 to an unknown path outside the API without a token."""
    response = await nobody.get("/no/such")
    assert (response.status, response.code) == (404, "not_found")


async def test_unknown_paths_and_methods_inside_the_api(member: Caller) -> None:
    """Answers 404 to near misses of a path, and 405 with `Allow` to a wrong method."""
    for path in ("/v1/automations/status/", "/v1/automations//status", "/v1/automations/Status"):
        assert (await member.get(path)).code == "not_found"
    for method in ("PUT", "DELETE", "OPTIONS"):
        response = await member.call(method, STATUS)
        assert (response.status, response.code, response.headers["allow"]) == (
            405,
            "method_not_allowed",
            "GET",
        )
    assert (await member.client.head(STATUS, headers=member.headers)).status_code == 405


async def test_approving_is_refused_to_a_token_before_anything_is_looked_up(
    probed: Service, member: Caller
) -> None:
    """Answers 403 `insufficient_scope` to a token that approves, whatever the id and the body.

    See docs/design/api/conventions.md#scope and docs/design/api/conventions.md#order-of-refusals.

    Interface statements: 4.3 approve, reject; 5.3 approve.
    """
    path = f"/v1/automations/probe/approve/{ID}"
    responses = [
        await member.post(path, {"surplus": 1}),
        await member.call("POST", path, content=b"{", headers={"Content-Type": "text/plain"}),
        await member.post("/v1/automations/probe/approve/x"),
    ]
    for response in responses:
        assert (response.status, response.code) == (403, "forbidden")
        assert response.headers["www-authenticate"] == (
            'Bearer realm="steward", error="insufficient_scope", scope="automations:approve"'
        )
        assert "in the web app" in response.body["message"]


async def test_the_body_is_read_before_the_path_and_the_path_before_the_shape(
    probed: Service, member: Caller
) -> None:
    """Checks content type, then syntax, then the ids in the path, then the fields of the body."""
    path = "/v1/automations/probe/named/not-an-id"
    assert (await member.call("POST", path, content=b"{")).status == 415
    assert (
        await member.call("POST", path, content=b"{", headers={"Content-Type": "application/json"})
    ).status == 400
    assert (await member.post(path, {"surplus": 1})).status == 404
    assert (await member.post(f"/v1/automations/probe/named/{ID}", {"surplus": 1})).status == 422


async def test_a_malformed_id_is_not_found(probed: Service, member: Caller) -> None:
    """Answers 404 to every ill-formed id in a path."""
    good = await member.get(f"/v1/automations/probe/named/{ID}")
    assert good.data["echo"]["ids"] == {"probe_id": ID}
    for wrong in (ID.lower(), ID[:-1], ID + "0", ID.replace("A", "U"), "%30" + ID[1:]):
        response = await member.get(f"/v1/automations/probe/named/{wrong}")
        assert (response.status, response.code) == (404, "not_found")
    assert (await member.get("/v1/automations/probe/templates/low-stock")).status == 200
    assert (await member.get("/v1/automations/probe/templates/Low")).status == 404


async def test_access_that_is_off_refuses_tokens_and_lets_sessions_in(service: Service) -> None:
    """Refuses tokens with 503 while API access is off and serves web sessions."""
    service.restart(api_access=False)
    response = await (await bearing(service, "nonsense")).get(STATUS)
    web = await service.web("member")
    assert (response.status, response.code) == (503, "not_configured")
    assert (await web.get(STATUS)).status == 200


async def test_a_token_and_a_cookie_together_are_refused(service: Service) -> None:
    """Refuses a call that carries a token and a session cookie."""
    web = await service.web("member")
    web.headers.update((await service.token("member")).headers)
    assert (await web.get(STATUS)).status == 401


async def test_a_key_made_by_another_process_is_found_and_a_retired_one_goes(
    service: Service, member: Caller
) -> None:
    """Signs with a key that another process made, and publishes the old one until its last token expires."""
    ring = service.context.keys
    before = ring.kid
    rotated = await service.write(lambda tx: keys.rotate_signing(tx, MASTERS))
    assert (await member.get(STATUS)).status == 200
    token = (await service.log_in("member")).body["access_token"]
    assert jwt.get_unverified_header(token)["kid"] == rotated.kid != before
    assert rotated.retired == (before,)
    published = (await member.get("/.well-known/jwks.json")).body["keys"]
    assert {key["kid"] for key in published} == {before, rotated.kid}
    service.clock.tick((rotated.retires_at - service.clock.now()).total_seconds())
    await keys.refresh(service.context.engine, service.clock.now(), ring)
    published = (await member.get("/.well-known/jwks.json")).body["keys"]
    assert {key["kid"] for key in published} == {rotated.kid}


async def test_a_token_of_a_key_this_process_has_not_read_yet_is_valid(service: Service) -> None:
    """Accepts a token of a key that this process has not read yet, by reading the keys again."""
    other = await keys.open_ring(
        service.context.engine, service.clock.now(), MASTERS, issuer=BASE_URL, audience=BASE_URL
    )
    await service.write(lambda tx: keys.rotate_signing(tx, MASTERS))
    await keys.refresh(service.context.engine, service.clock.now(), other)
    current = service.context
    service.context = replace(current, keys=other)
    fresh = await service.token("member")
    service.context = current
    service.clock.tick(2)
    assert (await fresh.get(STATUS)).status == 200
