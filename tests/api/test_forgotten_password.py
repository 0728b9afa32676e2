"""Forgotten passwords: a mailed link that works once, and answers that reveal no account."""

from typing import Any

import pytest

from steward.accounts import forgotten_password
from steward.database.engine.base import Tx
from steward.notifications import account_mails as sending
from tests.api.audited import actions
from tests.notifications.mailed import account_mails, token_of
from tests.people import PASSWORD
from tests.service import BASE_URL, Service

FORGOT, RESET = "/app/password/forgot", "/app/password/reset"
NEW = "plum orbit canvas nine"


@pytest.fixture
async def mailing(service: Service) -> Service:
    """Returns the service with a mail server configured."""
    service.restart(mail=True)
    return service


async def link_for(service: Service, name: str = "member") -> str:
    """Requests a link for one of the cast and returns the mailed token."""
    service.clock.tick(1)  # mails of the same instant have no defined order
    response = await service.nobody().post(FORGOT, {"email": f"{name}@example.com"})
    assert (response.status, response.data) == (200, {})
    return token_of((await account_mails(service))[-1])


async def test_a_link_is_mailed_to_the_accounts_own_address(mailing: Service) -> None:
    """Mails the link to the stored address, its token in the fragment; wakes delivery, logs no token."""
    response = await mailing.nobody().post(FORGOT, {"email": "MEMBER@example.com "})
    assert (response.status, response.data) == (200, {})
    [mail] = await account_mails(mailing)
    assert mail.to == "member@example.com"
    assert str(mail.link).startswith(f"{BASE_URL}{sending.RESET_PAGE}#token=")
    assert "deliver_email" in mailing.wake_hints
    assert token_of(mail) not in "".join(mailing.lines)


async def test_a_new_password_ends_every_session_and_signs_nobody_in(mailing: Service) -> None:
    """Ends the old password and every session, signs nobody in, mails a notice and writes an audit entry."""
    web = await mailing.web("member")
    token = await link_for(mailing)
    mailing.clock.tick(1)
    response = await mailing.nobody().post(RESET, {"token": token, "new_password": NEW})
    assert (response.status, response.data) == (200, {})
    assert "set-cookie" not in response.headers
    assert (await web.get("/app/session")).status == 401
    old = await mailing.nobody().post("/app/session", {"email": "member@example.com", "password": PASSWORD})
    assert old.code == "invalid_credentials"
    assert (await mailing.web("member", NEW)).csrf
    [mail] = await account_mails(mailing)  # the mail with the used link is withdrawn
    assert (mail.to, "changed" in mail.subject) == ("member@example.com", True)
    who = str(mailing.members["member"].person.id)
    assert await actions(mailing, mailing.own.organization.id) == [("password_reset", who, who)]


async def test_a_link_works_once_and_ends_the_others(mailing: Service) -> None:
    """Refuses every link of the account once one of them was used, as it refuses an unknown token."""
    first, second = await link_for(mailing), await link_for(mailing)
    assert (await mailing.nobody().post(RESET, {"token": second, "new_password": NEW})).status == 200
    for token in (first, second, "x" * 43):
        response = await mailing.nobody().post(RESET, {"token": token, "new_password": NEW})
        assert response.errors == {"token": [forgotten_password.INVALID]}


@pytest.mark.parametrize(("seconds", "status"), [(3599, 200), (3600, 422)])
async def test_a_link_lives_for_an_hour(mailing: Service, seconds: int, status: int) -> None:
    """Accepts a link one second before the hour ends and refuses it when the hour is over."""
    token = await link_for(mailing)
    mailing.clock.tick(seconds)
    response = await mailing.nobody().post(RESET, {"token": token, "new_password": NEW})
    assert response.status == status


async def test_a_weak_password_is_refused_and_the_link_continues(mailing: Service) -> None:
    """Refuses a weak password and leaves the link valid for another attempt."""
    token = await link_for(mailing)
    for weak in ("short", "password1234", "member member member"):
        response = await mailing.nobody().post(RESET, {"token": token, "new_password": weak})
        assert set(response.errors) == {"new_password"}
    assert (await mailing.nobody().post(RESET, {"token": token, "new_password": NEW})).status == 200


