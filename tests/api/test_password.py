"""Changing one's own password."""

import pytest

from tests.api.audited import actions
from tests.people import PASSWORD
from tests.service import Service

CHANGE = "/app/password"
STATUS = "/v1/automations/status"
NEW_PASSWORD = "violet harbour 1931"


def body(**changes: object) -> dict[str, object]:
    """Returns the body that changes the cast's password; `...` removes a field."""
    fields = {"current_password": PASSWORD, "new_password": NEW_PASSWORD, **changes}
    return {name: value for name, value in fields.items() if value is not ...}


async def test_a_new_password_renews_this_session_and_ends_the_others(service: Service) -> None:
    """Gives this session a new cookie, ends the person's other sessions and leaves tokens valid."""
    caller, there = await service.web("member"), await service.web("member")
    token, other = await service.token("member"), await service.web("owner")
    before = caller.client.cookies["steward"]
    response = await caller.post(CHANGE, body())
    assert response.status == 200
    assert response.data["session"]["organization"]["id"] == service.own.organization.id
    assert caller.client.cookies["steward"] != before
    assert response.data["session"]["csrf_token"] != caller.csrf
    assert (await caller.get(STATUS)).status == 200
    assert (await there.get(STATUS)).status == 401
    assert (await token.get(STATUS)).status == 200
    assert (await other.get(STATUS)).status == 200
    old = service.nobody()
    old.client.cookies.set("steward", before)
    assert (await old.get(STATUS)).status == 401
    whom = str(service.members["member"].person.id)
    assert await actions(service, service.own.organization.id) == [("password_changed", whom, whom)]


async def test_from_then_on_the_new_password_signs_in(service: Service) -> None:
    """Refuses the old password at sign-in and accepts the new one."""
    await (await service.web("member")).post(CHANGE, body())
    sign_in = {"email": "member@example.com", "password": PASSWORD}
    assert (await service.nobody().post("/app/session", sign_in)).status == 401
    assert (await service.web("member", NEW_PASSWORD)).csrf


WRONG: list[tuple[dict[str, object], set[str]]] = [
    ({"current_password": "guess"}, {"current_password"}),
    ({"new_password": "elevenchars"}, {"new_password"}),
    ({"new_password": "violet harbour".ljust(257, "x")}, {"new_password"}),
    ({"new_password": "member of the club"}, {"new_password"}),
    ({"new_password": "I like Demo Shop best"}, {"new_password"}),
    ({"current_password": "guess", "new_password": "short"}, {"current_password", "new_password"}),
    (
        {"current_password": ..., "new_password": 5, "more": 1},
        {"current_password", "new_password", "more"},
    ),
    ({"new_password": None}, {"new_password"}),
]


async def test_an_invalid_password_change_names_its_field(service: Service) -> None:
    """Names a wrong current password and a new one that is too short, too long, common or contains names."""
    for changes, wrong in WRONG:
        service.clock.tick(61)  # leaves the minute in which attempts are counted
        web = await service.web("member")
        response = await web.post(CHANGE, body(**changes))
        assert (response.status, set(response.errors)) == (422, wrong), changes
        assert (await web.get(STATUS)).status == 200, changes


@pytest.mark.parametrize("length", [12, 256])
async def test_the_shortest_and_the_longest_password_are_accepted(service: Service, length: int) -> None:
    """Accepts new passwords of 12 and of 256 characters."""
    password = "violet harbour 1931 ".ljust(length, "q")[:length]
    response = await (await service.web("member")).post(CHANGE, body(new_password=password))
    assert response.status == 200


async def test_guesses_of_the_current_password_are_limited(service: Service) -> None:
    """Counts the sign-in and nine wrong guesses of the password, and refuses the next for a minute."""
    web = await service.web("member")
    responses = [await web.post(CHANGE, body(current_password="guess")) for _ in range(10)]
    assert [response.status for response in responses] == [422] * 9 + [429]
    service.clock.tick(60)
    assert (await web.post(CHANGE, body())).status == 200


async def test_without_a_session_there_is_no_password_to_change(service: Service) -> None:
    """Refuses the change without a session, with a token, and without the CSRF header."""
    assert (await service.nobody().post(CHANGE, body())).status == 401
    assert (await (await service.token("member")).post(CHANGE, body())).code == "forbidden"
    web = await service.web("member")
    web.csrf = None
    assert (await web.post(CHANGE, body())).code == "csrf_failed"
