"""Determines which closed periods apply to an automation's runs and to writes to connections."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias

from steward.database.closed_periods import records
from steward.database.engine.base import Tx
from steward.model.automation import Automation
from steward.model.closed_period import ClosedPeriod, ClosedScopeKind, Closing, Stops
from steward.model.ids import AutomationId, IntegrationId, OrgId
from steward.scheduling.closings import ClosedTimes, closing_at, stopping_runs
from steward.scheduling.zones import FIRST

# A call starts within 5 s of its intent, so writes of the next 5 s are decided now.
SEND_WITHIN = timedelta(seconds=5)

# An automation that has its own periods, and a store.
_TimesKey: TypeAlias = tuple[AutomationId | None, IntegrationId | None]


@dataclass(slots=True)
class ApplicablePeriods:
    """The versions of an organization's closed periods that apply from some instant on."""

    periods: tuple[ClosedPeriod, ...] = ()
    since: datetime = FIRST
    _automations_with_periods: frozenset[AutomationId | None] = field(init=False)
    _times: dict[_TimesKey, ClosedTimes | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._automations_with_periods = frozenset(period.scope.automation for period in self.periods)

    def times(self, automation: AutomationId, integration: IntegrationId | None) -> ClosedTimes | None:
        """Returns when no run of an automation on a store begins; None if no period applies to it.

        Automations without periods of their own share one result.
        """
        key = automation if automation in self._automations_with_periods else None, integration
        if key not in self._times:
            periods = self.on_runs_of(automation, integration)
            self._times[key] = ClosedTimes(periods, self.since) if periods else None
        return self._times[key]

    def on_runs(self, automation: Automation) -> tuple[ClosedPeriod, ...]:
        """Returns the periods in which no run of the automation begins."""
        return self.on_runs_of(automation.id, automation.integration_id)

    def on_runs_of(
        self, automation: AutomationId | None, integration: IntegrationId | None
    ) -> tuple[ClosedPeriod, ...]:
        """Returns the periods in which no run of an automation on a store begins; both may be None."""
        if not self.periods:
            return ()
        integrations = frozenset() if integration is None else {integration}
        return tuple(
            period for period in stopping_runs(self.periods) if _applies(period, automation, integrations)
        )

    def on_writes(
        self, automation: AutomationId, integrations: Collection[IntegrationId], *, is_exempt: bool
    ) -> tuple[ClosedPeriod, ...]:
        """Returns the periods in which runs of the automation write nothing to these connections.

        For an exempt run, only periods that stop changes apply.
        """
        return tuple(
            period
            for period in self.periods
            if _applies(period, automation, integrations) and not (is_exempt and period.stops is Stops.RUNS)
        )

    def run_closing(self, automation: Automation, instant: datetime) -> Closing | None:
        """Returns the closing that keeps a run of the automation from beginning at an instant, if any."""
        return closing_at(self.on_runs(automation), instant)


def _applies(
    period: ClosedPeriod, automation: AutomationId | None, integrations: Collection[IntegrationId]
) -> bool:
    scope = period.scope
    if scope.kind is ClosedScopeKind.AUTOMATION:
        return scope.automation == automation
    if scope.kind is ClosedScopeKind.STORE:
        return scope.integration in integrations
    return True


async def read(tx: Tx, org: OrgId, *, since: datetime) -> ApplicablePeriods:
    """Reads the versions valid at some time from `since` on, without locks.

    Call it after locking the rows that depend on them.
    """
    return ApplicablePeriods(tuple(await records.valid(tx, org, since=since)), since)


async def read_many(tx: Tx, orgs: Collection[OrgId], since: datetime) -> dict[OrgId, ApplicablePeriods]:
    """Reads like `read` for several organizations in one statement; those without periods are absent."""
    by_org: dict[OrgId, list[ClosedPeriod]] = {}
    for period in await records.valid_of(tx, orgs, since=since):
        by_org.setdefault(period.org, []).append(period)
    return {org: ApplicablePeriods(tuple(periods), since) for org, periods in by_org.items()}


async def current(tx: Tx, org: OrgId) -> ApplicablePeriods:
    """Reads the periods that may close something now; none if the organization's bound lies ahead."""
    bound = await records.closed_from(tx, org)
    if bound is None or bound > tx.now + SEND_WITHIN:
        return ApplicablePeriods()
    return await read(tx, org, since=tx.now)


def write_closing(periods: Collection[ClosedPeriod], now: datetime) -> Closing | None:
    """Returns the closing that forbids a write now: one that applies now, or begins within 5 s."""
    return closing_at(periods, now) or closing_at(periods, now + SEND_WITHIN)
