"""Verifies that what is about to be applied is the set of changes that was approved."""

from collections.abc import Sequence
from functools import partial

from steward.database.runs import approvals, changes
from steward.model.change import Change
from steward.model.ids import ApprovalId
from steward.run_queue.summaries import NO_APPROVAL_ROUND
from steward.runs.approval_request import change_set
from steward.runs.walk.state import ApprovalMismatch, VerifiedSet, Walk


async def verified_hash(walk: Walk, items: Sequence[Change]) -> str:
    """Returns the hash of the approved set. Raises ApprovalMismatch.

    It is computed from the rows of the whole round before the first change is sent; later steps compare what
    they are about to send with that set.
    """
    if walk.run.approval_id is None or all(item.round == NO_APPROVAL_ROUND for item in items):
        _check_hashes(items)
        return ""
    if walk.verified is None or walk.verified.approval != walk.run.approval_id:
        walk.verified = await _verified_set(walk, walk.run.approval_id)
    approved_items = [item for item in items if item.round != NO_APPROVAL_ROUND]
    if any(walk.verified.hashes.get(item.id) != item.proposal.item_hash() for item in approved_items):
        raise ApprovalMismatch
    return walk.verified.change_hash


async def _verified_set(walk: Walk, approval: ApprovalId) -> VerifiedSet:
    approved = await walk.read(partial(approvals.get, org=walk.lease.org, approval=approval))
    proposed = await walk.read(
        partial(changes.of_round, org=walk.lease.org, run=walk.run.id, round_=approved.round)
    )
    _check_hashes(proposed)
    if change_set(walk.run, approved.round, proposed).change_hash() != approved.change_hash:
        raise ApprovalMismatch
    return VerifiedSet(approval, approved.change_hash, {item.id: item.item_hash for item in proposed})


def _check_hashes(items: Sequence[Change]) -> None:
    if any(item.proposal.item_hash() != item.item_hash for item in items):
        raise ApprovalMismatch
