"""Tests workflows that steps call by their id, where a person chooses an import for each.

See docs/design/imports-called.md.
"""

from functools import partial
from typing import Any

import pytest

from steward.automations.calls import MAX_CALLS
from steward.automations.from_plan import CreateWorkflowCommand
from steward.automations.updates import change
from steward.automations.updates.update_command import UpdateCommand
from steward.imports import storage
from steward.imports.n8n.read import read_value
from steward.imports.preview import PreviewQuery, preview
from steward.imports.run_as import run_as
from steward.model.finding import FindingLevel
from steward.model.json import JsonObject
from steward.model.refusals import NotReady, ValidationFailed
from steward.model.run import RunStatus
from tests.imports.exports import BEGIN, automated, chain, code, listed, node, store_export, tell_step
from tests.imports.responses.workflows import output_items
from tests.imports.test_runs import bound, on_one_engine, store
from tests.imports.test_static_data import COUNT, stored
from tests.runs.shop import BY_HAND, Shop


def called(*steps: dict[str, Any], name: str = "Called", **trigger: Any) -> dict[str, Any]:
    """Returns an export that another workflow calls."""
    export = chain(*steps, name=name)
    kind = {"type": "n8n-nodes-base.executeWorkflowTrigger", "typeVersion": 1.1, "parameters": trigger}
    export["nodes"][0] = {**BEGIN, **kind}
    return export


def passed_to(*steps: dict[str, Any], name: str = "Called") -> dict[str, Any]:
    """Returns an export that another workflow calls and whose trigger accepts every field."""
    return called(*steps, name=name, inputSource="passthrough")


def calling_itself(*body: dict[str, Any], starts: bool = True) -> dict[str, Any]:
    """Returns a workflow that calls itself for each item; when called it runs `body`."""
    call = node("Call", "executeWorkflow", 1, {"mode": "each", "workflowId": "={{ $workflow.id }}"})
    export = chain(
        code("Make", "return [{json: {n: 1}}, {json: {n: 2}}]"), call, code("After", "return items")
    )
    if starts:
        part = chain(*body)
        kind = {"name": "Called", "type": "n8n-nodes-base.executeWorkflowTrigger", "typeVersion": 1}
        export["nodes"] += [{**part["nodes"][0], **kind}, *part["nodes"][1:]]
        export["connections"] |= {kind["name"]: part["connections"].pop(BEGIN["name"]), **part["connections"]}
    return export


async def test_a_workflow_calls_itself_at_its_trigger_for_calls(shop: Shop) -> None:
    """Calls itself once for each item, without the steps after the other start."""
    double = code("Double", "return items.map(({json}) => ({json: {n: json.n * 2}}))")
    automation = await automated(shop, calling_itself(double))
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.SUCCEEDED, run
    assert await output_items(shop, run, "After") == [{"n": 2}, {"n": 4}]


@pytest.mark.parametrize(
    ("export", "words"),
    [
        (calling_itself(starts=False), "has no trigger for that"),
        (
            calling_itself(node("Again", "executeWorkflow", 1, {"workflowId": "={{ $workflow.id }}"})),
            "without an end",
        ),
    ],
)
def test_a_workflow_that_cannot_call_itself_is_refused(export: dict[str, Any], words: str) -> None:
    """Refuses a workflow that has no trigger for calls, or whose calls would never end."""
    [error] = [
        finding
        for finding in read_value(export).findings
        if finding.level is FindingLevel.ERROR and finding.step == "Call"
    ]
    assert (error.code, words in error.message) == ("sub_workflow_missing", True)


def call_by_id(
    name: str = "Call", *, workflow_name: str = "Called", version: float = 1.2, **more: Any
) -> dict[str, Any]:
    """Returns a step that calls a workflow by its id."""
    workflow = {"__rl": True, "mode": "list", "value": "a1", "cachedResultName": workflow_name}
    return node(name, "executeWorkflow", version, {"workflowId": workflow, "options": {}, **more})


