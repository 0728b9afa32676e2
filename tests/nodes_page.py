"""Makes docs/nodes.md out of the nodes that call services: `make docs`, or `python -m tests.nodes_page`."""

from collections.abc import Iterable

from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.n8n.service_nodes import ServiceNode
from tests.source import ROOT

PAGE = ROOT / "docs/nodes.md"


def page() -> str:
    """Returns the whole page: each node with its versions, its connection and its operations."""
    lines = [
        "# Nodes of services",
        "",
        "The nodes of n8n that call services, and the operations of each that run here. Made by `make docs`",
        "from the tables of the nodes; any other operation is an error of the import.",
        "",
        "| Node | Versions | Connection | Operations |",
        "| - | - | - | - |",
    ]
    for name, step_type in sorted(BY_TYPE.items(), key=lambda entry: entry[0].lower()):
        if isinstance(step_type, ServiceNode):
            versions = ", ".join(f"{version:g}" for version in step_type.versions)
            lines.append(
                f"| {name} | {versions} | {_connection(step_type)} | {_operations(step_type.operations)} |"
            )
    return "\n".join(lines) + "\n"


def _connection(step_type: ServiceNode) -> str:
    """Returns the kind of connection; an account of an HTTP API by n8n's names of its sign-ins."""
    if not isinstance(step_type, HttpServiceNode):
        return f"`{step_type.connector}`"
    names = [entry if isinstance(entry, str) else entry.name for entry in step_type.credential_types]
    return f"account: {' or '.join(f'`{name}`' for name in names)}" if names else "none"


def _operations(keys: Iterable[str]) -> str:
    """Returns the operations by resource, such as `message: post, delete; channel: get`."""
    by_resource: dict[str, list[str]] = {}
    for key in keys:
        resource, _, operation = key.partition(".")
        by_resource.setdefault(resource, []).append(operation)
    return "; ".join(f"{resource}: {', '.join(names)}" for resource, names in by_resource.items())


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
