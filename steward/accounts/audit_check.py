"""Checks the hash chains of audit logs, in the database and in exported files."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from steward.accounts.audit import entry_of_line
from steward.database.accounts import audit, audit_heads
from steward.database.accounts.audit_heads import AuditHead
from steward.database.engine.base import Tx
from steward.model.audit import ChainCheck, Fault
from steward.model.ids import OrgId

_CHECK_EVERY = timedelta(hours=1)
_WHOLE_EVERY = timedelta(days=7)
_WORKER_BATCH = 1_000
OPERATOR_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class Anchor:
    """The head of a chain as it was once recorded outside the database."""

    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class CheckStep:
    """The result of one step of the worker's check: a new fault, and a head to log as an anchor."""

    fault: Fault | None = None
    anchor: Anchor | None = None


async def check_batch(
    tx: Tx, org: OrgId, check: ChainCheck, head: AuditHead, *, limit: int
) -> tuple[Fault | None, bool]:
    """Checks the next entries; returns the first fault, and whether the check of the chain is over."""
    entries = await audit.after(tx, org, check.seq, limit=limit + 1)
    for entry in entries[:limit]:
        if fault := check.accept(entry):
            return fault, True
    if len(entries) > limit:
        # The next batch begins after the last entry, so a duplicate of that entry is only detected here.
        return (Fault(check.seq, "doubled"), True) if entries[limit].seq == check.seq else (None, False)
    return check.end(head.seq, head.hash), True


async def check_next(tx: Tx, org: OrgId, *, anchor_every: timedelta, batch: int = _WORKER_BATCH) -> CheckStep:
    """Checks a batch of the new entries of a chain, and once a week all entries, with the head locked."""
    head = await audit_heads.lock(tx, org)
    check, began = head.checked, head.pass_began_at
    if tx.now - began >= _WHOLE_EVERY and check.seq >= head.verified_seq:
        check, began = ChainCheck(), tx.now
    fault, is_at_end = await check_batch(tx, org, check, head, limit=batch)
    if fault is not None:
        # Begin again at the start, so that the fault is reported until the chain is repaired.
        check = ChainCheck()
    if is_at_end:
        await audit_heads.save_result(
            tx, org, verified_seq=head.seq if fault is None else fault.seq - 1, fault=fault
        )
    await audit_heads.save_check(
        tx, org, check, check_at=tx.now + _CHECK_EVERY if is_at_end else tx.now, pass_began_at=began
    )
    anchor = None
    if is_at_end and (head.anchored_at is None or tx.now - head.anchored_at >= anchor_every):
        await audit_heads.save_anchored(tx, org)
        anchor = Anchor(head.seq, head.hash)
    return CheckStep(fault if fault != head.fault else None, anchor)


def check_export(lines: Iterable[str], anchor: Anchor | None) -> tuple[int, Fault | None]:
    """Checks an NDJSON export: its entries, its end and an anchor.

    Returns the number of the last valid entry, and the first fault. Raises ValueError for a file that is
    not an export.
    """
    check: ChainCheck | None = None
    for line in lines:
        if line.startswith('{"head"'):
            return _end_of_export(json.loads(line)["head"], check or ChainCheck(), anchor)
        entry, previous = entry_of_line(line)
        if check is None:
            check = ChainCheck(entry.seq - 1, previous)
        if fault := check.accept(entry):
            return check.seq, fault
        if anchor is not None and entry.seq == anchor.seq and entry.hash != anchor.hash:
            return check.seq, Fault(entry.seq, "anchor")
    seq = 0 if check is None else check.seq
    return seq, Fault(seq + 1, "missing")


def _end_of_export(
    head: Mapping[str, Any], check: ChainCheck, anchor: Anchor | None
) -> tuple[int, Fault | None]:
    """Compares the last line of an export with the entries before it."""
    if check.seq < head["last"]:
        return check.seq, Fault(check.seq + 1, "missing")
    if check.seq == head["seq"] and check.hash != head["hash"]:
        return check.seq, Fault(check.seq, "head")
    if anchor is not None and anchor.seq > check.seq:
        return check.seq, Fault(anchor.seq, "anchor")
    return check.seq, None
