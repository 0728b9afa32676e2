"""Tests runs that are started by hand with a payload. See docs/design/api/runs.md#run-now."""

import re
from functools import partial
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.model.finding import FindingLevel
from steward.model.json import JsonObject
from steward.model.refusals import ValidationFailed
from steward.model.run import Mode, Run, RunStatus
from steward.runs import start
from steward.runs.start import RunNow, StartedRun
from steward.runs.storage import payload as payloads
from tests.imports.exports import automated, chain, code, node
from tests.runs.shop import Shop


def shown_by(trigger: str) -> dict[str, Any]:
    """Returns an export that begins with this trigger and fails with the item it passes on."""
    export = chain(code("See", "throw new Error(JSON.stringify($input.first().json))"))
    export["nodes"][0] = {**export["nodes"][0], "type": f"n8n-nodes-base.{trigger}"}
    return export


async def started(shop: Shop, automation: Any, payload: JsonObject | None, key: str = "one") -> StartedRun:
    """Starts a run as the API does."""
    context = shop.service.context
    return await start.start(
        context.engine,
        shop.clock.now(),
        shop.owner,
        RunNow(automation.id, key, Mode.LIVE, payload),
        templates=context.automation_rules.templates,
        max_waiting=10,
        vault=context.vault,
    )


async def message_of(shop: Shop, run: Run) -> str:
    """Finishes the run and returns the message that its step failed with."""
    await shop.drain()
    ended = await shop.run(run)
    assert ended.status is RunStatus.FAILED, ended
    return str([row["message"] for row in await shop.steps(run) if row["name"] == "See"])


async def test_parts_of_a_call_that_steps_read_are_beside_the_body(shop: Shop) -> None:
    """Puts the parts of a call that steps read beside the body, and all other values into the body.

    See docs/design/api/runs.md#run-now.
    """
    export = shown_by("webhook")
    text = "throw new Error($json.query.shop + $json.webhookUrl + ' ' + JSON.stringify($json.body))"
    export["nodes"][1]["parameters"]["jsCode"] = text
    automation = await automated(shop, export)
    payload = {"query": {"shop": "1"}, "params": {"a": 2}, "webhookUrl": "/x", "b": 3}
    first_start = await started(shop, automation, payload)
    assert '1/x {"params":{"a":2},"b":3}' in await message_of(shop, first_start.run)


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        ("webhook", '{"headers":{},"params":{},"query":{},"body":{"a":1},"executionMode":"production"}'),
        ("formTrigger", r'{"Note":"","code":"3","a":1,"submittedAt":"[^"]+\+05:30","formMode":"production"}'),
        ("manualTrigger", '{"a":1}'),
        ("scheduleTrigger", '{"a":1}'),
    ],
)
async def test_a_payload_is_the_item_of_the_start(shop: Shop, trigger: str, expected: str) -> None:
    """Hands the payload on as the body of a webhook, as fields of a form, or else as the item itself."""
    export = shown_by(trigger)
    hidden = {"fieldName": "code", "fieldType": "hiddenField", "fieldValue": "3"}
    fields = {"values": [{"fieldLabel": "Note"}, hidden]}
    options = {"useWorkflowTimezone": True}
    export["nodes"][0]["parameters"] = {"formFields": fields, "options": options}
    automation = await automated(shop, export, timezone="Asia/Kolkata")
    run = (await started(shop, automation, {"a": 1})).run
    assert re.search(expected, await message_of(shop, run))


@pytest.mark.parametrize(
    ("trigger", "item"),
    [
        ("webhook", r"^\['\{\} \[line"),
        ("cron", r"^\['\{\} \[line"),
        ("scheduleTrigger", r'\{"timestamp":"[^"]+\+00:00"'),
    ],
)
async def test_a_run_without_a_payload_starts_with_an_empty_item(shop: Shop, trigger: str, item: str) -> None:
    """Starts a run without a payload with an empty item, or with its time if n8n's trigger has it."""
    export = shown_by(trigger)
    export["nodes"][0]["parameters"] = {"triggerTimes": {"item": [{"hour": 2}]}}
    automation = await automated(shop, export, timezone="UTC")
    assert re.search(item, await message_of(shop, (await started(shop, automation, None)).run))


async def test_a_repeated_key_returns_its_run_whatever_the_payload(shop: Shop) -> None:
    """Returns the first run for its key, even with a payload that would be refused; its payload stays."""
    automation = await automated(shop, shown_by("manualTrigger"))
    first = await started(shop, automation, {"a": 1})
    for payload in (None, {"a": 2}, {"a": "x" * payloads.MAX_BYTES}):
        second_start = await started(shop, automation, payload)
        assert (second_start.run.id, second_start.replayed) == (first.run.id, True)
    assert '{"a":1}' in await message_of(shop, first.run)


async def test_a_payload_has_at_most_256_kib(shop: Shop) -> None:
    """Accepts 256 KiB, counted as compact JSON, and refuses one byte more."""
    automation = await automated(shop, shown_by("manualTrigger"))
    limit = {"a": "x" * (payloads.MAX_BYTES - len('{"a":""}'))}
    assert not (await started(shop, automation, limit)).replayed
    with pytest.raises(ValidationFailed) as refused:
        await started(shop, automation, {"a": limit["a"] + "x"}, key="two")
    assert list(refused.value.errors or ()) == ["payload"]


