"""Both forms of the login, their refusals and the response."""

import base64
import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote_plus, urlencode

from steward.accounts import credentials, organizations, people
from tests.people import ApiResponse, basic
from tests.service import LOGIN, Service

FORM = "application/x-www-form-urlencoded"


async def form(
    service: Service, fields: dict[str, str] | list[tuple[str, str]], *, authorization: str | None = None
) -> ApiResponse:
    """Logs in by the form variant and returns the response."""
    headers = {"Content-Type": FORM}
    if authorization is not None:
        headers["Authorization"] = authorization
    return await service.nobody().call(
        "POST", LOGIN, content=urlencode(fields).encode("ascii"), headers=headers
    )


def names(service: Service, **more: str) -> dict[str, str]:
    """Returns the form's fields without client id and secret."""
    body = service.login_body("member", client_id=..., client_secret=...)
    return {"grant_type": "client_credentials", **body, **more}


async def test_a_login_returns_a_token_and_whose_it_is(service: Service) -> None:
    """Answers a bearer token of one hour with the person and organization, both flat and under `data`.

    See docs/design/api/sign-in.md#login-response.

    Interface statements: 4.1 login; 5.1 json, answer.
    """
    response = await service.log_in("member")
    expires_at = service.clock.now() + timedelta(hours=1)
    fields = {
        "token_type": "Bearer",
        "expires_in": 3600,
        "scope": "automations:read automations:write",
        "service_url": "http://127.0.0.1:8400",
        "direct": True,
        "user": {"email": "member@example.com", "first_name": "Mia", "last_name": "Member"},
        "organization": {"id": service.own.organization.id, "name": "Demo Shop"},
        "expires_at": expires_at.isoformat(timespec="seconds"),
    }
    token = response.body["access_token"]
    assert response.status == 200
    assert response.data == {"access_token": token, **fields}
    assert response.body == {"success": True, "contract_version": 1, **response.data, "data": response.data}
    assert response.data["expires_at"].endswith("+00:00")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["pragma"] == "no-cache"


async def test_the_token_of_a_login_opens_the_api(service: Service) -> None:
    """Opens the API with the token of a login.

    Interface statements: 5 bearer.
    """
    token = (await service.log_in("member")).body["access_token"]
    caller = service.nobody()
    caller.headers["Authorization"] = f"Bearer {token}"
    assert (await caller.get("/v1/automations/status")).status == 200


async def test_the_claims_of_a_token_are_those_of_the_contract(service: Service) -> None:
    """Issues an ES256 token with exactly the claims of the contract."""
    token = (await service.log_in("member")).body["access_token"]
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    now = int(service.clock.now().timestamp())
    jti = claims.pop("jti")
    assert header == {"alg": "ES256", "typ": "at+jwt", "kid": service.context.keys.kid}
    assert len(jti) == 26
    assert claims == {
        "iss": "http://127.0.0.1:8400",
        "aud": "http://127.0.0.1:8400",
        "sub": str(service.members["member"].person.id),
        "org": service.own.organization.id,
        "cid": service.own.issued.credential.client_id,
        "scope": "automations:read automations:write",
        "epoch": 1,
        "iat": now,
        "nbf": now,
        "exp": now + 3600,
    }


async def test_grant_type_and_scope_are_accepted_in_json(service: Service) -> None:
    """Accepts `grant_type` and any `scope` in a JSON login."""
    response = await service.log_in("member", grant_type="client_credentials", scope="anything")
    assert response.status == 200


async def test_values_are_compared_trimmed_and_folded(service: Service) -> None:
    """Compares username, email and organization name trimmed, width-normalised and without regard to case."""
    response = await service.log_in(
        "member",
        username="  MIA ｍember ",
        email=" MEMBER@Example.com",
        organization_name="DEMO shop ",
    )
    assert response.status == 200


WRONG = [
    {"username": "Olga Owner"},
    {"email": "owner@example.com"},
    {"email": "nobody@example.com"},
    {"email": "stranger@example.com", "username": "Sven Stranger"},
    {"organization_name": "Other Shop"},
    {"organization_name": "No such shop"},
    {"client_id": "st_0000000000000000"},
    {"client_secret": "stw_0000000000000000000000000000000000000000000"},
    {"client_id": "ST_LOWER"},
]


