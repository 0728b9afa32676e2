"""Signing in to the web app: the cookie, lifetimes, roles and CSRF protection."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from steward.accounts import organizations, people
from steward.database.engine.migrate import is_sqlite
from steward.model.account import Role
from steward.model.instants import wire_time
from tests.people import PASSWORD, Caller
from tests.service import Service, hashed_password

STATUS = "/v1/automations/status"
SESSION = "/app/session"
ECHO = "/v1/automations/probe/echo"


def sign_in_body(name: str = "member", **changes: object) -> dict[str, object]:
    """Returns the sign-in body of one of the cast."""
    return {"email": f"{name}@example.com", "password": PASSWORD, **changes}


async def test_signing_in_returns_the_session_and_sets_the_cookie(service: Service) -> None:
    """Answers the session with role, scopes and expiry, chooses the only organization and sets the cookie."""
    caller = service.nobody()
    response = await caller.post(SESSION, sign_in_body("approver", email=" APPROVER@example.com"))
    session = response.data["session"]
    person, org = service.members["approver"].person, service.own.organization
    now = service.clock.now()
    csrf = session.pop("csrf_token")
    assert response.status == 200
    assert len(csrf) == 64
    assert session == {
        "user": {
            "id": person.id,
            "email": "approver@example.com",
            "username": "Anton Approver",
            "first_name": "Anton",
            "last_name": "Approver",
        },
        "organization": {
            "id": org.id,
            "name": "Demo Shop",
            "role": "approver",
            "timezone": "Europe/Berlin",
            "automations_enabled": True,
        },
        "organizations": [{"id": org.id, "name": "Demo Shop", "role": "approver"}],
        "scopes": ["automations:read", "automations:write", "automations:approve"],
        "idle_expires_at": wire_time(now + timedelta(minutes=30)),
        "expires_at": wire_time(now + timedelta(hours=12)),
    }
    name, _, rest = response.headers["set-cookie"].partition("=")
    assert name == "steward"
    assert rest.endswith("; Path=/; HttpOnly; SameSite=Lax")
    assert (await caller.get(STATUS)).status == 200


async def test_the_cookie_is_of_the_host_alone_behind_https(service: Service) -> None:
    """Sets a `__Host-` cookie with Secure when the web app's address is https."""
    service.restart(web_origin="https://steward.example", base_url="https://steward.example")
    response = await service.nobody().post(SESSION, sign_in_body())
    cookie = response.headers["set-cookie"]
    assert cookie.startswith("__Host-steward=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax; Secure")


@pytest.mark.parametrize(
    "changes", [{"password": "wrong"}, {"email": "nobody@example.com"}, {"email": "x", "password": "y"}]
)
async def test_a_wrong_sign_in_does_not_say_what_was_wrong(
    service: Service, changes: dict[str, object]
) -> None:
    """Answers the same 401 whichever value is wrong, and logs the failure without the address."""
    response = await service.nobody().post(SESSION, sign_in_body(**changes))
    same = await service.nobody().post(SESSION, sign_in_body(password="other"))
    assert (response.status, response.code) == (401, "invalid_credentials")
    assert response.body == same.body
    assert "set-cookie" not in response.headers
    assert '"sign_in_failed"' in service.lines[-1]
    assert "example.com" not in service.lines[-1]


async def test_a_deactivated_person_cannot_sign_in_and_a_session_ends_at_once(service: Service) -> None:
    """Refuses sessions and sign-ins of a deactivated person from the next call on."""
    person = service.members["member"].person
    web = await service.web("member")
    await service.write(lambda tx: people.set_active(tx, person, False))
    assert (await web.get(STATUS)).status == 401
    assert (await service.nobody().post(SESSION, sign_in_body())).status == 401


async def test_a_new_password_ends_the_sessions(service: Service) -> None:
    """Ends a person's sessions when the password changes."""
    person = service.members["member"].person
    web = await service.web("member")
    await service.write(lambda tx: people.set_password(tx, person, hashed_password()))
    assert (await web.get(STATUS)).status == 401


async def test_a_missing_field_of_a_sign_in_is_named(service: Service) -> None:
    """Names every missing, invalid and unknown field of a sign-in."""
    response = await service.nobody().post(SESSION, {"email": 5, "surplus": 1})
    assert set(response.errors) == {"email", "password", "surplus"}


async def test_reading_and_ending_a_session(service: Service) -> None:
    """Reads the current session, ends it, clears the cookie and refuses it afterwards."""
    nobody = service.nobody()
    assert (await nobody.get(SESSION)).status == 401
    assert (await nobody.delete(SESSION)).body["data"] == {}
    web = await service.web("member")
    assert (await web.get(SESSION)).data["session"]["csrf_token"] == web.csrf
    response = await web.delete(SESSION)
    assert (response.status, response.data) == (200, {})
    assert "Max-Age=0" in response.headers["set-cookie"]
    assert (await web.get(SESSION)).status == 401


