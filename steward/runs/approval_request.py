"""Requests approval of exactly one set of changes, with its warnings, and parks the run."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation

from steward.database.engine.base import Tx
from steward.database.notifications import facts
from steward.database.runs import approvals, transitions
from steward.database.runs.transitions import Lease
from steward.model.approval import Approval, ApprovalKind, ApprovalStatus, FollowingSteps
from steward.model.automation import Automation
from steward.model.change import Action, Change, ChangeSet, FieldKind
from steward.model.ids import ApprovalId, new_id
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Plan, PlanStep
from steward.model.run import Run
from steward.runs.lease import CancelRequested, LeaseLost

_LARGE_PERCENT = 20
_MANY_OBJECTS = 200


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """The changes for which a run requests approval, in order, and its summary until the decision."""

    run: Run
    automation: Automation
    round: int
    items: Sequence[Change]
    valid_for: timedelta
    leased_ms: int
    summary: JsonObject
    follows: FollowingSteps


async def request_approval(tx: Tx, lease: Lease, request: ApprovalRequest) -> ApprovalId:
    """Turns all held changes of the run into one approval and parks the run.

    Raises LeaseLost, CancelRequested.
    """
    approval = ApprovalId(new_id(tx.now))
    only_sends = all(item.proposal.action is Action.SEND for item in request.items)
    actions = Counter(str(item.proposal.action) for item in request.items)
    irreversible = sum(not item.undoable for item in request.items)
    expires_at = tx.now + request.valid_for
    record = Approval(
        org=lease.org,
        id=approval,
        run_id=lease.run,
        automation_id=request.automation.id,
        automation_name=request.run.automation_name,
        store_label=request.automation.store_label,
        round=request.round,
        kind=ApprovalKind.SENDS if only_sends else ApprovalKind.CHANGES,
        version=1,
        status=ApprovalStatus.PENDING,
        change_hash=change_set(request.run, request.round, request.items).change_hash(),
        counts={
            "total": len(request.items),
            "by_action": dict(actions),
            "irreversible": irreversible,
            "undoable": len(request.items) - irreversible,
        },
        warnings=tuple(_warnings(request.items, irreversible)),
        created_at=tx.now,
        expires_at=expires_at,
        decided_at=None,
        decided_by=None,
        comment=None,
        follows=request.follows,
        undo_of=request.run.undo_of,
    )
    parked = await transitions.park(
        tx, lease, approval=approval, expires_at=expires_at, leased_ms=request.leased_ms
    )
    if not parked:
        is_owner, cancel = await transitions.lock_lease(tx, lease)
        raise CancelRequested(cancel) if is_owner and cancel is not None else LeaseLost(lease)
    await approvals.insert(tx, lease.org, record, integration=request.automation.integration_id)
    await transitions.set_outcome(tx, lease.org, lease.run, code=None, message=None, summary=request.summary)
    await facts.approval_waiting(tx, lease.org, record, integration=request.automation.integration_id)
    return approval


def following_steps(
    plan: Plan, held: Collection[str], *, needs_approval: Callable[[PlanStep], bool]
) -> FollowingSteps:
    """Returns how many enabled steps follow the held ones in the plan, and whether any needs approval.

    The number is an upper bound: what is approved and answered decides which of them run.
    """
    reached: set[str] = set()
    open_ = list(held)
    while open_:
        source = open_.pop()
        targets = {edge.target for edge in plan.edges if edge.source == source} - reached
        reached |= targets
        open_ += targets
    steps = [step for step in plan.steps if step.name in reached and _is_shown(step)]
    return FollowingSteps(len(steps), any(needs_approval(step) for step in steps))


def _is_shown(step: PlanStep) -> bool:
    """Returns whether the step is in the merchant's own plan and switched on."""
    return step.origin is None or not (step.origin.disabled or step.origin.source_type.startswith("@"))


def change_set(run: Run, round_: int, items: Sequence[Change]) -> ChangeSet:
    """Returns the change set whose hash binds an approval (docs/design/approvals.md#change-set-hash)."""
    return ChangeSet(
        org=run.org,
        run=run.id,
        round=round_,
        automation=run.automation_id,
        automation_version=run.automation_version,
        plan_version=run.plan_version,
        template_version=run.template_version,
        items=tuple((item.id, item.item_hash) for item in items),
    )


def _warnings(items: Sequence[Change], irreversible: int) -> list[JsonObject]:
    """Returns warnings of large price changes, of irreversible changes, and of many changes."""
    warnings: list[JsonObject] = []
    large = sum(_is_large(item) for item in items)
    if large:
        prices = "1 price changes" if large == 1 else f"{large} prices change"
        warnings.append(
            {"code": "large_change_percent", "message": f"{prices} by more than {_LARGE_PERCENT} %."}
        )
    if irreversible:
        changes_phrase = "1 change" if irreversible == 1 else f"{irreversible} changes"
        warnings.append({"code": "irreversible", "message": f"{changes_phrase} cannot be taken back."})
        warnings.append({"code": "not_undoable", "message": _not_undoable(items, irreversible)})
    if len(items) >= _MANY_OBJECTS:
        warnings.append({"code": "many_objects", "message": f"{len(items):,} changes at once."})
    return warnings


def _not_undoable(items: Sequence[Change], irreversible: int) -> str:
    """Returns how many changes cannot be undone later, and why."""
    reasons = Counter(item.undo_words for item in items if not item.undoable and item.undo_words)
    words = " ".join(
        reason if number == irreversible else f"{reason} ({number})"
        for reason, number in reasons.most_common(5)
    )
    return f"{irreversible} of {len(items)} changes cannot be undone later. {words}".strip()


def _is_large(change: Change) -> bool:
    return any(
        _percent(field.before, field.after) > _LARGE_PERCENT
        for field in change.proposal.fields
        if field.kind is FieldKind.MONEY
    )


def _percent(before: JsonValue, after: JsonValue) -> Decimal:
    try:
        old, new = Decimal(str(before)), Decimal(str(after))
    except InvalidOperation:
        return Decimal(0)
    return abs(new - old) * 100 / abs(old) if old else Decimal(0)