async def test_a_wrong_value_is_never_repeated_in_an_error(service: Service) -> None:
    """Answers the same body whichever value is wrong. See docs/design/api/sign-in.md#login-checks.

    Interface statements: 5.1 failed; 7 credentials.
    """
    service.restart(limit_login=1000)
    bodies = []
    for changes in WRONG:
        response = await service.log_in("member", **changes)
        assert (response.status, response.code) == (401, "invalid_credentials"), changes
        assert "www-authenticate" not in response.headers
        bodies.append(response.body)
    assert all(body == bodies[0] for body in bodies)


async def test_a_secret_of_another_organization_does_not_log_in(service: Service) -> None:
    """Refuses the client id and secret of another organization.

    See docs/design/api/sign-in.md#login-checks.

    Interface statements: 5.2 rule 1.
    """
    issued = service.other.issued
    response = await service.log_in(
        "member", client_id=issued.credential.client_id, client_secret=issued.secret
    )
    assert (response.status, response.code) == (401, "invalid_credentials")


async def test_secrets_are_compared_exactly(service: Service) -> None:
    """Compares the secret and the client id exactly, with case and blanks."""
    issued = service.own.issued
    assert (await service.log_in("member", client_secret=issued.secret + " ")).status == 401
    assert (await service.log_in("member", client_id=issued.credential.client_id.upper())).status == 401


async def test_a_disabled_credential_does_not_log_in(service: Service) -> None:
    """Refuses a login with a disabled credential."""
    client_id = service.own.issued.credential.client_id
    await service.write(lambda tx: credentials.set_enabled(tx, client_id, False))
    assert (await service.log_in("member")).code == "invalid_credentials"


async def test_a_rotated_secret_is_the_only_one(service: Service) -> None:
    """Refuses the old secret after a rotation and accepts the new one with the same client id.

    See docs/design/api/sign-in.md#preconditions.

    Interface statements: 5.2 rule 1.
    """
    client_id = service.own.issued.credential.client_id
    issued = await service.write(lambda tx: credentials.rotate(tx, service.context.keys, client_id))
    assert issued.credential.client_id == client_id
    assert (await service.log_in("member")).status == 401
    assert (await service.log_in("member", client_secret=issued.secret)).status == 200


async def test_a_deactivated_person_does_not_log_in(service: Service) -> None:
    """Refuses a login of a deactivated person and accepts it after reactivation.

    Interface statements: 5 active; 5.2 rule 3.
    """
    person = service.members["member"].person
    await service.write(lambda tx: people.set_active(tx, person, False))
    assert (await service.log_in("member")).code == "invalid_credentials"
    await service.write(lambda tx: people.set_active(tx, person, True))
    assert (await service.log_in("member")).status == 200


async def test_a_login_succeeds_while_automations_are_off_and_its_token_is_refused(service: Service) -> None:
    """Issues a token while automations are off for the organization, and refuses its calls with 403."""
    org = service.own.organization.id
    await service.write(lambda tx: organizations.switch(tx, org, False))
    response = await service.log_in("member")
    caller = service.nobody()
    caller.headers["Authorization"] = f"Bearer {response.body['access_token']}"
    refused = await caller.get("/v1/automations/status")
    assert response.status == 200
    assert (refused.status, refused.code) == (403, "forbidden")
    assert refused.body["message"] == "Automations are switched off for this organisation"


async def test_a_field_missing_empty_long_or_not_text_is_named(service: Service) -> None:
    """Names a field that is missing, null, empty, not text, too long or with a control character."""
    service.restart(limit_login=1000)
    for name in ("username", "email", "organization_name", "client_id", "client_secret"):
        for value in (..., None, "", 5, ["x"], "x" * 321, "a\x00b"):
            response = await service.log_in("member", **{name: value})
            assert (response.status, response.code) == (422, "validation_failed"), (name, value)
            assert list(response.errors) == [name]


async def test_320_characters_are_not_too_many(service: Service) -> None:
    """Takes a value of 320 characters as valid, so that the login fails with 401 and not 422."""
    assert (await service.log_in("member", username="x" * 320)).status == 401


async def test_all_faults_are_reported_together(service: Service) -> None:
    """Names every missing, unknown and invalid field in one answer."""
    response = await service.nobody().post(LOGIN, {"grant_type": "password", "surplus": 1})
    assert set(response.errors) == {
        "username",
        "email",
        "organization_name",
        "client_id",
        "client_secret",
        "grant_type",
        "surplus",
    }


async def test_a_body_that_is_no_object_is_refused(service: Service) -> None:
    """Refuses a JSON body that is not an object with an error on `body`."""
    response = await service.nobody().post(LOGIN, ["x"])
    assert (response.status, list(response.errors)) == (422, ["body"])


