"""Tests that imported workflows run like any automation: step rows, approvals, the ledger and waits."""

import json
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from steward.automations.updates import change
from steward.automations.updates.update_command import UpdateCommand
from steward.database.runs import steps as step_values
from steward.model.change import Outcome
from steward.model.ids import IntegrationId
from steward.model.plan import StepKind
from steward.model.run import TERMINAL, Mode, RunStatus
from steward.runs.checkpoint import change_wire
from steward.steps.n8n.nodes.microsoft_teams import MicrosoftTeamsNode
from tests.crash.killing import KINDS, Killer, judge, play
from tests.imports.exports import (
    automated,
    calling,
    chain,
    code,
    connections_of,
    drafted,
    listed,
    node,
    tell_step,
)
from tests.runs.shop import HOST, Shop
from tests.runs.test_limits import rules
from tests.shared_sandbox import shared_sandbox

ELSEWHERE = "elsewhere.example"
# For tests in which the database has no part.
on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def store(shop: Shop) -> IntegrationId:
    """Returns the integration id of the WooCommerce store."""
    return shop.connections["woocommerce"].integration_id


def bound(shop: Shop) -> dict[str, Any]:
    """Returns a binding to the Teams channel."""
    return {"integration_id": shop.connections["teams"].integration_id, "kind": "teams", "target": None}


async def test_pure_steps_run_to_the_end(shop: Shop) -> None:
    """Runs two steps and writes a row for each.

    See docs/design/api/automations.md#states and docs/design/imports-n8n.md#execution.
    """
    export = chain(code("Three", "return [1, 2, 3].map(n => ({json: {n}}))"), node("Pass", "noOp", 1, {}))
    run = await shop.run_and_drain(await automated(shop, export))
    assert run.status is RunStatus.SUCCEEDED, run
    rows = await shop.steps(run)
    assert [row["name"] for row in rows if not row["name"].startswith("@")] == ["Three", "Pass"]


@on_one_engine
async def test_each_run_uses_its_own_sandbox(shop: Shop) -> None:
    """Runs a run's scripts in a sandbox that serves only this organization and run.

    See docs/design/sandbox.md#child-processes.
    """
    automation = await automated(shop, chain(code("Code", "return items")))
    before = set(shared_sandbox().owners)
    runs = [await shop.run_and_drain(automation) for _ in range(2)]
    assert shared_sandbox().owners - before == {(str(shop.owner.org), str(run.id)) for run in runs}


