"""Tests the templates' records, and the check of their inputs, against the catalogue.

See docs/design/api/connections.md#templates and docs/design/templates.md#data-file.
"""

import copy
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from jsonschema import Draft202012Validator

import steward.templates
from steward.connectors import kinds_receiving, title_of
from steward.connectors.base.connector import Receivable
from steward.model.connection import Auth
from steward.model.ids import IntegrationId
from steward.model.plan import StepKind
from steward.model.schedule import Cadence
from steward.scheduling.shape import read_schedule
from steward.templates import ALL
from steward.templates.base import SetupContext, Template
from steward.templates.parts.inputs import DEFINITIONS, check
from tests.case_data import case_data
from tests.fake_clock import START
from tests.templates.stage import SHEET, SHOP, TEAMS, connection

BY_ID = {template.template_id: template for template in ALL}
EACH_TEMPLATE = pytest.mark.parametrize("template", ALL, ids=lambda template: template.template_id)
ALERT, PRICES, HIDE = (
    BY_ID[name] for name in ("low-stock-alert", "price-update-from-spreadsheet", "hide-out-of-stock-products")
)


CATALOGUE: dict[str, Any] = json.loads(case_data("templates.json").read_text("utf-8"))
RECORDS: dict[str, dict[str, Any]] = {record["template_id"]: record for record in CATALOGUE["templates"]}
# Only the tests of `EACH_TEMPLATE` apply to a template without a recorded record.
RECORDED = pytest.mark.parametrize("template_id", RECORDS)


def test_a_template_is_found_by_its_file_which_is_named_after_its_id() -> None:
    """The list of templates is the folder, in the order of the ids; each file is named after its id."""
    folder = Path(steward.templates.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "base"}
    assert [template.template_id.replace("-", "_") for template in ALL] == sorted(files)
    assert len(BY_ID) == len(ALL)


def test_every_record_of_the_catalogue_has_a_template() -> None:
    """Fails when a template that the catalogue records is missing."""
    assert RECORDS.keys() - BY_ID.keys() == set()


@EACH_TEMPLATE
def test_the_default_schedule_is_one_that_the_api_accepts(template: Template) -> None:
    """Reads the schedule that a form starts with as a request's; a person adds the day of a single run."""
    schedule = template.facts.default_schedule
    if schedule.cadence is Cadence.ONCE:
        schedule = replace(schedule, date=(START.date() + timedelta(days=1)).isoformat())
    assert read_schedule(schedule.to_wire(), zone=ZoneInfo("UTC"), now=START) == schedule


@RECORDED
def test_the_record_equals_the_catalogue_field_by_field(template_id: str) -> None:
    """Each field of the service's record equals that of data/templates.json."""
    record = RECORDS[template_id]
    wire = json.loads(json.dumps(BY_ID[template_id].facts.to_wire()))
    for name, value in wire.items():
        assert value == record[name], name
    assert set(record) - set(wire) == {"changes", "examples"}


@RECORDED
def test_the_change_rows_equal_the_catalogue(template_id: str) -> None:
    """The catalogue's change rows equal those of the template, except `reversible`.

    Whether a change is reversible follows from what is written: test_round_trips.py runs each template.
    See docs/design/templates.md#data-file.
    """
    rows = [
        {
            "step": row.step,
            "object": row.object,
            "action": row.action.value,
            "fields": [
                {"field": field.field, "label": field.label, "kind": field.kind.value} for field in row.fields
            ],
            "shown_beside": list(row.shown_beside),
        }
        for row in BY_ID[template_id].facts.changes
    ]
    recorded = RECORDS[template_id]["changes"]
    assert rows == [{name: row[name] for name in row if name != "reversible"} for row in recorded]


def test_the_shared_definitions_equal_the_catalogue() -> None:
    """The shared definitions of the input schemas equal those of the catalogue.

    See docs/design/templates.md#shared-definitions.
    """
    assert CATALOGUE["$defs"] == DEFINITIONS


