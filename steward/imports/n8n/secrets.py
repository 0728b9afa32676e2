"""Removes the secrets from an n8n export before it is stored, and records where they were."""

from collections.abc import Mapping
from typing import Any, Final

from steward.imports.secrets.tree import SecretRemoval
from steward.imports.secrets.values import is_shared_path
from steward.imports.secrets.variables import with_marked_keys
from steward.model.removed_secrets import MARKER

_PATHS: Final = ("path", "webhookId")


def without_secrets(value: Any) -> tuple[Any, list[str]]:
    """Returns the export with a marker in place of every secret, and the paths of the secrets."""
    removal = SecretRemoval()
    removal.start_after(_markers(value))
    prepared = value
    if isinstance(value, Mapping) and isinstance(value.get("nodes"), list):
        nodes = [_node(removal, node, index) for index, node in enumerate(value["nodes"])]
        prepared = {**value, "nodes": nodes}
    cleaned = removal.clean(prepared)
    return cleaned, list(dict.fromkeys(removal.paths))


def without_key_variables(workflow: Any) -> tuple[Any, dict[str, list[str]]]:
    """Returns a workflow with a marker in place of every key that it reads from a variable of n8n.

    Also returns the variables, by the paths of the parameters that read them.
    """
    removal = SecretRemoval()
    removal.start_after(_markers(workflow))
    return with_marked_keys(workflow, removal)


def _markers(value: Any) -> str:
    """Returns the texts of an export that contain a marker, joined by spaces."""
    stack, marked = [value], []
    while stack:
        member = stack.pop()
        if isinstance(member, str):
            if MARKER.search(member):
                marked.append(member)
        elif isinstance(member, Mapping):
            stack += member.values()
        elif isinstance(member, list):
            stack += member
    return " ".join(marked)


def _node(removal: SecretRemoval, node: Any, index: int) -> Any:
    """Returns a node without its credential data and the secret parts of its webhook path."""
    if not isinstance(node, Mapping):
        return node
    changed: dict[str, Any] = {}
    credentials = node.get("credentials")
    if isinstance(credentials, Mapping):
        changed["credentials"] = {
            kind: _credential(removal, member, f"nodes.{index}.credentials.{kind}")
            for kind, member in credentials.items()
        }
    parameters = node.get("parameters")
    if isinstance(parameters, Mapping) and _is_webhook(node):
        changed["parameters"] = {
            name: _path(removal, member, f"nodes.{index}.parameters.{name}") if name in _PATHS else member
            for name, member in parameters.items()
        }
    return {**node, **changed}


def _is_webhook(node: Mapping[str, Any]) -> bool:
    type_ = str(node.get("type", "")).lower()
    return "webhook" in type_ or type_.endswith(("trigger", ".wait", ".form"))


def _credential(removal: SecretRemoval, value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {
        name: member if name in ("id", "name", "type") else removal.everything(member, f"{path}.{name}")
        for name, member in value.items()
    }


def _path(removal: SecretRemoval, value: Any, path: str) -> Any:
    if not isinstance(value, str) or "{{" in value:
        return value
    segments = value.split("/")
    cleaned = [removal.marker_of(segment) if is_shared_path(segment) else segment for segment in segments]
    if cleaned != segments:
        removal.paths.append(path)
    return "/".join(cleaned)
