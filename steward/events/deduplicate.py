"""Decides which topics of an event are new, since delivery and catch-up may both report it."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from steward.connectors.base.deliveries import DerivedTopics, Event, TopicSpec
from steward.database.events.last_seen import ObjectSnapshot, ReportedTimes


def new_topics(
    event: Event,
    derived: DerivedTopics,
    snapshot: ObjectSnapshot | None,
    *,
    active_since: Mapping[str, datetime | None] | None,
    offered: Mapping[str, TopicSpec],
) -> tuple[str, ...]:
    """Returns the topics of an event that start runs: those not reported before.

    `active_since` is None for a delivery. For catch-up it maps the active topics to the instant from which
    they are active; earlier changes start nothing.

    An event is a repeat if the other source has reported the object with the same or a later modified time. A
    creation is reported only once, whatever its modified time. Topics derived from the object's state depend
    only on that state: if catch-up derives one at the modified time of a delivery, the object has changed
    again within that second. An object that is unchanged since its delivered creation was not updated.
    """
    derived_topics = {topic for topic in derived.topics if offered[topic].derived}
    direct = _reported_directly(derived, snapshot, derived_topics)
    if active_since is None:
        return _new_in_delivery(event, derived, direct)
    started = derived_topics | _unreported_in_catch_up(event, direct, has_derived_topics=bool(derived_topics))
    return tuple(
        topic for topic in derived.topics if topic in started and _was_active(event, topic, active_since)
    )


def _new_in_delivery(
    event: Event, derived: DerivedTopics, direct: Mapping[str, ReportedTimes]
) -> tuple[str, ...]:
    """Returns all topics that are not repeats, or none if all that the store sends are repeats."""
    unreported = _not_repeated(event, direct, polled=False)
    if direct and not unreported:
        return ()
    return tuple(topic for topic in derived.topics if topic not in direct or topic in unreported)


def _reported_directly(
    derived: DerivedTopics, snapshot: ObjectSnapshot | None, derived_topics: Collection[str]
) -> dict[str, ReportedTimes]:
    """Returns the reported times of each topic that the store itself sends."""
    reported = {} if snapshot is None else snapshot.reported
    return {
        topic: reported.get(topic, ReportedTimes()) for topic in derived.topics if topic not in derived_topics
    }


def _not_repeated(event: Event, direct: Mapping[str, ReportedTimes], *, polled: bool) -> set[str]:
    return {topic for topic, times in direct.items() if not _is_repeat(event, topic, times, polled=polled)}


def _unreported_in_catch_up(
    event: Event, direct: Mapping[str, ReportedTimes], *, has_derived_topics: bool
) -> set[str]:
    unreported = _not_repeated(event, direct, polled=True)
    if has_derived_topics:
        unreported |= {
            topic
            for topic, times in direct.items()
            if not _is_creation(topic) and times.delivered == event.modified_at
        }
    if _is_as_created(event, direct):
        unreported = {topic for topic in unreported if not topic.endswith(("/update", "/updated"))}
    return unreported


def _is_as_created(event: Event, direct: Mapping[str, ReportedTimes]) -> bool:
    """Returns whether the object is unchanged since its creation was delivered."""
    if event.modified_at is None:
        return False
    return any(
        _is_creation(topic) and times.delivered is not None and event.modified_at <= times.delivered
        for topic, times in direct.items()
    )


def reported_after(
    event: Event,
    derived: DerivedTopics,
    snapshot: ObjectSnapshot | None,
    *,
    polled: bool,
    offered: Mapping[str, TopicSpec],
) -> dict[str, ReportedTimes]:
    """Returns the reported times of the object after the event."""
    reported = {} if snapshot is None else dict(snapshot.reported)
    instant = event.modified_at or event.created_at
    for topic in derived.topics:
        if instant is not None and not offered[topic].derived:
            before = reported.get(topic, ReportedTimes())
            if polled:
                reported[topic] = replace(before, polled=max(before.polled or instant, instant))
            else:
                reported[topic] = replace(before, delivered=max(before.delivered or instant, instant))
    return reported


def _was_active(event: Event, topic: str, active_since: Mapping[str, datetime | None]) -> bool:
    """Returns whether the topic was active when the event happened; stores report whole seconds."""
    if topic not in active_since:
        return False
    since = active_since[topic]
    instant = event.created_at if _is_creation(topic) else event.modified_at
    return since is None or instant is None or instant >= since.replace(microsecond=0)


def _is_repeat(event: Event, topic: str, reported: ReportedTimes, *, polled: bool) -> bool:
    """Returns whether the topic was reported before; a repeated delivery is recognized by its key instead."""
    by_either = [
        instant
        for instant in (reported.polled, reported.delivered if polled else None)
        if instant is not None
    ]
    if _is_creation(topic):
        return bool(by_either)
    return event.modified_at is not None and any(event.modified_at <= instant for instant in by_either)


def _is_creation(topic: str) -> bool:
    return topic.endswith("/create")
