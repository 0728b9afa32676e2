"""Invitations: accepting with a new or an existing account, and links that are no longer valid."""

import asyncio
from typing import Any

import pytest

from steward.accounts import invitations, people
from steward.accounts.people import CreatePerson
from steward.database.engine.base import Tx
from steward.model.account import Role
from steward.model.instants import wire_time
from tests.api.audited import actions
from tests.people import PASSWORD, ApiResponse, Caller
from tests.service import Service

PEOPLE = "/app/people"
ACCEPT = "/app/invitations/accept"
STATUS = "/v1/automations/status"
NEW_PASSWORD = "violet harbour 1931"
WEEK = 7 * 24 * 3600


async def invite(owner: Caller, email: str = "nina@example.com", **body: Any) -> ApiResponse:
    """Invites an address and returns the response."""
    return await owner.post(PEOPLE, {"email": email, "role": "member", **body})


def token_of(invited: ApiResponse) -> str:
    """Returns the token in the link of an invitation."""
    url: str = invited.data["invite_url"]
    return url.partition("#token=")[2]


def acceptance(invited: ApiResponse, **body: Any) -> dict[str, Any]:
    """Returns the body that accepts an invitation with a new account; `...` removes a field."""
    fields = {
        "token": token_of(invited),
        "password": NEW_PASSWORD,
        "first_name": "Nina",
        "last_name": "Newcomer",
        **body,
    }
    return {name: value for name, value in fields.items() if value is not ...}


async def test_an_invited_person_makes_an_account_and_is_in(service: Service) -> None:
    """Makes an active account and a session in the organization from a link that is valid for seven days."""
    owner = await service.web("owner")
    invited = await invite(owner, " Nina@Example.com ", role="approver", first_name="N.")
    assert invited.status == 201
    person = invited.data["person"]
    assert person["state"] == "invited"
    assert (person["email"], person["first_name"], person["username"]) == ("nina@example.com", "N.", "")
    assert person["last_seen_at"] is None
    assert invited.data["invite_url"].startswith("http://127.0.0.1:8400/")
    assert len(token_of(invited)) == 43
    service.clock.tick(WEEK)
    assert invited.data["invite_expires_at"] == wire_time(service.clock.now())
    service.clock.tick(-1)
    nina = service.nobody()
    response = await nina.post(ACCEPT, acceptance(invited))
    session = response.data["session"]
    assert response.status == 200
    assert session["organization"]["id"] == service.own.organization.id
    assert session["user"]["username"] == "Nina Newcomer"
    assert session["organization"]["role"] == "approver"
    assert (await nina.get(STATUS)).status == 200
    again = await service.nobody().post(
        "/app/session", {"email": "nina@example.com", "password": NEW_PASSWORD}
    )
    assert again.status == 200
    fresh = await service.web("owner")
    displayed = {each_person["id"]: each_person for each_person in (await fresh.get(PEOPLE)).data["people"]}[
        person["id"]
    ]
    assert (displayed["state"], displayed["first_name"]) == ("active", "Nina")
    who = str(service.members["owner"].person.id)
    assert await actions(service, service.own.organization.id) == [
        ("person_invited", who, str(person["id"])),
        ("invitation_accepted", str(person["id"]), str(person["id"])),
    ]


async def test_the_new_person_can_log_in_through_the_api(service: Service) -> None:
    """Accepts an API login for the new person once the invitation is accepted.

    See docs/design/api/sign-in.md#preconditions.

    Interface statements: 5.2 rule 3.
    """
    invited = await invite(await service.web("owner"))
    body = {"username": "Nina Newcomer", "email": "nina@example.com"}
    assert (await service.log_in("member", **body)).status == 401
    await service.nobody().post(ACCEPT, acceptance(invited))
    assert (await service.log_in("member", **body)).status == 200


async def test_a_link_works_once_and_for_seven_days(service: Service) -> None:
    """Answers 422 on `token` for a used, unknown or expired link, with the same body for each."""
    owner = await service.web("owner")
    used, late = await invite(owner), await invite(owner, "late@example.com")
    assert (await service.nobody().post(ACCEPT, acceptance(used))).status == 200
    second = await service.nobody("203.0.113.8").post(ACCEPT, acceptance(used))
    unknown = await service.nobody("203.0.113.9").post(ACCEPT, acceptance(used, token="x" * 43))
    service.clock.tick(WEEK)
    expired = await service.nobody().post(ACCEPT, acceptance(late))
    assert (second.status, set(second.errors)) == (422, {"token"})
    assert second.body == unknown.body == expired.body


