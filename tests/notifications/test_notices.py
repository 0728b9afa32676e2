"""Notices: one for each fact, written in its transaction."""

from datetime import time, timedelta
from functools import partial

import pytest

from steward.database.engine.base import Engine, Tx
from steward.database.notifications import notices
from steward.model.ids import AutomationId, OrgId
from steward.model.notice import (
    DEFAULT_PREFERENCES,
    GROUPS,
    AutomationChoice,
    Digest,
    MailChoice,
    Notice,
    NoticeGroup,
    Preferences,
    QuietHours,
    StoredNotice,
    Topic,
    facts_of,
    preferences_from_json,
    preferences_to_json,
)
from tests.fake_clock import FakeClock
from tests.notifications.notified_people import open_organization


def _lost(number: int = 1) -> Notice:
    return Notice(
        topic=Topic.CONNECTION_LOST,
        dedupe=f"connection_lost|{number}",
        facts=facts_of(connection="é" * 100, store="s" * 80, code=None),
    )


async def _new(engine: Engine, clock: FakeClock, org: OrgId) -> list[StoredNotice]:
    keys = await engine.read(clock.now(), partial(notices.waiting, limit=10))
    assert {owner for owner, _ in keys} <= {org}
    ids = [notice for _, notice in keys]
    return await engine.read(clock.now(), partial(notices.get_many, org=org, notices=ids), org=org)


async def test_a_fact_has_one_notice_however_often_it_is_written(engine: Engine, clock: FakeClock) -> None:
    """Stores one notice of a fact however often it is added, with names cut to 80 characters."""
    org = await open_organization(engine, clock)
    assert await engine.write(clock.now(), partial(notices.add, org=org, notice=_lost()), org=org)
    assert not await engine.write(clock.now(), partial(notices.add, org=org, notice=_lost()), org=org)
    [stored] = await _new(engine, clock, org)
    assert stored.notice == _lost()
    assert stored.notice.facts == {"connection": "é" * 79 + "…", "store": "s" * 80}


async def test_a_fact_that_is_rolled_back_leaves_no_notice(engine: Engine, clock: FakeClock) -> None:
    """Leaves no notice when the transaction of its fact is rolled back."""
    org = await open_organization(engine, clock)

    async def fail(tx: Tx) -> None:
        await notices.add(tx, org, _lost())
        raise LookupError

    with pytest.raises(LookupError):
        await engine.write(clock.now(), fail, org=org)
    assert await _new(engine, clock, org) == []


async def test_a_notice_that_fails_five_times_is_poison(engine: Engine, clock: FakeClock) -> None:
    """Defers a notice after each failure and gives it up as poison after the fifth."""
    org = await open_organization(engine, clock)
    await engine.write(clock.now(), partial(notices.add, org=org, notice=_lost()), org=org)
    [stored] = await _new(engine, clock, org)
    for failures in range(1, notices.FAILURES_TO_POISON + 1):
        until = clock.now() + timedelta(seconds=60)
        defer = partial(notices.defer, org=org, notice=stored.id, until=until)
        assert await engine.write(clock.now(), defer, org=org) == failures
        assert await _new(engine, clock, org) == []
        await clock.advance(60)
        expected = [] if failures == notices.FAILURES_TO_POISON else [stored.id]
        assert [notice.id for notice in await _new(engine, clock, org)] == expected


def test_every_topic_belongs_to_a_group() -> None:
    """Assigns every topic to a group, so that people can switch it off."""
    assert GROUPS.keys() == set(Topic)


def test_preferences_are_read_as_they_were_stored() -> None:
    """Restores every field of stored preferences and fills in defaults."""
    chosen = Preferences(
        email={**DEFAULT_PREFERENCES.email, NoticeGroup.RUNS: MailChoice.DIGEST},
        automations=AutomationChoice.MINE,
        muted=frozenset({AutomationId("a")}),
        quiet_hours=QuietHours(time(22), time(6, 30), frozenset({0, 6})),
        wake_for_expiry=False,
        digest=Digest(time(7, 15), frozenset({2})),
        timezone="Asia/Kolkata",
    )
    assert preferences_from_json(preferences_to_json(chosen)) == chosen
    assert preferences_from_json({}) == DEFAULT_PREFERENCES