def seen_step(text: str = "$input.all().map((item) => item.json)") -> dict[str, Any]:
    """Returns a step that fails with the JSON of its input items."""
    return code("See", f"throw new Error(JSON.stringify({text}))")


async def import_of(shop: Shop, export: dict[str, Any]) -> str:
    """Stores the export and returns the id of its import."""
    record = (await store_export(shop, export)).record
    assert record.supported, record.report["issues"]
    return record.id


async def message_of_see(shop: Shop, export: dict[str, Any], calls: JsonObject, **more: Any) -> str:
    """Runs the export and returns the message that the step See failed with."""
    run = await shop.run_and_drain(await automated(shop, export, calls=calls, **more))
    assert run.status is RunStatus.FAILED, run
    return str([row["message"] for row in await shop.steps(run) if row["name"] == "See"])


SIGNS_IN = {"authentication": "genericCredentialType", "genericAuthType": "httpHeaderAuth"}
TWO = code("Two", "return [{json: {n: 1}}, {json: {n: 2}}]")


async def test_a_chosen_import_runs_inside_its_step(shop: Shop) -> None:
    """Runs the chosen import once for all items, or for each, and passes on the items of its last step."""
    chosen = await import_of(shop, passed_to(code("Add", "return [{json: {sum: $input.all().length}}]")))
    calls = {"Call": {"import_id": chosen}}
    assert '[{"sum":2}]' in await message_of_see(shop, chain(TWO, call_by_id(), seen_step()), calls)
    record = chain(TWO, call_by_id(mode="each"), seen_step(), name="Each")
    assert '[{"sum":1},{"sum":1}]' in await message_of_see(shop, record, calls)


@on_one_engine
async def test_an_automation_without_a_choice_is_not_ready(shop: Shop) -> None:
    """Creates the automation, and refuses its runs with the name of the step until an import is chosen."""
    chosen = await import_of(shop, passed_to(code("Add", "return [{json: {}}]")))
    automation = await automated(shop, chain(TWO, call_by_id()))
    with pytest.raises(NotReady, match="“Call”"):
        await shop.run_now(automation)
    rules = shop.service.worker_context.automation_rules
    command = UpdateCommand(automation.id, automation.version, calls={"Call": {"import_id": chosen}})
    changed = await shop.write(partial(change.update, actor=shop.owner, command=command, rules=rules))
    assert (changed.version, changed.plan_version) == (2, 2)
    assert (await shop.run_and_drain(changed)).status is RunStatus.SUCCEEDED
    second_update = UpdateCommand(automation.id, changed.version, calls={"Call": {"import_id": chosen}})
    same = await shop.write(partial(change.update, actor=shop.owner, command=second_update, rules=rules))
    assert same.version == 2


@on_one_engine
async def test_everything_that_is_missing_for_a_run_is_named(shop: Shop) -> None:
    """Refuses a run with the steps to bind, the step that calls a workflow, and the variables to set."""
    asks = [
        node(f"Ask {number}", "httpRequest", 4.2, {"url": "https://api.example.com/a", **SIGNS_IN})
        for number in range(7)
    ]
    show_step = code("Show", "return [{json: {shop: $vars.shop}}]")
    automation = await automated(shop, chain(TWO, call_by_id(), show_step, *asks))
    with pytest.raises(NotReady) as refused:
        await shop.run_now(automation)
    assert refused.value.message == (
        "These steps have no usable connection: “Ask 0”, “Ask 1”, “Ask 2”, “Ask 3”, “Ask 4” and 2 more."
        " Bind them. No workflow is chosen for these steps to call: “Call”. Choose one of your imports."
        " These variables have no value: “$vars.shop”. Enter their values. Then run it again."
    )


