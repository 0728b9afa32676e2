"""Two releases side by side: a run that this one cannot walk is left to a worker that may know its plan.

See docs/design/storage.md#two-releases.
"""

import json
from functools import partial
from typing import Any, cast

import pytest

from steward.database.automations import plans
from steward.database.engine.base import Tx
from steward.database.runs import workers
from steward.model.automation import Automation
from steward.model.ids import WorkerId
from steward.model.run import RunStatus
from steward.runs.claim import OTHER_RELEASE_PAUSE
from steward.version import __version__
from tests.imports.exports import automated, chain, node
from tests.runs.shop import Shop

# Two releases run side by side only on PostgreSQL: one process at a time serves an SQLite file, and its start
# ends the leases of all others.
beside_another = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


async def other_worker(shop: Shop, release: str) -> WorkerId:
    """Registers a worker of a release, as a process on another host does."""
    register = partial(
        workers.register, name="other.example|1|1|", version=release, slots=1, lease_ms=3_600_000
    )
    return await shop.write(register)


def templates(shop: Shop) -> dict[str, Any]:
    """Returns the templates of this process, which a test may change."""
    return cast("dict[str, Any]", shop.service.worker_context.automation_rules.templates)


@beside_another
async def test_a_run_of_an_unknown_template_is_left_to_the_other_release(shop: Shop) -> None:
    """It sleeps for a moment each time this release claims it, and goes on where the template is known."""
    automation = await shop.hiding()
    await other_worker(shop, "next")
    run = await shop.run_now(automation)
    template = templates(shop).pop(automation.template_id)
    for _ in range(2):
        await shop.drain()
        assert (await shop.run(run)).status is RunStatus.RUNNING
        [row] = await shop.read(partial(_sleeping, org=shop.owner.org))
        assert row["wake_at"] <= (shop.clock.now() + OTHER_RELEASE_PAUSE).timestamp() * 1000
        await shop.clock.advance(OTHER_RELEASE_PAUSE.total_seconds())
    templates(shop)[automation.template_id] = template
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.WAITING_APPROVAL


@pytest.mark.parametrize("is_alive", [False, True])
async def test_without_another_release_a_run_of_an_unknown_template_is_refused(
    shop: Shop, *, is_alive: bool
) -> None:
    """Refuses the run if the other worker has no lease, or is of this release."""
    automation = await shop.hiding()
    other = await other_worker(shop, __version__ if is_alive else "next")
    if not is_alive:
        await shop.write(partial(workers.expire_now, worker=other))
    run = await shop.run_now(automation)
    templates(shop).clear()
    await shop.drain()
    ended = await shop.run(run)
    assert (ended.status, ended.code) == (RunStatus.REFUSED, "not_ready")


@beside_another
async def test_a_cancelled_run_that_is_left_to_the_other_release_sleeps_too(shop: Shop) -> None:
    """Pauses it too, because both releases would otherwise claim it again and again."""
    automation = await shop.hiding()
    await other_worker(shop, "next")
    run = await shop.run_now(automation)
    template = templates(shop).pop(automation.template_id)
    await shop.drain()
    await shop.cancel(run)
    await shop.drain()
    assert len(await shop.read(partial(_sleeping, org=shop.owner.org))) == 1
    templates(shop)[automation.template_id] = template
    await shop.pass_time(seconds=OTHER_RELEASE_PAUSE.total_seconds())
    assert (await shop.run(run)).status is RunStatus.CANCELLED


async def _with_unknown_step_type(shop: Shop) -> Automation:
    """Returns an automation whose plan holds a step type that this release does not know."""
    automation = await automated(shop, chain(node("Pass", "noOp", 1, {})))
    stored = await shop.read(partial(plans.newest, org=shop.owner.org, automation=automation.id))
    assert stored is not None
    plan: dict[str, Any] = json.loads(json.dumps(stored.plan))
    plan["steps"][-1]["source_type"] = "n8n-nodes-base.ofTheNextRelease"
    assert await shop.tamper("DELETE FROM plans WHERE org_id = :org") == 1
    newer = partial(plans.insert, org=shop.owner.org, automation=automation.id, version=1, sha256="0" * 64)
    await shop.write(partial(newer, stored_plan=plans.StoredPlan(plan, stored.bindings)))
    return automation


@beside_another
async def test_a_run_of_an_unknown_step_type_is_left_to_the_other_release(shop: Shop) -> None:
    """The run waits while a worker of that release is alive, and fails once none is."""
    automation = await _with_unknown_step_type(shop)
    other = await other_worker(shop, "next")
    run = await shop.run_now(automation)
    await shop.drain()
    assert len(await shop.read(partial(_sleeping, org=shop.owner.org))) == 1
    await shop.write(partial(workers.expire_now, worker=other))
    await shop.pass_time(seconds=OTHER_RELEASE_PAUSE.total_seconds())
    assert (await shop.run(run)).status is RunStatus.FAILED


async def test_without_another_release_a_run_of_an_unknown_step_type_fails(shop: Shop) -> None:
    """Fails the run, because no worker of another release is alive."""
    run = await shop.run_now(await _with_unknown_step_type(shop))
    await shop.drain()
    assert (await shop.run(run)).status is RunStatus.FAILED


async def _sleeping(tx: Tx, *, org: int) -> list[Any]:
    return list(
        await tx.all("SELECT wake_at FROM runs WHERE org_id = :org AND queue = 'sleeping'", {"org": org})
    )
