"""The sign-in of httpRequest and graphql: a bound account or the connected store.

See docs/design/imports-accounts.md#http-steps.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from steward.connectors.base.queries import PATH, PathQuery
from steward.model.connection import NO_SIGN_IN
from steward.model.json import AnyJson, JsonObject
from steward.outbound.errors import CallError
from steward.outbound.hosts import entry_of, is_among
from steward.outbound.response import PlatformResponse
from steward.steps.n8n.credential_types import CREDENTIAL_TYPES, CredentialType
from steward.steps.workflow.addresses import leading_text, listed_origin, user_part_of
from steward.steps.workflow.expressions.marked_texts import KeyReads, reads_nothing
from steward.steps.workflow.external_calls import as_item_failure, read_all, store_of
from steward.steps.workflow.http_keys import KeyPlace, key_places, sign_in_of
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepCall, StepProblem
from steward.steps.workflow.web_access import KIND

_NONE = ("none", "", None)
_PREDEFINED, _GENERIC = "predefinedCredentialType", "genericCredentialType"
_WOO = "wooCommerceApi"
_SERVICE_ACCOUNT = "googleApi"
# Names of the generic sign-ins in older versions of the nodes.
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
_IN_CUSTOM = ("bearer", "header", "query", "basic")  # sign-ins that a custom one can contain


def signs_in_to_store(node: NodeDefinition) -> bool:
    """Returns whether the node signs in with credentials of a store that its connection can read."""
    return bool(node.get("authentication") == _PREDEFINED and node.get("nodeCredentialType") == _WOO)


def _credential_of(node: NodeDefinition) -> str | None:
    """Returns the node's credential type, or None without a sign-in."""
    authentication = node.get("authentication")
    if authentication in _NONE:
        return None
    if authentication == _PREDEFINED:
        return str(node.get("nodeCredentialType", "") or next(iter(node.credentials), "unknown"))
    if authentication == _GENERIC:
        return str(node.get("genericAuthType", "") or next(iter(node.credentials), "unknown"))
    return _OLDER.get(str(authentication), str(authentication))


def signs_in(node: NodeDefinition) -> bool:
    """Returns whether the node signs in with an account that a person has to bind."""
    credential = _credential_of(node)
    if credential is None:
        return sign_in_of(key_places(node.parameters) or ())[0] != ""
    return credential not in _NOT_OFFERED and (not _is_store(credential) or _reads_shopify(node, credential))


def _needs_account(node: NodeDefinition) -> bool:
    """Returns whether a person has to bind an account, to sign in or to call a private host."""
    return signs_in(node) or (listed_origin(_address(node.parameters)) is not None and not _is_refused(node))


def _is_refused(node: NodeDefinition) -> bool:
    """Returns whether the node's sign-in is not offered, or is that of a store."""
    credential = _credential_of(node)
    return credential is not None and (credential in _NOT_OFFERED or _is_store(credential))


def _address(parameters: JsonObject) -> str:
    return str(parameters.get("url", parameters.get("endpoint", "")))


def account_to_bind(node: NodeDefinition) -> JsonObject | None:
    """Returns the proposed account, or None if no account has to be bound."""
    return proposed_account(node.parameters, _credential_of(node)) if _needs_account(node) else None


def proposed_account(
    parameters: JsonObject, credential: str | None, reads: KeyReads = reads_nothing
) -> JsonObject:
    """Returns the account for a credential type, or one that restores the removed keys.

    It names the credential type, the sign-in, the header or query parameter, and the hosts. `reads` returns
    the removed keys that an expression reads from its items.
    """
    address = _address(parameters)
    host, private = _literal_host(address), listed_origin(address)
    keys = key_places(parameters, reads) or []
    if credential is None:
        sign_in, parameter = sign_in_of(keys)
        credential_type = CredentialType("", sign_in if keys else NO_SIGN_IN, parameter)
    else:
        credential_type = CREDENTIAL_TYPES.get(credential, CredentialType(credential, ""))
        if credential_type.sign_in in _IN_CUSTOM and _is_elsewhere(
            keys, credential_type.sign_in, credential_type.parameter
        ):
            credential_type = replace(credential_type, sign_in="custom", parameter=None)
    hosts = list(credential_type.hosts) or ([] if host is None else [host])
    if private is not None:
        hosts = [entry_of(private)]
    return {
        "credential": credential,
        "sign_in": credential_type.sign_in or None,
        "name": credential_type.parameter,
        "hosts": list(hosts),
    }


def restores_keys(
    parameters: JsonObject, account: Mapping[str, AnyJson], reads: KeyReads = reads_nothing
) -> bool:
    """Returns whether the proposed account restores every key removed from a request's parameters."""
    keys = key_places(parameters, reads)
    if keys is None:
        return False
    if account.get("credential") is None:
        return sign_in_of(keys)[0] != ""
    if account.get("sign_in") == "custom":
        return sign_in_of([*keys, KeyPlace("header", "Authorization")])[0] != ""
    return not _is_elsewhere(keys, str(account.get("sign_in")), account.get("name"))