async def test_one_link_used_twice_at_once_lets_one_in(service: Service) -> None:
    """Lets one of four simultaneous acceptances in."""
    invited = await invite(await service.web("owner"))
    responses = await asyncio.gather(
        *(service.nobody(f"203.0.113.{number}").post(ACCEPT, acceptance(invited)) for number in range(4))
    )
    assert sorted(response.status for response in responses)[:2] == [200, 422]
    assert {response.status for response in responses} <= {200, 422, 503}


async def test_a_newer_invitation_ends_the_older_one(service: Service) -> None:
    """Ends the older link of the same address; the newer one decides the role."""
    owner = await service.web("owner")
    older, newer = await invite(owner), await invite(owner, role="approver")
    assert older.data["person"]["id"] == newer.data["person"]["id"]
    assert set((await service.nobody().post(ACCEPT, acceptance(older))).errors) == {"token"}
    response = await service.nobody().post(ACCEPT, acceptance(newer))
    assert response.data["session"]["organization"]["role"] == "approver"


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"first_name": ..., "last_name": None}, {"first_name", "last_name"}),
        ({"password": "short"}, {"password"}),
        ({"password": "a" * 257}, {"password"}),
        ({"password": "my Demo Shop secret"}, {"password"}),
        ({"first_name": ..., "password": "nina is my name"}, {"first_name", "password"}),
        ({"first_name": " "}, {"first_name"}),
        ({"surplus": 1}, {"surplus"}),
        ({"token": ..., "password": 5}, {"token", "password"}),
    ],
)
async def test_a_new_account_lists_all_missing_fields_together(
    service: Service, changes: dict[str, Any], wrong: set[str]
) -> None:
    """Reports every invalid field of a new account at once and leaves the link valid."""
    invited = await invite(await service.web("owner"))
    response = await service.nobody().post(ACCEPT, acceptance(invited, **changes))
    assert (response.status, set(response.errors)) == (422, wrong)
    assert (await service.nobody().post(ACCEPT, acceptance(invited))).status == 200


async def test_an_existing_account_joins_with_its_password(service: Service) -> None:
    """Adds an existing account by its own password and keeps its names."""
    owner = await service.web("owner")
    invited = await invite(owner, "STRANGER@example.com", first_name="Somebody")
    person = service.members["stranger"].person
    shown_person = invited.data["person"]
    assert shown_person["id"] != person.id
    assert (shown_person["first_name"], shown_person["username"]) == ("Somebody", "")
    wrong = await service.nobody().post(ACCEPT, acceptance(invited))
    assert (wrong.status, set(wrong.errors)) == (422, {"password"})
    stranger = service.nobody()
    response = await stranger.post(ACCEPT, {"token": token_of(invited), "password": PASSWORD})
    session = response.data["session"]
    assert session["user"]["first_name"] == "Sven"
    assert session["organization"]["id"] == service.own.organization.id
    assert len(session["organizations"]) == 2
    assert (await stranger.get(STATUS)).status == 200
    people_shown = (await owner.get(PEOPLE)).data["people"]
    assert [item["id"] for item in people_shown if item["email"] == "stranger@example.com"] == [person.id]
    assert set(await actions(service, service.own.organization.id)) == {
        ("person_invited", str(service.members["owner"].person.id), str(shown_person["id"])),
        ("invitation_accepted", str(person.id), str(person.id)),
    }


async def test_guessing_the_password_of_an_existing_account_is_limited(service: Service) -> None:
    """Counts wrong passwords on acceptances and on sign-ins of one address together, from any source."""
    invited = await invite(await service.web("owner"), "stranger@example.com")
    responses = [
        await service.nobody(f"198.51.100.{number}").post(ACCEPT, acceptance(invited)) for number in range(11)
    ]
    assert [response.status for response in responses] == [422] * 10 + [429]
    assert responses[-1].headers["retry-after"] == "60"
    signed_in = await service.nobody().post(
        "/app/session", {"email": "stranger@example.com", "password": PASSWORD}
    )
    assert signed_in.status == 429


async def test_acceptances_of_one_address_are_limited(service: Service) -> None:
    """Refuses the eleventh acceptance of a minute from one source."""
    responses = [await service.nobody().post(ACCEPT, {}) for _ in range(11)]
    assert [response.status for response in responses] == [422] * 10 + [429]


async def test_an_invitation_gives_nobody_anothers_account(service: Service) -> None:
    """Refuses to set a password by a link on an operator's account that has none."""
    owner = await service.web("owner")

    async def act(tx: Any) -> None:
        person = await people.create(tx, CreatePerson("api@example.com", "Api", "Only"))
        await people.add_to_organization(tx, person, service.other.organization.id, Role.OWNER)

    await service.write(act)
    response = await service.nobody().post(ACCEPT, acceptance(await invite(owner, "api@example.com")))
    assert (response.status, set(response.errors)) == (422, {"password"})