@EACH_TEMPLATE
def test_schemas_are_valid_and_the_example_result_fits(template: Template) -> None:
    """Both schemas are valid JSON Schema 2020-12, and the example result fits its own.

    See docs/design/templates.md#data-file.
    """
    for schema in (template.facts.inputs_schema, template.facts.result_schema):
        Draft202012Validator.check_schema(schema)
    Draft202012Validator(template.facts.result_schema).validate(template.facts.example_result)


@RECORDED
def test_the_examples_pass_and_fail_as_the_catalogue_says(template_id: str) -> None:
    """Accepts the valid examples and finds errors in the invalid ones.

    See docs/design/templates.md#data-file.
    """
    template, examples = BY_ID[template_id], RECORDS[template_id]["examples"]
    for inputs in examples["valid"]:
        assert template.check_inputs(inputs).errors == {}, inputs
    for example in examples["invalid"]:
        assert template.check_inputs(example["inputs"]).errors, example["why"]


def test_every_inputs_schema_of_the_catalogue_can_be_checked() -> None:
    """Checks each catalogue schema, also the pattern that looks ahead, without error on its examples.

    See docs/design/templates.md#data-file.
    """
    for template_id, record in RECORDS.items():
        for inputs in record["examples"]["valid"]:
            assert check(record["inputs_schema"], inputs).errors == {}, template_id
        for example in record["examples"]["invalid"]:
            assert check(record["inputs_schema"], example["inputs"]).errors, example["why"]


@EACH_TEMPLATE
def test_every_step_has_a_function_and_the_plan_is_a_line(template: Template) -> None:
    """The steps are in the order read, decide, change and send, and form one line.

    See docs/design/api/connections.md#templates and docs/design/templates.md#rules.
    """
    plan = template.plan
    assert [step.name for step in plan.steps] == list(template.steps)
    assert len(plan.edges) == len(plan.steps) - 1
    order = [StepKind.READ, StepKind.DECIDE, StepKind.CHANGE, StepKind.SEND]
    ranks = [order.index(step.kind) for step in plan.steps]
    assert ranks == sorted(ranks)
    assert template.facts.changes_store is any(step.kind is StepKind.CHANGE for step in plan.steps)


@EACH_TEMPLATE
def test_the_record_is_json_without_anything_lost(template: Template) -> None:
    """The record survives a round trip through JSON. See docs/design/api/connections.md#templates."""
    wire = template.facts.to_wire()
    assert json.loads(json.dumps(wire, allow_nan=False)) == wire


# --- inputs

_ALERT = {"threshold": 5, "teams": {"integration_id": 13}}
_PRICES = {"sheet": {"integration_id": 12}, "sku_column": "SKU", "price_column": "Price"}


def test_defaults_are_filled_in_but_for_what_is_required() -> None:
    """Fills in the defaults of absent inputs, and reports the required ones as missing.

    See docs/design/templates.md#rules.
    """
    checked = PRICES.check_inputs(_PRICES)
    assert checked.inputs == {
        "sheet": {"integration_id": 12, "spreadsheet_id": None, "tab": None},
        "sku_column": "SKU",
        "price_column": "Price",
        "compare_at_column": None,
        "number_format": "auto",
        "max_change_percent": 30,
        "limit": 500,
    }
    assert set(PRICES.check_inputs({}).errors) == {
        "inputs.sheet",
        "inputs.sku_column",
        "inputs.price_column",
    }


def test_defaults_inside_a_given_object_are_filled_in_and_an_absent_one_stays_absent() -> None:
    """Fills in defaults within `products`, but leaves an absent `products` out.

    See docs/design/templates.md#rules.
    """
    assert "products" not in ALERT.check_inputs(_ALERT).inputs
    products = ALERT.check_inputs({**_ALERT, "products": {"tags_any": ["tea"]}}).inputs["products"]
    assert products == {"tags_any": ["tea"], "tags_none": [], "vendors": [], "types": []}


