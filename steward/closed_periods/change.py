"""Creates, changes and ends closed periods, and stops all changes at once."""

from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from steward.closed_periods import bounds
from steward.closed_periods.period_zone import zone_of
from steward.database.accounts import audit, connections
from steward.database.closed_periods import records
from steward.database.closed_periods.records import StoredPeriod
from steward.database.engine.base import Tx
from steward.database.notifications import notices
from steward.database.runs import closed_period_holds, write_ledger
from steward.failpoint import failpoint
from steward.model.account import Actor, Role
from steward.model.closed_period import (
    FREEZE,
    ClosedKind,
    ClosedPeriod,
    ClosedScope,
    ClosedScopeKind,
    ClosedWhen,
    Stops,
)
from steward.model.ids import new_id
from steward.model.json import JsonObject
from steward.model.notice import Notice, Topic, facts_of
from steward.model.refusals import (
    FieldErrors,
    Forbidden,
    NotFound,
    StaleVersion,
    ValidationFailed,
    WrongState,
)
from steward.scheduling.closed_shape import read_when
from steward.scheduling.zones import zone

_MAX_PERIODS = 200
_MAX_PERIODS_OF_AUTOMATION = 20
_FREEZE_NAME = "Changes are stopped"
_OBJECT_KIND = "closed_period"

_OWNER_WORDS = (
    "Only an owner of the organization can do this."
    " Ask an owner, or create the closed period for a single automation."
)
_END_WORDS = "Only an approver or an owner can resume changes."


@dataclass(frozen=True, slots=True)
class SentWhen:
    """The times of a period as sent, by their API names."""

    kind: ClosedKind
    fields: JsonObject


@dataclass(frozen=True, slots=True)
class CreatePeriod:
    """A closed period to create.

    Without `timezone`, that of the automation, store or organization applies.
    """

    name: str
    scope: ClosedScope
    stops: Stops
    when: SentWhen
    timezone: str | None = None
    origin: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class ChangePeriod:
    """A change of a period; None keeps a field."""

    id: str
    version: int
    name: str | None = None
    stops: Stops | None = None
    when: SentWhen | None = None
    timezone: str | None = None
    origin: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class FrozenChanges:
    """An active freeze, whether it was created now, and how many requests were in progress."""

    stored: StoredPeriod
    is_new: bool
    in_flight: int


async def draft(tx: Tx, actor: Actor, command: CreatePeriod) -> StoredPeriod:
    """Returns the period as it would be stored, fully checked; stores nothing.

    Raises ValidationFailed.
    """
    errors: dict[str, list[str]] = {}
    zone_name, local_zone = await zone_of(tx, actor, command.scope, command.timezone, errors)
    when = read_when(command.when.kind, command.when.fields, zone=local_zone, now=tx.now)
    if not isinstance(when, ClosedWhen):
        errors |= when
    if errors or not isinstance(when, ClosedWhen):
        raise ValidationFailed(errors=errors)
    period = ClosedPeriod(
        actor.org,
        new_id(tx.now),
        1,
        tx.now,
        None,
        command.name,
        command.scope,
        command.stops,
        when,
        zone_name,
    )
    return StoredPeriod(period, actor.person, tx.now, None, command.origin)


async def create(tx: Tx, actor: Actor, command: CreatePeriod) -> StoredPeriod:
    """Creates a closed period that applies from now on. Raises Forbidden, ValidationFailed."""
    _require_role(actor, command.scope)
    stored = await draft(tx, actor, command)
    bound = await records.lock(tx, actor.org)
    await _check_limits(tx, actor, stored.period.scope)
    await _store(tx, stored, bound)
    await _add_audit_entry(tx, actor, "closed_period_made", None, stored.period)
    failpoint("after_period")
    return stored


async def change(tx: Tx, actor: Actor, command: ChangePeriod) -> StoredPeriod:
    """Ends the current version and begins the next.

    Raises NotFound, Forbidden, WrongState, StaleVersion, ValidationFailed.
    """
    stored = await current(tx, actor, command.id, command.version)
    period = stored.period
    _require_role(actor, period.scope)
    if period.when.kind is ClosedKind.FREEZE:
        raise WrongState("A stop of all changes cannot be edited. Resume changes instead.")
    errors: FieldErrors = {}
    zone_name = command.timezone or period.timezone
    local_zone = zone(zone_name)
    when = period.when
    if command.when is not None or command.timezone is not None:
        sent = command.when or SentWhen(when.kind, _fields_of(when))
        read = read_when(sent.kind, sent.fields, zone=local_zone or ZoneInfo("UTC"), now=tx.now)
        when, errors = (read, {}) if isinstance(read, ClosedWhen) else (when, read)
    if errors:
        raise ValidationFailed(errors=errors)
    bound = await records.lock(tx, actor.org)
    await _end_version(tx, actor, stored)
    after = replace(
        period,
        version=period.version + 1,
        valid_from=tx.now,
        name=command.name or period.name,
        stops=command.stops or period.stops,
        when=when,
        timezone=zone_name,
    )
    changed = replace(stored, period=after, changed_by=actor.person, origin=command.origin or stored.origin)
    await _store(tx, changed, bound)
    await _add_audit_entry(tx, actor, "closed_period_changed", period, after)
    await closed_period_holds.release(tx, actor.org)
    return changed


