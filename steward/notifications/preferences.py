"""Reads and changes a person's notification preferences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from steward.accounts import organizations
from steward.database.engine.base import Tx
from steward.database.notifications import inbox_pages, own_preferences
from steward.model.account import Actor, Role
from steward.model.ids import AutomationId
from steward.model.notice import AutomationChoice, Preferences
from steward.model.refusals import ValidationFailed

MAX_MUTED = 500


@dataclass(frozen=True, slots=True)
class OwnPreferences:
    """A person's preferences, with the values of their defaults and the names of muted automations."""

    preferences: Preferences
    automations: AutomationChoice
    timezone: str
    muted: Mapping[AutomationId, str]


async def get(tx: Tx, actor: Actor) -> OwnPreferences:
    """Returns the preferences of the caller."""
    return await _described(tx, actor, await own_preferences.get(tx, actor.org, actor.person))


async def change(tx: Tx, actor: Actor, after: Preferences) -> OwnPreferences:
    """Stores the caller's preferences; marks unread entries of newly muted automations as read.

    Raises ValidationFailed for a muted automation that is not in the organization.
    """
    before = await own_preferences.get(tx, actor.org, actor.person)
    newly_muted = sorted(after.muted - before.muted)
    if newly_muted:
        await _check_automations(tx, actor, newly_muted)
        await inbox_pages.mark_automations_read(tx, actor.org, actor.person, newly_muted)
    if after != before:
        await own_preferences.save(tx, actor.org, actor.person, after)
    return await _described(tx, actor, after)


async def mute(tx: Tx, actor: Actor, automation: AutomationId, *, muted: bool) -> None:
    """Mutes or unmutes one automation for the caller. Raises ValidationFailed beyond MAX_MUTED."""
    before = await own_preferences.get(tx, actor.org, actor.person)
    after = before.muted | {automation} if muted else before.muted - {automation}
    if len(after) > MAX_MUTED:
        raise ValidationFailed(errors={"muted": [f"At most {MAX_MUTED} automations can be muted."]})
    await change(tx, actor, replace(before, muted=after))


async def _check_automations(tx: Tx, actor: Actor, automations: Sequence[AutomationId]) -> None:
    names = await own_preferences.automation_names(tx, actor.org, automations)
    absent = [automation for automation in automations if automation not in names]
    if absent:
        raise ValidationFailed(errors={"muted": [f"There is no automation {id_}." for id_ in absent]})


async def _described(tx: Tx, actor: Actor, preferences: Preferences) -> OwnPreferences:
    by_default = AutomationChoice.ALL if actor.role is Role.OWNER else AutomationChoice.MINE
    zone = preferences.timezone or (await organizations.get(tx, actor.org)).zone
    names = await own_preferences.automation_names(tx, actor.org, sorted(preferences.muted))
    return OwnPreferences(preferences, preferences.automations or by_default, zone, names)
