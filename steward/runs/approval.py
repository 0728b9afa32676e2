"""Decides approvals: stores what a person approved or rejected of exactly one set of changes."""

from collections.abc import Sequence
from dataclasses import dataclass

from steward.database.accounts import audit
from steward.database.automations import records as automations
from steward.database.engine.base import Tx
from steward.database.notifications import facts
from steward.database.runs import active_run, approvals, changes, fairness, transitions
from steward.database.runs import records as runs
from steward.model.account import Actor
from steward.model.approval import Approval, ApprovalStatus
from steward.model.automation import AutomationState
from steward.model.change import Outcome
from steward.model.ids import ApprovalId, ChangeId, OrgId
from steward.model.json import JsonObject
from steward.model.refusals import Forbidden, StaleVersion, ValidationFailed, WrongState
from steward.model.run import Run, RunStatus
from steward.run_queue import ending

_LATE_SHARE = 0.9
_REJECTED = ending.WorkerlessEnd(
    RunStatus.CANCELLED,
    "rejected",
    "The changes were rejected and were not made.",
    ApprovalStatus.REJECTED,
    Outcome.DECLINED,
)


@dataclass(frozen=True, slots=True)
class ApproveCommand:
    """Approves all changes of an approval except `except_`."""

    approval: ApprovalId
    version: int
    except_: Sequence[ChangeId] = ()
    change_hash: str | None = None
    comment: str | None = None
    write_now: bool = False


@dataclass(frozen=True, slots=True)
class RejectCommand:
    """Rejects all changes of an approval."""

    approval: ApprovalId
    version: int
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class DecidedApproval:
    """An approval and its run after the decision."""

    approval: Approval
    run: Run


async def approve(tx: Tx, actor: Actor, command: ApproveCommand, *, not_starter: bool) -> DecidedApproval:
    """Approves an approval's changes except those left out; the run continues with exactly the approved ones.

    With `write_now` an undo writes although a closed period stops changes.

    Raises NotFound, StaleVersion, WrongState, ValidationFailed (`except`, `write_now`), Forbidden.
    """
    current = await _locked(tx, actor, command.approval)
    run = await _decidable(tx, actor, current, version=command.version, change_hash=command.change_hash)
    items = await changes.of_round(tx, actor.org, current.run_id, round_=current.round)
    unknown_ids = set(command.except_) - {item.id for item in items}
    if unknown_ids:
        message = f"{len(unknown_ids)} of these are not changes of this approval. Load it again."
        raise ValidationFailed(errors={"except": [message]})
    if command.write_now and run.undo_of is None:
        message = "Only an undo may write while changes are stopped. Leave this out."
        raise ValidationFailed(errors={"write_now": [message]})
    if not_starter and run.maker.created_by == actor.person:
        raise Forbidden("You started this run. Somebody else has to decide on its changes.")
    if len(set(command.except_)) == len(items):
        return await _reject(tx, actor, current, comment=command.comment, excepted=command.except_)
    status = ApprovalStatus.PARTLY_APPROVED if command.except_ else ApprovalStatus.APPROVED
    decision = approvals.Decision(
        status, actor.person, actor.session_hash, command.comment, command.except_, command.write_now
    )
    await _decide(tx, actor, current, decision)
    if command.except_:
        await changes.decide(
            tx, actor.org, run.id, round_=current.round, to=Outcome.DECLINED, only=command.except_
        )
    await changes.decide(tx, actor.org, run.id, round_=current.round, to=Outcome.APPROVED)
    vt = await fairness.current_stamp(tx)
    if not await transitions.resume(tx, actor.org, run.id, approval=current.id, vt=vt):
        raise WrongState
    return DecidedApproval(
        await approvals.get(tx, actor.org, current.id), await runs.get(tx, actor.org, run.id)
    )


async def reject(tx: Tx, actor: Actor, command: RejectCommand, *, not_starter: bool) -> DecidedApproval:
    """Rejects an approval's changes and ends the run.

    Raises NotFound, StaleVersion, WrongState, Forbidden.
    """
    current = await _locked(tx, actor, command.approval)
    run = await _decidable(tx, actor, current, version=command.version, change_hash=None)
    if not_starter and run.maker.created_by == actor.person:
        raise Forbidden("You started this run. Somebody else has to decide on its changes.")
    return await _reject(tx, actor, current, comment=command.comment, excepted=())