def _is_elsewhere(keys: Sequence[KeyPlace], sign_in: str, name: str | None) -> bool:
    """Returns whether a key is elsewhere than where the sign-in puts it."""
    account_key = (
        (sign_in, name.lower()) if sign_in in ("header", "query") and name else ("header", "authorization")
    )
    return any(key.position != account_key for key in keys)


def _literal_host(url: str) -> str | None:
    """Returns the host of a URL, or None if it comes from an expression."""
    user_part = user_part_of(url)
    plain = url.replace(user_part, "", 1) if user_part else url
    match = re.match(r"=?\s*https?://([A-Za-z0-9._-]+)(?=[/?:#]|\s*\Z)", plain)
    return match[1].lower() if match else None


def _is_store(credential: str) -> bool:
    return credential.startswith(("shopify", "wooCommerce"))


def _reads_shopify(node: NodeDefinition, credential: str) -> bool:
    """Returns whether the node only reads a Shopify store; changes need a store step with its approval."""
    method = str(node.get("method", "GET")).upper()
    return credential in CREDENTIAL_TYPES and credential.startswith("shopify") and method in ("GET", "HEAD")


def authentication_problems(node: NodeDefinition, *, reads: bool) -> Iterable[StepProblem]:
    """Yields problems with a sign-in that is unsupported, or that does not belong to the URL's host."""
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
        message = f"It signs in with {_NOT_OFFERED[credential]}, which is not offered here."
        yield StepProblem("error", "credential", f"{message} Use another sign-in of the service.")
        return
    if credential == _SERVICE_ACCOUNT:
        message = "In n8n it signs in with the key of a Google service account, here with another sign-in."
        yield StepProblem(
            "warning", "credential", f"{message} Check that it reaches the same data at Google."
        )
    credential_type = CREDENTIAL_TYPES.get(credential)
    host = _literal_host(_address(node.parameters))
    if (
        credential_type is not None
        and credential_type.hosts
        and host is not None
        and not is_among(host, credential_type.hosts)
    ):
        message = f"Its address is on {host[:100]}, which is not known as a host of its sign-in."
        yield StepProblem("warning", "credential", f"{message} Check where the key is sent.")


def plain_address_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields the problem of an http address, except of a private host, whose account says what to do."""
    address = leading_text(_address(node.parameters))
    if not re.match(r"=?\s*http://", address, re.IGNORECASE) or listed_origin(address) is not None:
        return
    if not (signs_in(node) or signs_in_to_store(node)):
        message = "It calls an http address: others can read and change what is sent."
        yield StepProblem("warning", "parameter", f"{message} Use https if the address has it.")
        return
    message = "It signs in at an http address, where others can read its key."
    if _literal_host(address) is not None:
        yield StepProblem("error", "parameter", f"{message} Only https is called: change it.")
        return
    message = f"{message} Use https; http is called only at a private host that the operator lists,"
    yield StepProblem("warning", "parameter", f"{message} with an account for exactly that address.")


def uses_account(node: NodeDefinition) -> str | None:
    """Returns the kind of connection that the node needs, if any."""
    if signs_in_to_store(node):
        return "store"
    return KIND if _needs_account(node) else None


def _store_problems(node: NodeDefinition, *, reads: bool) -> Iterable[StepProblem]:
    if not reads or str(node.get("method", "GET")).upper() == "HEAD":
        message = "It changes the store with its own request. Use a store step instead."
        yield StepProblem("error", "parameter", message)
    if node.get("options.pagination.pagination") is not None:
        message = "It asks the store for page after page. Use a store step that gets all instead."
        yield StepProblem("error", "parameter", message)
    if node.get("sendHeaders"):
        yield StepProblem("error", "parameter", "It sends its own headers to the store. Remove them.")
    message = "It reads the automation's store, with its connection. Check that the address belongs to it."
    yield StepProblem("warning", "credential", message)


async def response_of_store(call: StepCall, url: str, query: JsonObject) -> PlatformResponse:
    """Reads the URL from the automation's store. Raises ItemFailed, WorkflowStepFailed."""
    store = store_of(call)
    parts = urlsplit(url)
    position = parts.path.find("/wp-json/")
    if parts.netloc.lower() != (store.connection.domain or "").lower() or position < 0:
        raise ItemFailed("The address of this step is not one of the automation's store.")
    if parts.query:
        raise ItemFailed("Give the filters for the store as query parameters, not in the address.")
    pairs = tuple((name, js.text(value)) for name, value in query.items())
    try:
        [response] = await read_all(store.reader.read(PATH, PathQuery(parts.path[position:], pairs)))
    except CallError as error:
        raise as_item_failure(error) from error
    return response