async def test_the_first_acceptance_sets_the_password_for_all(service: Service) -> None:
    """Requires the password set by the first acceptance when a second organization's link is used."""
    first = await invite(await service.web("owner"))
    second = await invite(await service.web("stranger"))
    assert (await service.nobody().post(ACCEPT, acceptance(first))).status == 200
    response = await service.nobody().post(ACCEPT, acceptance(second, password="another harbour 1931"))
    assert (response.status, set(response.errors)) == (422, {"password"})
    joined = await service.nobody().post(ACCEPT, acceptance(second))
    assert len(joined.data["session"]["organizations"]) == 2


async def test_a_member_is_not_invited_again(service: Service) -> None:
    """Refuses with 422 on `email` to invite a member, also one who was deactivated."""
    owner = await service.web("owner")
    response = await invite(owner, "member@example.com")
    assert (response.status, set(response.errors)) == (422, {"email"})
    await owner.post(f"{PEOPLE}/{service.members['member'].person.id}/deactivate")
    assert set((await invite(owner, "member@example.com")).errors) == {"email"}


async def test_an_invitation_is_withdrawn_and_issued_again(service: Service) -> None:
    """Withdraws an invitation and invites again; a person who never joined cannot be activated."""
    owner = await service.web("owner")
    invited = await invite(owner)
    target = f"{PEOPLE}/{invited.data['person']['id']}"
    assert (await owner.post(f"{target}/activate")).code == "wrong_state"
    assert (await owner.patch(target, {"role": "approver"})).data["person"]["state"] == "invited"
    gone = await owner.post(f"{target}/deactivate")
    assert gone.data["person"]["state"] == "deactivated"
    assert set((await service.nobody().post(ACCEPT, acceptance(invited))).errors) == {"token"}
    assert (await owner.post(f"{target}/activate")).code == "wrong_state"
    again = await invite(owner)
    assert again.data["person"]["state"] == "invited"
    assert (await service.nobody().post(ACCEPT, acceptance(again))).status == 200


async def test_an_account_that_was_switched_off_cannot_accept(service: Service) -> None:
    """Refuses an acceptance by an account that the operator switched off."""
    invited = await invite(await service.web("owner"), "stranger@example.com")
    person = service.members["stranger"].person
    await service.write(lambda tx: people.set_active(tx, person, False))
    response = await service.nobody().post(ACCEPT, {"token": token_of(invited), "password": PASSWORD})
    assert set(response.errors) == {"token"}


# In order: no account, one of another organization, one without a password, one that is switched off, and a
# person who was invited elsewhere and has not accepted.
ADDRESSES = (
    "none@example.com",
    "stranger@example.com",
    "no-word@example.com",
    "off@example.com",
    "two@example.com",
)


async def _accounts(service: Service) -> None:
    async def act(tx: Tx) -> None:
        for email in ("no-word@example.com", "off@example.com"):
            person = await people.create(tx, CreatePerson(email, "Old", "Name"))
            await people.add_to_organization(tx, person, service.other.organization.id, Role.OWNER)
            if email.startswith("off"):
                await people.set_active(tx, person, False)

    await service.write(act)
    await invite(await service.web("stranger"), "two@example.com", first_name="Theirs")


def _without(data: Any, *mine: Any) -> Any:
    """Returns a record with the values that differ between addresses masked."""
    if isinstance(data, dict):
        return {name: _without(value, *mine) for name, value in data.items() if name != "request_id"}
    if isinstance(data, list):
        return [_without(item, *mine) for item in data]
    return "*" if data in mine else data


async def test_inviting_does_not_reveal_whether_an_address_has_an_account(service: Service) -> None:
    """Answers and lists alike, with consecutive person ids, whether or not the address has an account."""
    await _accounts(service)
    owner = await service.web("owner")
    actual, numbers = [], []
    for email in ADDRESSES:
        invited = await invite(owner, email.upper(), first_name="Given")
        person = invited.data["person"]
        numbers.append(person["id"])
        listed = (await owner.get(PEOPLE)).data["people"][0]
        changed = await owner.patch(f"{PEOPLE}/{person['id']}", {"role": "approver"})
        gone = await owner.post(f"{PEOPLE}/{person['id']}/deactivate")
        back = await owner.post(f"{PEOPLE}/{person['id']}/activate")
        again = await invite(owner, email, first_name="Given")
        mine = (person["id"], email, invited.data["invite_url"], again.data["invite_url"])
        responses = (invited, changed, gone, back, again)
        actual.append(
            _without([listed, *([response.status, response.body] for response in responses)], *mine)
        )
    assert all(item == actual[0] for item in actual)
    assert numbers == list(range(numbers[0], numbers[0] + len(ADDRESSES)))


