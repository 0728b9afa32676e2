"""Determines who receives a notice: the receivers of its topic, according to their preferences."""

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
# Topics that go to the automation's creator and to the person who started the run; members may ask for all.
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
    """The possible receivers, with the automations' creators and the people who started the runs."""

    people: Collection[PersonToTell]
    routes: Collection[RouteToTell]
    makers: Mapping[AutomationId, PersonId | None]
    starters: Mapping[RunId, PersonId | None]

    def tells(self, person: PersonToTell, stored: StoredNotice) -> bool:
        """Returns whether the person receives a notice."""
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
    """Returns whether a route's filter fits a notice; no route receives that a route is broken."""
    notice = stored.notice
    return (
        notice.topic in route.topics
        and notice.topic is not Topic.ROUTE_BROKEN
        and (route.automations is None or notice.automation in route.automations)
        and (route.integrations is None or notice.integration in route.integrations)
    )


async def audience(tx: Tx, org: OrgId, notices: Collection[StoredNotice]) -> Audience:
    """Reads the possible receivers of these notices."""
    automations = {stored.notice.automation for stored in notices} - {None}
    runs = {stored.notice.run for stored in notices} - {None}
    return Audience(
        await receivers.people(tx, org),
        await receivers.routes(tx, org),
        await receivers.makers(tx, org, [id_ for id_ in automations if id_ is not None]),
        await receivers.starters(tx, org, [id_ for id_ in runs if id_ is not None]),
    )
