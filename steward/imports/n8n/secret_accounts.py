"""Keys that a set step held and requests read: an account that a person binds takes their place.

See docs/design/imports-verdict.md#missing-values.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from steward.imports.n8n.data_flow import DataFlow, Missing
from steward.model.json import JsonObject
from steward.model.plan import Plan, PlanStep
from steward.steps.n8n.http_sign_in import BODIES, literal_host
from steward.steps.workflow.execute import raw_parameters
from steward.steps.workflow.expressions.template import Chunk, ParameterTemplate

ACCOUNT = "http_api"
_REQUESTS = frozenset(("httpRequest", "graphql"))
_BODY = re.compile(rf"(?:{'|'.join(BODIES)})(?:\.parameters?\.\d+\.value)?")
_ROW = re.compile(r"(header|query)Parameters(?:Ui)?\.parameters?\.\d+\.value")
_QUERY_NAME = re.compile(r"[?&]([^=&#?]+)=[^=&#?]*\Z")


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where a request takes a key: `header`, `query` or `body`, its name, and the text before the key.

    Keys of a body have the name of the set step and the fields that held them.
    """

    place: str
    name: str
    prefix: str


def key_places(flow: DataFlow, source: str, fields: Missing, reader: str) -> list[KeyPlace] | None:
    """Returns where a request reads the fields; None if an account cannot take their place.

    It can where each is a whole field, in a header, a parameter of the query or the body, of a request that
    signs in with nothing else.
    """
    step = flow.steps[reader]
    origin = step.origin
    if origin is None or origin.source_type not in _REQUESTS or origin.needs not in (None, ACCOUNT):
        return None
    if origin.needs == ACCOUNT and (origin.account or {}).get("credential") is not None:
        return None
    places: list[KeyPlace] = []
    place: KeyPlace | None
    for path, template_, chunk in flow.reading_expressions(source, fields, reader):
        if _BODY.fullmatch(path) is not None:
            place = KeyPlace("body", f"{source} {sorted(fields)}", "")
        else:
            place = _place(raw_parameters(step.config), path, template_, chunk)
        if place is None or chunk.path is None:
            return None
        places.append(place)
    return places or None


def _place(
    parameters: Mapping[str, Any], path: str, template_: ParameterTemplate, chunk: Chunk
) -> KeyPlace | None:
    before = template_.parts[: template_.parts.index(chunk)]
    prefix = before[-1] if before and isinstance(before[-1], str) else ""
    if path in ("url", "endpoint"):
        name = _QUERY_NAME.search(prefix)
        return KeyPlace("query", name[1], "") if name else None
    row = _ROW.fullmatch(path)
    if row is None or len(before) > 1:
        return None
    value: Any = parameters
    for part in path.split(".")[:-1]:
        value = value[int(part)] if isinstance(value, list) else value[part]
    name_text = value.get("name")
    if not isinstance(name_text, str) or name_text.startswith("=") or not name_text.strip():
        return None
    return KeyPlace(row[1], name_text.strip(), prefix.strip())


def with_accounts(plan: Plan, places: Mapping[str, list[KeyPlace]]) -> Plan:
    """Returns the plan in which each of these requests needs an account, with the sign-in it would take."""
    steps = tuple(
        _with_account(step, places[step.name]) if step.name in places else step for step in plan.steps
    )
    return replace(plan, steps=steps)


def _with_account(step: PlanStep, places: list[KeyPlace]) -> PlanStep:
    assert step.origin is not None
    proposed = step.origin.account or {}
    sign_in, name = _sign_in(places, proposed)
    parameters = raw_parameters(step.config)
    host = literal_host(str(parameters.get("url", parameters.get("endpoint", ""))))
    account: JsonObject = {
        "credential": None,
        "sign_in": sign_in,
        "name": name,
        "hosts": [] if host is None else [host],
    }
    return replace(step, origin=replace(step.origin, needs=ACCOUNT, account=account))


def _sign_in(places: list[KeyPlace], proposed: Mapping[str, Any]) -> tuple[str, str | None]:
    """Returns the sign-in that puts the keys where they were; beside keys of the request itself, `custom`."""
    names = {(key.place, key.name.lower()) for key in places}
    if len(names) > 1 or proposed:
        return "custom", None
    first = places[0]
    if first.place == "body":
        return "body", None
    if (first.place, first.name.lower()) == ("header", "authorization"):
        return ("bearer", None) if first.prefix.lower() == "bearer" else ("header", first.name)
    return first.place, first.name
