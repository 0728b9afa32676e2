"""Sends mails about accounts: invitations, links to a new password, notices of a changed password."""

from datetime import datetime

from steward.accounts.forgotten_password import ResetDone, ResetLink
from steward.accounts.invitations import IssuedInvitation
from steward.connections.vault import Vault
from steward.database.accounts import connections, members, organizations
from steward.database.engine.base import Tx
from steward.database.notifications import messages
from steward.model.account import Actor, Member, Role
from steward.model.ids import OrgId
from steward.notifications import account_mail
from steward.notifications.account_mail import AccountMail

RESET_PAGE = "/password/reset"
_FORGOT_PAGE = "/password/forgot"
_ROLES = {Role.MEMBER: "a member", Role.APPROVER: "an approver", Role.OWNER: "an owner"}


async def send_invitation(tx: Tx, vault: Vault, actor: Actor, invited: IssuedInvitation, *, url: str) -> None:
    """Queues the mail with an invitation's link."""
    organization = await organizations.get(tx, actor.org)
    inviter = await members.get(tx, actor.org, actor.person)
    if organization is None or inviter is None:
        raise LookupError("an invitation is made by a member of an organization")
    who, name = _name(inviter), f"“{organization.name}”"
    mail = AccountMail(
        to=invited.member.email,
        subject=f"{who} invites you to {organization.name}",
        paragraphs=(
            f"{who} invites you to {name} in Steward, as {_ROLES[invited.member.role]}.",
            f"Open this page to accept. The link works once, until {_time(invited.expires_at)}.",
            "If you do not know who this is, ignore this mail: nothing happens unless you accept.",
        ),
        link=url,
    )
    await account_mail.send(
        tx, vault, actor.org, person=invited.member.id, mail=mail, expires_at=invited.expires_at
    )


async def send_reset_link(tx: Tx, vault: Vault, link: ResetLink | None, *, web_origin: str) -> None:
    """Queues the mail with a link to a new password.

    Without a link it runs similar statements, so that the response time does not reveal whether the account
    exists.
    """
    if link is None:
        await connections.data_key(tx, OrgId(0))
        await messages.run_no_op(tx, OrgId(0))
        return
    mail = AccountMail(
        to=link.person.email,
        subject="A new password for Steward",
        paragraphs=(
            "Somebody, probably you, asked for a new password for your account.",
            f"Open this page to choose one. The link works once, until {_time(link.expires_at)}.",
            "If it was not you, ignore this mail: your password stays as it is.",
        ),
        link=f"{web_origin}{RESET_PAGE}#token={link.token}",
    )
    await account_mail.send(
        tx, vault, link.membership.org, person=link.person.id, mail=mail, expires_at=link.expires_at
    )


async def send_password_changed(tx: Tx, vault: Vault, reset: ResetDone, *, web_origin: str) -> None:
    """Queues the mail that reports a changed password."""
    if not reset.memberships:
        return
    mail = AccountMail(
        to=reset.person.email,
        subject="Your password for Steward was changed",
        paragraphs=(
            "Your password was changed by a link that was mailed to you. You were signed out everywhere.",
            "If it was not you, choose another one on this page, and tell an owner of your organization.",
        ),
        link=f"{web_origin}{_FORGOT_PAGE}",
    )
    await account_mail.send(tx, vault, reset.memberships[0].org, person=reset.person.id, mail=mail)


def _name(member: Member) -> str:
    return f"{member.first_name} {member.last_name}".strip() or member.email


def _time(instant: datetime) -> str:
    return f"{instant:%-d %B %Y, %H:%M} UTC"
