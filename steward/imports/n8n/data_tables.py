"""Finds problems of steps that use data tables: tables that stay empty, and tables used by name and by id.

See docs/design/static-data.md#data-tables.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from steward.imports.n8n.unwrap import Node
from steward.imports.reach import named
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan
from steward.steps.n8n.nodes.data_table import FILLING, table_of
from steward.steps.workflow.step_types import is_expression

_UNFILLED: Final = (
    "It works on rows that no step of this workflow writes, and here a data table has only rows that its"
    " own automation writes. Keep them in a spreadsheet, and read that."
)
_SEVERAL_WAYS: Final = (
    "One step names its data table by the name and another by the id, and they may mean the same one. Choose"
    " it from the list in every step."
)
_STARTS_EMPTY: Final = (
    "{steps}: the data table is this automation's own here. It starts without the rows that it has in n8n,"
    " holds at most 1 MiB, and keeps what a run wrote when the run succeeds."
)


@dataclass(frozen=True, slots=True)
class _Use:
    """A running step that uses a table."""

    node: Node

    @property
    def mode(self) -> str:
        return table_of(self.node.parameters.get("dataTableId"))[0]

    @property
    def name(self) -> str:
        return table_of(self.node.parameters.get("dataTableId"))[1]

    @property
    def label(self) -> str | None:
        """The name of a table that is referenced by id, or None if the file does not contain it."""
        locator = self.node.parameters.get("dataTableId")
        return str(locator.get("cachedResultName") or "") or None if isinstance(locator, dict) else None

    @property
    def fills(self) -> bool:
        return self.node.parameters.get("operation", "insert") in FILLING

    def may_mean(self, other: "_Use") -> bool:
        """Returns whether both use, or may use, the same table here; an expression may name any table."""
        if is_expression(self.name) or is_expression(other.name):
            return True
        return (self.mode, self.name) == (other.mode, other.name)

    def is_named_differently(self, other: "_Use") -> bool:
        """Returns whether both may use the same table in n8n but not here, as only one of them has its id."""
        if self.mode == other.mode:
            return False
        by_name, by_id = (self, other) if self.mode == "name" else (other, self)
        return is_expression(by_name.name) or by_id.label in (None, by_name.name)


def table_findings(plan: Plan, nodes: Iterable[Node]) -> list[Finding]:
    """Returns an error for each running step whose table stays empty here, or one warning for all."""
    running = {step.name for step in plan.running()}
    uses = [_Use(node) for node in nodes if node.type == "dataTable" and node.name in running]
    findings = [
        Finding(use.node.name, FindingLevel.ERROR, "parameter", message)
        for use in uses
        if (message := _problem(use, uses)) is not None
    ]
    if uses and not findings:
        message = _STARTS_EMPTY.format(steps=named([use.node.name for use in uses]))
        findings.append(Finding(None, FindingLevel.WARNING, "parameter", message))
    return findings


def _problem(use: _Use, uses: Sequence[_Use]) -> str | None:
    if any(use.is_named_differently(other) for other in uses):
        return _SEVERAL_WAYS
    if not any(other.fills and use.may_mean(other) for other in uses):
        return _UNFILLED
    return None
