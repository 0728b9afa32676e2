"""The node quickChart: fetches the image of a chart from QuickChart, without an account."""

import json
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from steward.model.json import AnyJson, JsonObject
from steward.model.plan import StepKind
from steward.model.run import Counts
from steward.outbound.errors import CallError
from steward.outbound.response import PlatformResponse
from steward.steps.n8n import item_files
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.workflow.external_calls import as_item_failure, web_of
from steward.steps.workflow.items import Item
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.responses import run_data_in_read_problems
from steward.steps.workflow.step_types import (
    FieldUse,
    ItemFailed,
    NodeDefinition,
    NodeResult,
    StepCall,
    StepProblem,
    StepType,
    paired_with,
)

_ADDRESS: Final = "https://quickchart.io/chart"
_LONGEST_ADDRESS: Final = 8_000
_NAMES = "chartType labelsMode labelsUi labelsArray data output chartOptions datasetOptions"
_IMAGE = OptionTable("chartOptions", "backgroundColor devicePixelRatio format height horizontal width")
_DATASET = OptionTable("datasetOptions", "backgroundColor borderColor fill label pointStyle")


class QuickChartNode(StepType):
    """Makes the chart of one item and puts out its configuration with the image as a file."""

    types = ("quickChart",)
    kind = StepKind.READ
    field_use = FieldUse.REPLACES_ITEMS
    parameters = frozenset(_NAMES.split())
    choices = MappingProxyType(
        {
            "chartType": frozenset(("bar", "doughnut", "line", "pie", "polarArea")),
            "labelsMode": frozenset(("manually", "array")),
        }
    )

    def check(self, node: NodeDefinition) -> Iterable[StepProblem]:
        """Yields unknown options, and a warning that data of the run goes to QuickChart."""
        yield from _IMAGE.check(node)
        yield from _DATASET.check(node)
        yield from run_data_in_read_problems(node, *sorted(self.parameters))

    async def run(self, call: StepCall) -> NodeResult:
        """Fetches the image. Raises ItemFailed for several items, which n8n puts into one chart."""
        if len(call.items) > 1:
            raise ItemFailed("This step makes the chart of one item. Gather the values in one item before.")
        fields = ServiceFields(call.params(0), call.version, {})
        chart = _chart(fields)
        image = await _fetched(call, _address(fields, chart))
        kind = image.headers.get("content-type", "").partition(";")[0].strip().lower()
        name = f"chart.{fields.text('chartOptions.format') or 'png'}"
        file = await item_files.store(call, image.body, file_name=name, mime_type=kind or None)
        binary = {fields.text("output") or "data": file}
        return NodeResult([[Item({"chart": chart}, paired_with(0), binary=binary)]], counts=Counts(read=1))


def _chart(fields: ServiceFields) -> JsonObject:
    """Returns the chart's configuration in the form of Chart.js. Raises ItemFailed."""
    if fields.text("labelsMode", "manually") == "array":
        labels = _list_of(fields, "labelsArray", "Labels Array")
    else:
        labels = [row.value("label") for row in fields.rows("labelsUi.labelsValues")]
    options = {name: value for name, value in _DATASET.read(fields).items() if value != ""}
    dataset = {"data": _list_of(fields, "data", "Data"), **options}
    kind = fields.text("chartType", "bar")
    if kind == "bar" and fields.flag("chartOptions.horizontal"):
        kind = "horizontalBar"
    chart = js.to_json({"type": kind, "data": {"labels": labels, "datasets": [dataset]}})
    assert isinstance(chart, dict)
    return chart


def _list_of(fields: ServiceFields, name: str, label: str) -> list[AnyJson]:
    value = fields.json(name, label)
    if not isinstance(value, list):
        raise ItemFailed(f"“{label}” of this step must be a list. Write it as [1, 2, 3].")
    return value


def _address(fields: ServiceFields, chart: JsonObject) -> str:
    """Returns the address of the chart's image. Raises ItemFailed if it is too long."""
    options = {name: js.text(value) for name, value in _IMAGE.read(fields).items() if name != "horizontal"}
    query = {"chart": json.dumps(chart, ensure_ascii=False), **options}
    address = f"{_ADDRESS}?{urlencode({name: text for name, text in query.items() if text})}"
    if len(address) > _LONGEST_ADDRESS:
        raise ItemFailed("The chart has too many values for an address. Take fewer of them.")
    return address


async def _fetched(call: StepCall, address: str) -> PlatformResponse:
    """Returns the response with the image. Raises ItemFailed, CallError."""
    try:
        response = await web_of(call).read("GET", address, {"accept": "image/*, */*;q=0.5"})
    except CallError as error:
        raise as_item_failure(error) from error
    if not response.ok:
        raise ItemFailed(f"QuickChart answered with status {response.status}. Check the chart's values.")
    return response
