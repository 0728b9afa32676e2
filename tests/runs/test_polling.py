"""Tests following a run over HTTP: every step exactly once, and changes as they are now.

See docs/design/api/runs.md#requests and docs/design/api/runs.md#step.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from steward.api.v1.runs import CHANGES_SHOWN, STEPS_PER_RESPONSE
from steward.database.engine.base import Tx
from steward.model.run import Mode, Run, RunStatus
from tests.people import Caller
from tests.runs.api_client import api_client
from tests.runs.shop import Shop

RUNS = "/v1/automations/runs"


@pytest.fixture
async def reader(shop: Shop) -> AsyncIterator[Caller]:
    """Provides an API client with a token of the shop's organization."""
    async with api_client(shop) as caller:
        yield caller


async def insert_steps(shop: Shop, run: Run, rows: int) -> None:
    """Gives the run `rows` step rows, as a run with loops has."""

    async def fill(tx: Tx) -> None:
        for seq in range(run.last_seq + 1, rows + 1):
            wire = f'{{"seq":{seq},"name":"s{seq}"}}'
            row = {"org": shop.owner.org, "run": run.id, "seq": seq, "name": f"s{seq}", "wire": wire}
            await tx.execute(
                "INSERT INTO steps (org_id, run_id, seq, name, iteration, attempt, status, finished_at,"
                " changes_total, wire) VALUES (:org, :run, :seq, :name, '', 1, 'succeeded', :now, 0, :wire)",
                row,
            )
        args = {"org": shop.owner.org, "run": run.id, "seq": rows}
        await tx.execute("UPDATE runs SET last_seq = :seq WHERE org_id = :org AND id = :run", args)

    await shop.write(fill)


async def poll(reader: Caller, run: Run, after: int) -> dict[str, Any]:
    """Polls the run once."""
    response = await reader.get(f"{RUNS}/{run.id}", after_seq=after)
    assert response.status == 200, response.body
    reply: dict[str, Any] = response.data["run"]
    return reply


@pytest.mark.parametrize("rows", [STEPS_PER_RESPONSE, STEPS_PER_RESPONSE + 1, 2 * STEPS_PER_RESPONSE + 1])
async def test_polling_with_the_highest_seq_gives_every_step_once(
    shop: Shop, reader: Caller, rows: int
) -> None:
    """A poll answers at most 200 steps and `more_steps`; together the polls answer each step once.

    See docs/design/api/runs.md#requests.
    """
    run = await shop.run_and_drain(await shop.hiding(), Mode.TEST)
    await insert_steps(shop, run, rows)
    seen: list[int] = []
    while True:
        response = await poll(reader, run, seen[-1] if seen else 0)
        got = [step["seq"] for step in response["steps"]]
        assert len(got) <= STEPS_PER_RESPONSE
        seen += got
        if not response["more_steps"]:
            break
        assert len(got) == STEPS_PER_RESPONSE
    assert seen == list(range(1, rows + 1))
    assert (await poll(reader, run, rows))["steps"] == []
    assert (await poll(reader, run, rows + 5))["more_steps"] is False


async def test_a_run_can_be_followed_while_it_runs(shop: Shop, reader: Caller) -> None:
    """A client follows a run until its status is terminal and `more_steps` is false.

    See docs/design/api/runs.md#requests.
    """
    run = await shop.waiting(await shop.hiding())
    first = await poll(reader, run, 0)
    assert [step["status"] for step in first["steps"]] == ["succeeded", "succeeded", "held"]
    assert first["status"] == "waiting_approval"
    held = first["steps"][-1]
    assert {change["outcome"] for change in held["changes"]} == {"proposed"}
    assert held["changes_total"] == len(held["changes"]) > 0
    await shop.approve(run)
    await shop.drain()
    later = await poll(reader, run, held["seq"])
    [applied] = later["steps"]
    assert (applied["name"], applied["status"], applied["seq"]) == (held["name"], "succeeded", 4)
    assert later["status"] == "succeeded"
    # The held row stays as it was, and its changes tell what became of them.
    again = (await poll(reader, run, 0))["steps"][2]
    assert again["status"] == "held"
    assert {change["outcome"] for change in again["changes"]} == {"applied"}
    assert {name: again[name] for name in again if name != "changes"} == {
        name: held[name] for name in held if name != "changes"
    }


