"""The node microsoftExcel: reads sheets of workbooks, as the person who signed in."""

from collections.abc import Iterable, Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, one_page, parameters_of
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem

_WORKBOOK = "/drive/items/{workbook}/workbook"


def _rows(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    """Returns the used rows of a sheet as objects, keyed by the header row. Raises ItemFailed."""
    values = js.get_path(response, "values")
    rows = [row for row in values if isinstance(row, list)] if isinstance(values, list) else []
    if not rows or rows == [[""]]:
        return []
    names = [js.text(name) for name in rows[0]]
    if len(set(names)) < len(names):
        raise ItemFailed("Two columns of the sheet have the same name. Give each its own name.")
    return [dict(zip(names, row, strict=False)) for row in rows[1:]]


def _present_only(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.version < 2:
        message = "It reads a workbook in the way of an older version. Add the step again in n8n."
        yield StepProblem("error", "parameter", message)


def _range_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    yield from _present_only(node)
    if node.get("useRange"):
        message = "It reads a range of the sheet, and here all used cells are read. Switch the range off."
        yield StepProblem("error", "parameter", message)


_SHEET = f"{_WORKBOOK}/worksheets/{{worksheet}}"
_OPERATIONS = {
    "worksheet.readRows": get(
        f"{_SHEET}/usedRange", CallForm("useRange", (OptionTable("options"),)), to_items=_rows,
        check=_range_problems, makes=lambda fields: {},
    ),
    "worksheet.getAll": get_all(
        f"{_WORKBOOK}/worksheets", "value", one_page, limit=100, check=_present_only
    ),
}  # fmt: skip
_DEFAULTS = {"workbook": "getAll", "worksheet": "getAll", "table": "append"}


class MicrosoftExcelNode(HttpServiceNode):
    """Reads sheets; does not write or read tables."""

    types = ("microsoftExcel",)
    versions = (1, 2, 2.1, 2.2)
    service = "Microsoft Excel"
    address = "https://graph.microsoft.com/v1.0/me"
    credential_types = ("microsoftExcelOAuth2Api",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "workbook"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