async def test_a_session_ended_on_the_server_stays_ended(service: Service) -> None:
    """Refuses the old cookie of a session that was ended, and accepts ending it again."""
    web = await service.web("member")
    cookie = web.client.cookies["steward"]
    await web.delete(SESSION)
    web.client.cookies.set("steward", cookie)
    assert (await web.get(STATUS)).status == 401
    assert (await web.delete(SESSION)).status == 200


async def test_with_several_organizations_one_is_chosen_first(service: Service) -> None:
    """Requires a person of several organizations to choose one, and replaces cookie and CSRF token then."""
    member, other = service.members["member"], service.other.organization.id
    await service.write(lambda tx: people.add_to_organization(tx, member.person, other, Role.OWNER))
    web = await service.web("member")
    session = (await web.get(SESSION)).data["session"]
    assert session["organization"] is None
    assert session["scopes"] == []
    assert [item["role"] for item in session["organizations"]] == ["member", "owner"]
    assert (await web.get(STATUS)).code == "forbidden"
    before = web.client.cookies["steward"]
    chosen = await web.post(f"{SESSION}/organization", {"organization_id": other})
    assert chosen.data["session"]["organization"]["role"] == "owner"
    assert web.client.cookies["steward"] != before
    assert chosen.data["session"]["csrf_token"] != web.csrf
    assert (await web.get(STATUS)).status == 200
    old = service.nobody()
    old.client.cookies.set("steward", before)
    assert (await old.get(STATUS)).status == 401


async def test_an_organization_without_membership_cannot_be_chosen(service: Service) -> None:
    """Answers 404 to the choice of a foreign or unknown organization."""
    web = await service.web("member")
    for org in (service.other.organization.id, 999_999):
        response = await web.post(f"{SESSION}/organization", {"organization_id": org})
        assert (response.status, response.code) == (404, "not_found")


async def test_an_unused_session_ends_after_half_an_hour(service: Service) -> None:
    """Ends a session after 30 minutes without a call; each call extends it."""
    web = await service.web("member")
    service.clock.tick(29 * 60)
    assert (await web.get(STATUS)).status == 200
    service.clock.tick(29 * 60)
    assert (await web.get(STATUS)).status == 200
    service.clock.tick(30 * 60 - 1)
    response = await web.get(SESSION)
    assert response.data["session"]["idle_expires_at"] == wire_time(
        service.clock.now() + timedelta(minutes=30)
    )
    service.clock.tick(30 * 60)
    assert (await web.get(STATUS)).status == 401


async def test_a_call_succeeds_although_its_session_cannot_be_extended(
    service: Service, database_url: str
) -> None:
    """Reads are answered while writes wait, and the next call extends the idle time."""
    if is_sqlite(database_url):
        pytest.skip("SQLite has one writer")
    web = await service.web("member")
    holder: Any = await asyncpg.connect(database_url)
    await holder.execute("BEGIN; UPDATE sessions SET person_id = person_id")
    service.clock.tick(29 * 60)
    assert (await web.get(STATUS)).status == 200
    await holder.close()
    assert (await web.get(STATUS)).status == 200
    service.clock.tick(29 * 60)
    assert (await web.get(STATUS)).status == 200


async def test_a_poll_does_not_extend_the_idle_time(service: Service) -> None:
    """Ends a session after 30 minutes in which only polls were sent."""
    web = await service.web("member")
    for _ in range(29):
        service.clock.tick(60)
        assert (await web.call("GET", STATUS, headers={"X-Steward-Poll": "1"})).status == 200
    service.clock.tick(60)
    assert (await web.call("GET", STATUS, headers={"X-Steward-Poll": "1"})).status == 401


async def test_a_session_ends_after_twelve_hours_whatever_is_done(service: Service) -> None:
    """Ends a session after twelve hours however much it is used."""
    web = await service.web("member")
    for _ in range(12 * 4 - 1):
        service.clock.tick(15 * 60)
        assert (await web.get(STATUS)).status == 200
    service.clock.tick(15 * 60 - 1)
    assert (await web.get(STATUS)).status == 200
    service.clock.tick(1)
    assert (await web.get(STATUS)).status == 401


async def test_the_eleventh_session_ends_the_oldest(service: Service) -> None:
    """Ends the oldest session of a person when the eleventh begins."""
    callers: list[Caller] = []
    for _ in range(11):
        callers.append(await service.web("member"))
        service.clock.tick(61)
    assert (await callers[0].get(STATUS)).status == 401
    assert (await callers[1].get(STATUS)).status == 200


