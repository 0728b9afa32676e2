"""Tests flows over HTTP: stored, listed, previewed, automated, refused and bound again.

See docs/design/api/imports.md#requests and docs/design/api/imports.md#findings.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from steward.connectors.shopify.topics import TOPICS as SHOPIFY
from steward.connectors.woocommerce.topics import TOPICS as WOOCOMMERCE
from steward.database.accounts import connections
from tests.automations.world import connection
from tests.imports.shopify_flow.examples import CODED, HIGH_VALUE, PRESALE, SCHEDULED
from tests.imports.shopify_flow.flows import ADMIN, FLOW, began, code, condition, flow, http, task, text_of
from tests.people import Member
from tests.service import Service

PATH = "/v1/automations/imports"
MANUAL = {"cadence": "manual"}
MAIL = flow(
    began(),
    condition(2, "(order.test == false)"),
    task(3, FLOW + "send_email", address="a@b.example", subject="{{ order.name }}", message="New"),
    links=[(1, "output", 2), (2, "true", 3)],
)


def body(value: Any, name: str = "Mine") -> dict[str, Any]:
    """Returns the request body that stores a flow."""
    return {"source": "store_flow", "name": name, "content": text_of(value)}


@dataclass(frozen=True)
class _TopicsConnector:
    """A connector that tells set-up which topics it has."""

    topics: Mapping[str, object]


@pytest.fixture(autouse=True)
def stores_tell(service: Service) -> None:
    """Gives both platforms the topics of their stores."""
    connectors = {"shopify": _TopicsConnector(SHOPIFY), "woocommerce": _TopicsConnector(WOOCOMMERCE)}
    rules = replace(service.context.automation_rules, connectors=connectors)
    service.context = replace(service.context, automation_rules=rules)
    service.restart()


async def connected(service: Service, kind: str) -> int:
    """Creates a connection of the organization and returns its number."""
    org = service.own.organization.id

    async def act(tx: Any) -> int:
        number = await connections.new_integration_id(tx, org)
        new_connection = connection(org, number, kind, f"My {kind}", "Europe/Berlin", tx.now)
        await connections.insert(tx, org, new_connection, subject=str(number))
        return int(number)

    return await service.write(act, org=org)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [None, 3],
        [began()],
        [began(), {**task(2, ""), "task_id": None}],
        [began(), task(2, "  "), "step"],
    ],
    ids=["nothing", "no objects", "only a trigger", "a step without a task", "a blank task"],
)
async def test_a_flow_without_a_usable_step_is_refused(service: Service, steps: list[Any]) -> None:
    """Refuses it when storing and when previewing; a step of an unknown app is usable.

    See docs/design/api/imports.md#requests.
    """
    member = await service.token("member")
    content = text_of({"__metadata": {"version": 0.1}, "root": {"steps": steps, "links": []}})
    for path, more in ((PATH, {"name": "Mine"}), (f"{PATH}/preview", {})):
        refused = await member.post(path, {"source": "store_flow", "content": content, **more})
        assert (refused.status, refused.code) == (422, "validation_failed"), refused.body
        assert list(refused.errors) == ["content"]
    usable = flow(began(), task(2, "some_app::unknown"))
    assert (await member.post(PATH, body(usable))).status == 201


async def store_import(member: Member, value: Any, **more: Any) -> dict[str, Any]:
    """Stores a flow and returns the import."""
    response = await member.post(PATH, {**body(value), **more})
    assert response.status == 201, response.body
    flow_import: dict[str, Any] = response.data["import"]
    return flow_import


async def test_a_flow_is_stored_once_with_its_graph_and_findings(service: Service) -> None:
    """Returns the trigger, steps and edges; for the same file again it returns the existing import.

    See docs/design/api/imports.md#requests and docs/design/api/imports.md#findings.

    Interface statements: 4.3 imports.
    """
    member = await service.token("member")
    flow_import = await store_import(member, PRESALE, name="Presale")
    assert flow_import["step_count"] == 5
    assert flow_import["trigger"] == {
        "kind": "event",
        "topics": ["orders/create"],
        "schedule": None,
        "timezone": None,
    }
    assert [step["name"] for step in flow_import["plan"]["steps"]] == [
        "Check if condition is met",
        "For each loop",
        "Check if condition is met 2",
        "Add product tags",
        "Send internal email",
    ]
    assert [(edge["from"], edge["port"], edge["to"]) for edge in flow_import["plan"]["edges"]] == [
        ("Check if condition is met", "true", "For each loop"),
        ("For each loop", "loop_body", "Check if condition is met 2"),
        ("Check if condition is met 2", "true", "Add product tags"),
        ("For each loop", "after", "Send internal email"),
    ]
    second_response = await member.post(PATH, body(PRESALE, "Another name"))
    assert (second_response.status, second_response.data["import"]["id"]) == (200, flow_import["id"])
    of_tool = await member.get(f"{PATH}?source=workflow_tool")
    of_flow = await member.get(f"{PATH}?source=store_flow")
    assert (of_tool.data["imports"], [item["id"] for item in of_flow.data["imports"]]) == (
        [],
        [flow_import["id"]],
    )
    assert (await member.delete(f"{PATH}/{flow_import['id']}")).status == 200


async def test_a_schedule_is_proposed_with_its_zone(service: Service) -> None:
    """Proposes the time and the time zone of the flow's schedule. See docs/design/api/imports.md#findings."""
    flow_import = await store_import(await service.token("member"), SCHEDULED)
    assert flow_import["trigger"]["kind"] == "schedule"
    assert flow_import["trigger"]["timezone"] == "Europe/Berlin"
    assert flow_import["trigger"]["schedule"]["run_at"] == "06:00"


