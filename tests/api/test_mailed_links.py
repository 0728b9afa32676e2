"""Invitations by mail, unsubscribing from digests, and links whose opening changes nothing."""

import os
from dataclasses import replace
from functools import partial
from itertools import cycle, islice, product

import pytest

from steward.database.engine.base import Tx
from steward.database.notifications import own_preferences
from steward.model.ids import OrgId, PersonId
from steward.model.notice import DEFAULT_PREFERENCES, MailChoice, NoticeGroup, Preferences, Topic
from steward.notifications.texts import INBOX_PAGE, NoticeIds, page
from steward.security.unsubscribe import subscriber_of, unsubscribe_token
from tests.notifications.mailed import account_mails, token_of
from tests.service import Service

PEOPLE = "/app/people"
GUEST = {"email": "guest@example.com", "role": "approver", "first_name": "Gus", "last_name": "Guest"}


async def test_an_invitation_is_mailed_and_its_link_still_shown(service: Service) -> None:
    """Mails who invites, to which organization and in which role, with the link that is answered too."""
    service.restart(mail=True)
    response = await (await service.web("owner")).post(PEOPLE, GUEST)
    assert (response.status, response.data["mailed"]) == (201, True)
    [mail] = await account_mails(service)
    assert (mail.to, mail.link) == ("guest@example.com", response.data["invite_url"])
    assert mail.subject == "Olga Owner invites you to Demo Shop"
    assert "as an approver" in mail.paragraphs[0]
    accepted = await service.nobody().post(
        "/app/invitations/accept",
        {
            "token": token_of(mail),
            "password": "plum orbit canvas nine",
            "first_name": "Gus",
            "last_name": "Guest",
        },
    )
    assert accepted.status == 200, accepted.body
    assert await account_mails(service) == [], "what still waited would lead to a used link"


async def test_without_a_mail_server_the_link_is_carried_by_hand(service: Service) -> None:
    """Answers the link with `mailed` false when there is no mail server, and queues nothing."""
    response = await (await service.web("owner")).post(PEOPLE, GUEST)
    assert (response.status, response.data["mailed"]) == (201, False)
    assert "#token=" in response.data["invite_url"]
    assert await account_mails(service) == []


async def test_an_invitation_is_made_again_with_a_new_link(service: Service) -> None:
    """Replaces the link and its waiting mail, and ends both when the person is deactivated.

    Refuses members, callers who are no owner and people of other organizations.
    """
    service.restart(mail=True)
    web = await service.web("owner")
    first = (await web.post(PEOPLE, GUEST)).data
    service.clock.tick(1)
    again = await web.post(f"{PEOPLE}/{first['person']['id']}/invite-again")
    assert (again.status, again.data["mailed"]) == (200, True)
    assert again.data["person"] == first["person"]
    assert again.data["invite_url"] != first["invite_url"]
    assert [mail.link for mail in await account_mails(service)] == [again.data["invite_url"]]
    body = {"token": first["invite_url"].partition("#token=")[2], "password": "plum orbit canvas nine"}
    assert (await service.nobody().post("/app/invitations/accept", body)).status == 422
    member = service.members["member"].person.id
    assert (await web.post(f"{PEOPLE}/{member}/invite-again")).code == "wrong_state"
    stranger = await service.web("stranger")
    assert (await stranger.post(f"{PEOPLE}/{first['person']['id']}/invite-again")).status == 404
    approver = await service.web("approver")
    assert (await approver.post(f"{PEOPLE}/{first['person']['id']}/invite-again")).code == "forbidden"
    assert (await web.post(f"{PEOPLE}/{first['person']['id']}/deactivate")).status == 200
    assert await account_mails(service) == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_hundred_invitations_a_day_are_mailed(service: Service) -> None:
    """Mails a hundred invitations a day for an organization and answers `mailed` false for the next."""
    service.restart(mail=True, limit_web=1_000_000)
    web = await service.web("owner")
    first = (await web.post(PEOPLE, GUEST)).data
    again = f"{PEOPLE}/{first['person']['id']}/invite-again"
    assert all([(await web.post(again)).data["mailed"] for _ in range(99)])
    assert (await web.post(again)).data["mailed"] is False
    service.clock.tick(24 * 3600 + 1)
    assert (await (await service.web("owner")).post(again)).data["mailed"] is True


async def preferences(service: Service, person: PersonId) -> Preferences:
    """Returns a person's preferences."""
    org = service.own.organization.id
    read = partial(own_preferences.get, org=org, person=person)
    outcome: Preferences = await service.context.engine.read(service.clock.now(), read, org=org)
    return outcome


