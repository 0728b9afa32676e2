"""The authentication of httpRequest: only the connected store's, and only to read."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from steward.connectors.base.queries import PATH, PathQuery
from steward.outbound.errors import CallError
from steward.outbound.response import PlatformResponse
from steward.steps.workflow.effects import as_item_failure, read_all, store_of
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepCall, StepProblem

_NONE = ("none", "")
_PREDEFINED = "predefinedCredentialType"
_WOO = "wooCommerceApi"


def signs_in_to_store(node: NodeDefinition) -> bool:
    """Whether the node uses the credentials of a store that its connection can read."""
    return bool(node.get("authentication") == _PREDEFINED and node.get("nodeCredentialType") == _WOO)


def authentication_problems(node: NodeDefinition, *, reads: bool) -> Iterable[StepProblem]:
    """Yields the problems of authentication that is not supported."""
    authentication, kind = node.get("authentication", "none"), str(node.get("nodeCredentialType", ""))
    if authentication in _NONE:
        return
    if signs_in_to_store(node):
        yield from _store_problems(node, reads=reads)
        return
    words = "It signs in with a credential of n8n, which is not there. Remove the sign-in or the step."
    if authentication == _PREDEFINED:
        if kind.startswith(("shopify", "wooCommerce")):
            words = "It signs in to the store itself. Use a store step instead."
        elif kind.startswith("google"):
            words = "It signs in to Google itself. Use a spreadsheet step instead."
        else:
            words = f"It signs in with a credential of n8n ({kind[:40]}), which is not there. Remove it."
    yield StepProblem("error", "credential", words)


def _store_problems(node: NodeDefinition, *, reads: bool) -> Iterable[StepProblem]:
    if not reads or str(node.get("method", "GET")).upper() == "HEAD":
        words = "It changes the store with its own request. Use a store step instead."
        yield StepProblem("error", "parameter", words)
    if node.get("options.pagination.pagination") is not None:
        words = "It asks the store for page after page. Use a store step that gets all instead."
        yield StepProblem("error", "parameter", words)
    if node.get("sendHeaders"):
        yield StepProblem("error", "parameter", "It sends its own headers to the store. Remove them.")
    words = "It reads the store the automation runs on, with its connection. Look whether the address is its."
    yield StepProblem("warning", "credential", words)


async def store_answer(call: StepCall, url: str, query: Mapping[str, Any]) -> PlatformResponse:
    """Reads the address from the automation's store. Raises ItemFailed, WorkflowStepFailed."""
    store = store_of(call)
    parts = urlsplit(url)
    position = parts.path.find("/wp-json/")
    if parts.netloc.lower() != (store.connection.domain or "").lower() or position < 0:
        raise ItemFailed("The address of this step is not one of the automation's store.")
    if parts.query:
        raise ItemFailed("Give the filters for the store as query parameters, not in the address.")
    pairs = tuple((name, js.text(value)) for name, value in query.items())
    try:
        [answer] = await read_all(store.reader.read(PATH, PathQuery(parts.path[position:], pairs)))
    except CallError as error:
        raise as_item_failure(error) from error
    return answer