async def test_content_that_is_not_a_flow_is_refused_at_its_field(service: Service) -> None:
    """Refuses other content, and a flow sent as another source, with an error on `content`.

    See docs/design/api/conventions.md#requests and docs/design/api/imports.md#requests.
    """
    member = await service.token("member")
    for content in (
        "",
        "x",
        "a" * 64 + ":",
        "a" * 64 + ":[]",
        text_of(flow(began())),
        {"root": {"steps": []}},
    ):
        for path, more in ((PATH, {"name": "Mine"}), (f"{PATH}/preview", {})):
            refused = await member.post(path, {"source": "store_flow", "content": content, **more})
            assert (refused.status, list(refused.errors)) == (422, ["content"]), refused.body
    wrong = await member.post(PATH, {**body(HIGH_VALUE), "source": "workflow_tool"})
    assert (wrong.status, list(wrong.errors)) == (422, ["content"])


async def test_half_a_surrogate_pair_is_refused_and_a_whole_one_stored(service: Service) -> None:
    """Refuses escapes of half a surrogate pair in the file or in the JSON within it; whole pairs are stored.

    See docs/design/api/conventions.md#requests.
    """
    member = await service.token("member")
    steps = [
        began(),
        {**http(2), "name": "ODD"},
        task(3, ADMIN + "add_order_tags", order_id="order.id", tags=["TAG"]),
    ]
    text = json.dumps(flow(*steps))
    node = {"name": "ODD", "type": "n8n-nodes-base.noOp", "parameters": {}}
    start = {"name": "Begin", "type": "n8n-nodes-base.manualTrigger", "parameters": {}}
    other = json.dumps({"nodes": [start, node], "connections": {}})
    for content, source in (
        (text.replace("ODD", "\\ud83d"), "store_flow"),
        (text.replace("TAG", "\\\\ude00"), "store_flow"),
        (other.replace("ODD", "\\udfff"), "workflow_tool"),
    ):
        for path, more in ((PATH, {"name": "Mine"}), (f"{PATH}/preview", {})):
            refused = await member.post(path, {"source": source, "content": content, **more})
            assert (refused.status, list(refused.errors)) == (422, ["content"]), refused.body
    whole_pairs = text.replace("ODD", "\\ud83d\\ude00").replace("TAG", "\\\\ud83d\\\\ude00")
    response = await member.post(PATH, {"source": "store_flow", "content": whole_pairs, "name": "Mine"})
    assert response.status == 201, response.body
    assert response.data["import"]["plan"]["steps"][0]["name"] == "\U0001f600"


async def test_scripts_and_liquid_are_compiled_when_a_flow_is_stored(service: Service) -> None:
    """Reports scripts and Liquid that do not compile as errors, and refuses to automate the flow.

    See docs/design/imports-n8n.md#safety.
    """
    member = await service.token("member")
    broken = flow(
        began(),
        code(2, "{ order { name } }", "export default function main( {"),
        http(3, body="{{ order.name | no_such_filter }}"),
        http(4, body="{% include 'x' %}"),
    )
    flow_import = await store_import(member, broken)
    errors = [(issue["step"], issue["code"]) for issue in flow_import["issues"] if issue["level"] == "error"]
    assert {step for step, _ in errors} == {"Run code", "Send HTTP request", "Send HTTP request 2"}
    assert {item for _, item in errors} == {"expression_feature"}
    assert flow_import["supported"] is False
    refused = await member.post(f"{PATH}/{flow_import['id']}/automations", {"name": "X", "schedule": MANUAL})
    assert (refused.status, list(refused.errors)) == (422, ["import_id"])
    fine = await store_import(member, CODED)
    assert [issue for issue in fine["issues"] if issue["level"] == "error"] == []


async def test_no_secret_of_a_flow_is_stored(service: Service) -> None:
    """Removes the secret from the response and from the stored rows.

    See docs/design/imports-n8n.md#safety and docs/design/security.md#imported-workflows.
    """
    member = await service.token("member")
    value = flow(began(), http(2, headers=[["Authorization", "Token s3cr3t-value"]]))
    flow_import = await store_import(member, value)
    assert [issue["step"] for issue in flow_import["issues"] if issue["code"] == "secret_removed"] == [
        "Send HTTP request"
    ]
    assert "s3cr3t" not in json.dumps(flow_import)

    async def rows(tx: Any) -> str:
        return str(await tx.all("SELECT content, plan, report FROM imports", {}))

    assert "s3cr3t" not in await service.write(rows, org=service.own.organization.id)


