"""Tests imports over HTTP: stored, listed, previewed, automated, changed and deleted.

See docs/design/api/imports.md#requests and docs/design/api/imports.md#findings.
"""

import json
import zlib
from functools import partial
from typing import Any

import pytest

from steward.connections import rotation
from steward.connections.rotation import content_field, context_of_field
from steward.database.accounts import connections
from steward.database.automations import plans
from steward.database.imports import records as imports
from steward.security.envelope import CannotOpen, open_sealed, unwrap
from tests.imports.exports import BEGIN, chain, code, connections_of, drafted, node, tell_step
from tests.service import Service

PATH = "/v1/automations/imports"
MANUAL = {"cadence": "manual"}


def body(export: Any, name: str = "Mine") -> dict[str, Any]:
    """Returns the request body that stores an export."""
    return {"source": "workflow_tool", "name": name, "content": export}


async def test_an_export_is_stored_once_and_returned_whole(service: Service) -> None:
    """Returns the plan and needs; for the same export again it returns the existing import.

    See docs/design/api/imports.md#requests and docs/design/api/imports.md#findings.

    Interface statements: 4.3 imports.
    """
    member = await service.token("member")
    export = chain(code("One", "return [{json: {}}]"), drafted(), tell_step())
    response = await member.post(PATH, body(export))
    assert response.status == 201, response.body
    new_import = response.data["import"]
    assert new_import["supported"] is True
    assert new_import["needs"] == ["store", "teams"]
    assert new_import["step_count"] == 3
    assert [step["operation"] for step in new_import["plan"]["steps"]] == [
        "code",
        "woocommerce.product.update",
        "teams.post",
    ]
    second_response = await member.post(
        PATH, body(json.loads(json.dumps(export, sort_keys=True)), "Another name")
    )
    assert (second_response.status, second_response.data["import"]["id"]) == (200, new_import["id"])
    listed = (await member.get(PATH)).data["imports"]
    assert [item["id"] for item in listed] == [new_import["id"]]
    assert "plan" not in listed[0]
    reply = await member.get(f"{PATH}/{new_import['id']}")
    assert reply.data["import"]["plan"] == new_import["plan"]
    assert (await member.delete(f"{PATH}/{new_import['id']}")).status == 200
    assert (await member.get(f"{PATH}/{new_import['id']}")).status == 404


async def test_imports_beyond_the_limit_are_refused(service: Service) -> None:
    """Refuses one import more than the limit, here set to 2, but accepts a known export again.

    See docs/design/api/imports.md#requests.

    Interface statements: 7 allowance_spent; 8 imports.
    """
    assert service.context.rules.imports_kept == 100
    service.restart(imports_kept=2)
    member = await service.token("member")
    for number in range(2):
        assert (await member.post(PATH, body(chain(code(f"C{number}", "return []"))))).status == 201
    limits = (await member.get("/v1/automations/status")).data["limits"]
    assert (limits["imports_kept"], limits["imports_allowed"]) == (2, 2)
    refused = await member.post(PATH, body(chain(code("More", "return []"))))
    assert (refused.status, refused.code) == (422, "allowance_spent")
    assert (await member.post(PATH, body(chain(code("C0", "return []"))))).status == 200


async def test_other_or_too_large_content_is_refused(service: Service) -> None:
    """Refuses other content, more than 2 MiB and 1,001 nodes; stores 1,000 nodes.

    See docs/design/api/conventions.md#requests and docs/design/api/imports.md#requests.
    """
    member = await service.token("member")
    for content in ("{", "[]", '{"nodes": 3}', {"nodes": []}):
        refused = await member.post(PATH, body(content))
        assert refused.status == 422, refused.body
        assert list(refused.errors) == ["content"]
    large = json.dumps(body("x" * (2 * 1024 * 1024 + 1))).encode()
    response = await member.call("POST", PATH, content=large, headers={"Content-Type": "application/json"})
    assert response.status == 413
    names = [node(f"N{number}", "noOp", 1, {}) for number in range(1001)]
    over = await member.post(PATH, body({"nodes": [BEGIN, *names], "connections": {}}))
    assert over.status == 422
    reply = await member.post(PATH, body({"nodes": [BEGIN, *names[:999]], "connections": {}}))
    assert reply.status == 201, reply.body