async def test_the_query_string_is_ignored(service: Service) -> None:
    """Ignores query parameters, so that a secret sent only there counts as missing.

    See docs/design/api/sign-in.md#form-login.

    Interface statements: 5.1 query.
    """
    body = service.login_body("member")
    secret = body.pop("client_secret")
    response = await service.nobody().call("POST", LOGIN, body=body, params={"client_secret": secret, "x": 1})
    assert list(response.errors) == ["client_secret"]


async def test_a_bearer_header_on_the_login_is_ignored(service: Service) -> None:
    """Ignores an invalid bearer header on the login."""
    response = await service.nobody().post(
        LOGIN, service.login_body("member"), Authorization="Bearer nonsense"
    )
    assert response.status == 200


async def test_the_form_takes_basic(service: Service) -> None:
    """Logs in by the form with HTTP Basic authentication. See docs/design/api/sign-in.md#form-login.

    Interface statements: 5.1 form, basic.
    """
    issued = service.own.issued
    response = await form(
        service, names(service), authorization=basic(issued.credential.client_id, issued.secret)
    )
    assert response.status == 200


async def test_basic_without_padding_and_form_encoded_values_log_in(service: Service) -> None:
    """Accepts Basic without padding and with form-encoded id and secret."""
    issued = service.own.issued
    encoded = basic(quote_plus(issued.credential.client_id), "%" + f"{ord('s'):02X}" + issued.secret[1:])
    response = await form(service, names(service), authorization=encoded.rstrip("="))
    assert response.status == 200


async def test_the_form_takes_client_fields_and_ignores_unknown_ones(service: Service) -> None:
    """Logs in by the form with client id and secret as fields, and ignores unknown fields."""
    issued = service.own.issued
    client = {"client_id": issued.credential.client_id, "client_secret": issued.secret}
    assert (await form(service, names(service, surplus="x", **client))).status == 200


async def test_both_ways_at_once_are_refused(service: Service) -> None:
    """Refuses client values in the body beside a Basic header with 422 on `client_id`."""
    issued = service.own.issued
    header = basic(issued.credential.client_id, issued.secret)
    both = await form(service, names(service, client_secret=issued.secret), authorization=header)
    json_too = await service.nobody().post(LOGIN, service.login_body("member"), Authorization=header)
    assert (both.status, list(both.errors)) == (422, ["client_id"])
    assert (json_too.status, list(json_too.errors)) == (422, ["client_id"])


async def test_a_form_field_given_twice_is_refused(service: Service) -> None:
    """Refuses a form field that is sent twice."""
    issued = service.own.issued
    fields = [*names(service).items(), ("email", "member@example.com")]
    response = await form(service, fields, authorization=basic(issued.credential.client_id, issued.secret))
    assert (response.status, list(response.errors)) == (422, ["email"])


async def test_the_form_needs_its_grant_type(service: Service) -> None:
    """Refuses a form whose `grant_type` is missing or is not `client_credentials`."""
    issued = service.own.issued
    header = basic(issued.credential.client_id, issued.secret)
    fields = names(service)
    del fields["grant_type"]
    missing = await form(service, fields, authorization=header)
    other = await form(service, {**fields, "grant_type": "password"}, authorization=header)
    assert list(missing.errors) == list(other.errors) == ["grant_type"]


UNREADABLE: list[str] = [
    "Basic !!!",
    "Basic " + base64.b64encode(b"no colon").decode(),
    "Basic ",
    "Basic",  # how `Basic ` arrives: servers strip the blanks around a header's value
    "basic",
]


async def test_an_unreadable_basic_value_is_a_failed_login(service: Service) -> None:
    """Answers 401 with a Basic challenge to a Basic value that cannot be decoded."""
    for value in UNREADABLE:
        response = await form(service, names(service), authorization=value)
        assert (response.status, response.code) == (401, "invalid_credentials"), value
        assert response.headers["www-authenticate"] == 'Basic realm="steward"', value


async def test_basic_without_a_value_is_a_second_way_all_the_same(service: Service) -> None:
    """Refuses even an empty or unreadable Basic header beside client id and secret in the body."""
    for value in ("Basic", "Basic !!!"):
        fields = {**names(service), "client_id": "st_x", "client_secret": "stw_x"}
        response = await form(service, fields, authorization=value)
        assert (response.status, list(response.errors)) == (422, ["client_id"]), value


async def test_a_wrong_basic_secret_asks_for_basic(service: Service) -> None:
    """Answers a wrong Basic secret with 401 and a Basic challenge."""
    header = basic(service.own.issued.credential.client_id, "wrong\x00")
    response = await form(service, names(service), authorization=header)
    assert (response.status, response.headers["www-authenticate"]) == (401, 'Basic realm="steward"')


