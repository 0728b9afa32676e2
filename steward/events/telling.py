"""Which topics of an event are new: deliveries and catch-up may both tell of one modification; pure."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from steward.connectors.base.deliveries import Derived, Event, TopicSpec
from steward.database.events.last_seen import Seen, Told


def fresh_topics(
    event: Event,
    derived: Derived,
    known: Seen | None,
    *,
    heard: Mapping[str, datetime | None] | None,
    offered: Mapping[str, TopicSpec],
) -> tuple[str, ...]:
    """Returns the topics of an event that start runs: those not told yet by a delivery or by catch-up.

    `heard` is None for a delivery. For what catch-up has read it names the topics that are listened to, with
    the instant that began; what happened before starts nothing.

    A delivery repeats what catch-up read with the same or a later modified time, and the other way round. An
    object is created once, whatever its modified time. Topics worked out from the object's state depend on
    that alone: one that catch-up finds with the modified time of a delivery shows that the object has changed
    again within that second. An object read as it was when its creation was delivered has not been updated.
    """
    worked_out = {topic for topic in derived.topics if offered[topic].derived}
    direct = [topic for topic in derived.topics if topic not in worked_out]
    told = {topic: Told() for topic in direct} | dict({} if known is None else known.told)
    new = {topic for topic in direct if not _is_repeat(event, topic, told[topic], polled=heard is not None)}
    if heard is None:
        is_repeat = bool(direct) and not new
        return () if is_repeat else tuple(topic for topic in derived.topics if topic in new | worked_out)
    if worked_out:
        new |= {
            topic
            for topic in direct
            if not _is_creation(topic) and told[topic].delivered == event.modified_at
        }
    as_created = [told[topic].delivered for topic in direct if _is_creation(topic)]
    if event.modified_at is not None and any(at is not None and event.modified_at <= at for at in as_created):
        new = {topic for topic in new if not topic.endswith(("/update", "/updated"))}
    return tuple(
        topic
        for topic in derived.topics
        if topic in new | worked_out and topic in heard and not _began_before(event, topic, heard[topic])
    )


def told_with(
    event: Event, derived: Derived, known: Seen | None, *, polled: bool, offered: Mapping[str, TopicSpec]
) -> dict[str, Told]:
    """Returns what has been told of the object once the event has been matched."""
    told = {} if known is None else dict(known.told)
    at = event.modified_at or event.created_at
    for topic in derived.topics:
        if at is not None and not offered[topic].derived:
            before = told.get(topic, Told())
            if polled:
                told[topic] = replace(before, polled=max(before.polled or at, at))
            else:
                told[topic] = replace(before, delivered=max(before.delivered or at, at))
    return told


def _began_before(event: Event, topic: str, since: datetime | None) -> bool:
    """Whether what a topic would tell happened before it was listened to; stores tell whole seconds."""
    at = event.created_at if _is_creation(topic) else event.modified_at
    return since is not None and at is not None and at < since.replace(microsecond=0)


def _is_repeat(event: Event, topic: str, told: Told, *, polled: bool) -> bool:
    by_either = [at for at in (told.polled, told.delivered if polled else None) if at is not None]
    if _is_creation(topic):
        return bool(by_either)
    return event.modified_at is not None and any(event.modified_at <= at for at in by_either)


def _is_creation(topic: str) -> bool:
    return topic.endswith("/create")