async def test_a_digest_is_ended_by_the_form_of_a_mail_program(service: Service) -> None:
    """Ends the digests of a person by the one-click form, leaves immediate mail on and may be repeated."""
    org, person = service.own.organization.id, service.members["member"].person.id
    email = {**DEFAULT_PREFERENCES.email, NoticeGroup.RUNS: MailChoice.DIGEST}
    chosen = replace(DEFAULT_PREFERENCES, email=email)
    await service.write(partial(own_preferences.save, org=org, person=person, preferences=chosen), org=org)
    path = f"/unsubscribe/{unsubscribe_token(service.context.keys.cursor, org, person)}"
    caller = service.nobody()
    for _ in range(2):
        response = await caller.client.post(path, data={"List-Unsubscribe": "One-Click"})
        assert (response.status_code, response.json()["data"]) == (200, {})
    after = await preferences(service, person)
    assert after.email == {**DEFAULT_PREFERENCES.email, NoticeGroup.RUNS: MailChoice.OFF}


async def test_a_token_that_was_not_made_here_ends_nothing(service: Service) -> None:
    """Answers 404 to a token of another person, organization or key, and to one that was cut or extended."""
    key, org, person = service.context.keys.cursor, OrgId(1), PersonId(2)
    token = unsubscribe_token(key, org, person)
    assert subscriber_of(key, token) is not None
    signature = token.rpartition(".")[2]
    forged = [
        f"1.3.{signature}",
        f"2.2.{signature}",
        token[:-1],
        token + "x",
        "x",
        unsubscribe_token(b"k" * 32, org, person),
    ]
    for item in forged:
        assert subscriber_of(key, item) is None
        assert (await service.nobody().post(f"/unsubscribe/{item}")).status == 404


async def _everything(tx: Tx) -> dict[str, list[dict[str, object]]]:
    """Returns every row of every table without the times when a session or person was last seen."""
    unseen = ("seen_at", "last_seen_at")
    tables = await tx.all("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    content = {}
    for table in tables:
        rows = [dict(row) for row in await tx.all(f"SELECT * FROM {table['name']}")]
        content[str(table["name"])] = [
            {name: value for name, value in row.items() if name not in unseen} for row in rows
        ]
    return content


def _paths_of_notices() -> set[str]:
    """Returns every kind of page that a notice links to."""
    id_ = "01JD3Z0QH8N2Y5V7W9X1C4B6A8"
    ids = [
        NoticeIds(id_, id_, id_, 7, id_),
        NoticeIds(id_, id_),
        NoticeIds(id_),
        NoticeIds(),
        NoticeIds(route=id_),
    ]
    numbers = [(1, 1), (2, 1), (2, 2)]
    return {INBOX_PAGE} | {
        page(topic, item, count=count, automations=automations)
        for topic in Topic
        for item in ids
        for count, automations in numbers
    }


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_opening_a_link_changes_nothing(service: Service) -> None:
    """Changes nothing by GET and HEAD of every kind of link, with a session and without.

    Mail scanners and link previews do this. `LINK_OPENINGS=10000` sends that many requests.
    """
    service.restart(mail=True)
    web = await service.web("owner")
    invited = (await web.post(PEOPLE, GUEST)).data
    service.clock.tick(1)
    await service.nobody().post("/app/password/forgot", {"email": "member@example.com"})
    links = [mail.link for mail in await account_mails(service)]
    org, person = service.own.organization.id, service.members["member"].person.id
    unsubscribe = f"/unsubscribe/{unsubscribe_token(service.context.keys.cursor, org, person)}"
    reset = token_of((await account_mails(service))[-1])
    paths = [
        *(str(link).partition("#")[0] for link in links),
        *("/app/password/forgot", "/app/password/reset", "/app/invitations/accept"),
        *sorted(_paths_of_notices()),
        *(unsubscribe, f"{PEOPLE}/{invited['person']['id']}/invite-again", "/app/notification-routes"),
    ]
    before = await service.context.engine.read(service.clock.now(), _everything)
    openings = list(product((service.nobody(), web), paths, ("GET", "HEAD")))
    count = max(len(openings), int(os.environ.get("LINK_OPENINGS", "0")))
    for number, (caller, path, method) in enumerate(islice(cycle(openings), count)):
        service.clock.tick(number % 10 == 0)
        await caller.client.request(method, path)
    assert await service.context.engine.read(service.clock.now(), _everything) == before
    assert (await preferences(service, person)) == DEFAULT_PREFERENCES
    body = {"token": reset, "new_password": "plum orbit canvas nine"}
    assert (await service.nobody().post("/app/password/reset", body)).status == 200
