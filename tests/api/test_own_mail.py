"""A test mail to oneself, and what owners see while mail does not go out."""

from steward.database.engine.base import Tx
from tests.service import Service

PATH = "/app/notification-preferences"
TEST = f"{PATH}/test"


async def test_a_test_mail_is_queued_and_its_end_is_read_with_the_preferences(service: Service) -> None:
    """Queues ten test mails an hour for each person and answers the state of the latest one."""
    service.restart(mail=True)
    web = await service.web("member")
    assert (await web.get(PATH)).data["mail_test"] is None
    for _ in range(10):
        assert (await web.post(TEST)).status == 200
    refused = await web.post(TEST)
    assert (refused.status, refused.code) == (429, "rate_limited")
    assert "deliver_email" in service.wake_hints
    tested = (await web.get(PATH)).data["mail_test"]
    assert (tested["state"], tested["error"]) == ("waiting", None)
    assert (await (await service.web("owner")).get(PATH)).data["mail_test"] is None

    async def end(tx: Tx) -> None:
        words = {"words": "The mail server refused the address.", "org": service.members["member"].org}
        await tx.execute(
            "UPDATE messages SET state = 'refused', next_try_at = NULL, error = :words WHERE org_id = :org",
            words,
        )

    await service.write(end, org=service.members["member"].org)
    tested = (await web.get(PATH)).data["mail_test"]
    assert (tested["state"], tested["error"]) == ("failed", "The mail server refused the address.")
    service.clock.tick(3600)
    assert (await (await service.web("member")).post(TEST)).status == 200


async def test_without_a_mail_server_no_test_is_sent(service: Service) -> None:
    """Answers 503 `not_configured` and names the missing mail server."""
    refused = await (await service.web("member")).post(TEST)
    assert (refused.status, refused.code) == (503, "not_configured")
    assert "no mail server" in refused.body["message"]


async def test_owners_see_that_mail_does_not_go_out(service: Service) -> None:
    """Tells owners alone once a mail has waited 15 minutes and none was accepted since."""
    service.restart(mail=True)
    owner = await service.web("owner")
    await owner.post(TEST)
    since = (await owner.get(PATH)).data["mail_test"]["at"]
    service.clock.tick(15 * 60 - 1)
    assert (await owner.get("/app/inbox")).data["mail_down_since"] is None
    service.clock.tick(1)
    assert (await owner.get("/app/inbox")).data["mail_down_since"] == since
    assert (await (await service.web("member")).get("/app/inbox")).data["mail_down_since"] is None

    async def accept(tx: Tx) -> None:
        await tx.execute(
            "UPDATE messages SET state = 'sent', next_try_at = NULL, sent_at = :now WHERE org_id = :org",
            {"org": service.own.organization.id},
        )

    await service.write(accept, org=service.own.organization.id)
    assert (await owner.get("/app/inbox")).data["mail_down_since"] is None