async def test_steps_without_a_counterpart_on_the_store_are_refused_at_set_up(service: Service) -> None:
    """Shows the step as an error in the preview and refuses the store, at set-up and on a later change.

    See docs/design/imports-shopify-flow.md#tasks.
    """
    member = await service.token("member")
    value = flow(began(), task(2, ADMIN + "archive_order", order_id="{{ order.id }}"))
    flow_import = await store_import(member, value)
    by_event = {"kind": "event", "topics": ["orders/create"]}
    request_body = {"name": "Archive", "schedule": MANUAL, "trigger": by_event}
    woo, shopify = await connected(service, "woocommerce"), await connected(service, "shopify")
    reply = await member.post(f"{PATH}/{flow_import['id']}/preview", {"integration_id": woo})
    assert (
        next(issue["step"] for issue in reply.data["issues"] if issue["level"] == "error") == "Archive order"
    )
    for store, words in ((woo, "“Archive order”"), (None, "Choose the store")):
        refused = await member.post(
            f"{PATH}/{flow_import['id']}/automations", {**request_body, "integration_id": store}
        )
        assert (refused.status, list(refused.errors)) == (422, ["integration_id"])
        assert words in refused.errors["integration_id"][0]
    reply = await member.post(f"{PATH}/{flow_import['id']}/preview", {"integration_id": shopify})
    assert [issue for issue in reply.data["issues"] if issue["level"] == "error"] == []
    response = await member.post(
        f"{PATH}/{flow_import['id']}/automations", {**request_body, "integration_id": shopify}
    )
    assert response.status == 201, response.body
    assert (response.data["automation"]["source"], response.data["automation"]["kind"]) == (
        "store_flow",
        "workflow",
    )
    # A change to that store is refused as well.
    path = f"/v1/automations/{response.data['automation']['id']}"
    moved = await member.patch(
        path, {"version": response.data["automation"]["version"], "integration_id": woo}
    )
    assert (moved.status, list(moved.errors)) == (422, ["integration_id"])


async def test_the_preview_names_a_start_without_a_store_event(service: Service) -> None:
    """Warns in the preview, and refuses the topic at set-up.

    See docs/design/imports-n8n.md#triggers-and-schedules.
    """
    member = await service.token("member")
    store = await connected(service, "woocommerce")
    flow_import = await store_import(member, flow(began("draft_order_created"), http(2)))
    response = await member.post(f"{PATH}/{flow_import['id']}/preview", {"integration_id": store})
    assert [(issue["step"], issue["code"], issue["level"]) for issue in response.data["issues"]][:1] == [
        ("Draft order created", "foreign_trigger", "warning")
    ]
    request_body = {"name": "Drafts", "schedule": MANUAL, "integration_id": store}
    request_body["trigger"] = {"kind": "event", "topics": ["draft_orders/create"]}
    refused = await member.post(f"{PATH}/{flow_import['id']}/automations", request_body)
    assert (refused.status, list(refused.errors)) == (422, ["trigger.topics"])


async def test_a_binding_survives_a_re_import_while_the_step_keeps_its_name(service: Service) -> None:
    """Applies the bindings of the first import to the edited one, and refuses a binding of a renamed step."""
    member = await service.token("member")
    store, channel = await connected(service, "shopify"), await connected(service, "teams")
    first = await store_import(member, MAIL)
    binding = {"Send internal email": {"integration_id": channel, "kind": "teams", "target": None}}
    request_body = {"name": "Mail", "schedule": MANUAL, "integration_id": store, "bindings": binding}
    request_body["trigger"] = {"kind": "event", "topics": ["orders/create"]}
    response = await member.post(f"{PATH}/{first['id']}/automations", request_body)
    assert response.status == 201, response.body
    assert response.data["automation"]["readiness"]["unconfigured"] == []
    edited = json.loads(json.dumps(MAIL).replace("New", "Newer"))
    edited["root"]["steps"].insert(1, http(9))
    edited["root"]["steps"].reverse()
    edited["root"]["links"].append(
        {"from_step_id": 2, "from_port_id": "false", "to_step_id": 9, "to_port_id": "input"}
    )
    second_import = await store_import(member, edited)
    assert second_import["id"] != first["id"]
    reply = await member.post(
        f"{PATH}/{second_import['id']}/preview", {"integration_id": store, "bindings": binding}
    )
    assert reply.data["readiness"]["unconfigured"] == []
    assert reply.data["sends"] == ["Send internal email", "Send HTTP request"]
    response = await member.post(f"{PATH}/{second_import['id']}/automations", request_body)
    assert response.data["automation"]["readiness"]["ready"] is True
    renamed = json.loads(json.dumps(MAIL).replace('"name": null', '"name": "Tell them"'))
    other = await store_import(member, renamed)
    refused = await member.post(f"{PATH}/{other['id']}/automations", request_body)
    assert (refused.status, list(refused.errors)) == (422, ["bindings.Send internal email"])