WITHOUT_A_USABLE_STEP: dict[str, list[Any]] = {
    "nothing": [],
    "no objects": [None, "Set", 3],
    "only notes": [node("Note", "stickyNote", 1, {}), node("Another", "stickyNote", 1, {})],
    "only a trigger": [BEGIN],
    "only triggers": [BEGIN, node("Hook", "webhook", 1, {}), node("Hourly", "scheduleTrigger", 1, {})],
    "only disabled steps": [node("Off", "noOp", 1, {}, disabled=True)],
    "a trigger and disabled steps": [
        BEGIN,
        node("Off", "noOp", 1, {}, disabled=True),
        node("Unknown", "fluxCapacitor", 2, {}, disabled=True),
    ],
    "a disabled trigger and a note": [{**BEGIN, "disabled": True}, node("Note", "stickyNote", 1, {})],
    "a step without a type": [BEGIN, {"name": "What", "parameters": {}}],
    "an untyped step and a disabled one": [{"name": "What"}, node("Off", "noOp", 1, {}, disabled=True)],
}


@pytest.mark.parametrize("nodes", WITHOUT_A_USABLE_STEP.values(), ids=WITHOUT_A_USABLE_STEP.keys())
async def test_an_export_without_a_usable_step_is_refused(service: Service, nodes: list[Any]) -> None:
    """Refuses such an export in any wrapping, when storing and when previewing.

    See docs/design/api/imports.md#requests.
    """
    member = await service.token("member")
    export = {
        "nodes": nodes,
        "connections": connections_of([node for node in nodes if isinstance(node, dict)]),
    }
    for content in (export, {"workflow": export}, [export], json.dumps(export)):
        for path, sent in ((PATH, body(content)), (f"{PATH}/preview", body(content))):
            if path != PATH:
                del sent["name"]
            refused = await member.post(path, sent)
            assert (refused.status, refused.code) == (422, "validation_failed"), refused.body
            assert list(refused.errors) == ["content"]
    assert (await member.get(PATH)).data["imports"] == []


async def test_an_export_with_one_usable_step_is_stored(service: Service) -> None:
    """Stores an export with one enabled step, also if that step cannot run, so that its report can be read.

    See docs/design/api/imports.md#requests.
    """
    member = await service.token("member")
    disabled = node("Off", "noOp", 1, {}, disabled=True)
    for number, usable in enumerate((node("Odd", "fluxCapacitor", 2, {}), node("Nothing", "noOp", 1, {}))):
        for nodes in ([usable], [BEGIN, disabled, usable]):
            content = {"nodes": nodes, "connections": {}, "name": f"{number}"}
            assert (await member.post(PATH, body(content))).status == 201


async def test_secrets_are_named_and_never_stored(service: Service) -> None:
    """Names the step of a secret, and contains it neither in the response nor in the stored rows.

    See docs/design/imports-n8n.md#safety and docs/design/security.md#imported-workflows.
    """
    member = await service.token("member")
    secret = "sk-live-abcdefghijklmnop1234567890"
    fields = {"assignments": [{"id": "1", "name": "apiKey", "value": secret, "type": "string"}]}
    response = await member.post(PATH, body(chain(node("Keys", "set", 3.4, {"assignments": fields}))))
    assert response.status == 201, response.body
    new_import = response.data["import"]
    assert secret not in json.dumps(response.body)
    named = [issue for issue in new_import["issues"] if issue["code"] == "secret_removed"]
    assert [item["step"] for item in named] == ["Keys"]

    async def stored(tx: Any) -> str:
        rows = await tx.all("SELECT id, content, content_key, plan FROM imports", {})
        packed = [row["plan"] for row in rows] + [await _opened(tx, service, row) for row in rows]
        return "".join(zlib.decompress(part).decode() for part in packed)

    text = await service.write(stored, org=service.own.organization.id)
    assert "__removed_secret_1__" in text
    assert secret not in text


async def _opened(tx: Any, service: Service, row: Any) -> bytes:
    """Decrypts and returns the content of a stored import."""
    org, number = service.own.organization.id, row["content_key"]
    key = await connections.data_key(tx, org, number)
    assert key is not None
    data_key = unwrap(key.wrapped, service.context.vault.masters, org_id=org, key_no=number)
    context = context_of_field(org, content_field(row["id"]), number)
    return open_sealed(bytes(row["content"]), data_key, context)


