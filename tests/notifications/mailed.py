"""Reads the account mails that wait to be sent."""

from typing import Any, cast

from steward.database.engine.base import Tx
from steward.database.notifications import messages
from steward.model.ids import MessageId, OrgId
from steward.notifications import account_mail
from steward.notifications.account_mail import AccountMail
from tests.service import Service


async def account_mails(service: Service, org: OrgId | None = None) -> list[AccountMail]:
    """Returns the waiting mails of an organization's people, oldest first."""
    own_org = org or service.own.organization.id

    async def act(tx: Tx) -> list[AccountMail]:
        rows = await tx.all(
            "SELECT id FROM messages WHERE org_id = :org AND kind = 'transactional' AND sealed IS NOT NULL"
            " ORDER BY created_at, id",
            {"org": own_org},
        )
        stored = await messages.lock_many(tx, own_org, [MessageId(row["id"]) for row in rows])
        vault = service.context.vault
        return [await account_mail.opened(tx, vault, cast("Any", message)) for message in stored]

    found_account_mails: list[AccountMail] = await service.write(act, org=own_org)
    return found_account_mails


def token_of(mail: AccountMail) -> str:
    """Returns the token in the fragment of a mail's link."""
    assert mail.link is not None
    return mail.link.partition("#token=")[2]
