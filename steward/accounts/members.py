"""Changes an organization's members on behalf of its owners: roles, ended and restored memberships."""

from dataclasses import replace

from steward.database.accounts import audit, invitations, members, organizations, sessions
from steward.database.engine.base import Tx
from steward.database.notifications import links
from steward.model.account import Actor, Member, MemberState, Role
from steward.model.ids import PersonId
from steward.model.json import JsonObject
from steward.model.refusals import NotFound, WrongState

LAST_OWNER = "This is the last owner. Make somebody else an owner first."


async def change_role(tx: Tx, actor: Actor, person: PersonId, *, role: Role) -> Member:
    """Gives a member another role, which applies from the next call.

    Raises NotFound, and WrongState for the last owner.
    """
    member = await _locked(tx, actor, person)
    if member.role is role:
        return member
    if role is not Role.OWNER:
        await _require_other_owner(tx, actor, member)
    await members.set_role(tx, actor.org, person, role)
    await _record(tx, actor, person, "role_changed", {"role": role, "before": member.role})
    return replace(member, role=role)


async def deactivate(tx: Tx, actor: Actor, person: PersonId) -> Member:
    """Ends a membership of this organization only; its tokens and sessions end with the next call.

    For an invited person, it withdraws the invitation. Raises NotFound, and WrongState for the last owner.
    """
    member = await _locked(tx, actor, person)
    if member.state is MemberState.DEACTIVATED and not await members.is_open(tx, actor.org, person):
        return member
    await _require_other_owner(tx, actor, member)
    await invitations.withdraw(tx, actor.org, person)
    await links.withdraw(tx, actor.org, person)
    await members.set_active(tx, actor.org, person, False)
    await sessions.end_within(tx, actor.org, person)
    await _record(tx, actor, person, "member_deactivated", {})
    return replace(member, state=MemberState.DEACTIVATED)


async def activate(tx: Tx, actor: Actor, person: PersonId) -> Member:
    """Restores a membership. Raises NotFound, and WrongState for a person who has never joined."""
    member = await _locked(tx, actor, person)
    if not member.has_joined:
        raise WrongState("This person has not accepted an invitation. Invite them again for a new link.")
    if await members.is_open(tx, actor.org, person):
        return member
    await members.set_active(tx, actor.org, person, True)
    await _record(tx, actor, person, "member_activated", {})
    return await _get(tx, actor, person)


async def _locked(tx: Tx, actor: Actor, person: PersonId) -> Member:
    """Returns the member with the organization locked, so that two changes cannot remove the last owner."""
    await organizations.lock(tx, actor.org)
    return await _get(tx, actor, person)


async def _get(tx: Tx, actor: Actor, person: PersonId) -> Member:
    member = await members.get(tx, actor.org, person)
    if member is None:
        raise NotFound
    return member


async def _require_other_owner(tx: Tx, actor: Actor, member: Member) -> None:
    is_owner = member.role is Role.OWNER and member.state is MemberState.ACTIVE
    if is_owner and await members.owners(tx, actor.org) == 1:
        raise WrongState(LAST_OWNER)


async def _record(tx: Tx, actor: Actor, person: PersonId, action: str, detail: JsonObject) -> None:
    entry = audit.AuditEntry(
        "person",
        action,
        actor=str(actor.person),
        object_kind="person",
        object_id=str(person),
        detail=detail,
    )
    await audit.record(tx, actor.org, entry)