def test_filling_in_never_touches_what_was_sent_or_the_defaults() -> None:
    """Leaves the sent inputs and the template's defaults unchanged, so that automations share no list."""
    sent: dict[str, Any] = {}
    before = copy.deepcopy(sent)
    first = HIDE.check_inputs(sent).inputs
    assert sent == before
    assert isinstance(first["channels"], list)
    first["channels"].append("Till")
    assert HIDE.check_inputs({}).inputs["channels"] == ["Online Store"]


def test_a_whole_number_with_a_fraction_of_zero_is_that_number() -> None:
    """Reads 6.0 as the integer 6. See docs/design/api/conventions.md#requests."""
    threshold = ALERT.check_inputs({**_ALERT, "threshold": 6.0}).inputs["threshold"]
    assert (threshold, type(threshold)) == (6, int)


@pytest.mark.parametrize(
    ("template", "inputs", "path"),
    [
        (ALERT, {**_ALERT, "threshold": True}, "inputs.threshold"),
        (ALERT, {**_ALERT, "threshold": "5"}, "inputs.threshold"),
        (ALERT, {**_ALERT, "threshold": 100001}, "inputs.threshold"),
        (ALERT, {**_ALERT, "threshold": 5.5}, "inputs.threshold"),
        (ALERT, {**_ALERT, "colour": 1}, "inputs.colour"),
        (ALERT, {**_ALERT, "teams": {}}, "inputs.teams.integration_id"),
        (ALERT, {**_ALERT, "teams": {"integration_id": 13, "x": 1}}, "inputs.teams.x"),
        (ALERT, {**_ALERT, "teams": None}, "inputs.teams"),
        (ALERT, {**_ALERT, "products": {"all": False}}, "inputs.products.all"),
        (ALERT, {**_ALERT, "products": {"tags_any": ["a", "a"]}}, "inputs.products.tags_any"),
        (ALERT, {**_ALERT, "products": {"tags_any": ["a", "b,c"]}}, "inputs.products.tags_any.1"),
        (ALERT, [], "inputs"),
        (HIDE, {"marker": "hidden\n"}, "inputs.marker"),
        (HIDE, {"marker": "\u00a0hidden"}, "inputs.marker"),
        (HIDE, {"marker": " hidden"}, "inputs.marker"),
        (HIDE, {"marker": "a" * 256}, "inputs.marker"),
        (HIDE, {"limit": 5001}, "inputs.limit"),
        (HIDE, {"limit": 0}, "inputs.limit"),
        (HIDE, {"channels": ["x"] * 2}, "inputs.channels"),
        (PRICES, {**_PRICES, "compare_at_column": ""}, "inputs.compare_at_column"),
        (PRICES, {**_PRICES, "compare_at_column": 3}, "inputs.compare_at_column"),
        (PRICES, {**_PRICES, "number_format": "both"}, "inputs.number_format"),
        (PRICES, {**_PRICES, "max_change_percent": 0}, "inputs.max_change_percent"),
        (PRICES, {**_PRICES, "max_change_percent": 95.5}, "inputs.max_change_percent"),
    ],
)
def test_a_fault_is_named_by_its_path_in_words(template: Template, inputs: Any, path: str) -> None:
    """Names each error by its path in plain words, without a pattern.

    See docs/design/api/conventions.md#envelope and docs/design/templates.md#data-file.
    """
    errors = template.check_inputs(inputs).errors
    assert list(errors) == [path]
    [words] = errors[path]
    assert words.endswith((".", '".'))
    assert "regex" not in words
    assert "$" not in words