async def test_a_change_waits_for_approval_and_is_applied_once(shop: Shop) -> None:
    """Applies each approved change once, and not the declined one; then runs the step after them.

    See docs/design/imports-shopify-flow.md#file and docs/design/runs.md#execution.
    """
    automation = await automated(
        shop, chain(listed(), drafted(), node("After", "noOp", 1, {})), integration_id=store(shop)
    )
    run = await shop.waiting(automation)
    changes = await shop.changes(run)
    assert len(changes) == 3
    assert shop.applied() == []
    await shop.approve(run, [changes[0]])
    await shop.drain()
    ended = await shop.run(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert (await shop.changes(run))[0].outcome is Outcome.DECLINED
    assert sum(len(entry["objects"]) for entry in shop.applied()) == 2
    names = [row["name"] for row in await shop.steps(run)]
    assert "After" in names


async def test_a_test_run_changes_nothing(shop: Shop) -> None:
    """Shows the changes of a test run and writes nothing. See docs/design/api/automations.md#states."""
    automation = await automated(shop, chain(listed(), drafted()), integration_id=store(shop))
    run = await shop.run_and_drain(automation, Mode.TEST)
    assert run.status is RunStatus.SUCCEEDED, run
    assert len(await shop.changes(run)) == 3
    assert shop.writes() == []


async def test_a_message_asks_first_and_is_sent_once(shop: Shop) -> None:
    """Sends the message once, after approval and a restart. See docs/design/api/approvals.md#states."""
    bindings = {"Tell": bound(shop)}
    export = chain(code("One", "return [{json: {id: 7}}]"), tell_step())
    run = await shop.waiting(await automated(shop, export, bindings=bindings))
    await shop.approve(run)
    await shop.restart()
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED
    assert len(shop.writes()) == 1


async def test_a_message_is_sent_at_its_step_when_allowed(shop: Shop) -> None:
    """Sends the message without approval in the mode `send`. See docs/design/api/approvals.md#states."""
    bindings = {"Tell": bound(shop)}
    export = chain(code("One", "return [{json: {id: 7}}]"), tell_step())
    run = await shop.run_and_drain(await automated(shop, export, bindings=bindings, send_mode="send"))
    assert run.status is RunStatus.SUCCEEDED, run
    assert len(shop.writes()) == 1


async def test_a_step_stored_as_a_read_never_sends(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a run in which a step of the kind `read` proposes a send; nothing is sent.

    See docs/design/security.md#imported-workflows and docs/design/runs.md#execution.
    """
    monkeypatch.setattr(MicrosoftTeamsNode, "kind", StepKind.READ)
    export = chain(code("One", "return [{json: {id: 7}}]"), tell_step())
    run = await shop.run_and_drain(await automated(shop, export, bindings={"Tell": bound(shop)}))
    assert run.status is RunStatus.FAILED, run
    assert shop.writes() == []
    assert await shop.changes(run) == []


async def test_an_approved_message_is_sent_after_a_failed_change(shop: Shop) -> None:
    """Sends the approved message though the change before it failed, also after a wait for a rate limit.

    See docs/design/approvals.md#held-changes.
    """
    export = chain(listed(1), drafted())
    export["nodes"].append(tell_step())
    export["connections"]["Products"]["main"][0].append({"node": "Tell", "type": "main", "index": 0})
    automation = await automated(shop, export, integration_id=store(shop), bindings={"Tell": bound(shop)})
    run = await shop.waiting(automation)
    shop.fault("status", "PUT", "/wp-json/**", status=400, body={"code": "bad", "message": "No."})
    shop.fault("throttle", "POST", "/teams/**", retry_after=600)
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert (ended.status, ended.code) == (RunStatus.FAILED, "some_changes_failed"), ended
    outcomes = {change.name: change.outcome for change in await shop.changes(run)}
    assert outcomes == {"Draft": Outcome.FAILED, "Tell": Outcome.APPLIED}
    assert len(shop.applied()) == 1


async def test_after_a_change_that_failed_no_new_step_starts(shop: Shop) -> None:
    """Starts no new step on any branch after a failed change, unless the step tolerates failures.

    See docs/design/runs.md#execution.
    """
    for settings, last in ({}, "failed"), ({"onError": "continueRegularOutput"}, "succeeded"):
        export = chain(listed(1), drafted() | settings)
        export["nodes"] += [tell_step(), node("After", "noOp", 1, {})]
        export["connections"]["Products"]["main"][0].append({"node": "Tell", "type": "main", "index": 0})
        export["connections"]["Tell"] = {"main": [[{"node": "After", "type": "main", "index": 0}]]}
        bindings = {"Tell": bound(shop)}
        automation = await automated(shop, export, integration_id=store(shop), bindings=bindings)
        run = await shop.waiting(automation)
        shop.fault("status", "PUT", "/wp-json/**", status=400, body={"code": "bad", "message": "No."})
        await shop.approve(run)
        ended = await shop.until_settled(run)
        assert (ended.status, ended.code) == (RunStatus.FAILED, "some_changes_failed"), ended
        names = [row["name"] for row in await shop.steps(run)]
        assert ("After" in names) is (last == "succeeded"), names


async def test_a_run_continues_after_a_wait_despite_a_tolerated_failure(shop: Shop) -> None:
    """Continues after a wait although a send before it failed, because that failure is tolerated.

    See docs/design/runs.md#execution.
    """
    export = chain(
        code("One", "return [{json: {id: 7}}]"), tell_step() | {"onError": "continueRegularOutput"}
    )
    wait_step = node("Rest", "wait", 1.1, {"resume": "timeInterval", "amount": 30, "unit": "minutes"})
    export["nodes"] += [wait_step, node("After", "noOp", 1, {})]
    export["connections"] |= connections_of([wait_step, {"name": "After"}])
    export["connections"]["One"]["main"][0].append({"node": "Rest", "type": "main", "index": 0})
    automation = await automated(shop, export, bindings={"Tell": bound(shop)}, send_mode="send")
    shop.fault("status", "POST", "/teams/**", status=400, body={"error": {"code": "BadRequest"}})
    run = await shop.run_and_drain(automation)
    assert run.status not in TERMINAL, run
    assert [change.outcome for change in await shop.changes(run)] == [Outcome.FAILED]
    await shop.restart()
    await shop.until_settled(run)
    assert "After" in [row["name"] for row in await shop.steps(run)]


@on_one_engine
async def test_a_called_workflow_is_stopped_at_the_time_limit(shop: Shop) -> None:
    """Ends the run with `timed_out` while a called workflow with many steps is at work.

    See docs/design/runs.md#limits.
    """
    rules(shop, time_limit=timedelta(seconds=0.5))
    many = code("Many", "return Array.from({length: 5000}, (_, n) => ({json: {n}}))")
    steps = [node(f"Pass {number}", "noOp", 1, {}) for number in range(20)]
    run = await shop.run_and_drain(await automated(shop, chain(many, calling(steps, mode="each"))))
    assert (run.status, run.code) == (RunStatus.FAILED, "timed_out"), run


@on_one_engine
async def test_a_step_is_stopped_at_the_time_limit_of_its_run(shop: Shop) -> None:
    """Ends the run with `timed_out` while a script loops forever. See docs/design/runs.md#limits."""
    rules(shop, time_limit=timedelta(seconds=0.3))
    run = await shop.run_and_drain(await automated(shop, chain(code("Round", "while (true) {}"))))
    assert (run.status, run.code) == (RunStatus.FAILED, "timed_out"), run
    assert [row["name"] for row in await shop.steps(run)] == []


@on_one_engine
async def test_a_called_workflow_counts_against_the_memory_of_the_run(shop: Shop) -> None:
    """Counts the outputs within a called workflow against the run's memory, though none is stored.

    See docs/design/runs.md#checkpoints.
    """
    text = "return [{json: {i: ($input.first().json.i ?? 0) + 1, text: 'x'.repeat(%d)}}]"
    for limit, ends in (2, RunStatus.SUCCEEDED), (9, RunStatus.FAILED):
        within = chain(
            code("Big", text % 6_000_000), node("Round", "if", 2.2, _below(limit)), code("Out", "return {}")
        )
        within["nodes"][0] = node("Begin", "executeWorkflowTrigger", 1, {})
        back_to_big = [{"node": "Big", "type": "main", "index": 0}]
        within["connections"]["Round"] = {
            "main": [back_to_big, [{"node": "Out", "type": "main", "index": 0}]]
        }
        request_body = {"source": "parameter", "workflowJson": json.dumps(within), "options": {}}
        run = await shop.run_and_drain(
            await automated(shop, chain(node("Call", "executeWorkflow", 1.2, request_body)))
        )
        assert run.status is ends, run.message
        assert run.code == ("too_much_data" if ends is RunStatus.FAILED else None)


def _below(limit: int) -> dict[str, Any]:
    """Returns a condition that holds while a count is below `limit`."""
    compared = {
        "leftValue": "={{ $json.i }}",
        "rightValue": limit,
        "operator": {"type": "number", "operation": "lt"},
    }
    return {"conditions": {"options": {"version": 2}, "combinator": "and", "conditions": [compared]}}


@on_one_engine
async def test_test_runs_skip_steps_that_read_real_responses(shop: Shop) -> None:
    """Skips the steps that read a response, names the field they read, and runs all others.

    See docs/design/runs.md#test-runs.
    """
    post = {"method": "POST", "url": f"https://{ELSEWHERE}/orders", "options": {}}
    fixed = {"assignments": {"assignments": [{"name": "a", "value": 1, "type": "number"}]}}
    reading = {
        "assignments": {"assignments": [{"name": "n", "value": "={{ $json.number }}", "type": "string"}]}
    }
    stored = fixed | {"includeOtherFields": True}
    near = {"assignments": {"assignments": [{"name": "b", "value": "={{ $json.a }}", "type": "number"}]}}
    export = chain(
        node("Post", "httpRequest", 4.2, post),
        node("Pass", "noOp", 1, {}),
        node("Fixed", "set", 3.4, stored),
        node("Near", "set", 3.4, near),
        node("Script", "code", 2, {"jsCode": "return [{json: {n: $('Post').first().json.number}}]"}),
    )
    judged = {"leftValue": "={{ $('Fixed').item.json.number + 1 }}", "rightValue": 3}
    judged |= {"operator": {"type": "number", "operation": "gt"}}
    more = [
        node("Reading", "set", 3.4, reading),
        node("Fixed 2", "set", 3.4, fixed),
        node("If", "if", 2.2, {"conditions": {"options": {}, "combinator": "and", "conditions": [judged]}}),
        node("Never", "noOp", 1, {}),
    ]
    export["nodes"] += more
    export["connections"] |= connections_of([{"name": "Fixed 2"}, {"name": "If"}, {"name": "Never"}])
    export["connections"] |= {"Reading": {"main": [[{"node": "Fixed 2", "type": "main", "index": 0}]]}}
    export["connections"]["Fixed"]["main"][0].append({"node": "Reading", "type": "main", "index": 0})
    run = await shop.run_and_drain(await automated(shop, export), Mode.TEST)
    assert run.status is RunStatus.SUCCEEDED, run
    rows = {row["name"]: row for row in await shop.steps(run)}
    left_out = {name: row["message"] for name, row in rows.items() if row["code"] == "unknown_in_test"}
    assert left_out.keys() == {"Reading", "Script", "If", "Never"}
    assert "“Fixed”" in left_out["Reading"]
    assert "“number”" in left_out["Reading"]
    assert {rows[name]["status"] for name in left_out} == {"skipped"}
    succeeded = {name for name, row in rows.items() if row["status"] == "succeeded"}
    assert succeeded == {"Pass", "Fixed", "Near", "Fixed 2"}
    assert shop.writes() == []


async def test_changes_of_a_called_workflow_are_approved_and_made_once(shop: Shop) -> None:
    """Shows the changes of a called workflow and makes each approved one once; declined items go no further.

    See docs/design/imports-n8n.md#node-types and docs/design/runs.md#execution.
    """
    record = code("Two", "return [{json: {limit: 1}}, {json: {limit: 2}}]")
    reading = listed() | {"parameters": listed()["parameters"] | {"limit": "={{ $json.limit }}"}}
    export = chain(record, calling([reading, drafted()], mode="each"), node("After", "noOp", 1, {}))
    automation = await automated(shop, export, integration_id=store(shop))
    tried = await shop.run_and_drain(automation, Mode.TEST)
    assert (tried.status, shop.writes(), len(await shop.changes(tried))) == (RunStatus.SUCCEEDED, [], 3)
    run = await shop.waiting(automation)
    changes = await shop.changes(run)
    assert [change.name for change in changes] == ["Call"] * 3
    await shop.approve(run, [changes[2]])
    await shop.restart()
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert len(shop.applied()) == len({change.proposal.object.id for change in changes[:2]})
    history = await shop.read(partial(step_values.values, org=shop.owner.org, run=run.id))
    [after] = [value for value in history if value.name == "After"]
    assert len(after.output["out"][0]) == 2


@on_one_engine
async def test_a_called_workflow_uses_the_connection_its_step_is_bound_to(shop: Shop) -> None:
    """Sends the message of a called workflow by the connection that its step is bound to.

    See docs/design/imports-n8n.md#node-types and docs/design/imports-n8n.md#refusals-and-readiness.
    """
    export = chain(code("One", "return [{json: {id: 7}}]"), calling([tell_step()]))
    run = await shop.waiting(await automated(shop, export, bindings={"Call": bound(shop)}))
    await shop.approve(run)
    assert (await shop.until_settled(run)).status is RunStatus.SUCCEEDED
    assert len(shop.writes()) == 1


@on_one_engine
async def test_a_step_stops_reading_at_its_memory_limit(shop: Shop) -> None:
    """Ends the step at the response that exceeds its memory, without requests for later items.

    See docs/design/sandbox.md#sandbox-for-foreign-code and docs/design/runs.md#checkpoints.
    """
    fault = {"kind": "status", "path": "/long", "status": 200, "body": {"text": "x" * 3_000_000}, "count": -1}
    long = shop.world.state.faults.make(fault)
    request_body = {"url": f"https://{ELSEWHERE}/long", "options": {}}
    for items, code_, calls in (2, None, 2), (9, "too_much_data", 3):
        many = code("Many", f"return Array.from({{length: {items}}}, (_, i) => ({{json: {{i}}}}))")
        before = long.hits
        run = await shop.run_and_drain(
            await automated(shop, chain(many, node("Ask", "httpRequest", 4.2, request_body)))
        )
        assert run.code == code_, run
        assert (await shop.steps(run))[-1]["code"] == code_
        assert long.hits - before == calls


@on_one_engine
async def test_steps_cannot_reach_hosts_allowed_for_connections(shop: Shop) -> None:
    """Refuses the hosts that the operator opened for connections, for reads and sends.

    See docs/design/security.md#imported-workflows and docs/design/connectors.md#outbound-guard.
    """
    open_ = shop.world.state.faults.make({"kind": "status", "path": "/long", "status": 200, "count": -1})
    for url in f"http://{HOST}/long", f"https://{HOST}/long":
        for method in "GET", "POST":
            request_body = {"method": method, "url": f"={{{{ '{url}'.trim() }}}}", "options": {}}
            run = await shop.run_and_drain(
                await automated(shop, chain(node("Ask", "httpRequest", 4.2, request_body)))
            )
            if run.status is RunStatus.WAITING_APPROVAL:
                await shop.approve(run)
                run = await shop.until_settled(run)
            assert run.status is RunStatus.FAILED, run
    assert open_.hits == 0


async def test_a_cross_join_of_too_many_items_is_refused_in_advance(shop: Shop) -> None:
    """Fails a merge of 708 items with 708 before it builds the pairs.

    See docs/design/sandbox.md#sandbox-for-foreign-code.
    """
    export = chain(
        code("Many", "return Array.from({length: 708}, () => ({json: {}}))"),
        node("Pairs", "merge", 3, {"mode": "combine", "combineBy": "combineAll", "options": {}}),
    )
    export["connections"]["Many"]["main"][0].append({"node": "Pairs", "type": "main", "index": 1})
    run = await shop.run_and_drain(await automated(shop, export))
    assert run.status is RunStatus.FAILED, run
    assert "708 items with 708" in str((await shop.steps(run))[-1])


async def test_an_approval_shows_the_whole_request_which_is_sent_once(shop: Shop) -> None:
    """Shows address, headers and the shortened body in the approval, and sends the request once.

    See docs/design/imports-n8n.md#http-steps and docs/design/approvals.md#decisions.
    """
    request_body = {
        "method": "POST",
        "url": f"={{{{ 'https://{ELSEWHERE}/wp-json/elsewhere' }}}}",
        "sendHeaders": True,
        "headerParameters": {"parameters": [{"name": "X-Kind", "value": "odd"}]},
        "sendBody": True,
        "contentType": "raw",
        "body": "a" * 6000,
        "options": {},
    }
    automation = await automated(shop, chain(node("Post", "httpRequest", 4.2, request_body)))
    tried = await shop.run_and_drain(automation, Mode.TEST)
    assert (tried.status, shop.writes()) == (RunStatus.SUCCEEDED, [])
    run = await shop.waiting(automation)
    assert shop.writes() == []
    [change] = await shop.changes(run)
    fields = {field["field"]: field for field in change_wire(change)["fields"]}
    assert "x-kind: odd" in fields["headers"]["after"]
    assert fields["body"]["truncated"] is True
    await shop.approve(run)
    await shop.restart()
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.FAILED, ended  # no server responds there
    assert len(shop.writes()) == 1


async def test_a_long_wait_sleeps_and_continues_after_a_restart(shop: Shop) -> None:
    """Sleeps for 30 minutes, survives a restart, and runs the steps after the wait.

    See docs/design/runs.md#execution.
    """
    export = chain(
        code("One", "return [{json: {at: 1}}]"),
        node("Rest", "wait", 1.1, {"resume": "timeInterval", "amount": 30, "unit": "minutes"}),
        node("Pass", "noOp", 1, {}),
    )
    run = await shop.run_and_drain(await automated(shop, export))
    assert run.status not in TERMINAL, run
    await shop.restart()
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    names = [row["name"] for row in await shop.steps(run) if not row["name"].startswith("@")]
    assert names == ["One", "Rest", "Pass"]


async def test_each_iteration_of_a_loop_has_its_row(shop: Shop) -> None:
    """Writes one row for each iteration of the loop.

    See docs/design/imports-n8n.md#execution.
    """
    nodes = [code("Three", "return [1, 2, 3].map(n => ({json: {n}}))")]
    nodes += [node("Loop", "splitInBatches", 3, {"batchSize": 1, "options": {}}), node("Body", "noOp", 1, {})]
    export = chain(*nodes)
    export["connections"]["Loop"] = {"main": [[], [{"node": "Body", "type": "main", "index": 0}]]}
    export["connections"]["Body"] = {"main": [[{"node": "Loop", "type": "main", "index": 0}]]}
    run = await shop.run_and_drain(await automated(shop, export))
    assert run.status is RunStatus.SUCCEEDED, run
    assert [row["name"] for row in await shop.steps(run)].count("Body") == 3


@on_one_engine
async def test_a_date_out_of_range_fails_its_step_and_not_the_service(shop: Shop) -> None:
    """Fails the step on a date out of range. See docs/design/imports-n8n.md#refusals-and-readiness."""
    request_body = {
        "startDate": "0001-01-01T00:00:00Z",
        "endDate": "2026-01-01",
        "units": ["day"],
        "options": {},
    }
    step = node("When", "dateTime", 2, {"operation": "getTimeBetweenDates", **request_body})
    export = chain(code("One", "return [{json: {}}]"), step)
    run = await shop.run_and_drain(await automated(shop, export, timezone="America/New_York"))
    assert run.status is RunStatus.FAILED
    assert "out of range" in str((await shop.steps(run))[-1]["message"])


async def test_a_failing_step_fails_the_run_with_its_message(shop: Shop) -> None:
    """Fails the run with the message of the step. See docs/design/api/automations.md#states."""
    export = chain(node("Stop", "stopAndError", 1, {"errorMessage": "Nothing to sell"}))
    run = await shop.run_and_drain(await automated(shop, export))
    assert run.status is RunStatus.FAILED, run
    assert "Nothing to sell" in str((await shop.steps(run))[-1])


async def test_changed_bindings_supersede_waiting_runs(shop: Shop) -> None:
    """Ends a waiting run as `superseded` when the bindings of its automation change; nothing is sent.

    See docs/design/approvals.md#decisions and docs/design/runs.md#cancellation.
    """
    export = chain(code("One", "return [{json: {id: 7}}]"), tell_step())
    automation = await automated(shop, export, bindings={"Tell": bound(shop)})
    run = await shop.waiting(automation)
    expected = UpdateCommand(automation.id, automation.version, bindings={})
    rules = shop.service.worker_context.automation_rules
    changed = await shop.write(partial(change.update, actor=shop.owner, command=expected, rules=rules))
    assert changed.plan_version == 2
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.REFUSED, "superseded")
    assert shop.writes() == []


async def test_a_killed_workflow_changes_each_thing_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills the run at every tenth failpoint: each step and change is there exactly once.

    See docs/design/runs.md#execution and docs/design/writes.md#two-tables.
    """
    first = code("First", "return [{json: {at: Math.random()}}]")
    export = chain(first, listed(2), drafted(), node("After", "noOp", 1, {}))
    create_automation = partial(automated, export=export, integration_id=store(shop))
    monkeypatch.setitem(KINDS, "import", create_automation)
    run = await play(shop, "import", dry := Killer())
    assert await judge(shop, run, blind=False) == []
    for number in range(1, len(dry.visited), 10):
        run = await play(shop, "import", killer := Killer([number]))
        assert killer.kills != []
        assert await judge(shop, run, blind=False) == [], (number, killer.kills)
