"""How httpRequest and graphql sign in: with an account that a person binds, or as the connected store.

See docs/design/imports-accounts.md#http-steps.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from steward.connectors.base.queries import PATH, PathQuery
from steward.model.json import AnyJson, JsonObject
from steward.model.removed_secrets import MARKER, markers_in
from steward.outbound.errors import CallError
from steward.outbound.hosts import is_among
from steward.outbound.response import PlatformResponse
from steward.steps.n8n.credential_types import CREDENTIAL_TYPES, CredentialType
from steward.steps.workflow.addresses import is_removed_key, removed_in_address, user_part_of
from steward.steps.workflow.effects import as_item_failure, read_all, store_of
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepCall, StepProblem
from steward.steps.workflow.web_access import KIND

_NONE = ("none", "", None)
_PREDEFINED, _GENERIC = "predefinedCredentialType", "genericCredentialType"
_WOO = "wooCommerceApi"
_SERVICE_ACCOUNT = "googleApi"
# What older versions of the nodes call the generic sign-ins.
_OLDER = {
    "basicAuth": "httpBasicAuth",
    "bearerAuth": "httpBearerAuth",
    "customAuth": "httpCustomAuth",
    "digestAuth": "httpDigestAuth",
    "headerAuth": "httpHeaderAuth",
    "queryAuth": "httpQueryAuth",
    "oAuth1": "oAuth1Api",
    "oAuth2": "oAuth2Api",
}
_NOT_OFFERED = {
    "httpDigestAuth": "HTTP Digest",
    "oAuth1Api": "OAuth 1",
    "twitterOAuth1Api": "OAuth 1",
    "aws": "signatures of AWS",
    "httpSslAuth": "a certificate of its own",
}
_HEADER_ROWS = ("headerParameters.parameters", "headerParametersUi.parameter")
BODIES = ("bodyParameters", "bodyParametersUi", "jsonBody", "body", "bodyParametersJson")
_ALONE = ("path", "basic")  # places that no custom sign-in fills
_IN_CUSTOM = ("bearer", "header", "query")  # sign-ins that a custom one can hold beside other keys
_QUERY_ROWS = ("queryParameters.parameters", "queryParametersUi.parameter")


def signs_in_to_store(node: NodeDefinition) -> bool:
    """Whether the node uses the credentials of a store that its connection can read."""
    return bool(node.get("authentication") == _PREDEFINED and node.get("nodeCredentialType") == _WOO)


def _credential_of(node: NodeDefinition) -> str | None:
    """Returns the type of credential the node signs in with; None without a sign-in."""
    authentication = node.get("authentication")
    if authentication in _NONE:
        return None
    if authentication == _PREDEFINED:
        return str(node.get("nodeCredentialType", "") or next(iter(node.credentials), "unknown"))
    if authentication == _GENERIC:
        return str(node.get("genericAuthType", "") or next(iter(node.credentials), "unknown"))
    return _OLDER.get(str(authentication), str(authentication))


def _needs_account(node: NodeDefinition) -> bool:
    """Whether the node signs in with an account that a person binds."""
    credential = _credential_of(node)
    if credential is None:
        keys = _removed_keys(node)
        return bool(keys) and _sign_in_of_keys(keys)[0] != ""
    return credential not in _NOT_OFFERED and (not _is_store(credential) or _reads_shopify(node, credential))


def account_to_bind(node: NodeDefinition) -> JsonObject | None:
    """Returns what is proposed for the account: credential type, sign-in, name of the place, hosts."""
    if not _needs_account(node):
        return None
    host = literal_host(str(node.get("url", node.get("endpoint", ""))))
    credential = _credential_of(node)
    keys = _removed_keys(node)
    if credential is None:
        sign_in, parameter = _sign_in_of_keys(keys)
        credential_type = CredentialType("", sign_in, parameter, ())
    else:
        credential_type = CREDENTIAL_TYPES.get(credential, CredentialType(credential, "", None, ()))
        if credential_type.sign_in in _IN_CUSTOM and _beside(
            keys, credential_type.sign_in, credential_type.parameter
        ):
            credential_type = replace(credential_type, sign_in="custom", parameter=None)
    hosts = list(credential_type.hosts) or ([] if host is None else [host])
    return {
        "credential": credential,
        "sign_in": credential_type.sign_in or None,
        "name": credential_type.parameter,
        "hosts": list(hosts),
    }


def puts_back_keys(parameters: JsonObject, account: Mapping[str, AnyJson]) -> bool:
    """Whether the proposed account puts every key back that was removed from a request's parameters."""
    node = NodeDefinition("", 1, parameters, ())
    keys = _removed_keys(node)
    if _bodies(node)[1]:
        return False
    if account.get("credential") is None:
        return True
    if account.get("sign_in") == "custom":
        return all(part not in _ALONE for part, _ in keys)
    return not _beside(keys, str(account.get("sign_in")), account.get("name"))


def _beside(keys: Sequence[tuple[str, str]], sign_in: str, name: str | None) -> bool:
    """Whether one of the keys is elsewhere than the sign-in itself puts one."""
    account_key = (
        (sign_in, name.lower()) if sign_in in ("header", "query") and name else ("header", "authorization")
    )
    return any((part, key.lower()) != account_key for part, key in keys)


