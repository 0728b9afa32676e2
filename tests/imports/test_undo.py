"""Tests that runs of imported workflows can be undone, also after their automation was archived."""

from functools import partial

from steward.automations import lifecycle
from steward.automations.pauses import StateCommand
from steward.model.change import Outcome
from steward.model.run import RunStatus
from tests.imports.exports import automated, chain, code
from tests.imports.test_sheets import filled, rows_of, sheet
from tests.runs.shop import Shop
from tests.runs.undoing import approved, undo_now


async def test_cells_that_a_workflow_emptied_are_filled_again(shop: Shop) -> None:
    """The undo of cleared cells waits for approval and then fills the cells again."""
    bound = {"integration_id": shop.connections["spreadsheet"].integration_id}
    bindings = {"Sheet": bound | {"kind": "spreadsheet", "target": None}}
    filled(shop)
    before = rows_of(shop)
    step = sheet("clear", clear="specificRange", range="A3:B5")
    automation = await automated(shop, chain(code("Items", "return [{json: {}}]"), step), bindings=bindings)
    run = await approved(shop, await shop.waiting(automation))
    assert rows_of(shop) != before
    rules = shop.service.worker_context.automation_rules
    command = StateCommand(automation.id, automation.version)
    await shop.write(partial(lifecycle.archive, actor=shop.owner, command=command, rules=rules))
    undo_run = (await undo_now(shop, run)).run
    assert undo_run.plan_version is None
    await shop.drain()
    assert (await shop.run(undo_run)).status is RunStatus.WAITING_APPROVAL
    await shop.approve(undo_run)
    ended = await shop.until_settled(undo_run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    assert {change.outcome for change in await shop.changes(undo_run)} == {Outcome.APPLIED}
    assert rows_of(shop) == before
