"""Shortcuts to run a node of a service: as a pure call, and in a whole service beside a fake."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from steward.connectors.base.mail import SendMail
from steward.connectors.base.service_calls import SendCall
from steward.imports.n8n.read import read_value
from steward.steps.n8n.mail.mail_nodes import MailNode
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceNode
from steward.steps.workflow.step_types import NodeDefinition, Params
from tests.fake_clock import FakeClock
from tests.imports.exports import chain, node
from tests.runs.shop import Shop, connect_all, open_shop
from tests.services.fakes import FakeService, beside


def call_of(
    kind: str,
    version: float,
    parameters: Mapping[str, Any],
    account: Mapping[str, str] | None = None,
    item: Mapping[str, Any] | None = None,
) -> SendCall:
    """Returns the call that literal parameters produce for an item."""
    step_type = BY_TYPE[kind]
    assert isinstance(step_type, ServiceNode)
    operation = step_type.operations[step_type.operation_key(NodeDefinition("Step", version, parameters))]
    return operation.call(ServiceFields(Params(parameters), version, account or {}, item or {}))


def items_of(kind: str, version: float, parameters: Mapping[str, Any], response: Any) -> list[dict[str, Any]]:
    """Returns the items that a node makes of a response."""
    step_type = BY_TYPE[kind]
    assert isinstance(step_type, ServiceNode)
    operation = step_type.operations[step_type.operation_key(NodeDefinition("Step", version, parameters))]
    return operation.items_of(response, ServiceFields(Params(parameters), version, {}))


def findings_of(kind: str, version: float, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns level and message of the findings of importing a step, without the one on its account."""
    read = read_value(chain(node("Step", kind, version, parameters)))
    return [
        (str(finding.level), finding.message)
        for finding in read.findings
        if finding.step == "Step" and finding.code != "credential"
    ]


@asynccontextmanager
async def shop_beside(
    database_url: str, clock: FakeClock, folder: Path, *services: FakeService, **settings: str
) -> AsyncIterator[Shop]:
    """Opens a whole service beside the fake platforms and these services."""
    shop = await open_shop(database_url, clock, folder, around=beside(*services), **settings)
    await connect_all(shop)
    try:
        yield shop
    finally:
        await shop.service.close()


def mail_of(kind: str, version: float, parameters: Mapping[str, Any]) -> SendMail:
    """Returns the message that literal parameters produce."""
    step_type = BY_TYPE[kind]
    assert isinstance(step_type, MailNode)
    return step_type.command(ServiceFields(Params(parameters), version, {}))