async def test_each_row_is_whole_when_it_is_first_seen(shop: Shop, reader: Caller) -> None:
    """A step row has all its fields when it is first answered. See docs/design/api/runs.md#step."""
    run = await shop.waiting(await shop.hiding())
    response = await poll(reader, run, 0)
    assert len(response["steps"]) == run.last_seq
    for step in response["steps"]:
        assert set(step) == {
            *("seq", "name", "title", "kind", "status", "attempt", "iteration", "started_at"),
            *("finished_at", "connection", "counts", "code", "message", "changes", "changes_total"),
        }
        assert len(step["changes"]) <= CHANGES_SHOWN


async def test_a_negative_or_wordy_seq_is_refused(shop: Shop, reader: Caller) -> None:
    """`after_seq` must be an integer of at least 0. See docs/design/api/runs.md#requests."""
    run = await shop.run_now(await shop.hiding())
    for wrong in ("-1", "one", "1.5"):
        response = await reader.get(f"{RUNS}/{run.id}", after_seq=wrong)
        assert (response.status, response.code) == (422, "validation_failed")
        assert set(response.errors) == {"after_seq"}


async def test_a_runs_changes_are_listed_by_step_and_outcome(shop: Shop, reader: Caller) -> None:
    """Changes are listed by seq, then id, each once over all pages, filtered by step and outcome.

    See docs/design/api/runs.md#requests.
    """
    run = await shop.waiting(await shop.pricing())
    [first, *_] = await shop.changes(run)
    await shop.approve(run, [first])
    await shop.drain()
    ids = sorted(change.id for change in await shop.changes(run))
    assert await _paged(reader, run) == ids
    declined = (await reader.get(f"{RUNS}/{run.id}/changes", outcome="declined,failed")).data["changes"]
    assert [change["id"] for change in declined] == [first.id]
    assert (await reader.get(f"{RUNS}/{run.id}/changes", seq=1)).data["changes"] == []

    # As if a later step had asked for the first four: a page may end in one step and go on in the next.
    async def apart(tx: Tx) -> int:
        args = {"run": run.id, "ids": ids[:4]}
        return await tx.execute("UPDATE changes SET seq = seq + 1 WHERE run_id = :run AND id IN (:ids)", args)

    assert await shop.write(apart) == 4
    assert await _paged(reader, run) == ids[4:] + ids[:4]


async def _paged(reader: Caller, run: Run) -> list[str]:
    """Returns the ids of a run's changes, read in pages of three."""
    seen: list[str] = []
    cursor: dict[str, object] = {}
    while True:
        data = (await reader.get(f"{RUNS}/{run.id}/changes", limit=3, **cursor)).data
        seen += [change["id"] for change in data["changes"]]
        if data["next_cursor"] is None:
            return seen
        cursor = {"cursor": data["next_cursor"]}


async def test_no_token_decides(shop: Shop, reader: Caller) -> None:
    """A token cannot decide: 403 before the approval is looked up.

    See docs/design/api/conventions.md#scope and docs/design/api/approvals.md#requests.
    """
    run = await shop.waiting(await shop.pricing())
    asked_approval = await shop.approval(run)
    for act in ("approve", "reject"):
        for approval in (asked_approval.id, "01KAH1B9ZX7Y5W3V1T9S7R5Q3P"):
            response = await reader.post(f"/v1/automations/approvals/{approval}/{act}", {"version": 1})
            assert (response.status, response.code) == (403, "forbidden")
    assert (await shop.run(run)).status is RunStatus.WAITING_APPROVAL


async def test_cancel_returns_the_run(shop: Shop, reader: Caller) -> None:
    """Cancelling answers the run with 200, and then 409 `wrong_state`.

    See docs/design/api/runs.md#requests.
    """
    run = await shop.run_now(await shop.hiding())
    response = await reader.post(f"{RUNS}/{run.id}/cancel", {})
    assert (response.status, response.data["run"]["status"]) == (200, "cancelled")
    again = await reader.post(f"{RUNS}/{run.id}/cancel", {})
    assert (again.status, again.code) == (409, "wrong_state")
    assert (await shop.run(run)).code == "by_person"