def _removed_keys(node: NodeDefinition) -> list[tuple[str, str]]:
    """Where the file held keys, which were not imported: place and name, of a body the marker's number."""
    keys = [("header", name) for name in _removed_in(node, _HEADER_ROWS)]
    keys += [("query", name) for name in _removed_in(node, _QUERY_ROWS)]
    keys += [("header", name) for name in _removed_in_json(node, ("jsonHeaders", "headerParametersJson"))]
    keys += [("query", name) for name in _removed_in_json(node, ("jsonQuery", "queryParametersJson"))]
    keys += [("body", str(number)) for number in sorted(_bodies(node)[0])]
    url = str(node.get("url", node.get("endpoint", "")))
    keys += [("query", name) for name in removed_in_address(url)]
    if MARKER.search(user_part_of(url)):
        keys.append(("basic", ""))
    prefix = _path_before_key(url)
    return keys if prefix is None else [*keys, ("path", prefix)]


def _bodies(node: NodeDefinition) -> tuple[frozenset[int], frozenset[int]]:
    """The numbers of the markers in a body: those that stay as they are, and those that a call may change."""
    bodies = [node.get(name) for name in BODIES]
    expressions = [part.partition("}}")[0] for part in str(bodies).split("{{")[1:]]
    changed = markers_in([code for code in expressions if "(" in code.replace("JSON.stringify(", "")])
    return markers_in(bodies) - changed, changed


def _path_before_key(url: str) -> str | None:
    """Returns the beginning of a path that is followed by a removed key, if no expression is in it."""
    match = re.match(rf"=?\s*https://[A-Za-z0-9._-]+(/[A-Za-z0-9._~/-]*?){MARKER.pattern}", url)
    return match[1] if match else None


def _removed_in_json(node: NodeDefinition, names: Sequence[str]) -> Iterable[str]:
    """The members of an object, or of JSON as text, whose value was a key in the file."""
    for name in names:
        value = node.get(name)
        if isinstance(value, str):
            pairs = re.findall(r'"([^"\n]{1,100})"\s*:\s*"([^"\n]*)"', value)
        else:
            pairs = list(value.items()) if isinstance(value, Mapping) else []
        for member, text in pairs:
            if isinstance(text, str) and MARKER.search(text):
                yield str(member)


def _removed_in(node: NodeDefinition, paths: Sequence[str]) -> Iterable[str]:
    for path in paths:
        rows = node.get(path, [])
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, Mapping) and is_removed_key(str(row.get("name", "")), row.get("value")):
                yield str(row.get("name", "")).strip()


def _sign_in_of_keys(keys: Sequence[tuple[str, str]]) -> tuple[str, str | None]:
    """Returns the sign-in that puts the removed keys back where they were."""
    places = {(part, name.lower()): name for part, name in keys}
    if len(places) > 1:
        return ("custom" if all(part not in _ALONE for part, _ in places) else ""), None
    [((part, lowered), name)] = places.items()
    if part in ("body", "basic"):
        return part, None
    return ("bearer", None) if (part, lowered) == ("header", "authorization") else (part, name)


def literal_host(url: str) -> str | None:
    """Returns the host of an address, if no expression is in it."""
    user_part = user_part_of(url)
    plain = url.replace(user_part, "", 1) if user_part else url
    match = re.match(r"=?\s*https?://([A-Za-z0-9._-]+)(?=[/?:#]|\s*\Z)", plain)
    return match[1].lower() if match else None


def _is_store(credential: str) -> bool:
    return credential.startswith(("shopify", "wooCommerce"))


def _reads_shopify(node: NodeDefinition, credential: str) -> bool:
    """Whether it only reads a Shopify store; changes are left to store steps, which always ask."""
    method = str(node.get("method", "GET")).upper()
    return credential in CREDENTIAL_TYPES and credential.startswith("shopify") and method in ("GET", "HEAD")


def authentication_problems(node: NodeDefinition, *, reads: bool) -> Iterable[StepProblem]:
    """Yields the problems of authentication that is not supported, or of an address that it is not for."""
    if signs_in_to_store(node):
        yield from _store_problems(node, reads=reads)
        return
    credential = _credential_of(node)
    if credential is None:
        return
    if _is_store(credential) and not _reads_shopify(node, credential):
        yield StepProblem("error", "credential", "It signs in to the store itself. Use a store step instead.")
        return
    if credential in _NOT_OFFERED:
        words = f"It signs in with {_NOT_OFFERED[credential]}, which is not offered here."
        yield StepProblem("error", "credential", f"{words} Use another sign-in of the service.")
        return
    if credential == _SERVICE_ACCOUNT:
        words = "In n8n it signs in with the key of a Google service account, here with another sign-in."
        yield StepProblem("warning", "credential", f"{words} Check that it reaches the same data at Google.")
    credential_type = CREDENTIAL_TYPES.get(credential)
    host = literal_host(str(node.get("url", node.get("endpoint", ""))))
    if (
        credential_type is not None
        and credential_type.hosts
        and host is not None
        and not is_among(host, credential_type.hosts)
    ):
        words = f"Its address is on {host[:100]}, which is not known as a host of its sign-in."
        yield StepProblem("warning", "credential", f"{words} Check where the key is sent.")


def uses_account(node: NodeDefinition) -> str | None:
    """Returns the kind of connection the node needs."""
    if signs_in_to_store(node):
        return "store"
    return KIND if _needs_account(node) else None


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


async def store_answer(call: StepCall, url: str, query: JsonObject) -> PlatformResponse:
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