async def _locked(tx: Tx, actor: Actor, approval: ApprovalId) -> Approval:
    """Returns the approval under its queue's lock: a second decider sees the first decision."""
    approval_before_lock = await approvals.get(tx, actor.org, approval)
    await active_run.lock(tx, actor.org, [approval_before_lock.automation_id])
    return await approvals.get(tx, actor.org, approval)


async def _decidable(
    tx: Tx, actor: Actor, current: Approval, *, version: int, change_hash: str | None
) -> Run:
    """Returns the approval's run. Raises StaleVersion, then WrongState."""
    run = await runs.get(tx, actor.org, current.run_id)
    automation = await automations.get(tx, actor.org, current.automation_id)
    if current.version != version or (change_hash is not None and change_hash != current.change_hash):
        raise StaleVersion(
            "This approval was changed in the meantime. Reload it and check what it asks for.",
            data={"occurrence": None, "automation": automation, "approval": current},
        )
    if current.status is not ApprovalStatus.PENDING or tx.now >= current.expires_at:
        raise WrongState("This approval was decided already or has expired.")
    if run.status is not RunStatus.WAITING_APPROVAL or run.approval_id != current.id:
        raise WrongState("The run no longer waits for this approval.")
    is_superseded = (
        automation.state is AutomationState.ARCHIVED or run.plan_version != automation.plan_version
    )
    if is_superseded and run.undo_of is None:  # an undo walks a plan of its own
        raise WrongState("The automation was archived or changed since these changes were computed.")
    return run


async def _decide(tx: Tx, actor: Actor, current: Approval, decision: approvals.Decision) -> None:
    if not await approvals.decide(tx, actor.org, current.id, version=current.version, decision=decision):
        raise WrongState("This approval was decided already or has expired.")
    detail: JsonObject = {
        "change_hash": current.change_hash,
        "left_out": len(decision.excepted),
        **({"write_now": True} if decision.write_now else {}),
    }
    action = str(decision.status)
    await audit.by_person(tx, actor, action, object_kind="approval", object_id=current.id, detail=detail)


async def _reject(
    tx: Tx, actor: Actor, current: Approval, *, comment: str | None, excepted: Sequence[ChangeId]
) -> DecidedApproval:
    """Decides the approval as rejected and ends its run."""
    decision = approvals.Decision(
        ApprovalStatus.REJECTED, actor.person, actor.session_hash, comment, excepted
    )
    await _decide(tx, actor, current, decision)
    await ending.end(
        tx,
        actor.org,
        current.run_id,
        automation=current.automation_id,
        from_status=RunStatus.WAITING_APPROVAL,
        ending=_REJECTED,
    )
    run = await runs.get(tx, actor.org, current.run_id)
    return DecidedApproval(await approvals.get(tx, actor.org, current.id), run)


async def expire(tx: Tx, *, org: OrgId, approval: ApprovalId) -> None:
    """Expires a pending approval whose time is over and ends its run."""
    current = await approvals.get(tx, org, approval)
    if current.status is not ApprovalStatus.PENDING or tx.now < current.expires_at:
        return
    await ending.end(
        tx,
        org,
        current.run_id,
        automation=current.automation_id,
        from_status=RunStatus.WAITING_APPROVAL,
        ending=ending.APPROVAL_EXPIRED,
    )


async def warn(tx: Tx, *, org: OrgId, approval: ApprovalId) -> None:
    """Writes the notice that a pending approval has used up half of its time, or nine tenths.

    After a standstill only the latest step is reported. See docs/design/notifications.md#about-to-expire.
    """
    current = await approvals.get(tx, org, approval)
    lifetime = current.expires_at - current.created_at
    late_at = current.created_at + lifetime * _LATE_SHARE
    step = 2 if tx.now >= late_at else 1
    if await approvals.record_warning(tx, org, approval, step=step, next_at=late_at if step == 1 else None):
        percent = int((_LATE_SHARE if step == 2 else approvals.FIRST_WARNING) * 100)
        integration = (await automations.get(tx, org, current.automation_id)).integration_id
        await facts.approval_expiring(tx, org, current, integration=integration, percent=percent)
