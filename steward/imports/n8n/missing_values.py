"""What of a workflow is not there when it runs: removed secrets, and answers that cannot be had."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from steward.imports.n8n.data_flow import SCRIPTS, WHOLE, DataFlow, Missing, field_of_set
from steward.imports.n8n.field_labels import label_of
from steward.imports.n8n.secret_accounts import ACCOUNT, KeyPlace, key_places
from steward.imports.n8n.steps import UNSUPPORTED
from steward.imports.n8n.unwrap import Node
from steward.imports.reach import named
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import PlanStep, StepSource
from steward.steps.n8n.http_sign_in import BODIES, puts_back_keys
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.workflow.execute import raw_parameters
from steward.steps.workflow.step_types import NodeDefinition

MAX_FOLLOWED = 100  # removed secrets of a workflow whose use is looked for
_IN_REQUEST = (
    "headerParameters",
    "headerParametersUi",
    "queryParameters",
    "queryParametersUi",
    "jsonHeaders",
    "jsonQuery",
    "headerParametersJson",
    "queryParametersJson",
    "url",
    "endpoint",
    *BODIES,
)
# The keys of JSON written as text whose value is empty or marked as removed.
_EMPTY_IN_JSON = re.compile(
    r"""["']([\w .-]{1,120})["']\s*:\s*["'](?:[^"'\n]{0,40}__removed_secret_\d+__|["'])"""
)


@dataclass(frozen=True, slots=True)
class RemovedSecret:
    """Where a secret was: the step, and the path of the parameter below the node."""

    step: str | None
    path: str


@dataclass(frozen=True, slots=True)
class MissingSecrets:
    """The findings on removed secrets, and the requests whose key an account puts back."""

    findings: tuple[Finding, ...]
    places: Mapping[str, list[KeyPlace]]


def missing_secrets(flow: DataFlow, removed: Iterable[RemovedSecret]) -> MissingSecrets:
    """One finding for each field that held a secret: an error if a running step cannot do without it."""
    unique = list(dict.fromkeys(removed))
    places: dict[str, list[KeyPlace]] = {}
    findings = [_secret_finding(flow, secret, places) for secret in unique[:MAX_FOLLOWED]]
    findings += [_not_followed(flow, secret) for secret in unique[MAX_FOLLOWED:]]
    return MissingSecrets(tuple(dict.fromkeys(findings)), places)


def _not_followed(flow: DataFlow, secret: RemovedSecret) -> Finding:
    """A secret beyond those whose use is looked for: it counts as used where its step runs."""
    label = _label(flow, secret)
    if secret.step not in flow.steps:
        return _unused(secret, label)
    words = (
        f"{label} held a secret, which was removed, and a step may need it. "
        "Use saved credentials in n8n instead, and import the workflow again."
    )
    return Finding(secret.step, FindingLevel.ERROR, "secret_removed", words)


def _secret_finding(flow: DataFlow, secret: RemovedSecret, places: dict[str, list[KeyPlace]]) -> Finding:
    step = flow.steps.get(secret.step or "")
    if step is None or step.origin is None or _cannot_run(step) or not secret.path.startswith("parameters."):
        return _unused(secret, "secret" if secret.step is None else _label(flow, secret))
    label = _label(flow, secret)
    parameter = secret.path.split(".")[1]
    if step.origin.source_type == "set":
        fields = _fields_of_set(raw_parameters(step.config), secret.path)
        readers = flow.readers(step.name, fields)
        replaced = {reader: key_places(flow, step.name, fields, reader) for reader in readers}
        if not readers or None in replaced.values():
            return _read_later(secret, label, readers) if readers else _unused(secret, label)
        for reader, added in replaced.items():
            places.setdefault(reader, []).extend(added or ())
        replacement = f"The account you choose for {named(readers)} replaces it."
        words = f"{label} held a secret, which was removed. {replacement}"
        return Finding(step.name, FindingLevel.NOTE, "secret_removed", words)
    if _is_replaced(step, step.origin, parameter):
        words = f"{label} held a secret, which was removed. The account you choose for this step replaces it."
        return Finding(step.name, FindingLevel.NOTE, "secret_removed", words)
    if step.origin.source_type in SCRIPTS:
        words = (
            "Its code held a secret, which was removed, so it would not run as in n8n. "
            "Use an HTTP Request step with a saved credential instead, and import the workflow again."
        )
        return Finding(step.name, FindingLevel.ERROR, "secret_removed", words)
    words = (
        f"{label} held a secret, which was removed, and the step needs it. "
        "Use a saved credential in n8n instead, and import the workflow again."
    )
    return Finding(step.name, FindingLevel.ERROR, "secret_removed", words)


def _is_replaced(step: PlanStep, origin: StepSource, parameter: str) -> bool:
    """Whether the account that a person binds to the step brings the key of the parameter."""
    if origin.needs == ACCOUNT and parameter in _IN_REQUEST:
        return puts_back_keys(raw_parameters(step.config), origin.account or {})
    kind = BY_TYPE.get(origin.source_type)
    return kind is not None and parameter in kind.account_parameters


def _cannot_run(step: PlanStep) -> bool:
    """Whether the step is of a type that runs nowhere here, which its own finding says."""
    return step.operation == UNSUPPORTED


def _read_later(secret: RemovedSecret, label: str, readers: list[str]) -> Finding:
    is_one = len(readers) == 1
    words = (
        f"{label} held a secret, which was removed, and {named(readers)} {'needs' if is_one else 'need'} it. "
        f"Let {'that step' if is_one else 'those steps'} sign in with a saved credential in n8n, and import "
        "the workflow again."
    )
    return Finding(secret.step, FindingLevel.ERROR, "secret_removed", words)


def _unused(secret: RemovedSecret, label: str) -> Finding:
    if secret.step is None:
        words = "The file held a secret beside its steps, which was removed. No step that runs uses it."
    else:
        words = f"{label} held a secret, which was removed. No step that runs uses it."
    return Finding(secret.step, FindingLevel.NOTE, "secret_removed", words)


def _label(flow: DataFlow, secret: RemovedSecret) -> str:
    step = next((step for step in flow.plan.steps if step.name == secret.step), None)
    return label_of(raw_parameters(step.config) if step is not None else {}, secret.path)


def _fields_of_set(parameters: Mapping[str, Any], path: str) -> Missing:
    """The fields of a set step's output that hold what was removed."""
    below = path.partition(".")[2]
    field = field_of_set(parameters, below)
    if field:
        return frozenset((field,))
    keys = _EMPTY_IN_JSON.findall(str(parameters.get(below.split(".")[0], "")))
    return frozenset((key,) for key in keys) or WHOLE


def answer_findings(flow: DataFlow, nodes: Iterable[Node]) -> list[Finding]:
    """An error for each step that reads what a step before it cannot hand on."""
    findings: list[Finding] = []
    for node in nodes:
        step_type = BY_TYPE.get(node.type)
        if node.name not in flow.steps or step_type is None:
            continue
        definition = NodeDefinition(node.name, node.version, node.parameters, node.credentials)
        if not step_type.lacks_answer(definition):
            continue
        for reader in flow.readers(node.name, WHOLE):
            words = (
                f"It reads what “{node.name[:80]}” hands on in n8n, which that step does not get here. "
                "Take the value from a step before it."
            )
            findings.append(Finding(reader, FindingLevel.ERROR, "parameter", words))
    return findings
