"""Binds accounts to requests in place of values from set steps: removed keys and private hosts.

See docs/design/imports-verdict.md#missing-values and docs/design/imports-accounts.md#private-hosts.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from steward.imports.n8n.data_flow import DataFlow
from steward.imports.n8n.reshaped_fields import Missing
from steward.model.json import AnyJson, JsonObject
from steward.model.plan import Plan, PlanStep
from steward.outbound.hosts import entry_of
from steward.steps.n8n.http_sign_in import proposed_account, restores_keys
from steward.steps.workflow.addresses import listed_origin
from steward.steps.workflow.execute import raw_parameters
from steward.steps.workflow.expressions.marked_texts import KeyReads
from steward.steps.workflow.expressions.paths import read_path
from steward.steps.workflow.http_keys import IN_REQUEST

ACCOUNT = "http_api"
_REQUESTS = frozenset(("httpRequest", "graphql"))
_CALLING = frozenset((*_REQUESTS, "rssFeedRead"))
# A URL that begins with an expression that only reads a path, and what follows it.
_BEGINS_WITH_PATH = re.compile(r"=\s*\{\{\s*(\$[^+{};]*?)\s*(?=\+|;?\s*\}\})(.*)", re.DOTALL)
_ADDRESS = re.compile(r"https?://[^\s'\\{}]+")


def key_reads(
    flow: DataFlow, source: str, fields: Missing, reader: str, others: Sequence[KeyReads]
) -> KeyReads | None:
    """Returns which code of a request reads the removed key in these fields of a set step.

    Returns None if an account cannot restore it together with the keys that `others` read.
    """
    step = flow.steps[reader]
    origin = step.origin
    if origin is None or origin.source_type not in _REQUESTS or origin.needs not in (None, ACCOUNT):
        return None
    paths = flow.reading_parameters(source, fields, reader)
    if not paths or not all(path.partition(".")[0] in IN_REQUEST for path in paths):
        return None
    name = f"{source} {sorted(fields)}"
    is_read = flow.is_read(source, fields, reader)

    def reads(code: str) -> str | None:
        return name if is_read(code) else None

    combined = _any_of([*others, reads])
    parameters = raw_parameters(step.config)
    account = proposed_account(parameters, _credential(step), combined)
    return reads if restores_keys(parameters, account, combined) else None


def _credential(step: PlanStep) -> str | None:
    account = step.origin.account if step.origin is not None else None
    credential = (account or {}).get("credential")
    return None if credential is None else str(credential)


def _any_of(all_reads: Sequence[KeyReads]) -> KeyReads:
    def read(code: str) -> str | None:
        return next((name for reads in all_reads if (name := reads(code)) is not None), None)

    return read


def with_accounts(plan: Plan, reads: Mapping[str, Sequence[KeyReads]]) -> Plan:
    """Returns the plan with an account, and the sign-in it would use, required by each of these requests."""
    steps = tuple(
        _with_account(step, reads[step.name]) if step.name in reads else step for step in plan.steps
    )
    return replace(plan, steps=steps)


def _with_account(step: PlanStep, reads: Sequence[KeyReads]) -> PlanStep:
    assert step.origin is not None
    account = proposed_account(raw_parameters(step.config), _credential(step), _any_of(reads))
    return replace(step, origin=replace(step.origin, needs=ACCOUNT, account=account))


def with_private_hosts(plan: Plan, flow: DataFlow) -> Plan:
    """Returns the plan with an account required by each request whose private host a set step holds."""
    hosts = _private_hosts(flow)
    steps = tuple(
        _with_private_host(step, hosts[step.name]) if step.name in hosts else step for step in plan.steps
    )
    return replace(plan, steps=steps)


def _private_hosts(flow: DataFlow) -> dict[str, str]:
    """Returns the private host that each request without an account reads from set steps, if only one."""
    hosts: dict[str, set[str | None]] = {}
    for step in flow.steps.values():
        for name, address in _literal_addresses(step):
            fields: Missing = frozenset((tuple(name.split(".")),))
            if flow.changes_on_the_way(step.name, fields):
                continue
            for reader in flow.readers(step.name, fields):
                url = _url_with(flow, step.name, fields, reader, address)
                if url is not None:
                    origin = listed_origin(url)
                    hosts.setdefault(reader, set()).add(None if origin is None else entry_of(origin))
    return {reader: host for reader, (host, *others) in hosts.items() if host is not None and not others}


def _literal_addresses(step: PlanStep) -> Iterable[tuple[str, str]]:
    """Yields each field that a set step fills with a complete URL, and the URL."""
    if step.origin is None or step.origin.source_type != "set":
        return
    stack: list[AnyJson] = [raw_parameters(step.config)]
    while stack:
        value = stack.pop()
        if not isinstance(value, Mapping):
            stack += value if isinstance(value, list) else ()
            continue
        stack += value.values()
        pairs = {str(value.get("name", "")): value.get("value", value.get("stringValue"))}
        pairs |= _json_fields(value.get("jsonOutput"))
        for name, address in pairs.items():
            if name and isinstance(address, str) and _ADDRESS.fullmatch(address.strip()):
                yield name, address.strip()


def _json_fields(text: AnyJson) -> JsonObject:
    """Returns the fields of an object in JSON, or an empty object for any other text."""
    try:
        fields = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _url_with(flow: DataFlow, source: str, fields: Missing, reader: str, address: str) -> str | None:
    """Returns a request's URL with a set step's URL in place of the expression it begins with, or None."""
    origin = flow.steps[reader].origin
    if origin is None or origin.source_type not in _CALLING or origin.needs is not None:
        return None
    parameters = raw_parameters(flow.steps[reader].config)
    begins = _BEGINS_WITH_PATH.match(str(parameters.get("url", parameters.get("endpoint", ""))))
    if begins is None or read_path(begins[1]) is None or not flow.is_read(source, fields, reader)(begins[1]):
        return None
    return f"={{{{ '{address}' {begins[2]}"


def _with_private_host(step: PlanStep, host: str) -> PlanStep:
    assert step.origin is not None
    account = {**proposed_account(raw_parameters(step.config), None), "hosts": [host]}
    return replace(step, origin=replace(step.origin, needs=ACCOUNT, account=account))
