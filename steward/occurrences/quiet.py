"""Sends notices about automations without a success in several of their own periods.

See docs/design/notifications.md#no-success.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from steward.automations.due_slots import LockedAutomation
from steward.database.engine.base import Tx
from steward.database.notifications import facts, watching
from steward.database.notifications.watching import QuietWatch
from steward.model.automation import AutomationState
from steward.model.ids import OrgId
from steward.model.schedule import Cadence

# The periods span at least this long, so that one bad hour of an hourly automation raises no notice.
_MIN_AGE = timedelta(hours=24)
# Time until the next notice if there is still no success.
_AGAIN_AFTER = timedelta(days=7)


async def check(tx: Tx, org: OrgId, audited: Collection[LockedAutomation], *, periods: int) -> None:
    """Compares the latest decided slots of audited automations with their successes.

    Call it with the automations' schedules locked. `periods` is the service's setting.
    """
    with_slots = [
        locked.automation.id
        for locked in audited
        if locked.automation.state is AutomationState.ACTIVE
        and locked.automation.schedule.cadence is not Cadence.MANUAL
    ]
    watches = await watching.of(tx, org, with_slots)
    for automation in with_slots:
        watch = watches.get(automation, watching.NO_WATCH)
        needed = watch.quiet_after or periods
        since = await watching.oldest_period(tx, org, automation, needed, until=tx.now - _MIN_AGE)
        if since is None:
            continue
        if await watching.had_success(tx, org, automation, since):
            if watch.quiet_since is not None:
                await watching.end(tx, org, automation)
        elif (
            _is_due(tx.now, watch)
            and not await watching.was_held(tx, org, automation, since)
            and await watching.begin(tx, org, automation, since=since, was=watch.notified_at)
        ):
            await facts.automation_quiet(tx, org, automation, since=since, periods=needed)


def _is_due(now: datetime, watch: QuietWatch) -> bool:
    return watch.notified_at is None or now - watch.notified_at >= _AGAIN_AFTER
