"""The people of an organization: the list, roles, and ending and restoring memberships."""

import asyncio

import pytest

from steward.accounts import people
from steward.database.engine.base import Tx
from steward.database.notifications import receivers
from steward.model.account import Role
from steward.model.instants import wire_time
from tests.api.audited import actions
from tests.service import Service

PEOPLE = "/app/people"
STATUS = "/v1/automations/status"


def of(service: Service, name: str) -> str:
    """Returns the API path of one of the cast."""
    return f"{PEOPLE}/{service.members[name].person.id}"


async def test_everybody_sees_the_people_of_their_organization_alone(service: Service) -> None:
    """Lists the people of the caller's organization alone, with role, state and when each was last seen.

    See docs/design/api/organization.md#people and docs/design/api/conventions.md#scope.
    """
    service.clock.tick(61)
    web = await service.web("member")
    service.clock.tick(61)
    await web.get(STATUS)
    response = await web.get(PEOPLE)
    assert response.status == 200
    assert response.data["next_cursor"] is None
    results = {person["email"]: person for person in response.data["people"]}
    assert set(results) == {"owner@example.com", "approver@example.com", "member@example.com"}
    assert results["member@example.com"] == {
        "id": service.members["member"].person.id,
        "email": "member@example.com",
        "username": "Mia Member",
        "first_name": "Mia",
        "last_name": "Member",
        "role": "member",
        "state": "active",
        "last_seen_at": wire_time(service.clock.now()),
        "mail_refused": False,
    }
    assert results["owner@example.com"]["last_seen_at"] is None