async def test_only_active_accounts_get_a_link_and_the_response_never_reveals_it(mailing: Service) -> None:
    """Answers alike for unknown, invited, deactivated and active addresses, and mails only the active one."""
    web = await mailing.web("owner")
    mailing.restart(mail=False)
    await web.post("/app/people", {"email": "invited@example.com", "role": "member"})
    mailing.restart(mail=True)
    await web.post(f"/app/people/{mailing.members['approver'].person.id}/deactivate")
    responses = []
    for name in ("nobody", "invited", "approver", "member"):
        response = await mailing.nobody(f"203.0.113.{len(responses)}").post(
            FORGOT, {"email": f"{name}@example.com"}
        )
        responses.append((response.status, response.body))
    assert len({str(reply) for reply in responses}) == 1
    assert [mail.to for mail in await account_mails(mailing)] == ["member@example.com"]


class _Recorded:
    """Wraps a transaction and counts its statements."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.statements = 0

    def __getattr__(self, name: str) -> Any:
        if name in ("first", "all", "execute", "set_tenant"):
            self.statements += 1
        return getattr(self._tx, name)


async def test_an_unknown_address_runs_as_many_statements(mailing: Service) -> None:
    """Runs as many statements for an unknown address, so that timing does not reveal accounts."""

    async def statements(tx: Tx, email: str) -> int:
        recorded: Any = _Recorded(tx)
        link = await forgotten_password.request(recorded, email)
        await sending.send_reset_link(recorded, mailing.context.vault, link, web_origin=BASE_URL)
        assert (link is None) == email.startswith("nobody")
        count: int = recorded.statements
        return count

    await link_for(mailing)  # the first sealed value of the organization creates its key
    counts = [
        await mailing.write(lambda tx, name=name: statements(tx, f"{name}@example.com"))
        for name in ("owner", "nobody")
    ]
    assert counts[0] == counts[1]


async def test_three_requests_an_hour_count_for_an_address_whether_or_not_it_is_anybodys(
    mailing: Service,
) -> None:
    """Refuses the fourth request of an hour for one address, known or not, from any source."""
    for name in ("member", "nobody"):
        body = {"email": f"{name}@example.com"}
        for number in range(3):
            assert (await mailing.nobody(f"203.0.113.{number}").post(FORGOT, body)).status == 200
        response = await mailing.nobody("203.0.113.9").post(FORGOT, body)
        assert (response.status, response.headers["retry-after"]) == (429, "3600")
    assert (await mailing.nobody().post(FORGOT, {"email": "owner@example.com"})).status == 200
    mailing.clock.tick(3600)
    assert (await mailing.nobody().post(FORGOT, {"email": "member@example.com"})).status == 200


async def test_ten_requests_a_minute_count_for_a_source(mailing: Service) -> None:
    """Refuses the eleventh request of a minute from one source and accepts it a minute later."""
    source = mailing.nobody("198.51.100.4")
    for number in range(10):
        assert (await source.post(FORGOT, {"email": f"p{number}@example.com"})).status == 200
    assert (await source.post(FORGOT, {"email": "another@example.com"})).code == "rate_limited"
    mailing.clock.tick(60)
    assert (await source.post(FORGOT, {"email": "another@example.com"})).status == 200


async def test_without_a_mail_server_nothing_is_offered(service: Service) -> None:
    """Answers 503 `not_configured` without a mail server and creates no link."""
    response = await service.nobody().post(FORGOT, {"email": "member@example.com"})
    assert (response.status, response.code) == (503, "not_configured")
    assert await account_mails(service) == []


async def test_an_account_switched_off_meanwhile_gets_no_new_password(mailing: Service) -> None:
    """Refuses a link that was mailed before the account was deactivated."""
    token = await link_for(mailing)
    who = mailing.members["member"].person.id

    async def switch_off(tx: Tx) -> None:
        await tx.execute(
            "UPDATE people SET active = :off WHERE person_id = :person", {"off": False, "person": who}
        )

    await mailing.write(switch_off)
    response = await mailing.nobody().post(RESET, {"token": token, "new_password": NEW})
    assert response.errors == {"token": [forgotten_password.INVALID]}