@pytest.mark.parametrize(
    ("payload", "faults"),
    [
        ({"count": "three"}, {"payload.Mail", "payload.count"}),
        ({"Mail": "", "kind": "C"}, {"payload.Mail", "payload.kind"}),
        ({"Mail": "a@b.example", "sizes": ["S", "XL"]}, {"payload.sizes"}),
        ({"Mail": "a@b.example", "count": True}, {"payload.count"}),
    ],
)
async def test_values_that_a_form_would_not_accept_are_refused_at_their_fields(
    shop: Shop, payload: JsonObject, faults: set[str]
) -> None:
    """Refuses missing, mistyped and unknown values at their fields; the key stays free for another run."""
    export = shown_by("formTrigger")
    rows = [
        {"fieldLabel": "Mail", "requiredField": True},
        {"fieldLabel": "count", "fieldType": "number"},
        {"fieldLabel": "kind", "fieldType": "dropdown", "fieldOptions": {"values": [{"option": "A"}]}},
        {"fieldLabel": "sizes", "fieldType": "checkbox", "fieldOptions": {"values": [{"option": "S"}]}},
    ]
    export["nodes"][0]["parameters"] = {"formFields": {"values": rows}}
    automation = await automated(shop, export)
    with pytest.raises(ValidationFailed) as refused:
        await started(shop, automation, payload)
    assert set(refused.value.errors or ()) == faults
    filled = {"Mail": "a@b.example", "count": 3, "kind": "A", "sizes": ["S"], "beside": None}
    assert not (await started(shop, automation, filled)).replayed


async def test_omitted_form_fields_have_their_default(shop: Shop) -> None:
    """Passes on the defaults of fields that are left out; refuses a required field that is sent empty."""
    export = shown_by("formTrigger")
    rows: list[dict[str, Any]] = [
        {"fieldLabel": "City", "requiredField": True, "defaultValue": "Pune"},
        {"fieldLabel": "count", "fieldType": "number", "defaultValue": "0"},
        {"fieldLabel": "Note", "defaultValue": "none"},
    ]
    export["nodes"][0]["parameters"] = {"formFields": {"values": rows}}
    automation = await automated(shop, export)
    for empty in ("", None):
        with pytest.raises(ValidationFailed) as refused:
            await started(shop, automation, {"City": empty})
        assert set(refused.value.errors or ()) == {"payload.City"}
    run = (await started(shop, automation, {"Note": ""})).run
    assert '{"City":"Pune","count":0,"Note":"",' in await message_of(shop, run)


def with_page(**page: Any) -> dict[str, Any]:
    """Returns a form with a second page, and a step that fails with what that page passes on."""
    rows = [{"fieldLabel": "Size", "fieldType": "dropdown", "fieldOptions": {"values": [{"option": "S"}]}}]
    rows.append({"fieldLabel": "What you'd say", "requiredField": True, **page})
    see = code("See", "throw new Error(JSON.stringify($input.all().map(({json}) => json)))")
    second = node("Second", "form", 1, {"formFields": {"values": rows}, "options": {"formTitle": "More"}})
    export = chain(code("Items", "return [{json: {}}, {json: {}}]"), second, see)
    first = {"formFields": {"values": [{"fieldLabel": "Mail", "requiredField": True}]}}
    export["nodes"][0] |= {"type": "n8n-nodes-base.formTrigger", "typeVersion": 2.1, "parameters": first}
    return export


async def test_further_pages_of_a_form_are_asked_for_at_the_start(shop: Shop) -> None:
    """Asks for the fields of all pages at the start; each page passes on its own fields once."""
    automation = await automated(shop, with_page())
    with pytest.raises(ValidationFailed) as refused:
        await started(shop, automation, {"Mail": "a@b.example", "Size": "XL"})
    assert set(refused.value.errors or ()) == {"payload.Size"}
    filled = {"Mail": "a@b.example", "Size": "S", "What you'd say": "Hi"}
    message = await message_of(shop, (await started(shop, automation, filled)).run)
    assert '[{"Size":"S","What you\'d say":"Hi","submittedAt":' in message.replace("\\", "")
    assert "Mail" not in message


@pytest.mark.parametrize("page", [{"fieldType": "file"}, {"fieldLabel": "={{ $json.label }}"}])
def test_a_form_page_that_cannot_be_filled_in_advance_is_an_error(page: dict[str, Any]) -> None:
    """Reports a page that takes a file, or whose fields only the run can know, as an error."""
    errors = [
        finding for finding in read_value(with_page(**page)).findings if finding.level is FindingLevel.ERROR
    ]
    assert [(error.step, "nobody can fill in" in error.message) for error in errors] == [("Second", True)]


async def test_an_automation_of_a_template_accepts_no_payload(shop: Shop) -> None:
    """Refuses a payload for a template's automation; without one the same key starts a run."""
    automation = await shop.hiding()
    with pytest.raises(ValidationFailed) as refused:
        await started(shop, automation, {"a": 1})
    assert list(refused.value.errors or ()) == ["payload"]
    assert not (await started(shop, automation, None)).replayed


async def test_a_payload_is_stored_encrypted(shop: Shop) -> None:
    """Stores the payload encrypted and decrypts it for its run."""
    automation = await automated(shop, shown_by("manualTrigger"))
    run = (await started(shop, automation, {"a": "plain words"})).run

    async def row(tx: Any) -> Any:
        return await tx.first("SELECT payload FROM runs WHERE id = :run", {"run": run.id})

    assert b"plain words" not in bytes((await shop.write(row))["payload"])
    read = partial(payloads.read, vault=shop.service.context.vault, org=run.org, run=run.id)
    values = await shop.read(read)
    assert values is not None
    assert values.payload == {"a": "plain words"}