FIRST_OF_ALL: list[tuple[dict[str, str], bytes, tuple[int, str]]] = [
    ({"Content-Type": "text/plain"}, b"{}", (415, "unsupported_media_type")),
    ({"Content-Type": "application/json; charset=latin-1"}, b"{}", (415, "unsupported_media_type")),
    (
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        b"{}",
        (415, "unsupported_media_type"),
    ),
    ({"Content-Type": "application/json"}, b" " * (16 * 1024 + 1), (413, "too_large")),
    ({"Content-Type": "application/json"}, b"{", (400, "malformed")),
    ({"Content-Type": FORM}, b"email=%ff", (400, "malformed")),
]


async def test_type_size_and_syntax_come_first(service: Service) -> None:
    """Refuses a wrong media type with 415, a long body with 413 and bad syntax with 400 first."""
    for headers, content, refused in FIRST_OF_ALL:
        response = await service.nobody().call("POST", LOGIN, content=content, headers=headers)
        assert (response.status, response.code) == refused, headers


async def test_access_that_is_off_comes_before_everything(service: Service) -> None:
    """Answers 503 with Retry-After while API access is off, before it checks the request.

    See docs/design/api/sign-in.md#login-checks.

    Interface statements: 7 configured.
    """
    service.restart(api_access=False)
    response = await service.nobody().call(
        "POST", LOGIN, content=b"{", headers={"Content-Type": "text/plain"}
    )
    assert (response.status, response.code) == (503, "not_configured")
    assert int(response.headers["retry-after"]) >= 1


async def test_only_post_logs_in(service: Service) -> None:
    """Answers 405 with `Allow: POST` to a GET of the login."""
    response = await service.nobody().get(LOGIN)
    assert (response.status, response.headers["allow"]) == (405, "POST")


async def test_the_eleventh_attempt_in_a_minute_waits(service: Service) -> None:
    """Counts successes and failures in a sliding minute and refuses the eleventh with Retry-After.

    See docs/design/api/conventions.md#rate-limits and docs/design/api/conventions.md#limits.

    Interface statements: 7 limit; 8 login.
    """
    caller = service.nobody()
    body = service.login_body("member")
    bodies: list[dict[str, Any]] = [body, {**body, "client_secret": "wrong"}, {}, *[body] * 7]
    statuses = []
    for sent in bodies:
        statuses.append((await caller.post(LOGIN, sent)).status)
        service.clock.tick(1)
    refused = await caller.post(LOGIN, {"surplus": 1})
    assert statuses == [200, 401, 422, *[200] * 7]
    assert (refused.status, refused.code) == (429, "rate_limited")
    assert refused.headers["retry-after"] == "50"
    service.clock.tick(49.9)
    assert (await caller.post(LOGIN, body)).headers["retry-after"] == "1"
    service.clock.tick(0.1)
    assert (await caller.post(LOGIN, body)).status == 200
    assert (await caller.post(LOGIN, body)).headers["retry-after"] == "1"


async def test_attempts_count_by_client_and_apart_from_it_by_address(service: Service) -> None:
    """Counts attempts by client id, over all addresses, and separately by address."""
    body = service.login_body("member")
    for number in range(10):
        caller = service.nobody(f"198.51.100.{number}")
        assert (await caller.post(LOGIN, body)).status == 200
    fresh = service.nobody("198.51.100.99")
    for _ in range(12):
        assert (await fresh.post(LOGIN, body)).status == 429
    assert (await fresh.post(LOGIN, service.login_body("stranger"))).status == 200


async def test_an_ipv6_address_counts_by_its_network(service: Service) -> None:
    """Counts IPv6 addresses of one /64 network together."""
    for number in range(10):
        await service.nobody(f"2001:db8:9:9::{number:x}").post(LOGIN, {})
    assert (await service.nobody("2001:db8:9:9:ffff::1").post(LOGIN, {})).status == 429
    assert (await service.nobody("2001:db8:9:a::1").post(LOGIN, {})).status == 422


async def test_a_failure_is_logged_without_the_values(service: Service) -> None:
    """Logs a failed login with a hash of the client and without any of the values sent."""
    await service.log_in("member", client_secret="stw_plain-secret-of-the-test")
    line = json.loads(service.lines[-1])
    assert (line["action"], len(line["client"])) == ("login_failed", 64)
    assert "example.com" not in service.lines[-1]
    assert "plain-secret" not in service.lines[-1]