@pytest.mark.parametrize(
    ("template", "inputs"),
    [
        (ALERT, {**_ALERT, "threshold": 100000}),
        (HIDE, {"limit": 5000, "marker": "a" * 255}),
        (HIDE, {"limit": 1, "marker": "x y"}),
        (PRICES, {**_PRICES, "max_change_percent": 95}),
    ],
)
def test_the_limits_themselves_pass(template: Template, inputs: dict[str, Any]) -> None:
    """Accepts inputs at their limits. See docs/design/templates.md#shared-definitions."""
    assert template.check_inputs(inputs).errors == {}


def test_all_faults_are_named_at_once() -> None:
    """Names every error in one answer. See docs/design/api/conventions.md#order-of-refusals."""
    errors = ALERT.check_inputs({"threshold": -1, "only_new": 1, "shade": 0}).errors
    assert list(errors) == ["inputs.only_new", "inputs.shade", "inputs.teams", "inputs.threshold"]


def test_one_of_several_inputs_that_must_be_given_is_named_on_the_inputs() -> None:
    """Names the error on `inputs` when none of several alternative inputs is given.

    See docs/design/templates-catalogue.md#tag-orders-by-rule.
    """
    schema = RECORDS["tag-orders-by-rule"]["inputs_schema"]
    assert check(schema, {"tag": "big"}).errors == {
        "inputs": ["Give at least one of min_total, countries, discount_code, skus."]
    }


# --- connections


def _world(**changed: Any) -> SetupContext:
    kinds = (("spreadsheet", SHEET), ("teams", TEAMS), ("woocommerce", SHOP))
    results = {number: connection(kind, number, **changed.get(kind, {})) for kind, number in kinds}
    return SetupContext(changed.get("store", results[SHOP]), results)


def _faults(template: Template, inputs: dict[str, Any], world: SetupContext) -> dict[str, Any]:
    return dict(template.check_connections(template.check_inputs(inputs).inputs, world))


def test_the_connections_of_inputs_are_named_with_path_and_kind() -> None:
    """Returns path, number and kind of each connection that inputs name.

    See docs/design/templates.md#rules.
    """
    [named] = PRICES.connections_of(_PRICES)
    assert (named.path, named.integration_id, named.kind) == (
        "inputs.sheet.integration_id",
        12,
        "spreadsheet",
    )
    assert [named.path for named in ALERT.connections_of(_ALERT)] == ["inputs.teams.integration_id"]
    assert HIDE.connections_of({}) == ()


def test_a_good_connection_has_no_fault() -> None:
    """Finds no error with the right connections. See docs/design/templates.md#rules."""
    assert _faults(PRICES, _PRICES, _world()) == {}
    assert _faults(ALERT, _ALERT, _world()) == {}


@pytest.mark.parametrize("number", [99, int(TEAMS), int(SHOP)])
def test_a_connection_that_is_foreign_or_of_another_kind_is_refused_on_its_path(number: int) -> None:
    """Reports an unknown connection, or one of another kind, on its path.

    See docs/design/templates.md#rules.
    """
    inputs = {**_PRICES, "sheet": {"integration_id": number}}
    assert list(_faults(PRICES, inputs, _world())) == ["inputs.sheet.integration_id"]


@pytest.mark.parametrize(
    ("template", "inputs", "words"),
    [
        (
            ALERT,
            {**_ALERT, "teams": {"integration_id": int(SHEET)}},
            "This is a connection to Google Sheets. Needed here is a channel for messages",
        ),
        (
            PRICES,
            {**_PRICES, "sheet": {"integration_id": int(TEAMS)}},
            "This is a connection to Microsoft Teams. Needed here is a connection to Google Sheets.",
        ),
    ],
)
def test_a_connection_of_another_kind_is_refused_with_the_platforms_that_fit(
    template: Template, inputs: dict[str, Any], words: str
) -> None:
    """Names the connected platform and those to choose from; a channel may be of any that takes messages."""
    [[message]] = _faults(template, inputs, _world()).values()
    assert message.startswith(words)
    if template is ALERT:
        assert all(title_of(kind) in message for kind in kinds_receiving(Receivable.MESSAGE))


