"""httpRequest: sign-ins a file asks for.

Oonly the own store's is there, and only to read (imports 6.1).
"""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from steward.connectors.base.queries import AT_PATH, PathAsk
from steward.outbound.errors import CallError
from steward.outbound.response import PlatformResponse
from steward.steps.workflow.effects import gathered, in_words, store_of
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import Asked, Call, ItemFailed, Problem

_NONE = ("none", "")
_PREDEFINED = "predefinedCredentialType"
_WOO = "wooCommerceApi"


def signs_in_to_store(asked: Asked) -> bool:
    """Whether it signs in to a store whose interface its connection reads."""
    return bool(asked.get("authentication") == _PREDEFINED and asked.get("nodeCredentialType") == _WOO)


def authentication_problems(asked: Asked, *, reads: bool) -> Iterable[Problem]:
    """Sign-ins that are not there."""
    given, kind = asked.get("authentication", "none"), str(asked.get("nodeCredentialType", ""))
    if given in _NONE:
        return
    if signs_in_to_store(asked):
        yield from _store_problems(asked, reads=reads)
        return
    words = "It signs in with a credential of the tool, which is not there. Remove the sign-in or the step."
    if given == _PREDEFINED:
        if kind.startswith(("shopify", "wooCommerce")):
            words = "It signs in to the store by itself. Use a step of the store instead."
        elif kind.startswith("google"):
            words = "It signs in to Google by itself. Use a spreadsheet step instead."
        else:
            words = f"It signs in with a credential of the tool ({kind[:40]}), which is not there. Remove it."
    yield Problem("error", "credential", words)


def _store_problems(asked: Asked, *, reads: bool) -> Iterable[Problem]:
    if not reads or str(asked.get("method", "GET")).upper() == "HEAD":
        words = "It changes the store by a request of its own. Use a store step instead."
        yield Problem("error", "parameter", words)
    if asked.get("options.pagination.pagination") is not None:
        words = "It asks the store for page after page. Use a store step that gets all instead."
        yield Problem("error", "parameter", words)
    if asked.get("sendHeaders"):
        yield Problem("error", "parameter", "It sends headers of its own to the store. Remove them.")
    words = "It reads the store the automation runs on, with its connection. Look whether the address is its."
    yield Problem("warning", "credential", words)


async def store_answer(call: Call, url: str, query: Mapping[str, Any]) -> PlatformResponse:
    """What the automation's store answers at the address. Raises ItemFailed, StepBroke."""
    store = store_of(call)
    parts = urlsplit(url)
    at = parts.path.find("/wp-json/")
    if parts.netloc.lower() != (store.connection.domain or "").lower() or at < 0:
        raise ItemFailed("The address of this step is not one of the automation's store.")
    if parts.query:
        raise ItemFailed("Give what the store is asked by as parameters of the query, not in the address.")
    pairs = tuple((name, js.text(value)) for name, value in query.items())
    try:
        [answer] = await gathered(store.reader.read(AT_PATH, PathAsk(parts.path[at:], pairs)))
    except CallError as error:
        raise in_words(error) from error
    return answer
