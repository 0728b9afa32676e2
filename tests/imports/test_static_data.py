"""Tests static data, which scripts keep from run to run. See docs/design/static-data.md."""

import json
from functools import partial
from typing import Any

import pytest

from steward.connections import rotation
from steward.database.automations import static_data as rows
from steward.model.automation import Automation
from steward.model.json import JsonObject
from steward.model.run import Mode, RunStatus
from steward.runs.storage import static_data
from steward.steps.workflow.static_data import MAX_BYTES
from tests.crash.killing import KINDS, Killer, judge, play
from tests.imports.exports import automated, calling, chain, code, node, tell_step
from tests.imports.test_runs import bound, on_one_engine
from tests.runs.shop import Shop

COUNT = code(
    "Count", "const s = $getWorkflowStaticData('global'); s.n = (s.n ?? 0) + 1; return [{json: {...s}}];"
)


async def stored(shop: Shop, automation: Automation) -> JsonObject:
    """Returns the static data of the automation."""
    context = shop.service.worker_context
    read = partial(static_data.read, vault=context.vault, org=automation.org, automation=automation.id)
    return await shop.read(read)


async def test_static_data_of_a_script_is_there_in_the_next_run(shop: Shop) -> None:
    """Keeps one object for the workflow and one for each step, stored encrypted."""
    script = (
        "const own = $getWorkflowStaticData('node'); own.seen = [...(own.seen ?? []), $json.n]; return [];"
    )
    automation = await automated(shop, chain(COUNT, code("See", script)))
    for _ in range(3):
        assert (await shop.run_and_drain(automation)).status is RunStatus.SUCCEEDED
    assert await stored(shop, automation) == {"global": {"n": 3}, "node:See": {"seen": [1, 2, 3]}}
    row = await shop.read(partial(rows.get, org=automation.org, automation=automation.id))
    assert row is not None
    assert b"seen" not in row[1]


@on_one_engine
@pytest.mark.parametrize(("kind", "result"), [("function", "items"), ("functionItem", "item")])
async def test_older_code_steps_keep_values_too(shop: Shop, kind: str, result: str) -> None:
    """Keeps values of the function without a dollar sign, also in steps that run for each item."""
    script = f"const s = getWorkflowStaticData('global'); s.n = (s.n || 0) + 1; return {result};"
    automation = await automated(shop, chain(node("Old", kind, 1, {"functionCode": script})))
    await shop.run_and_drain(automation)
    await shop.run_and_drain(automation)
    assert await stored(shop, automation) == {"global": {"n": 2}}


async def test_a_test_run_reads_static_data_and_stores_none(shop: Shop) -> None:
    """A test run sees the stored data and its own changes, and stores nothing."""
    check = "if ($json.n !== 2 || $getWorkflowStaticData('global').n !== 2) throw new Error('no'); return [];"
    automation = await automated(shop, chain(COUNT, code("Check", check)))
    first = await shop.run_and_drain(automation)
    assert first.status is RunStatus.FAILED  # it counts from 0, so the check finds 1
    assert await stored(shop, automation) == {}
    await _store(shop, automation, {"global": {"n": 1}})
    assert (await shop.run_and_drain(automation, Mode.TEST)).status is RunStatus.SUCCEEDED
    assert await stored(shop, automation) == {"global": {"n": 1}}


async def _store(shop: Shop, automation: Automation, objects: JsonObject) -> None:
    context, run = shop.service.worker_context, await shop.run_now(automation, Mode.TEST)
    await shop.drain()
    write = partial(
        static_data.write,
        vault=context.vault,
        org=automation.org,
        automation=automation.id,
        run=run.id,
        objects=objects,
    )
    await shop.write(write)


async def test_a_failed_run_stores_no_static_data(shop: Shop) -> None:
    """Stores nothing of a failed run; if the step's failure is tolerated, its changes are stored."""
    stop = node("Stop", "stopAndError", 1, {"errorMessage": "No"})
    automation = await automated(shop, chain(COUNT, stop))
    assert (await shop.run_and_drain(automation)).status is RunStatus.FAILED
    assert await stored(shop, automation) == {}
    text = "$getWorkflowStaticData('global').n = 1; throw new Error('No');"
    tolerated = code("Tolerated", text) | {"onError": "continueRegularOutput"}
    automation = await automated(shop, chain(tolerated, name="Another"))
    assert (await shop.run_and_drain(automation)).status is RunStatus.SUCCEEDED
    assert await stored(shop, automation) == {"global": {"n": 1}}