async def test_a_chosen_workflows_message_is_approved_with_its_step(shop: Shop) -> None:
    """Sends the message once after approval, also when the import is deleted before."""
    chosen = await import_of(shop, passed_to(tell_step()))
    first_step = code("One", "return [{json: {id: 7}}]")
    calls, bindings = {"Call": {"import_id": chosen}}, {"Call": bound(shop)}
    automation = await automated(shop, chain(first_step, call_by_id()), calls=calls, bindings=bindings)
    await shop.write(partial(storage.delete, actor=shop.owner, import_id=chosen))
    run = await shop.waiting(automation)
    assert shop.writes() == []
    await shop.approve(run)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED
    assert len(shop.writes()) == 1


@on_one_engine
async def test_a_chosen_workflow_reads_the_automations_store(shop: Shop) -> None:
    """Requires a store connection when the called workflow reads a store."""
    chosen = await import_of(shop, passed_to(listed(2)))
    calls, export = {"Call": {"import_id": chosen}}, chain(call_by_id(), seen_step("$input.all().length"))
    assert "2" in await message_of_see(shop, export, calls, integration_id=store(shop))
    with pytest.raises(ValidationFailed) as refused:
        await automated(shop, export, calls=calls)
    assert list(refused.value.errors or ()) == ["integration_id"]


@on_one_engine
async def test_the_trigger_of_a_called_workflow_passes_the_fields_it_names(shop: Shop) -> None:
    """Passes the fields that the trigger names: null for missing ones, the step's values, no removed ones."""
    rows = {"values": [{"name": "n"}, {"name": "who"}, {"name": "absent"}]}
    hand_back = code("Back", "return $input.all()")
    chosen = await import_of(shop, called(hand_back, workflowInputs=rows))
    schema = [
        {"id": "who", "displayName": "who", "type": "string"},
        {"id": "n", "displayName": "n", "type": "number", "removed": True},
    ]
    value = {"who": "={{ $json.n + 1 }}"}
    inputs = {"value": value, "schema": schema, "mappingMode": "defineBelow", "convertFieldsToString": True}
    export = chain(TWO, call_by_id(workflowInputs=inputs), seen_step())
    expected = '[{"n":null,"who":"2","absent":null},{"n":null,"who":"3","absent":null}]'
    assert expected in await message_of_see(shop, export, {"Call": {"import_id": chosen}})
    strict = {**inputs, "convertFieldsToString": False}
    export = chain(TWO, call_by_id(workflowInputs=strict), name="Strict")
    run = await shop.run_and_drain(await automated(shop, export, calls={"Call": {"import_id": chosen}}))
    assert "takes a value of type string" in str((await shop.steps(run))[-1]["message"])


@on_one_engine
async def test_a_call_without_waiting_passes_its_own_items_on(shop: Shop) -> None:
    """Runs the called workflow but passes on the step's own items."""
    chosen = await import_of(shop, passed_to(code("Other", "return [{json: {other: true}}]")))
    export = chain(TWO, call_by_id(options={"waitForSubWorkflow": False}), seen_step())
    assert '[{"n":1},{"n":2}]' in await message_of_see(shop, export, {"Call": {"import_id": chosen}})


@on_one_engine
async def test_a_chosen_workflow_keeps_static_data_of_its_own(shop: Shop) -> None:
    """Keeps static data of the called workflow from run to run, apart from the caller's."""
    chosen = await import_of(shop, passed_to(COUNT))
    calls = {"Call": {"import_id": chosen}}
    automation = await automated(shop, chain(COUNT, call_by_id()), calls=calls)
    await shop.run_and_drain(automation)
    assert (await shop.run_and_drain(automation)).status is RunStatus.SUCCEEDED
    assert await stored(shop, automation) == {"global": {"n": 2}, "Call\nglobal": {"n": 2}}


