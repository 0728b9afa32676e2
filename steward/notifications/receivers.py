"""Who is told of a notice: the default receivers of its topic, as their preferences have it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from steward.database.engine.base import Tx
from steward.database.notifications import receivers
from steward.database.notifications.receivers import PersonToTell, RouteToTell
from steward.model.account import Role
from steward.model.ids import AutomationId, OrgId, PersonId, RunId
from steward.model.notice import GROUPS, AutomationChoice, NoticeGroup, StoredNotice, Topic

_OWNERS: Final = frozenset((Role.OWNER,))
_DECIDERS: Final = frozenset((Role.OWNER, Role.APPROVER))
_ROLES: Final[Mapping[Topic, frozenset[Role]]] = {
    **{topic: _DECIDERS for topic, group in GROUPS.items() if group is NoticeGroup.APPROVALS},
    Topic.CHANGES_STOPPED: _DECIDERS,
}
# Topics that whoever made the automation, or started the run, is told of; members may ask for all of them.
_PERSONAL: Final = frozenset(
    (
        Topic.RUN_FAILED,
        Topic.RUN_PARTLY_FAILED,
        Topic.RUN_OUTCOME_UNKNOWN,
        Topic.AUTOMATION_PAUSED,
        Topic.AUTOMATION_QUIET,
        Topic.SLOT_TOO_LATE,
        Topic.EVENTS_DROPPED,
    )
)


@dataclass(frozen=True, slots=True)
class Audience:
    """Everybody in an organization who may be told, and whose the automations and runs of the notices are."""

    people: Collection[PersonToTell]
    routes: Collection[RouteToTell]
    makers: Mapping[AutomationId, PersonId | None]
    starters: Mapping[RunId, PersonId | None]

    def tells(self, person: PersonToTell, stored: StoredNotice) -> bool:
        """Whether the person is told of a notice."""
        notice = stored.notice
        if notice.person is not None:
            return person.person == notice.person
        has_role = person.role in _ROLES.get(notice.topic, _OWNERS)
        is_starter = notice.run is not None and self.starters.get(notice.run) == person.person
        if notice.topic is Topic.APPROVAL_EXPIRED:
            return has_role or is_starter
        if notice.topic not in _PERSONAL:
            return has_role
        if person.preferences.automations is not None:
            has_role = person.preferences.automations is AutomationChoice.ALL
        is_maker = notice.automation is not None and self.makers.get(notice.automation) == person.person
        return has_role or is_maker or is_starter


def fits(route: RouteToTell, stored: StoredNotice) -> bool:
    """Whether a route's filter fits a notice; that a route is broken is told to people alone."""
    notice = stored.notice
    return (
        notice.topic in route.topics
        and notice.topic is not Topic.ROUTE_BROKEN
        and (route.automations is None or notice.automation in route.automations)
        and (route.integrations is None or notice.integration in route.integrations)
    )


async def audience(tx: Tx, org: OrgId, notices: Collection[StoredNotice]) -> Audience:
    """Reads who may be told of these notices."""
    automations = {stored.notice.automation for stored in notices} - {None}
    runs = {stored.notice.run for stored in notices} - {None}
    return Audience(
        await receivers.people(tx, org),
        await receivers.routes(tx, org),
        await receivers.makers(tx, org, [id_ for id_ in automations if id_ is not None]),
        await receivers.starters(tx, org, [id_ for id_ in runs if id_ is not None]),
    )
