"""Gives the markers of removed keys a text that only one run knows, so that data cannot ask for a key.

A plan has a numbered marker wherever its file held a key. When a run reads its plan, each marker gets a text
derived from a secret of the service and the run. Only markers with this text are valid in what a step sends;
any other marker came with data. See docs/design/imports-accounts.md#http-accounts.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace

from steward.model.json import JsonValue
from steward.model.plan import Plan
from steward.model.removed_secrets import MARKER
from steward.steps.workflow.step_types import ItemFailed

_BEGINNING = "__removed_secret_"
_FOREIGN = (
    "What this step sends contains the placeholder of a removed key, which came with data and not with the "
    "workflow. Nothing was sent. Check where the data comes from."
)


def run_marks(keys: Sequence[bytes], run_id: str) -> tuple[str, ...]:
    """Returns the valid texts of a run's markers, for the current key first and then for older keys."""
    message = f"markers of {run_id}".encode()
    return tuple(hmac.new(key, message, hashlib.sha256).hexdigest()[:32] for key in keys)


def with_run_mark(plan: Plan, mark: str) -> Plan:
    """Returns the plan, including its inner plans, with the run's text in every marker."""
    steps = tuple(
        replace(step, config={name: _marked(value, mark) for name, value in step.config.items()})
        if _has_marker(step.config)
        else step
        for step in plan.steps
    )
    inner = {name: with_run_mark(called, mark) for name, called in plan.inner.items()}
    return replace(plan, steps=steps, inner=inner)


def check_marks(marks: Sequence[str], *sent: str | bytes) -> None:
    """Raises ItemFailed if a text to send has a marker without the run's text."""
    for part in sent:
        if (_BEGINNING if isinstance(part, str) else _BEGINNING.encode()) not in part:  # type: ignore[operator]
            continue
        text = part if isinstance(part, str) else part.decode("utf-8", "replace")
        if any((hit[2] or "") not in (marks or ("",)) for hit in MARKER.finditer(text)):
            raise ItemFailed(_FOREIGN)


def _has_marker(value: JsonValue) -> bool:
    if isinstance(value, str):
        return _BEGINNING in value
    if isinstance(value, Mapping):
        return any(_BEGINNING in name for name in value) or any(map(_has_marker, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_marker, value))


def _marked(value: JsonValue, mark: str) -> JsonValue:
    if isinstance(value, str):
        return MARKER.sub(rf"__removed_secret_\1_{mark}__", value)
    if isinstance(value, Mapping):
        return {str(_marked(name, mark)): _marked(member, mark) for name, member in value.items()}
    return [_marked(member, mark) for member in value] if isinstance(value, list | tuple) else value