async def end(tx: Tx, actor: Actor, period_id: str, *, version: int) -> StoredPeriod:
    """Ends a closed period now, and releases the runs that it held.

    Raises NotFound, Forbidden, WrongState (it has ended), StaleVersion.
    """
    stored = await current(tx, actor, period_id, version)
    period = stored.period
    is_freeze = period.when.kind is ClosedKind.FREEZE
    if is_freeze and actor.role is Role.MEMBER:
        raise Forbidden(_END_WORDS)
    if not is_freeze:
        _require_role(actor, period.scope)
    await records.lock(tx, actor.org)
    await _end_version(tx, actor, stored)
    await records.request_work(tx, actor.org)
    await _add_audit_entry(tx, actor, "unfrozen" if is_freeze else "closed_period_ended", period, None)
    if is_freeze:
        await _add_notice(tx, actor, period, is_over=True)
    await closed_period_holds.release(tx, actor.org)
    return replace(stored, period=replace(period, valid_until=tx.now), changed_by=actor.person)


async def freeze(tx: Tx, actor: Actor, scope: ClosedScope, *, reason: str | None) -> FrozenChanges:
    """Stops all changes of the organization or of a store until a person resumes them.

    Raises ValidationFailed. Returns an active freeze of the scope unchanged.
    """
    errors: dict[str, list[str]] = {}
    zone_name, _ = await zone_of(tx, actor, scope, None, errors)
    if errors:
        raise ValidationFailed(errors=errors)
    bound = await records.lock(tx, actor.org)
    in_flight = await write_ledger.in_flight(tx, actor.org, integration=scope.integration)
    present = await records.active_freeze(tx, actor.org, scope)
    if present is not None:
        return FrozenChanges(present, is_new=False, in_flight=in_flight)
    name = (reason or "").strip()[:80] or _FREEZE_NAME
    period = ClosedPeriod(
        actor.org, new_id(tx.now), 1, tx.now, None, name, scope, Stops.CHANGES, FREEZE, zone_name
    )
    stored = StoredPeriod(period, actor.person, tx.now, None)
    await _store(tx, stored, bound)
    await _add_audit_entry(tx, actor, "frozen", None, period)
    await _add_notice(tx, actor, period, is_over=False)
    failpoint("after_period")
    return FrozenChanges(stored, is_new=True, in_flight=in_flight)


async def _store(tx: Tx, stored: StoredPeriod, bound: datetime | None) -> None:
    """Stores a version, lowers the organization's bound, and requests that next run times are rewritten."""
    period = stored.period
    await records.insert(tx, stored.period.org, stored)
    await records.set_closed_from(tx, period.org, bounds.lowered(bound, period, tx.now))
    await records.request_work(tx, period.org)


async def _end_version(tx: Tx, actor: Actor, stored: StoredPeriod) -> None:
    period = stored.period
    if not await records.end_version(
        tx, actor.org, period.id, version=period.version, changed_by=actor.person
    ):
        raise StaleVersion(data={"closed_period": await records.get(tx, actor.org, period.id)})


async def current(tx: Tx, actor: Actor, period_id: str, version: int) -> StoredPeriod:
    """Returns the valid version of a period. Raises NotFound, WrongState, StaleVersion."""
    stored = await records.get(tx, actor.org, period_id)
    if stored is None:
        raise NotFound
    if not stored.is_active:
        raise WrongState("This closed period has ended already.")
    if stored.period.version != version:
        raise StaleVersion(data={"closed_period": stored})
    return stored


def _require_role(actor: Actor, scope: ClosedScope) -> None:
    """Raises Forbidden unless the role suffices: owners for stores and everything, else members."""
    if scope.kind is not ClosedScopeKind.AUTOMATION and actor.role is not Role.OWNER:
        raise Forbidden(_OWNER_WORDS)


async def _check_limits(tx: Tx, actor: Actor, scope: ClosedScope) -> None:
    """Raises ValidationFailed if the organization or the automation has reached its limit of periods."""
    total, of_automation = await records.count_active(tx, actor.org, scope.automation)
    if total >= _MAX_PERIODS:
        message = f"An organization has at most {_MAX_PERIODS} closed periods. End one you no longer need."
        raise ValidationFailed(errors={"body": [message]})
    if scope.automation is not None and of_automation >= _MAX_PERIODS_OF_AUTOMATION:
        message = f"An automation has at most {_MAX_PERIODS_OF_AUTOMATION} closed periods of its own."
        raise ValidationFailed(errors={"body": [message]})


def _fields_of(when: ClosedWhen) -> JsonObject:
    return {name: value for name, value in when.to_wire().items() if name != "kind"}


async def _add_audit_entry(
    tx: Tx, actor: Actor, action: str, before: ClosedPeriod | None, after: ClosedPeriod | None
) -> None:
    """Writes the audit entry, with the period before and after."""
    period = after or before
    assert period is not None, "an entry of the audit log is about a period"
    detail: JsonObject = {
        "before": None if before is None else _record(before),
        "after": None if after is None else _record(after),
    }
    await audit.by_person(tx, actor, action, object_kind=_OBJECT_KIND, object_id=period.id, detail=detail)


def _record(period: ClosedPeriod) -> JsonObject:
    return {
        "scope": period.scope.to_wire(),
        "stops": period.stops.value,
        "when": period.when.to_wire(),
        "timezone": period.timezone,
    }


async def _add_notice(tx: Tx, actor: Actor, period: ClosedPeriod, *, is_over: bool) -> None:
    """Adds a notice for owners and approvers that changes were stopped or resumed."""
    integration = period.scope.integration
    store = None if integration is None else await connections.get(tx, actor.org, integration)
    facts = facts_of(
        name=period.name,
        scope=period.scope.kind.value,
        store=None if store is None else store.name,
        over=is_over,
    )
    dedupe = f"{Topic.CHANGES_STOPPED}:{period.id}:{'over' if is_over else 'begun'}"
    notice = Notice(topic=Topic.CHANGES_STOPPED, dedupe=dedupe, facts=facts)
    await notices.add(tx, actor.org, notice)