async def test_static_data_changed_before_an_approval_is_stored_at_the_end(shop: Shop) -> None:
    """Stores the data when the run ends; until then the rows of the waiting run hold them."""
    second_change = code("Again", "$getWorkflowStaticData('global').n += 10; return [];")
    first_step = code("One", "$getWorkflowStaticData('global').n = 1; return [{json: {id: 7}}];")
    automation = await automated(
        shop, chain(first_step, tell_step(), second_change), bindings={"Tell": bound(shop)}
    )
    run = await shop.waiting(automation)
    assert await stored(shop, automation) == {}
    await shop.restart()
    await shop.approve(run)
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.SUCCEEDED
    assert await stored(shop, automation) == {"global": {"n": 11}}


@on_one_engine
async def test_the_static_data_of_an_automation_has_a_size_limit(shop: Shop) -> None:
    """Keeps 1 MiB of JSON over all objects; the step that exceeds it fails and says so."""
    max_length = MAX_BYTES - len('{"a":""}')
    fill = code(
        "Fill", f"$getWorkflowStaticData('global').a = 'x'.repeat({max_length}); return [{{json: {{}}}}];"
    )
    automation = await automated(shop, chain(fill))
    assert (await shop.run_and_drain(automation)).status is RunStatus.SUCCEEDED
    beyond = code("Beyond", f"$getWorkflowStaticData('node').a = 'x'.repeat({max_length} + 1); return [];")
    automation = await automated(shop, chain(beyond, name="Beyond"))
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.FAILED
    assert "1 MiB" in str((await shop.steps(run))[-1]["message"])
    assert await stored(shop, automation) == {}


@on_one_engine
async def test_an_embedded_workflow_has_no_static_data(shop: Shop) -> None:
    """Starts with empty static data, stores none, and cannot see the caller's."""
    automation = await automated(shop, chain(COUNT, calling([COUNT])))
    await shop.run_and_drain(automation)
    assert (await shop.run_and_drain(automation)).status is RunStatus.SUCCEEDED
    assert await stored(shop, automation) == {"global": {"n": 2}}


@on_one_engine
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("$getWorkflowStaticData('local'); return [];", "global"),
        ("const s = $getWorkflowStaticData('global'); s.s = s; return [];", "cannot be written down"),
    ],
)
async def test_unstorable_static_data_fails_the_step(shop: Shop, text: str, words: str) -> None:
    """Fails the step on an unknown kind of data and on an object that contains itself."""
    run = await shop.run_and_drain(await automated(shop, chain(code("Bad", text))))
    assert run.status is RunStatus.FAILED
    assert words in str((await shop.steps(run))[-1]["message"])


@on_one_engine
async def test_static_data_is_stored_as_json(shop: Shop) -> None:
    """Stores values as JSON: dates as text, half surrogate pairs replaced, undefined left out."""
    values = "{a: 1, b: null, c: new Date(0), d: '\\ud800', e: undefined, f: {g: [1.5, 'ä']}}"
    first = f"const s = $getWorkflowStaticData('global'); Object.assign(s, {values}); return [];"
    automation = await automated(shop, chain(code("Set", first)))
    assert (await shop.run_and_drain(automation)).status is RunStatus.SUCCEEDED
    expected = {"a": 1, "b": None, "c": "1970-01-01T00:00:00.000Z", "d": "\ufffd", "f": {"g": [1.5, "ä"]}}
    assert json.dumps(await stored(shop, automation)) == json.dumps({"global": expected})


async def test_a_key_rotation_encrypts_static_data_again(shop: Shop) -> None:
    """Encrypts the data again once, and they decrypt with the new key."""
    automation = await automated(shop, chain(COUNT))
    await shop.run_and_drain(automation)
    org, masters = automation.org, shop.service.worker_context.vault.masters
    number = await shop.write(partial(rotation.new_key, org=org, masters=masters))
    assert number is not None
    others = partial(rows.sealed_under_others, org=org, number=number)
    assert await shop.read(others) == [automation.id]
    reseal = partial(
        rotation.seal_static_data_anew, org=org, masters=masters, automation=automation.id, number=number
    )
    assert [await shop.write(reseal), await shop.write(reseal)] == [1, 0]
    assert await shop.read(others) == []
    assert await stored(shop, automation) == {"global": {"n": 1}}


