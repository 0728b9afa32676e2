"""Finds values that are missing at run time: removed secrets and unavailable responses."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from steward.imports.n8n.data_flow import DataFlow, field_of_set
from steward.imports.n8n.field_labels import label_of
from steward.imports.n8n.reshaped_fields import SCRIPTS, WHOLE, Missing
from steward.imports.n8n.secret_accounts import ACCOUNT, key_reads
from steward.imports.n8n.steps import UNSUPPORTED
from steward.imports.n8n.unwrap import Node
from steward.imports.reach import named
from steward.model.finding import Finding, FindingLevel
from steward.model.limits import MAX_PATH_KEYS
from steward.model.plan import PlanStep, StepSource
from steward.model.removed_secrets import markers_in
from steward.steps.n8n.http_sign_in import restores_keys
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.workflow.execute import raw_parameters
from steward.steps.workflow.expressions.marked_texts import KeyReads, is_fixed, parts_of
from steward.steps.workflow.http_keys import IN_REQUEST, has_too_many_path_keys
from steward.steps.workflow.step_types import NodeDefinition

MAX_FOLLOWED = 100  # removed secrets of a workflow whose use is traced
# Keys in JSON text whose value is empty or holds a marker of a removed secret.
_EMPTY_IN_JSON = re.compile(
    r"""["']([\w .-]{1,120})["']\s*:\s*["'](?:[^"'\n]{0,40}__removed_secret_\d+__|["'])"""
)
_EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RemovedSecret:
    """The place of a removed secret: its step and the parameter's path within the node.

    `variables` are those of n8n that held the secret; none if the file held it.
    """

    step: str | None
    path: str
    variables: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The code of a finding on it."""
        return "variable" if self.variables else "secret_removed"

    def description_of(self, label: str) -> str:
        """Returns the beginning of a sentence about what was removed from the parameter with this label."""
        if not self.variables:
            return f"{label} held a secret, which was removed"
        keys = ", ".join(f"“{name[:80]}”" for name in self.variables)
        return f"{label} reads {keys}, a key by its name, which no export carries"


@dataclass(frozen=True, slots=True)
class MissingSecrets:
    """The findings on removed secrets, and the requests whose keys an account restores."""

    findings: tuple[Finding, ...]
    reads: Mapping[str, list[KeyReads]]


def missing_secrets(flow: DataFlow, removed: Iterable[RemovedSecret]) -> MissingSecrets:
    """Returns a finding for each field that held a secret: an error if a running step depends on it."""
    unique = list(dict.fromkeys(removed))
    reads: dict[str, list[KeyReads]] = {}
    findings = [_secret_finding(flow, secret, reads) for secret in unique[:MAX_FOLLOWED]]
    findings += [_not_followed(flow, secret) for secret in unique[MAX_FOLLOWED:]]
    return MissingSecrets(tuple(dict.fromkeys(findings)), reads)


def _not_followed(flow: DataFlow, secret: RemovedSecret) -> Finding:
    """Returns the finding of a secret that is not traced; it counts as used if its step runs."""
    label = _label(flow, secret)
    if secret.step not in flow.steps:
        return _unused(secret, label)
    message = (
        f"{secret.description_of(label)}, and a step may need it. "
        "Use saved credentials in n8n instead, and import the workflow again."
    )
    return Finding(secret.step, FindingLevel.ERROR, secret.code, message)


def _secret_finding(flow: DataFlow, secret: RemovedSecret, reads: dict[str, list[KeyReads]]) -> Finding:
    step = flow.steps.get(secret.step or "")
    if step is None or step.origin is None or _cannot_run(step) or not secret.path.startswith("parameters."):
        return _unused(secret, "secret" if secret.step is None else _label(flow, secret))
    label = _label(flow, secret)
    parameter = secret.path.split(".")[1]
    if step.origin.source_type == "set":
        fields = _fields_of_set(raw_parameters(step.config), secret.path)
        if settings_readers := flow.settings_readers(step.name):
            return _read_later(secret, label, settings_readers)
        readers = flow.readers(step.name, fields)
        if not readers:
            return _unused(secret, label)
        replaced = {
            reader: key_reads(flow, step.name, fields, reader, reads.get(reader, ())) for reader in readers
        }
        if None in replaced.values() or _changes(flow, step, fields, secret.path):
            return _read_later(secret, label, readers)
        for reader, added in replaced.items():
            reads.setdefault(reader, []).extend([added] if added is not None else [])
        replacement = f"The account you choose for {named(readers)} replaces it."
        message = f"{secret.description_of(label)}. {replacement}"
        return Finding(step.name, FindingLevel.NOTE, secret.code, message)
    if _is_replaced(step, step.origin, parameter):
        message = f"{secret.description_of(label)}. The account you choose for this step replaces it."
        return Finding(step.name, FindingLevel.NOTE, secret.code, message)
    if step.origin.source_type in SCRIPTS:
        message = (
            f"{secret.description_of('Its code')}, so it would not run as in n8n. "
            "Use an HTTP Request step with a saved credential instead, and import the workflow again."
        )
        return Finding(step.name, FindingLevel.ERROR, secret.code, message)
    need = "the step needs it"
    if has_too_many_path_keys(raw_parameters(step.config)):
        need = f"the step needs it. An account puts back at most {MAX_PATH_KEYS} keys in one path"
    message = (
        f"{secret.description_of(label)}, and {need}. "
        "Use a saved credential in n8n instead, and import the workflow again."
    )
    return Finding(step.name, FindingLevel.ERROR, secret.code, message)


def _changes(flow: DataFlow, step: PlanStep, fields: Missing, path: str) -> bool:
    """Returns whether a set step, or a later one, changes the key, so that no account can supply it."""
    value: Any = raw_parameters(step.config)
    for part in path.split(".")[1:]:
        value = value[int(part)] if isinstance(value, list) else value.get(part, "")
    parts = parts_of(value) if isinstance(value, str) else None
    is_json = field_of_set(step.config, path.partition(".")[2]) == ()
    return parts is None or not (is_json or is_fixed(parts)) or flow.changes_on_the_way(step.name, fields)


def _is_replaced(step: PlanStep, origin: StepSource, parameter: str) -> bool:
    """Returns whether the account bound to the step supplies the parameter's key."""
    if origin.needs == ACCOUNT and parameter in IN_REQUEST:
        return restores_keys(raw_parameters(step.config), origin.account or {})
    kind = BY_TYPE.get(origin.source_type)
    return kind is not None and parameter in kind.account_parameters


def _cannot_run(step: PlanStep) -> bool:
    """Returns whether the step's type is unsupported, which is reported by another finding."""
    return step.operation == UNSUPPORTED


def _read_later(secret: RemovedSecret, label: str, readers: list[str]) -> Finding:
    is_one = len(readers) == 1
    message = (
        f"{secret.description_of(label)}, and {named(readers)} {'needs' if is_one else 'need'} it. "
        f"Let {'that step' if is_one else 'those steps'} sign in with a saved credential in n8n, and import "
        "the workflow again."
    )
    return Finding(secret.step, FindingLevel.ERROR, secret.code, message)


def _unused(secret: RemovedSecret, label: str) -> Finding:
    if secret.step is None:
        message = "The file held a secret beside its steps, which was removed. No step that runs uses it."
    else:
        message = f"{secret.description_of(label)}. No step that runs uses it."
    return Finding(secret.step, FindingLevel.NOTE, secret.code, message)


def _label(flow: DataFlow, secret: RemovedSecret) -> str:
    step = next((step for step in flow.plan.steps if step.name == secret.step), None)
    return label_of(raw_parameters(step.config) if step is not None else {}, secret.path)


def _fields_of_set(parameters: Mapping[str, Any], path: str) -> Missing:
    """Returns the fields of a set step's output that contained the removed value."""
    below = path.partition(".")[2]
    field = field_of_set(parameters, below)
    if field:
        return frozenset((field,))
    text = str(parameters.get(below.split(".")[0], ""))
    try:
        value = json.loads(_EXPRESSION.sub("0", text.removeprefix("=")))
    except (ValueError, RecursionError):
        # Expressions that create members hide the fields' names; those visible in the text are used.
        keys = _EMPTY_IN_JSON.findall(text)
        return frozenset((key,) for key in keys) or WHOLE
    return frozenset(_marked_fields(value, ())) or WHOLE


def _marked_fields(value: Any, path: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from _marked_fields(member, (*path, str(name)))
    elif (isinstance(value, list) and markers_in(value)) or (isinstance(value, str) and markers_in(value)):
        yield path


def response_findings(flow: DataFlow, nodes: Iterable[Node]) -> list[Finding]:
    """Returns an error for each step that reads a response which an earlier step does not have here."""
    findings: list[Finding] = []
    for node in nodes:
        step_type = BY_TYPE.get(node.type)
        if node.name not in flow.steps or step_type is None:
            continue
        definition = NodeDefinition(node.name, node.version, node.parameters, node.credentials)
        if not step_type.lacks_response(definition):
            continue
        for reader in flow.readers(node.name, WHOLE):
            message = (
                f"It reads the output that “{node.name[:80]}” has in n8n, which that step does not get here. "
                "Take the value from a step before it."
            )
            findings.append(Finding(reader, FindingLevel.ERROR, "parameter", message))
    return findings
