"""Binds an account in place of a key that a set step held and requests read.

See docs/design/imports-verdict.md#missing-values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from steward.imports.n8n.data_flow import DataFlow
from steward.imports.n8n.reshaped_fields import Missing
from steward.model.plan import Plan, PlanStep
from steward.steps.n8n.http_sign_in import proposed_account, puts_back_keys
from steward.steps.workflow.execute import raw_parameters
from steward.steps.workflow.expressions.marked_texts import KeyReads
from steward.steps.workflow.http_keys import IN_REQUEST

ACCOUNT = "http_api"
_REQUESTS = frozenset(("httpRequest", "graphql"))


def key_reads(
    flow: DataFlow, source: str, fields: Missing, reader: str, others: Sequence[KeyReads]
) -> KeyReads | None:
    """Returns which code of a request reads the key in these fields of a set step.

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
    return reads if puts_back_keys(parameters, account, combined) else None


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