async def test_the_content_of_an_import_is_stored_encrypted(service: Service) -> None:
    """Stores the content encrypted; ciphertext moved to another import does not decrypt."""
    member = await service.token("member")
    for name in ("First", "Second"):
        step = node(
            "Step", "set", 3.4, {"assignments": {"assignments": []}}, notes=f"{name} and secret plans"
        )
        assert (await member.post(PATH, body(chain(step)))).status == 201
    org = service.own.organization.id

    async def rows(tx: Any) -> list[Any]:
        return list(await tx.all("SELECT id, content, content_key FROM imports ORDER BY id", {}))

    first, second = await service.write(rows, org=org)
    for row in (first, second):
        with pytest.raises(zlib.error):
            zlib.decompress(bytes(row["content"]))
        opened = await service.write(partial(_opened, service=service, row=row), org=org)
        assert b"and secret plans" in zlib.decompress(opened)
    moved = {**dict(first), "content": second["content"]}
    with pytest.raises(CannotOpen):
        await service.write(partial(_opened, service=service, row=moved), org=org)


async def test_a_key_rotation_encrypts_imports_again(service: Service) -> None:
    """Re-encrypts each import once; a second pass finds none, and the new key decrypts the content."""
    member = await service.token("member")
    step = node("Step", "set", 3.4, {"assignments": {"assignments": []}}, notes="Sealed twice")
    new_import = (await member.post(PATH, body(chain(step)))).data["import"]
    org, masters = service.own.organization.id, service.context.vault.masters
    number = await service.write(partial(rotation.new_key, org=org, masters=masters), org=org)
    assert number is not None
    others = partial(imports.sealed_under_others, org=org, number=number)
    assert await service.write(others, org=org) == [new_import["id"]]
    reseal = partial(
        rotation.seal_import_anew, org=org, masters=masters, import_id=new_import["id"], number=number
    )
    assert await service.write(reseal, org=org) == 1
    assert await service.write(others, org=org) == []
    assert await service.write(reseal, org=org) == 0

    async def row(tx: Any) -> Any:
        return await tx.first("SELECT id, content, content_key FROM imports", {})

    stored = await service.write(row, org=org)
    assert stored["content_key"] == number
    opened = await service.write(partial(_opened, service=service, row=stored), org=org)
    assert b"Sealed twice" in zlib.decompress(opened)


async def test_a_payload_must_be_an_object_that_the_automation_can_start_with(service: Service) -> None:
    """Refuses a payload that is not an object with an error on `payload`; an object starts the run."""
    member = await service.token("member")
    export = chain(code("One", "return [{json: {}}]"))
    new_import = (await member.post(PATH, body(export))).data["import"]
    set_up = {"name": "Mine", "schedule": MANUAL, "idempotency_key": "set-up"}
    response = await member.post(f"{PATH}/{new_import['id']}/automations", set_up)
    assert response.status == 201, response.body
    runs = f"/v1/automations/{response.data['automation']['id']}/runs"
    for wrong in (5, "text", [1]):
        refused = await member.post(runs, {"idempotency_key": "one", "payload": wrong})
        assert (refused.status, list(refused.errors)) == (422, ["payload"]), refused.body
    started = await member.post(runs, {"idempotency_key": "one", "payload": {"a": {"b": [1, None]}}})
    assert started.status == 201, started.body
    second_response = await member.post(runs, {"idempotency_key": "one", "payload": {"a": 2}})
    assert (second_response.status, second_response.data["run"]["id"]) == (200, started.data["run"]["id"])
    without = await member.post(runs, {"idempotency_key": "two", "payload": None})
    assert without.status == 201, without.body


async def test_a_preview_stores_nothing(service: Service) -> None:
    """Shows sends, readiness and errors of an export without storing it.

    See docs/design/api/imports.md#findings.

    Interface statements: 4.3 imports.
    """
    member = await service.token("member")
    export = chain(code("One", "return [{json: {}}]"), tell_step(), node("Odd", "fluxCapacitor", 2, {}))
    sent = {"source": "workflow_tool", "content": export}
    data = (await member.post(f"{PATH}/preview", sent)).data
    data = data.get("preview", data)
    assert data["would_wait_for_approval"] is True
    assert data["sends"] == ["Tell"]
    assert [item["step"] for item in data["readiness"]["unconfigured"]] == ["Tell"]
    assert [issue["step"] for issue in data["issues"] if issue["level"] == "error"] == ["Odd"]
    assert (await member.get(PATH)).data["imports"] == []