REFUSED: list[dict[str, Any]] = [
    {"password": "short", "first_name": ..., "last_name": ...},
    {"password": "short"},
    {"first_name": ..., "last_name": ...},
    {"first_name": ""},
    {"password": "my Demo Shop secret"},
    {"password": "password123456"},
    {"token": "x" * 43},
    {"surplus": 1},
]


async def test_a_link_shows_no_membership_before_the_password_is_proven(service: Service) -> None:
    """Refuses invalid acceptances alike whether or not the address has an account."""
    await _accounts(service)
    service.clock.tick(61)
    owner = await service.web("owner")
    actual = []
    for number, email in enumerate(ADDRESSES):
        invited = await invite(owner, email)
        person = service.nobody(f"203.0.113.{number}")
        responses = [await person.post(ACCEPT, acceptance(invited, **fields)) for fields in REFUSED]
        assert [response.status for response in responses] == [422] * len(REFUSED)
        actual.append([_without(response.body) for response in responses])
    assert all(item == actual[0] for item in actual)


async def test_tries_are_limited_alike_with_and_without_an_account(service: Service) -> None:
    """Refuses the eleventh acceptance of an address alike whether or not it has an account."""
    await _accounts(service)
    service.clock.tick(61)
    owner = await service.web("owner")
    for first, email in enumerate(ADDRESSES):
        invited = await invite(owner, email)
        statuses = [
            (
                await service.nobody(f"198.51.{first}.{number}").post(
                    ACCEPT, acceptance(invited, password="short")
                )
            ).status
            for number in range(11)
        ]
        assert statuses == [422] * 10 + [429]


async def test_an_account_refuses_another_password_in_one_way(service: Service) -> None:
    """Refuses a switched-off account and one without a password as it refuses a wrong password."""
    await _accounts(service)
    owner = await service.web("owner")
    for email in ("no-word@example.com", "off@example.com", "stranger@example.com"):
        response = await service.nobody().post(ACCEPT, acceptance(await invite(owner, email)))
        assert (response.status, response.errors) == (422, {"password": [invitations.ACCOUNT_EXISTS]})


async def test_an_operator_adds_somebody_who_is_invited(service: Service) -> None:
    """Ends the invitation of a person whom an operator adds, and lists the person once."""
    await _accounts(service)
    owner = await service.web("owner")
    invited = [await invite(owner, email) for email in ("stranger@example.com", "later@example.com")]

    async def act(tx: Tx) -> None:
        org = service.own.organization.id
        await people.add_to_organization(tx, service.members["stranger"].person, org, Role.MEMBER)
        later = await people.create(tx, CreatePerson("later@example.com", "Later", "On"))
        await people.add_to_organization(tx, later, org, Role.MEMBER)

    await service.write(act)
    emails = [person["email"] for person in (await owner.get(PEOPLE)).data["people"]]
    assert sorted(emails) == sorted(set(emails))
    for invitation in invited:
        assert set((await service.nobody().post(ACCEPT, acceptance(invitation))).errors) == {"token"}


WRONG: list[tuple[dict[str, object], set[str]]] = [
    ({}, {"email", "role"}),
    ({"email": "nobody", "role": "boss"}, {"email", "role"}),
    ({"email": "a b@example.com", "role": "member"}, {"email"}),
    ({"email": f"{'x' * 309}@example.com", "role": "member"}, {"email"}),
    ({"email": "a@example.com", "role": "member", "first_name": "x" * 121}, {"first_name"}),
    ({"email": "a@example.com", "role": "member", "last_name": "a\nb", "id": 1}, {"last_name", "id"}),
]


async def test_an_invitation_names_its_faults(service: Service) -> None:
    """Refuses an invitation with every invalid or unknown field under its name."""
    for body, wrong in WRONG:
        response = await (await service.web("owner")).post(PEOPLE, body)
        assert (response.status, set(response.errors)) == (422, wrong), body


async def test_accepting_from_another_page_is_refused(service: Service) -> None:
    """Refuses an acceptance that another origin's page sends with 403 `csrf_failed`."""
    response = await service.nobody().post(ACCEPT, {}, Origin="https://elsewhere.example")
    assert (response.status, response.code) == (403, "csrf_failed")
