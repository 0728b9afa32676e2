"""What a node of a service declares: its operations for the page of nodes, and how its account signs in."""

import pytest

from steward.imports.n8n.read import read_value
from steward.steps.n8n.credential_types import CREDENTIAL_TYPES, CredentialType, declare
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.n8n.service_nodes import ServiceNode
from tests.imports.exports import chain, node
from tests.nodes_page import page

SERVICES = {name: step_type for name, step_type in BY_TYPE.items() if isinstance(step_type, ServiceNode)}
SIGNED_IN = {
    name: step_type
    for name, step_type in SERVICES.items()
    if isinstance(step_type, HttpServiceNode) and step_type.credential_types
}


@pytest.mark.parametrize("name", SERVICES)
def test_the_page_of_nodes_has_every_operation(name: str) -> None:
    """docs/nodes.md has a row for each node, with its versions and all its operations."""
    [row] = [line for line in page().splitlines() if line.startswith(f"| {name} | ")]
    versions, _, operations = row.removeprefix(f"| {name} | ").removesuffix(" |").split(" | ")
    assert versions.split(", ") == [f"{version:g}" for version in SERVICES[name].versions]
    listed = {
        f"{resource}.{operation}"
        for resource, _, names in (part.partition(": ") for part in operations.split("; "))
        for operation in names.split(", ")
    }
    assert listed == set(SERVICES[name].operations)


@pytest.mark.parametrize("name", SIGNED_IN)
def test_an_import_proposes_how_the_account_of_a_node_signs_in(name: str) -> None:
    """A node without credentials in the file asks for an account of its first credential type."""
    operation = next(iter(SIGNED_IN[name].operations))
    resource, _, action = operation.partition(".")
    parameters = {"resource": resource, "operation": action}
    version = max(SIGNED_IN[name].versions)
    [step] = [step for step in read_value(chain(node("Step", name, version, parameters))).plan.steps
              if step.name == "Step"]  # fmt: skip
    assert step.origin is not None
    account = step.origin.account
    assert account is not None
    assert account["sign_in"], f"{account['credential']} is neither declared nor in credential_types.py"


def test_a_credential_type_has_one_sign_in() -> None:
    """A second declaration that differs is refused when the node is loaded; the same one changes nothing."""
    listed = CREDENTIAL_TYPES["pushoverApi"]
    declare(listed)
    with pytest.raises(ValueError, match="pushoverApi"):
        declare(CredentialType("pushoverApi", "basic"))
    assert CREDENTIAL_TYPES["pushoverApi"] == listed