async def test_a_killed_run_stores_its_static_data_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills the run at every fourth failpoint, or every twelfth on PostgreSQL: its data are stored once."""
    automations: list[Automation] = []
    second = code("Second", "const s = $getWorkflowStaticData('global'); s.m = s.n * 10; return [];")

    async def counting(shop: Shop) -> Any:
        name = f"Counting {len(automations)}"
        automations.append(
            await automated(shop, chain(COUNT, node("Pass", "noOp", 1, {}), second, name=name))
        )
        return automations[-1]

    monkeypatch.setitem(KINDS, "counting", counting)
    await play(shop, "counting", dry := Killer())
    every = 4 if shop.engine.dialect == "sqlite" else 12
    for number in range(1, len(dry.visited), every):
        run = await play(shop, "counting", killer := Killer([number]))
        assert killer.kills != []
        assert await judge(shop, run, blind=False) == [], killer.kills
        assert await stored(shop, automations[-1]) == {"global": {"n": 1, "m": 10}}, killer.kills


SEEN = "removeItemsSeenInPreviousExecutions"


def compares(**parameters: Any) -> dict[str, Any]:
    """Returns an export whose first run makes items 8 and 9, its second 9 and 10, and notes the new ones."""
    script = "const day = n => ({json: {id: n + 7, at: `2026-01-${String(n + 7).padStart(2, '0')}`}});"
    noted = (
        "const s = $getWorkflowStaticData('node'); s.ids = [...(s.ids ?? []), ...items.map(i => i.json.id)];"
    )
    return chain(
        COUNT,
        code("Make", f"{script} return [day($json.n), day($json.n + 1)];"),
        node("Seen", "removeDuplicates", 2, {"operation": SEEN, "options": {}, **parameters}),
        code("Note", f"{noted} return [];"),
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"dedupeValue": "={{ $json.id }}"},
        {"dedupeValue": "={{ $json.at }}", "options": {"scope": "workflow", "historySize": 2}},
        {
            "logic": "removeItemsUpToStoredIncrementalKey",
            "incrementalDedupeValue": "={{ $json.id }}",
        },
        {"logic": "removeItemsUpToStoredDate", "dateDedupeValue": "={{ $json.at }}"},
    ],
)
@on_one_engine
async def test_items_of_earlier_runs_are_left_out(shop: Shop, parameters: dict[str, Any]) -> None:
    """Drops items seen in earlier live runs, by value or as not higher or later; test runs keep nothing."""
    automation = await automated(shop, compares(**parameters))
    for mode in (Mode.LIVE, Mode.TEST, Mode.LIVE, Mode.LIVE):
        assert (await shop.run_and_drain(automation, mode)).status is RunStatus.SUCCEEDED
    assert (await stored(shop, automation))["node:Note"] == {"ids": [8, 9, 10, 11]}


@on_one_engine
@pytest.mark.parametrize("number", ["Infinity", "1e999", "-1e999", "x"])
async def test_infinity_cannot_be_compared_with_earlier_runs(shop: Shop, number: str) -> None:
    """Fails the step: JSON has no infinity, so the next run would take every item for new."""
    parameters = {
        "logic": "removeItemsUpToStoredIncrementalKey",
        "incrementalDedupeValue": f"={{{{ $json.id === 10 ? '{number}' : $json.id }}}}",
    }
    automation = await automated(shop, compares(**parameters))
    assert (await shop.run_and_drain(automation)).status is RunStatus.SUCCEEDED
    before = await stored(shop, automation)
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.FAILED
    assert f'"{number}" is not a number' in str((await shop.steps(run))[-1]["message"])
    assert await stored(shop, automation) == before


@on_one_engine
async def test_a_history_forgets_the_oldest_values(shop: Shop) -> None:
    """Forgets values beyond the history's size, so that they count as new again."""
    parameters = {"dedupeValue": "={{ $json.id % 2 }}", "options": {"historySize": 1}}
    automation = await automated(shop, compares(**parameters))
    await shop.run_and_drain(automation)  # 8 and 9 have the values 0 and 1, of which 1 stays
    await shop.run_and_drain(automation)  # 9 and 10
    assert (await stored(shop, automation))["node:Note"] == {"ids": [8, 9, 10]}


@on_one_engine
async def test_a_history_is_emptied(shop: Shop) -> None:
    """Passes the items on and empties the history, so that all later items count as new."""
    forget = node("Forget", "removeDuplicates", 2, {"operation": "clearDeduplicationHistory"})
    scope = {"scope": "workflow"}
    steps = compares(dedupeValue="={{ $json.id }}", options=scope)
    plain = [step for step in steps["nodes"] if step["name"] in ("Count", "Make", "Seen", "Note")]
    forget["parameters"]["options"] = scope
    automation = await automated(shop, chain(plain[0], forget, *plain[1:]))
    await shop.run_and_drain(automation)
    await shop.run_and_drain(automation)
    assert (await stored(shop, automation))["node:Note"] == {"ids": [8, 9, 9, 10]}
