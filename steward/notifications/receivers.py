"""Determines who receives a notice, by its topic and people's preferences."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from steward.database.engine.base import Tx
from steward.database.notifications import receivers
from steward.database.notifications.receivers import NotifiableMember, NotifiableRoute
from steward.model.account import Role
from steward.model.ids import AutomationId, OrgId, PersonId, RunId
from steward.model.notice import GROUPS, AutomationChoice, NoticeGroup, StoredNotice, Topic

_OWNERS: Final = frozenset((Role.OWNER,))
_DECIDERS: Final = frozenset((Role.OWNER, Role.APPROVER))
_ROLES: Final[Mapping[Topic, frozenset[Role]]] = {
    **{topic: _DECIDERS for topic, group in GROUPS.items() if group is NoticeGroup.APPROVALS},
    Topic.CHANGES_STOPPED: _DECIDERS,
}
# Topics for the automation's creator and the person who started the run; members may opt in to all.
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
    """The possible receivers, with the creators of automations and the people who started runs."""

    people: Mapping[PersonId, NotifiableMember]
    routes: Collection[NotifiableRoute]
    makers: Mapping[AutomationId, PersonId | None]
    starters: Mapping[RunId, PersonId | None]
    _by_topic: dict[Topic, list[PersonId]] = field(init=False, default_factory=dict)

    def receivers_of(self, stored: StoredNotice) -> set[PersonId]:
        """Returns the people who receive a notice."""
        notice = stored.notice
        if notice.person is not None:
            return {notice.person} & self.people.keys()
        people = set(self._receivers_by_topic(notice.topic))
        involved: list[PersonId | None] = []
        if notice.run is not None and notice.topic in (Topic.APPROVAL_EXPIRED, *_PERSONAL):
            involved.append(self.starters.get(notice.run))
        if notice.automation is not None and notice.topic in _PERSONAL:
            involved.append(self.makers.get(notice.automation))
        return people | {person for person in involved if person is not None and person in self.people}

    def _receivers_by_topic(self, topic: Topic) -> list[PersonId]:
        """Returns the people who receive every notice of a topic."""
        if topic not in self._by_topic:
            people = self.people.values()
            self._by_topic[topic] = [person.person for person in people if _receives_all(person, topic)]
        return self._by_topic[topic]


def _receives_all(person: NotifiableMember, topic: Topic) -> bool:
    choice = person.preferences.automations
    if topic in _PERSONAL and choice is not None:
        return choice is AutomationChoice.ALL
    return person.role in _ROLES.get(topic, _OWNERS)


def matches(route: NotifiableRoute, stored: StoredNotice) -> bool:
    """Returns whether a route's filter matches a notice; a notice that a route is broken matches none."""
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
    makers = await receivers.makers(tx, org, [id_ for id_ in automations if id_ is not None])
    starters = await receivers.starters(tx, org, [id_ for id_ in runs if id_ is not None])
    named = {stored.notice.person for stored in notices}
    involved = {person for person in (*named, *makers.values(), *starters.values()) if person is not None}
    return Audience(
        await receivers.people(tx, org, involved), await receivers.routes(tx, org), makers, starters
    )
