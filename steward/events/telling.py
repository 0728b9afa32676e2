"""Which topics of an event are new: deliveries and catch-up may both report one modification."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from steward.connectors.base.deliveries import Derived, Event, TopicSpec
from steward.database.events.last_seen import ObjectSnapshot, ReportedTimes


def new_topics(
    event: Event,
    derived: Derived,
    snapshot: ObjectSnapshot | None,
    *,
    active_since: Mapping[str, datetime | None] | None,
    offered: Mapping[str, TopicSpec],
) -> tuple[str, ...]:
    """Returns the topics of an event that start runs: those not reported yet by a delivery or by catch-up.

    `heard` is None for a delivery. For what catch-up has read it names the topics that are listened to, with
    the instant that began; what happened before starts nothing.

    A delivery repeats what catch-up read with the same or a later modified time, and the other way round. An
    object is created once, whatever its modified time. Topics worked out from the object's state depend on
    that alone: one that catch-up finds with the modified time of a delivery shows that the object has changed
    again within that second. An object read as it was when its creation was delivered has not been updated.
    """
    worked_out = {topic for topic in derived.topics if offered[topic].derived}
    direct = [topic for topic in derived.topics if topic not in worked_out]
    reported = {topic: ReportedTimes() for topic in direct} | dict(
        {} if snapshot is None else snapshot.reported
    )
    fresh = {
        topic
        for topic in direct
        if not _is_repeat(event, topic, reported[topic], polled=active_since is not None)
    }
    if active_since is None:
        is_repeat = bool(direct) and not fresh
        return () if is_repeat else tuple(topic for topic in derived.topics if topic in fresh | worked_out)
    if worked_out:
        fresh |= {
            topic
            for topic in direct
            if not _is_creation(topic) and reported[topic].delivered == event.modified_at
        }
    as_created = [reported[topic].delivered for topic in direct if _is_creation(topic)]
    if event.modified_at is not None and any(
        instant is not None and event.modified_at <= instant for instant in as_created
    ):
        fresh = {topic for topic in fresh if not topic.endswith(("/update", "/updated"))}
    return tuple(
        topic
        for topic in derived.topics
        if topic in fresh | worked_out
        and topic in active_since
        and not _began_before(event, topic, active_since[topic])
    )


def reported_after(
    event: Event,
    derived: Derived,
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


def _began_before(event: Event, topic: str, since: datetime | None) -> bool:
    """Whether the event happened before the topic was delivered; stores send whole seconds."""
    instant = event.created_at if _is_creation(topic) else event.modified_at
    return since is not None and instant is not None and instant < since.replace(microsecond=0)


def _is_repeat(event: Event, topic: str, reported: ReportedTimes, *, polled: bool) -> bool:
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
