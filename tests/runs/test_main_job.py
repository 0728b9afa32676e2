"""Tests the main job end to end: a run reads, asks, applies exactly what was approved, and reports it."""

import pytest

from steward.database.engine.base import Tx
from steward.model.change import Outcome
from steward.model.run import Mode, RunStatus
from tests.runs.shop import Shop


async def test_a_run_waits_and_then_makes_exactly_the_approved_changes(shop: Shop) -> None:
    """A run waits for approval and then applies exactly the approved changes.

    See docs/design/security.md#promises and docs/design/api/runs.md#states.
    """
    run = await shop.run_and_drain(await shop.pricing())
    assert (run.status, run.code) == (RunStatus.WAITING_APPROVAL, None)
    changes = await shop.changes(run)
    assert [change.outcome for change in changes] == [Outcome.PROPOSED] * 10
    assert shop.writes() == []

    left_out = changes[3:5]
    await shop.approve(run, leave_out=left_out)
    await shop.drain()

    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.SUCCEEDED, None)
    outcomes = [change.outcome for change in await shop.changes(run)]
    assert outcomes.count(Outcome.APPLIED) == 8
    assert outcomes[3:5] == [Outcome.DECLINED] * 2
    written = {str(item["id"]) for entry in shop.applied() for item in entry["objects"]}
    approved = [change.proposal.object.id or "" for change in changes if change not in left_out]
    assert written == {target.rpartition("/")[2] for target in approved}
    assert ended.summary is not None
    assert ended.result is not None
    assert ended.result["changed"] == 8


async def test_a_test_run_writes_nothing(shop: Shop) -> None:
    """A test run sends no write request.

    See docs/design/api/conventions.md#scope and docs/design/fake-platforms.md#process.
    """
    run = await shop.run_and_drain(await shop.pricing(), Mode.TEST)
    assert run.status is RunStatus.SUCCEEDED
    assert {change.outcome for change in await shop.changes(run)} == {Outcome.REFUSED_TEST}
    assert shop.writes() == []


async def test_hiding_marks_and_hides_as_one_change(shop: Shop) -> None:
    """The marker tag and the visibility of a product are one change.

    See docs/design/templates.md#shared-definitions.
    """
    run = await shop.run_and_drain(await shop.hiding(threshold=5))
    assert run.status is RunStatus.WAITING_APPROVAL
    await shop.approve(run)
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.message) == (RunStatus.SUCCEEDED, None)
    again = await shop.run_and_drain(await shop.hiding(threshold=5))
    assert again.status is RunStatus.SUCCEEDED
    assert await shop.changes(again) == []


async def test_who_connected_and_who_decided_is_kept_permanently(shop: Shop) -> None:
    """The audit log keeps every connection and decision with its person and time.

    See docs/design/security.md#logs-and-redaction and docs/design/api/approvals.md#states.
    """
    run = await shop.run_and_drain(await shop.pricing())
    await shop.approve(run)

    async def lines(tx: Tx) -> list[tuple[str, str, str]]:
        rows = await tx.all(
            "SELECT action, actor, object_kind FROM audit_log WHERE org_id = :org ORDER BY id",
            {"org": shop.owner.org},
        )
        return [(row["action"], row["actor"], row["object_kind"]) for row in rows]

    person = str(shop.owner.person)
    log_lines = await shop.read(lines)
    assert log_lines.count(("connected", person, "connection")) == 3
    assert log_lines.count(("approved", person, "approval")) == 1

    async def forget(tx: Tx) -> int:
        return await tx.execute("DELETE FROM audit_log WHERE org_id = :org", {"org": shop.owner.org})

    with pytest.raises(Exception, match=r"append-only|permission denied"):
        await shop.write(forget)