async def test_people_are_paged_newest_first(service: Service) -> None:
    """Pages people newest first, each once."""
    web = await service.web("owner")
    everybody = [person["id"] for person in (await web.get(PEOPLE)).data["people"]]
    assert everybody == sorted(everybody, reverse=True)
    paged, cursor = [], None
    while True:
        query = {"limit": 1} | ({"cursor": cursor} if cursor else {})
        page = (await web.get(PEOPLE, **query)).data
        paged += [person["id"] for person in page["people"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert paged == everybody


async def test_a_role_takes_effect_on_the_next_call(service: Service) -> None:
    """Applies a new role to the person's next call and writes one audit entry for it."""
    owner, member = await service.web("owner"), await service.web("member")
    assert (await member.patch("/app/organization", {})).code == "forbidden"
    response = await owner.patch(of(service, "member"), {"role": "owner"})
    assert (response.status, response.data["person"]["role"]) == (200, "owner")
    assert (await member.patch("/app/organization", {})).status == 200
    again = await owner.patch(of(service, "member"), {"role": "owner"})
    assert again.data == response.data
    who = str(service.members["owner"].person.id)
    whom = str(service.members["member"].person.id)
    assert await actions(service, service.own.organization.id) == [("role_changed", who, whom)]


async def test_a_membership_ends_and_comes_back(service: Service) -> None:
    """Refuses a deactivated person's sessions, tokens and logins from the next call on.

    Activation makes the tokens valid again and the person signs in again; repeats of either change nothing.
    """
    owner, web, token = await service.web("owner"), await service.web("member"), await service.token("member")
    response = await owner.post(f"{of(service, 'member')}/deactivate")
    assert (response.status, response.data["person"]["state"]) == (200, "deactivated")
    assert (await web.get(STATUS)).status == 401
    assert (await token.get(STATUS)).status == 401
    assert (await service.log_in("member")).code == "invalid_credentials"
    assert (await owner.post(f"{of(service, 'member')}/deactivate")).data == response.data
    service.clock.tick(1)
    back = await owner.post(f"{of(service, 'member')}/activate")
    assert back.data["person"]["state"] == "active"
    assert (await owner.post(f"{of(service, 'member')}/activate")).data == back.data
    assert (await token.get(STATUS)).status == 200
    assert (await web.get(STATUS)).status == 401
    assert (await (await service.web("member")).get(STATUS)).status == 200
    done = [action for action, _, _ in await actions(service, service.own.organization.id)]
    assert done == ["member_deactivated", "member_activated"]


async def test_a_membership_elsewhere_is_not_touched(service: Service) -> None:
    """Leaves the person's membership and session in another organization as they were."""
    member, other = service.members["member"], service.other.organization.id
    await service.write(lambda tx: people.add_to_organization(tx, member.person, other, Role.MEMBER))
    web = await service.web("member")
    chosen = await web.post("/app/session/organization", {"organization_id": other})
    web.csrf = chosen.data["session"]["csrf_token"]
    await (await service.web("owner")).post(f"{of(service, 'member')}/deactivate")
    session = (await web.get("/app/session")).data["session"]
    assert [item["id"] for item in session["organizations"]] == [other]
    assert (await web.get(STATUS)).status == 200


async def test_the_last_owner_stays_one(service: Service) -> None:
    """Refuses to demote or deactivate the last owner until there is another one."""
    owner = await service.web("owner")
    for response in (
        await owner.patch(of(service, "owner"), {"role": "approver"}),
        await owner.post(f"{of(service, 'owner')}/deactivate"),
    ):
        assert (response.status, response.code) == (409, "wrong_state")
    assert (await owner.patch(of(service, "owner"), {"role": "owner"})).status == 200
    await owner.patch(of(service, "approver"), {"role": "owner"})
    assert (await owner.patch(of(service, "owner"), {"role": "member"})).status == 200
    assert (await owner.get("/app/session")).data["session"]["organization"]["role"] == "member"


async def test_an_owner_whose_account_is_off_does_not_count(service: Service) -> None:
    """Counts an owner whose account the operator switched off as no owner."""
    owner = await service.web("owner")
    await owner.patch(of(service, "approver"), {"role": "owner"})
    off = service.members["approver"].person
    await service.write(lambda tx: people.set_active(tx, off, False))
    assert (await owner.patch(of(service, "owner"), {"role": "member"})).code == "wrong_state"
    shown_people = (await owner.get(PEOPLE)).data["people"]
    assert {person["state"] for person in shown_people if person["id"] == off.id} == {"deactivated"}


async def test_two_owners_cannot_both_leave_at_once(service: Service) -> None:
    """Lets one of two owners who step down at the same time do so."""
    first = await service.web("owner")
    await first.patch(of(service, "approver"), {"role": "owner"})
    second = await service.web("approver")
    responses = await asyncio.gather(
        first.patch(of(service, "owner"), {"role": "member"}),
        second.patch(of(service, "approver"), {"role": "member"}),
    )
    assert sorted(response.status for response in responses) == [200, 409]


@pytest.mark.parametrize("name", ["member", "approver"])
async def test_only_owners_change_people(service: Service, name: str) -> None:
    """Answers 403 to an approver or member who changes people, and lets them read the list."""
    web = await service.web(name)
    target = of(service, "member")
    for response in (
        await web.post(PEOPLE, {"email": "new@example.com", "role": "member"}),
        await web.patch(target, {"role": "owner"}),
        await web.post(f"{target}/deactivate"),
        await web.post(f"{target}/activate"),
    ):
        assert (response.status, response.code) == (403, "forbidden")
    assert (await web.get(PEOPLE)).status == 200


async def test_people_of_other_organizations_are_not_found(service: Service) -> None:
    """Answers the same 404 for another organization's person as for an unknown one."""
    web = await service.web("owner")
    foreign, absent = of(service, "stranger"), f"{PEOPLE}/999999"
    for method, tail, body in (
        ("PATCH", "", {"role": "member"}),
        ("POST", "/deactivate", {}),
        ("POST", "/activate", {}),
    ):
        response = await web.call(method, foreign + tail, body=body)
        other = await web.call(method, absent + tail, body=body)
        assert (response.status, response.body) == (404, other.body)


NO_ROLES: list[dict[str, object]] = [
    {},
    {"role": "king"},
    {"role": None},
    {"role": "member", "email": "x@y.z"},
]


async def test_a_role_is_one_of_the_three(service: Service) -> None:
    """Refuses a missing or unknown role and unknown fields under their names."""
    for body in NO_ROLES:
        response = await (await service.web("owner")).patch(of(service, "member"), body)
        assert (response.status, set(response.errors)) == (422, {"email"} if "email" in body else {"role"}), (
            body
        )


async def test_a_token_never_reaches_people(service: Service) -> None:
    """Answers 403 to a token on endpoints that belong to the web app."""
    token = await service.token("owner")
    for path in (PEOPLE, "/app/organization", "/app/password", "/app/invitations/accept"):
        assert (await token.get(path)).code == "forbidden"


async def test_an_owner_has_refused_mail_tried_again(service: Service) -> None:
    """Shows mail as refused after three refusals in a row, and lets only an owner have it tried again."""
    web, member = await service.web("owner"), service.members["member"]
    path = f"/app/people/{member.person.id}/mail-again"
    for refusals in (2, 3):

        async def refuse(tx: Tx, refusals: int = refusals) -> None:
            while await receivers.count_refusal(tx, member.org, member.person.id) < refusals:
                pass

        await service.write(refuse, org=member.org)
        listed = (await web.get("/app/people")).data["people"]
        refused = {person["id"] for person in listed if person["mail_refused"]}
        assert refused == ({member.person.id} if refusals == 3 else set())
    assert (await (await service.web("approver")).post(path)).code == "forbidden"
    assert (await (await service.web("stranger")).post(path)).status == 404
    response = await web.post(path)
    assert (response.status, response.data["person"]["mail_refused"]) == (200, False)
    assert not any(person["mail_refused"] for person in (await web.get("/app/people")).data["people"])