@on_one_engine
async def test_nested_imports_are_chosen_by_their_path(shop: Shop) -> None:
    """Chooses nested imports by the path of steps; refuses a missing choice, a circle and too many levels."""
    last = await import_of(shop, passed_to(code("Last", "return [{json: {last: 1}}]"), name="Last"))
    middle = await import_of(shop, passed_to(call_by_id("Deeper"), name="Middle"))
    export = chain(call_by_id(), seen_step())
    calls = {"Call": {"import_id": middle}, "Call › Deeper": {"import_id": last}}
    assert '"last":1' in await message_of_see(shop, export, calls)
    assert await errors_of(shop, export, {**calls, "Call › Deeper": {"import_id": middle}}) == [
        "calls.Call › Deeper"
    ]
    assert await errors_of(shop, export, {"Call › Deeper": {"import_id": last}}) == ["calls.Call › Deeper"]
    deep, choices = "Call", {"Call": {"import_id": middle}}
    for number in range(2, 7):
        part = await import_of(shop, passed_to(call_by_id("Deeper"), name=f"Part {number}"))
        deep += " › Deeper"
        choices[deep] = {"import_id": part}
    assert await errors_of(shop, export, choices) == [f"calls.{deep}"]


async def errors_of(shop: Shop, export: dict[str, Any], calls: JsonObject) -> list[str]:
    """Returns the fields at which the choices are refused."""
    record = (await store_export(shop, export)).record
    command = CreateWorkflowCommand(import_id=record.id, name=record.name, schedule=BY_HAND, calls=calls)
    rules = shop.service.worker_context.automation_rules
    with pytest.raises(ValidationFailed) as refused:
        await shop.write(partial(run_as, actor=shop.owner, command=command, rules=rules))
    return sorted(refused.value.errors or ())


@on_one_engine
async def test_an_invalid_choice_is_refused_at_its_step(shop: Shop) -> None:
    """Refuses unknown steps and imports, ones that cannot run or that wait, itself, and too many choices."""
    export = chain(call_by_id())
    own_import_of = await import_of(shop, export)
    good = await import_of(shop, passed_to(code("Good", "return []"), name="Good"))
    unsupported = (await store_export(shop, passed_to(node("Odd", "mySql", 1, {}), name="Odd"))).record.id
    wait_step = node("Rest", "wait", 1.1, {"resume": "timeInterval", "amount": 1, "unit": "hours"})
    waits = await import_of(shop, passed_to(wait_step, name="Waits"))
    for choice in (own_import_of, unsupported, waits, "nothing"):
        assert await errors_of(shop, export, {"Call": {"import_id": choice}}) == ["calls.Call"]
    assert await errors_of(shop, export, {"Else": {"import_id": good}}) == ["calls.Else"]
    assert await errors_of(shop, export, {"Call": {"id": good}}) == ["calls.Call"]
    many = {f"Step {number}": {"import_id": good} for number in range(MAX_CALLS)}
    assert len(await errors_of(shop, export, many)) == MAX_CALLS
    assert await errors_of(shop, export, {**many, "One more": {"import_id": good}}) == ["calls"]


@on_one_engine
async def test_a_preview_proposes_the_import_with_the_name_of_the_called_workflow(shop: Shop) -> None:
    """Proposes the import with the called workflow's name; with a choice it shows that import's sends."""
    chosen = await import_of(shop, passed_to(tell_step(), name="Called"))
    record = (await store_export(shop, chain(call_by_id(workflow_name="called")))).record
    displayed = partial(preview, actor=shop.owner, plan=record.plan or {}, issues=[])
    before = await shop.read(partial(displayed, query=PreviewQuery()))
    assert before["callable"] == [
        {"step": "Call", "workflow": "called", "import_id": None, "name": None, "proposed": chosen}
    ]
    assert before["readiness"]["unbound"] == [{"step": "Call", "kind": "workflow", "why": "no_connection"}]
    assert before["sends"] == []
    after = await shop.read(partial(displayed, query=PreviewQuery(calls={"Call": {"import_id": chosen}})))
    assert after["sends"] == ["Call"]
    assert [row["step"] for row in after["bindable"]] == ["Call"]
    assert after["callable"][0]["import_id"] == chosen
