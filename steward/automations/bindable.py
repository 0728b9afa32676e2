"""Lists the steps of a workflow that are bound one by one, with a proposed connection for each."""

from collections.abc import Mapping, Sequence

from steward.automations.workflows import bound_kinds
from steward.database.accounts import connections
from steward.database.engine.base import Tx
from steward.model import plan_json
from steward.model.connection import NO_SIGN_IN, Connection, ConnectionState
from steward.model.ids import OrgId
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import Plan, PlanStep
from steward.outbound.hosts import is_among, with_scheme

_HTTP_ACCOUNT = "http_api"


async def bindable(tx: Tx, org: OrgId, plan: Plan) -> list[JsonObject]:
    """Returns the steps that need a connection besides the automation's store, in plan order.

    `proposed` is the one connected account that fits the step; null when none does, or several do.
    """
    steps = [
        step
        for step in plan_json.needed(plan)
        if step.origin is not None and step.origin.needs not in (None, "store")
    ]
    if not steps:
        return []
    connected = await connections.find(tx, org, states=(ConnectionState.CONNECTED,))
    return [_shown(step, connected) for step in steps]


def _shown(step: PlanStep, connected: Sequence[Connection]) -> JsonObject:
    assert step.origin is not None
    kinds, hosts = bound_kinds(step), _hosts_of(step)
    sign_in = (step.origin.account or {}).get("sign_in")
    matching = [
        connection
        for connection in connected
        if connection.kind in kinds and _fits(connection, hosts, signs_in=sign_in != NO_SIGN_IN)
    ]
    return {
        "step": step.name,
        "kind": step.origin.needs,
        "target": step.origin.target,
        "hosts": list(hosts),
        "sign_in": sign_in,
        "proposed": matching[0].integration_id if len(matching) == 1 else None,
    }


def _hosts_of(step: PlanStep) -> tuple[str, ...]:
    """Returns the hosts a step signs in at, as far as its file names them."""
    account = step.origin.account if step.origin is not None else None
    hosts = (account or {}).get("hosts")
    return tuple(str(host) for host in hosts) if isinstance(hosts, list) else ()


def _fits(connection: Connection, hosts: Sequence[str], *, signs_in: bool) -> bool:
    """Returns whether a connection fits a step; those of other kinds than an HTTP API always do.

    An account of an HTTP API is for one of the step's hosts, and has a key only if the step signs in.
    """
    if connection.kind != _HTTP_ACCOUNT:
        return True
    settings: JsonValue = connection.facts.get("settings")
    account_settings = settings if isinstance(settings, Mapping) else {}
    if (account_settings.get("sign_in") != NO_SIGN_IN) is not signs_in:
        return False
    own_hosts = [with_scheme(entry) for entry in str(account_settings.get("hosts", "")).split()]
    return any(is_among(host, own_hosts) for host in hosts) or any(
        is_among(host, hosts) for host in own_hosts
    )