async def test_an_import_becomes_an_automation_that_names_what_is_missing(service: Service) -> None:
    """Creates the automation, which is not ready and refuses runs until its step is bound.

    The automation stays when its import is deleted.

    See docs/design/api/imports.md#requests and
    docs/design/api/automations.md#bindings-and-readiness.

    Interface statements: 2.3 workflow; 4.3 imports; 9 plan_version.
    """
    member = await service.token("member")
    stored = (await member.post(PATH, body(chain(code("One", "return [{json: {}}]"), tell_step())))).data[
        "import"
    ]
    request_body = {"name": "Told", "schedule": MANUAL, "idempotency_key": "same"}
    response = await member.post(f"{PATH}/{stored['id']}/automations", request_body)
    assert response.status == 201, response.body
    new_automation = response.data["automation"]
    assert (new_automation["kind"], new_automation["import_id"], new_automation["send_mode"]) == (
        "workflow",
        stored["id"],
        "ask",
    )
    assert (new_automation["source"], new_automation["bindings"], new_automation["plan_version"]) == (
        "workflow_tool",
        {},
        1,
    )
    second_response = await member.post(f"{PATH}/{stored['id']}/automations", request_body)
    assert (second_response.status, second_response.data["automation"]["id"]) == (200, new_automation["id"])
    automation = (await member.get(f"/v1/automations/{new_automation['id']}")).data["automation"]
    assert automation["readiness"]["unconfigured"][0]["why"] == "no_connection"
    assert automation["send_mode_allowed"] is False
    refused = await member.post(f"/v1/automations/{new_automation['id']}/runs", {"idempotency_key": "r"})
    assert (refused.status, refused.code) == (422, "not_ready")
    binding = {"integration_id": 1, "kind": "teams", "target": None}
    wrong = {"version": 1, "bindings": {"No such step": binding}}
    assert (await member.patch(f"/v1/automations/{new_automation['id']}", wrong)).status == 422
    assert (await member.delete(f"{PATH}/{stored['id']}")).status == 200
    assert (await member.get(f"/v1/automations/{new_automation['id']}")).status == 200
    stored_automation = await service.write(
        partial(plans.get, org=service.own.organization.id, automation=new_automation["id"], version=1),
        org=service.own.organization.id,
    )
    assert stored_automation is not None


async def test_an_unsupported_export_is_stored_but_makes_no_automation(service: Service) -> None:
    """Stores an export that cannot run and refuses to create an automation of it.

    See docs/design/imports-n8n.md#findings.
    """
    member = await service.token("member")
    stored = (await member.post(PATH, body(chain(node("Odd", "fluxCapacitor", 2, {}))))).data["import"]
    assert stored["supported"] is False
    refused = await member.post(f"{PATH}/{stored['id']}/automations", {"name": "Odd", "schedule": MANUAL})
    assert refused.status == 422


async def test_at_most_five_hundred_bindings_are_checked(service: Service) -> None:
    """Checks each of 500 bindings, and refuses 501 as a whole.

    A number that no connection can have is an error of its binding. See
    docs/design/api/conventions.md#limits.

    Interface statements: 8 bindings.
    """
    member = await service.token("member")
    stored = (await member.post(PATH, body(chain(code("One", "return [{json: {}}]"), tell_step())))).data[
        "import"
    ]
    request_body = {"name": "Told", "schedule": MANUAL}
    new_automation = (await member.post(f"{PATH}/{stored['id']}/automations", request_body)).data[
        "automation"
    ]
    binding = {"integration_id": 1, "kind": "teams", "target": None}
    refused = {}
    for count in (500, 501):
        bindings = {f"Step {number}": binding for number in range(count)}
        response = await member.patch(
            f"/v1/automations/{new_automation['id']}", {"version": 1, "bindings": bindings}
        )
        assert response.status == 422
        refused[count] = set(response.errors)
    assert refused[501] == {"bindings"}
    assert refused[500] == {f"bindings.Step {number}" for number in range(500)}
    for number in (0, 2**53, 2**70):
        bindings = {"Told": {**binding, "integration_id": number}}
        response = await member.post(f"{PATH}/{stored['id']}/preview", {"bindings": bindings})
        assert (response.status, set(response.errors)) == (422, {"bindings.Told"})
        response = await member.patch(
            f"/v1/automations/{new_automation['id']}", {"version": 1, "bindings": bindings}
        )
        assert (response.status, set(response.errors)) == (422, {"bindings.Told"})