@pytest.mark.parametrize(
    ("auth", "version", "is_refused"),
    [
        (Auth.SERVICE_ACCOUNT, None, False),
        (Auth.SERVICE_ACCOUNT, "1AbC", False),
        (Auth.SERVICE_ACCOUNT, "other", True),
        (Auth.USER_SIGN_IN, None, True),
        (Auth.USER_SIGN_IN, "other", False),
    ],
)
def test_a_service_account_is_one_spreadsheet_and_a_sign_in_names_it(
    auth: Auth, version: str | None, is_refused: bool
) -> None:
    """Refuses another spreadsheet than the service account's, and a user sign-in that names none.

    See docs/design/templates.md#rules.
    """
    inputs = {**_PRICES, "sheet": {"integration_id": 12, "spreadsheet_id": version}}
    faults = _faults(PRICES, inputs, _world(spreadsheet={"auth": auth}))
    assert list(faults) == (["inputs.sheet.spreadsheet_id"] if is_refused else [])


@pytest.mark.parametrize(("channel", "is_refused"), [(None, False), ("stock", False), ("sales", True)])
def test_a_teams_connection_is_one_channel(channel: str | None, is_refused: bool) -> None:
    """Refuses another channel than the connection's. See docs/design/templates.md#rules."""
    inputs = {**_ALERT, "teams": {"integration_id": 13, "channel": channel}}
    assert list(_faults(ALERT, inputs, _world())) == (["inputs.teams.channel"] if is_refused else [])


def test_channels_are_judged_by_the_last_check_of_a_shopify_store_alone() -> None:
    """Refuses channels that the last check of a Shopify store did not list as active.

    Ignores them on WooCommerce. See docs/design/templates-catalogue.md#hide-out-of-stock-products.
    """
    facts = {"channels": [["1", "Online Store", True], ["2", "Till", False]]}
    store = connection("shopify", IntegrationId(20), facts=facts)
    assert _faults(HIDE, {}, _world(store=store)) == {}
    for gone in ("Market", "Till"):
        assert list(_faults(HIDE, {"channels": [gone]}, _world(store=store))) == ["inputs.channels"]
    assert _faults(HIDE, {"channels": ["Market"]}, _world()) == {}


@pytest.mark.parametrize("template", [ALERT, HIDE], ids=["alert", "hide"])
def test_a_filter_by_vendor_is_refused_where_products_have_none(template: Template) -> None:
    """Refuses a filter by vendor on WooCommerce, whose products have none.

    See docs/design/templates.md#data-file.
    """
    inputs = {**(_ALERT if template is ALERT else {}), "products": {"vendors": ["Ceylon"]}}
    assert list(_faults(template, inputs, _world())) == ["inputs.products.vendors"]
    facts = {"channels": [["1", "Online Store", True]]}
    store = connection("shopify", IntegrationId(20), facts=facts)
    assert _faults(template, inputs, _world(store=store)) == {}


# --- readiness


@pytest.mark.parametrize(
    ("template", "connected", "ready", "missing"),
    [
        (ALERT, {}, False, ("teams",)),
        (ALERT, {"teams": 1}, False, ()),
        (ALERT, {"woocommerce": 1}, False, ("teams",)),
        (ALERT, {"woocommerce": 1, "teams": 2}, True, ()),
        (PRICES, {"shopify": 1, "teams": 1}, False, ("spreadsheet",)),
        (HIDE, {"shopify": 1}, True, ()),
        (HIDE, {"cloud_s3": 1}, False, ()),
    ],
)
def test_readiness_names_what_is_missing_and_nothing_else(
    template: Template, connected: dict[str, int], ready: bool, missing: tuple[str, ...]
) -> None:
    """Lists the missing kinds of connections, not counting the store that the template runs on.

    See docs/design/api/connections.md#templates.
    """
    readiness = template.readiness(connected)
    assert (readiness.ready, readiness.missing) == (ready, missing)
