"""A sample of what a template would select, requested before the automation exists.

See docs/design/api/automations.md#sample.
"""

from typing import Any

import pytest

from steward.model.run import Mode
from tests.people import Caller
from tests.populated_service import PopulatedService, populated
from tests.templates.full_store import BY_ID, INPUTS
from tests.templates.stage import SHEET, TEAMS

__all__ = ["populated"]  # a fixture

SAMPLE = "/app/automations/sample"
# These need a second store, an automation that began a sale, or a bucket.
ELSEWHERE = ("sync-stock-between-stores", "sale-end", "supplier-feed-import")


@pytest.fixture
async def member(populated: PopulatedService) -> Caller:
    """Returns a member's web session."""
    return await populated.service.web("member")


def hiding(populated: PopulatedService, **changes: Any) -> dict[str, Any]:
    """Returns the body of an automation that hides sold-out products."""
    return {
        "template_id": "hide-out-of-stock-products",
        "name": "Hide",
        "inputs": {"limit": 5000},
        "schedule": {"cadence": "manual"},
        "integration_id": populated.number("woocommerce"),
        **changes,
    }


async def test_it_shows_what_a_test_run_would_and_writes_nothing(
    populated: PopulatedService, member: Caller
) -> None:
    """Answers the same numbers as a test run with examples, and creates and writes nothing."""
    writes = populated.shop.world.state.ledger.writes()
    response = await member.post(SAMPLE, hiding(populated))
    assert response.status == 200, response.body
    assert populated.shop.world.state.ledger.writes() == writes
    assert (await member.get("/v1/automations")).data["automations"] == []
    trial = await populated.shop.run_now(await populated.shop.hiding(limit=5000), Mode.TEST)
    await populated.shop.until_settled(trial)
    summary: Any = (await populated.shop.run(trial)).summary
    assert response.data["complete"]
    assert response.data["changes"] == summary["counts"]["proposed"] > 0
    assert (response.data["checked"], response.data["matched"]) == (
        summary["counts"]["read"],
        summary["counts"]["matched"],
    )
    assert response.data["noun"] == "product"
    assert 0 < len(response.data["objects"]) <= 5


async def test_a_large_shop_is_looked_at_in_part(populated: PopulatedService, member: Caller) -> None:
    """Reads at most 500 objects of a large shop and marks the sample as incomplete."""
    populated.shop.world.load_products(700)
    data = (await member.post(SAMPLE, hiding(populated))).data
    assert (data["complete"], data["checked"]) == (False, 500)
    pages = [
        entry
        for entry in populated.shop.world.state.ledger.entries(reads=True)
        if entry.request.path.endswith("/products")
    ]
    assert len(pages) <= 6


async def test_wrong_inputs_stand_at_their_fields(populated: PopulatedService, member: Caller) -> None:
    """Refuses invalid inputs under their fields, as a create does."""
    body = hiding(populated, template_id="tag-products-by-rule", inputs={"tag": "sale", "when": "new"})
    refused = await member.post(SAMPLE, body)
    assert refused.status == 422
    assert any(path.startswith("inputs") for path in refused.errors)


async def test_a_shop_that_refuses_or_fails_is_reported_in_plain_words(
    populated: PopulatedService, member: Caller
) -> None:
    """Answers `not_connected` when the shop refuses the keys."""
    populated.shop.world.state.shop.keys.clear()
    refused = await member.post(SAMPLE, hiding(populated))
    assert (refused.status, refused.code) == (422, "not_connected")


async def test_every_template_on_a_shop_is_sampled_without_a_write(
    populated: PopulatedService, member: Caller
) -> None:
    """Samples every template on a shop without a write; answers steps, or words on why there are none."""
    numbers = {int(TEAMS): populated.number("teams"), int(SHEET): populated.number("spreadsheet")}

    def with_own_connections(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: numbers[item] if name == "integration_id" else with_own_connections(item)
                for name, item in value.items()
            }
        return value

    writes = populated.shop.world.state.ledger.writes()
    sampled = 0
    for name, inputs in INPUTS.items():
        facts = BY_ID[name].facts
        if "woocommerce" not in facts.platforms or name in ELSEWHERE:
            continue
        response = await member.post(
            SAMPLE, hiding(populated, template_id=name, inputs=with_own_connections(inputs))
        )
        assert response.status == 200, (name, response.body)
        data = response.data
        assert data["steps"] or data["message"], name
        assert (data["changes"] is not None) == facts.changes_store or data["message"], name
        sampled += 1
    assert sampled >= 12
    assert populated.shop.world.state.ledger.writes() == writes
