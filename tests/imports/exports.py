"""Builds n8n exports for tests, and stores and automates them beside the fake shop."""

import itertools
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from steward.automations.from_plan import CreateWorkflowCommand
from steward.database.imports.records import Import
from steward.imports import storage
from steward.imports.run_as import run_as
from steward.model.automation import Automation
from steward.steps.workflow.expressions.evaluate import Evaluator
from tests.runs.shop import BY_HAND, Shop

BEGIN = {"name": "Begin", "type": "n8n-nodes-base.manualTrigger", "typeVersion": 1, "parameters": {}}


def node(name: str, kind: str, version: float, parameters: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Returns a node of an export."""
    return {
        "name": name,
        "type": f"n8n-nodes-base.{kind}",
        "typeVersion": version,
        "parameters": dict(parameters),
        "position": [0, 0],
        **more,
    }


def chain(*steps: Mapping[str, Any], name: str = "A chain") -> dict[str, Any]:
    """Returns an export whose steps follow one another behind a manual start."""
    nodes = [deepcopy(BEGIN), *steps]  # a copy, because tests change the start of their own export
    return {"name": name, "nodes": nodes, "connections": connections_of(nodes), "settings": {}}


def connections_of(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Connects each node to the next one."""
    return {
        item["name"]: {"main": [[{"node": after["name"], "type": "main", "index": 0}]]}
        for item, after in itertools.pairwise(nodes)
    }


def code(name: str, text: str) -> dict[str, Any]:
    """Returns a code step."""
    return node(name, "code", 2, {"jsCode": text})


def listed(limit: int = 3) -> dict[str, Any]:
    """Returns a step that reads products of WooCommerce."""
    request_body = {"resource": "product", "operation": "getAll", "limit": limit, "options": {}}
    return node("Products", "wooCommerce", 1, request_body)


def drafted() -> dict[str, Any]:
    """Returns a step that sets the status of the products it gets to draft."""
    request_body = {
        "resource": "product",
        "operation": "update",
        "productId": "={{ $json.id }}",
        "updateFields": {"status": "draft"},
    }
    return node("Draft", "wooCommerce", 1, request_body)


def tell_step() -> dict[str, Any]:
    """Returns a step that posts a message in a Teams channel."""
    request_body = {
        "resource": "channelMessage",
        "operation": "create",
        "teamId": "t",
        "channelId": "c",
        "messageType": "text",
        "message": "=Now {{ $json.id }}",
    }
    return node("Tell", "microsoftTeams", 1.1, request_body)


def calling(steps: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """Returns a step that calls a workflow made of these steps."""
    within = chain(*steps)
    within["nodes"][0] = {**BEGIN, "type": "n8n-nodes-base.executeWorkflowTrigger"}
    request_body = {"source": "parameter", "workflowJson": json.dumps(within), "options": {}, **more}
    return node("Call", "executeWorkflow", 1.2, request_body)


async def store_export(shop: Shop, export: Mapping[str, Any]) -> storage.StoredImport:
    """Stores the export as the API does."""
    evaluator = Evaluator(shop.service.worker_context.sandbox_pool, str(shop.owner.org), "import")
    prepared = await storage.prepare("workflow_tool", dict(export), None, evaluator)
    name = str(export.get("name") or "An import")
    return await shop.write(
        partial(
            storage.store,
            actor=shop.owner,
            source="workflow_tool",
            name=name,
            prepared=prepared,
            vault=shop.service.worker_context.vault,
        )
    )


async def automated(shop: Shop, export: Mapping[str, Any], **more: Any) -> Automation:
    """Creates an automation of the export that is started by hand."""
    record: Import = (await store_export(shop, export)).record
    assert record.supported, record.report["issues"]
    command = CreateWorkflowCommand(import_id=record.id, name=record.name, schedule=BY_HAND, **more)
    rules = shop.service.worker_context.automation_rules
    return (await shop.write(partial(run_as, actor=shop.owner, command=command, rules=rules))).automation
