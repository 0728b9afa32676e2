"""Secrets that every account echoes in its errors appear neither in storage, in logs nor in answers."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from steward.api.operations import OPERATIONS
from steward.connections.health import ConnectionChecks, check_due
from steward.connections.vault import open_secrets
from steward.model.account import ROLE_SCOPES, Actor, CreatedVia, Role
from steward.model.automation import Automation
from steward.model.run import Run, RunStatus
from steward.telemetry.redact import forms
from tests.fake_clock import FakeClock
from tests.fakes.shopify.network import beside
from tests.fakes.shopify.store import ShopifyFake
from tests.people import Caller
from tests.populated_service import PopulatedService
from tests.runs.shop import Shop, connect_all, open_shop
from tests.service import Service, settle
from tests.templates.two_platforms import ConnectedService

ACCOUNTS = ("woocommerce", "shopify", "spreadsheet", "teams")


@pytest.fixture
async def populated(
    sqlite_url: str, clock: FakeClock, tmp_path: Path
) -> AsyncIterator[tuple[PopulatedService, ConnectedService]]:
    """Yields the API with its cast beside both stores, a sheet and a channel, with debug logs."""
    opened = await open_shop(sqlite_url, clock, tmp_path, STEWARD_LOG_LEVEL="debug")
    store, default = ShopifyFake(now=clock.now), type(opened.world).transport
    opened.world.transport = lambda: beside(default(opened.world), store)  # type: ignore[method-assign]
    await opened.restart()
    service = Service(opened.service.context, clock, lines=[], wake_hints=[])
    await service.write(lambda tx: settle(tx, service))
    owner = service.members["owner"]
    actor = Actor(owner.org, owner.person.id, ROLE_SCOPES[Role.OWNER], CreatedVia.UI, role=Role.OWNER)
    shop = Shop(opened.service, clock, opened.world, actor, opened.environ)
    await connect_all(shop)
    await shop.connect("shopify", store.settings())
    store.seed(products=7, orders=0, customers=0)
    whole = PopulatedService(service, shop)
    yield whole, ConnectedService(shop, store)
    await whole.close()


async def canaries(shop: Shop) -> set[str]:
    """Returns every secret of every account in the encodings in which it could be written."""
    secret_forms: set[str] = set()
    for kind in ACCOUNTS:
        load = partial(open_secrets, vault=shop.service.context.vault, connection=shop.connections[kind])
        for secret in (await shop.read(load)).sealed.values():
            value = secret.reveal()
            lines = [line for line in value.split("\n") if len(line) >= 8 and "-----" not in line]
            for text in (value, *lines[:2]):
                secret_forms |= {form for form in forms(text) if len(form) >= 8}
    assert len(secret_forms) > 2 * len(ACCOUNTS)
    return secret_forms


def failing(both: ConnectedService, stored: set[str]) -> None:
    """Lets every account refuse every call from now on, with its own keys in the response."""
    echo = " ".join(sorted(stored))[:3_000]
    body = {"code": "woocommerce_rest_cannot_view", "message": echo, "error": {"message": echo}}
    both.shop.fault("status", "*", "/**", status=400, body=body, count=-1)
    both.store.fault("status", status=400, body={"errors": echo}, count=-1)


async def test_when_every_account_responds_with_its_keys_none_is_kept_logged_or_returned(
    populated: tuple[PopulatedService, ConnectedService], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stores, logs and answers no secret that failing accounts echo.

    See docs/design/security.md#logs-and-redaction and docs/guides/contributors.md#tests.
    """
    whole, both = populated
    shop = whole.shop
    planted = await canaries(shop)
    automations: list[Automation] = [
        await both.set_up("hide-out-of-stock-products", {}, on=store) for store in ("woocommerce", "shopify")
    ]
    automations.append(await shop.pricing())
    automations.append(await shop.alerting())
    waiting = [await shop.run_and_drain(automation) for automation in automations[:2]]
    assert {run.status for run in waiting} == {RunStatus.WAITING_APPROVAL}
    failing(both, planted)
    for run in waiting:
        await shop.approve(run)
    ended: list[Run] = [await shop.until_settled(run) for run in waiting]
    ended += [
        await shop.until_settled(await shop.run_now(each_automation)) for each_automation in automations
    ]
    assert {run.status for run in ended} == {RunStatus.FAILED}
    ctx, answered = shop.service.worker_context, list[str]()
    await check_due(ConnectionChecks(ctx.engine, ctx.clock, ctx.vault, ctx.log))
    await shop.pass_time(hours=7)
    await check_due(ConnectionChecks(ctx.engine, ctx.clock, ctx.vault, ctx.log))
    for caller in (await whole.service.token("owner"), await whole.service.web("owner")):
        answered += [text async for text in told(caller, ended)]
    logged = capsys.readouterr().out
    stored = b"".join(file.read_bytes() for file in files(tmp_path))
    assert '"run"' in logged
    assert b"hide-out-of-stock-products" in stored
    for location, text in (("log", logged), ("answers", "\n".join(answered))):
        assert [one for one in planted if one in text] == [], location
    assert [one for one in planted if one.encode() in stored] == []


def files(folder: Path) -> list[Path]:
    """Returns the files of the database with their write-ahead logs."""
    paths = sorted(folder.rglob("*.db*"))
    assert paths
    return paths


async def told(caller: Caller, ended: list[Run]) -> AsyncIterator[str]:
    """Yields what every GET operation answers for each run and its automation and approval."""
    known_items = [
        {"run_id": run.id, "automation_id": run.automation_id, "approval_id": run.approval_id}
        for run in ended
    ]
    requests: set[str] = set()
    for operation in OPERATIONS:
        for names in known_items if operation.method == "GET" else ():
            path = operation.path.format_map(defaultdict(lambda: "none", names))
            if path not in requests:
                requests.add(path)
                response = await caller.get(path)
                assert response.status < 500, (path, response.body)
                yield json.dumps(response.body, ensure_ascii=False)
    assert len(requests) > 20
