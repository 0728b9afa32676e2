"""The node quickChart: the address of a chart's image, the image as a file, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from steward.model.run import RunStatus
from tests.fake_clock import FakeClock
from tests.imports.exports import automated, chain, code, node
from tests.imports.responses.workflows import output_items
from tests.services.fakes import FakeService
from tests.services.running import findings_of, shop_beside

CHART = {
    "labelsMode": "array", "labelsArray": "={{ $json.names }}", "data": "={{ $json.stock }}",
    "output": "image", "chartOptions": {"width": 600, "horizontal": True, "backgroundColor": "#fff"},
    "datasetOptions": {"label": "Stock"},
}  # fmt: skip
SEE = "const [item] = $input.all(); return [{json: {...item.json, file: item.binary.image.fileName}}]"


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("stock", ["[3, 4]", "'[3, 4]'", "'many'"])
async def test_a_chart_becomes_a_file(
    database_url: str, clock: FakeClock, tmp_path: Path, stock: str
) -> None:
    """Fetches the image of the item's values, given as a list or as JSON, and fails for others."""
    api = FakeService("quickchart.io", lambda request: (200, "an image"))
    items = code("Items", f"return [{{json: {{names: ['Tea', 'Nuts'], stock: {stock}}}}}]")
    steps = chain(items, node("Chart", "quickChart", 1, CHART), code("See", SEE))
    async with shop_beside(database_url, clock, tmp_path, api) as shop:
        run = await shop.run_and_drain(await automated(shop, steps))
        if stock == "'many'":
            assert (run.status, api.seen) == (RunStatus.FAILED, [])
            assert "“Data”" in str(run.message)
            return
        assert run.status is RunStatus.SUCCEEDED, run
        [item] = await output_items(shop, run, "See")
    [asked] = api.seen
    chart = {
        "type": "horizontalBar",
        "data": {"labels": ["Tea", "Nuts"], "datasets": [{"data": [3, 4], "label": "Stock"}]},
    }
    assert json.loads(asked.query["chart"]) == chart
    assert {**asked.query, "chart": ""} == {"chart": "", "width": "600", "backgroundColor": "#fff"}
    assert item == {"chart": chart, "file": "chart.png"}


@pytest.mark.parametrize(
    ("parameters", "level", "words"),
    [
        (CHART, "warning", "a test run"),
        ({"chartOptions": {"version": 4}}, "error", "“version”"),
        ({"datasetOptions": {"hidden": True}}, "error", "“hidden”"),
        ({"chartType": "radar"}, "error", "“radar”"),
    ],
)
def test_an_import_says_what_a_chart_sends_and_lacks(
    parameters: dict[str, Any], level: str, words: str
) -> None:
    """Warns that values go to QuickChart in test runs too, and refuses options that are not known."""
    findings = findings_of("quickChart", 1, parameters)
    assert any(found == level and words in message for found, message in findings), findings
