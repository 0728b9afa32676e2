"""The organization's settings."""

import asyncio

from tests.api.audited import actions
from tests.service import Service

PATH = "/app/organization"


async def test_everybody_reads_the_organization(service: Service) -> None:
    """Answers the settings to every role."""
    expected = {
        "id": service.own.organization.id,
        "name": "Demo Shop",
        "timezone": "Europe/Berlin",
        "send_without_approval": True,
        "automations_enabled": True,
    }
    for name in ("owner", "approver", "member"):
        response = await (await service.web(name)).get(PATH)
        assert (response.status, response.data) == (200, {"organization": expected})


async def test_an_owner_changes_each_field_and_only_what_is_given(service: Service) -> None:
    """Changes the given fields alone, normalises the name and writes an audit entry for each change."""
    web = await service.web("owner")
    for body in (
        {"name": "  Demo\u0301 Shop  "},
        {"timezone": "America/New_York"},
        {"send_without_approval": False},
    ):
        before = (await web.get(PATH)).data["organization"]
        response = await web.patch(PATH, body)
        expected = {**before, **body} | ({"name": "Dem\u00f3 Shop"} if "name" in body else {})
        assert (response.status, response.data["organization"]) == (200, expected)
        assert (await web.get(PATH)).data == response.data
    done = [action for action, _, _ in await actions(service, service.own.organization.id)]
    assert done == ["organization_changed"] * 3


async def test_a_change_of_nothing_is_no_change(service: Service) -> None:
    """Accepts an update that changes nothing and writes no audit entry."""
    web = await service.web("owner")
    assert (await web.patch(PATH, {})).status == 200
    assert (await web.patch(PATH, {"name": "Demo Shop", "timezone": "Europe/Berlin"})).status == 200
    assert await actions(service, service.own.organization.id) == []


async def test_a_new_name_counts_at_the_next_login(service: Service) -> None:
    """Requires the new organization name at the next login. See docs/design/api/sign-in.md#login."""
    await (await service.web("owner")).patch(PATH, {"name": "Tea House"})
    assert (await service.log_in("member")).status == 401
    response = await service.log_in("member", organization_name="tea house")
    assert response.body["organization"]["name"] == "Tea House"


WRONG: list[tuple[dict[str, object], set[str] | None]] = [
    ({"name": ""}, {"name"}),
    ({"name": "x" * 121}, {"name"}),
    ({"name": "a\u200bb"}, {"name"}),
    ({"name": "OTHER  shop", "timezone": "Mars/Olympus"}, {"name", "timezone"}),
    ({"name": None, "timezone": None, "send_without_approval": None}, None),
    ({"timezone": "europe/berlin"}, {"timezone"}),
    ({"send_without_approval": "no"}, {"send_without_approval"}),
    ({"automations_enabled": False, "id": 5}, {"automations_enabled", "id"}),
]


async def test_invalid_organization_fields_are_named(service: Service) -> None:
    """Names invalid, null, unknown and read-only fields and changes nothing."""
    for body, wrong in WRONG:
        web = await service.web("owner")
        response = await web.patch(PATH, body)
        assert (response.status, set(response.errors)) == (422, wrong or set(body)), body
        assert (await web.get(PATH)).data["organization"]["name"] == "Demo Shop", body


async def test_a_name_of_120_characters_is_accepted(service: Service) -> None:
    """Accepts a name of 120 characters; of one that is longer, says how many characters there may be."""
    owner = await service.web("owner")
    assert (await owner.patch(PATH, {"name": "x" * 120})).status == 200
    refused = await owner.patch(PATH, {"name": "x" * 121})
    assert refused.errors == {"name": ["Give at most 120 characters."]}


async def test_two_organizations_never_take_one_name(service: Service) -> None:
    """Lets one of two organizations take a name that both request at once."""
    caller, other = await service.web("owner"), await service.web("stranger")
    responses = await asyncio.gather(
        caller.patch(PATH, {"name": "Tea House"}), other.patch(PATH, {"name": "TEA HOUSE"})
    )
    assert sorted(response.status for response in responses) == [200, 422]


async def test_only_an_owner_changes_it(service: Service) -> None:
    """Refuses a change by an approver or a member with 403."""
    for name in ("approver", "member"):
        response = await (await service.web(name)).patch(PATH, {"name": "Mine"})
        assert (response.status, response.code) == (403, "forbidden")


async def test_an_installation_without_accounts_says_that_setup_is_needed(service: Service) -> None:
    """Reports that setup is needed while all people are unaccepted invitations."""
    await service.write(lambda tx: tx.execute("UPDATE people SET unclaimed = TRUE"))
    assert (await service.nobody().get("/app/options")).data == {
        "mail": False,
        "setup_needed": True,
        "undo_days": 365,
    }