async def test_the_eleventh_session_stands_when_all_began_at_one_instant(service: Service) -> None:
    """Keeps the session just opened when many began at the same instant."""
    service.restart(limit_login=100)
    for _ in range(30):
        assert (await (await service.web("member")).get(STATUS)).status == 200


async def test_scopes_are_those_of_the_role_and_change_with_it(probed: Service) -> None:
    """Applies a changed role to the session's next call."""
    path = "/v1/automations/probe/approve/01JD3Z0QH8N2Y5V7W9X1C4B6A8"
    web = await probed.web("member")
    refused = await web.post(path)
    assert (refused.status, refused.code) == (403, "forbidden")
    member = probed.members["member"]
    await probed.write(lambda tx: people.add_to_organization(tx, member.person, member.org, Role.APPROVER))
    assert (await web.post(path)).status == 200


async def test_an_owners_operation_is_refused_to_others(probed: Service) -> None:
    """Lets an owner call an owner's operation and refuses others and callers without a session."""
    assert (await (await probed.web("owner")).post("/app/probe")).status == 200
    assert (await (await probed.web("approver")).post("/app/probe")).code == "forbidden"
    assert (await (await probed.web("member")).post("/app/probe")).code == "forbidden"
    assert (await probed.nobody().post("/app/probe")).status == 401


async def test_a_web_session_performs_a_write_operation(probed: Service) -> None:
    """Performs a write operation by a web session."""
    response = await (await probed.web("member")).post(ECHO, {"text": "x"})
    assert (response.status, response.data) == (201, {"echo": {"text": "x"}})


async def test_while_automations_are_off_only_the_session_works(probed: Service) -> None:
    """Serves reading and ending the session alone while automations are off for the organization."""
    web = await probed.web("owner")
    org = probed.own.organization.id
    await probed.write(lambda tx: organizations.switch(tx, org, False))
    assert (await web.get(STATUS)).code == "forbidden"
    assert (await web.post("/app/probe")).code == "forbidden"
    session = await web.get(SESSION)
    assert session.data["session"]["organization"]["automations_enabled"] is False
    assert (await web.delete(SESSION)).status == 200


@pytest.mark.parametrize("path", [ECHO, "/app/session/organization"])
@pytest.mark.parametrize(
    "headers",
    [
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": "0" * 64},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_change_without_its_csrf_token_or_from_elsewhere_is_refused(
    probed: Service, path: str, headers: dict[str, str]
) -> None:
    """Refuses a change without the right CSRF token or from another origin, before it reads the body."""
    web = await probed.web("member")
    response = await web.call("POST", path, content=b"{", headers=headers)
    assert (response.status, response.code) == (403, "csrf_failed")


async def test_a_change_from_the_own_page_is_accepted(probed: Service) -> None:
    """Accepts a change that comes from the app's own origin."""
    web = await probed.web("member")
    headers = {"Origin": "http://127.0.0.1:8400", "Sec-Fetch-Site": "same-origin"}
    assert (await web.call("POST", ECHO, body={}, headers=headers)).status == 201


async def test_signing_out_needs_the_csrf_token(service: Service) -> None:
    """Refuses to sign out without the CSRF token."""
    web = await service.web("member")
    web.csrf = None
    assert (await web.delete(SESSION)).code == "csrf_failed"
    assert (await web.get(SESSION)).status == 200


async def test_signing_in_from_elsewhere_is_refused(service: Service) -> None:
    """Refuses a sign-in from another origin."""
    response = await service.nobody().post(SESSION, sign_in_body(), Origin="https://elsewhere.example")
    assert (response.status, response.code) == (403, "csrf_failed")


async def test_sign_ins_are_limited_apart_from_logins(service: Service) -> None:
    """Counts ten sign-ins of an address in 60 s before it checks fields, apart from API logins."""
    bodies = [sign_in_body(), sign_in_body(password="wrong"), *[{"email": "member@example.com"}] * 8]
    statuses = []
    for body in bodies:
        statuses.append((await service.nobody(f"198.51.100.{len(statuses)}").post(SESSION, body)).status)
    refused = await service.nobody().post(SESSION, sign_in_body(surplus=1))
    assert statuses == [200, 401, *[422] * 8]
    assert (refused.status, refused.headers["retry-after"]) == (429, "60")
    assert (await service.log_in("member")).status == 200
    assert (await service.nobody().post(SESSION, sign_in_body("owner"))).status == 200


async def test_a_sign_in_body_over_its_size_is_refused(service: Service) -> None:
    """Refuses a sign-in body over its size limit with 413."""
    response = await service.nobody().post(SESSION, sign_in_body(password="x" * 17_000))
    assert (response.status, response.code) == (413, "too_large")
