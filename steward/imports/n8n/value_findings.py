"""Finds steps that read values no run has: missing fields, files and tables, and removed secrets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from steward.imports.n8n.data_flow import DataFlow
from steward.imports.n8n.data_tables import table_findings
from steward.imports.n8n.known_fields import unknown_field_findings
from steward.imports.n8n.local_files import unwritten_file_findings
from steward.imports.n8n.missing_values import RemovedSecret, missing_secrets, response_findings
from steward.imports.n8n.secret_accounts import ACCOUNT, with_accounts, with_private_hosts
from steward.imports.n8n.start_files import start_file_findings
from steward.imports.n8n.steps import account_words
from steward.imports.n8n.unwrap import Workflow, is_step_node
from steward.imports.n8n.whole_lists import whole_list_findings
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan


def value_findings(
    plan: Plan,
    workflow: Workflow,
    file_nodes: Sequence[Any],
    paths: Sequence[str],
    key_variables: Mapping[str, Sequence[str]],
) -> tuple[Plan, list[Finding]]:
    """Returns findings for removed secrets, and for steps that read missing values or files.

    `paths` are where secrets were removed, `key_variables` where variables of n8n were that hold keys;
    `file_nodes` is the list of nodes in the file. The plan has the accounts that replace both.
    """
    flow = DataFlow(plan)
    findings = [
        *response_findings(flow, workflow.nodes),
        *unknown_field_findings(plan, workflow.nodes),
        *start_file_findings(plan, workflow.nodes),
        *unwritten_file_findings(plan, workflow.nodes),
        *whole_list_findings(plan, workflow.nodes),
        *table_findings(plan, workflow.nodes),
    ]
    if not paths and not key_variables:
        return _with_private_hosts(plan, flow, findings), findings
    names = _names_by_place(workflow, file_nodes)
    removed = [_removed_secret(path, names) for path in paths if path not in key_variables]
    removed += [
        replace(_removed_secret(path, names), variables=tuple(dict.fromkeys(variables)))
        for path, variables in key_variables.items()
    ]
    secrets = missing_secrets(flow, removed)
    findings += secrets.findings
    for name in secrets.reads:
        step = flow.steps[name]
        if step.origin is not None and step.origin.needs is None:
            findings.append(Finding(name, FindingLevel.WARNING, "credential", account_words(ACCOUNT, None)))
    plan = with_accounts(plan, secrets.reads)
    return _with_private_hosts(plan, DataFlow(plan), findings), findings


def _with_private_hosts(plan: Plan, flow: DataFlow, findings: list[Finding]) -> Plan:
    """Returns the plan with the accounts of private hosts that set steps hold, and adds their findings."""
    bound = with_private_hosts(plan, flow)
    for before, step in zip(plan.steps, bound.steps, strict=True):
        if step is not before and step.origin is not None:
            message = account_words(ACCOUNT, step.origin.account)
            findings.append(Finding(step.name, FindingLevel.WARNING, "credential", message))
    return bound


def _names_by_place(workflow: Workflow, file_nodes: Sequence[Any]) -> dict[int, str]:
    """Returns the name of each node by its index in the file's list, which also has sticky notes."""
    places = [index for index, node in enumerate(file_nodes) if is_step_node(node)]
    return {index: node.name for index, node in zip(places, workflow.nodes, strict=True)}


def _removed_secret(path: str, names: Mapping[int, str]) -> RemovedSecret:
    parts = path.split(".")
    if parts[0] == "nodes" and len(parts) > 2:
        return RemovedSecret(names.get(int(parts[1])), ".".join(parts[2:]))
    return RemovedSecret(None, path)
