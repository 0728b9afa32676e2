"""Tests the first run: a fresh service, `steward init`, the owner's set-up link, and a connected shop.

See docs/guides/operators.md#first-run.
"""

import asyncio
import base64
import io
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from steward.cli.run import run
from steward.database.engine.migrate import migrate
from steward.security.envelope import KEY_BYTES
from tests.processes.ports import free_port
from tests.processes.running import CLOCK, PASSWORD, start_forked
from tests.web.open_pages import look
from tests.web.site import WebSite

EMAIL = "owner@first.example"
NOBODY = "Nobody can sign in yet. On the machine that runs Steward: steward init"


@pytest.fixture
async def fresh(web: WebSite, tmp_path: Path) -> AsyncIterator[WebSite]:
    """Provides a served installation without an organization; the shared fake shop is beside it."""
    listen = f"127.0.0.1:{free_port()}"
    env = {
        **web.site.env,
        "STEWARD_DATABASE_URL": f"sqlite:///{tmp_path}/steward.db",
        "STEWARD_DATA_DIR": str(tmp_path),
        "STEWARD_MASTER_KEYS": f"local:{base64.b64encode(bytes(KEY_BYTES)).decode()}",
        "STEWARD_LISTEN": listen,
        "STEWARD_BASE_URL": f"http://{listen}",
    }
    await migrate(env["STEWARD_DATABASE_URL"], CLOCK.now())
    service = await start_forked("serve", env=env)
    yield WebSite(replace(web.site, env=env, service=service))
    assert await service.stop() == 0


async def init(site: WebSite) -> dict[str, Any]:
    """Runs `steward init` beside the service, with its settings, and returns what it printed."""
    options = ("--yes", "--org", "First Shop", "--timezone", "Europe/Berlin", "--email", EMAIL, "--json")
    out = io.StringIO()
    assert await asyncio.to_thread(run, ["init", *options], site.site.env, out=out, err=out) == 0, (
        out.getvalue()
    )
    facts: dict[str, Any] = json.loads(out.getvalue())
    return facts


async def _accept(page: Page) -> None:
    await page.get_by_label("First name").fill("Olga")
    await page.get_by_label("Last name").fill("Owner")
    await page.get_by_label("New password", exact=True).fill(PASSWORD)
    await page.get_by_label("New password again").fill(PASSWORD)
    await page.get_by_role("button", name="Accept and sign in").click()


async def test_from_a_fresh_service_to_a_connected_shop(browser: Browser, fresh: WebSite) -> None:
    """The sign-in page names `steward init`; by its link the owner chooses a password and connects a shop."""
    seen = await look(browser, fresh, None)
    page = seen.page
    await seen.open("/")
    await expect(page).to_have_url(re.compile(r"/sign-in(\?|$)"))
    await expect(page.get_by_role("status").filter(has_text="Nobody")).to_have_text(NOBODY)

    setup_url = (await init(fresh))["setup_url"]
    await page.goto(setup_url)
    await _accept(page)
    await expect(page.get_by_role("heading", name="Get started")).to_be_visible()
    await page.get_by_role("link", name="Connect your shop").click()
    await page.get_by_role("link", name="WooCommerce").click()
    shop = fresh.site.sandbox.facts["woocommerce"]
    await page.get_by_label("Name", exact=True).fill("My shop")
    await page.get_by_label("Address of the shop").fill(shop["url"])
    await page.get_by_label("Consumer key").fill(shop["consumer_key"])
    await page.get_by_label("Consumer secret", exact=True).fill(shop["consumer_secret"])
    await page.get_by_role("button", name="Check and connect").click()
    await expect(page.get_by_role("heading", name="My shop is connected")).to_be_visible()
    await page.get_by_role("link", name="Overview").click()
    await expect(page.get_by_role("listitem").filter(has_text="Connect your shop (done)")).to_be_visible()
    await seen.context.close()

    # The link works once, and the owner signs in with the password.
    again = await look(browser, fresh, None)
    await again.page.goto(setup_url)
    await _accept(again.page)
    await expect(again.page.get_by_text("This invitation has been used")).to_be_visible()
    await again.page.get_by_role("link", name="Sign in").click()
    await expect(again.page.get_by_role("heading", name="Sign in")).to_be_visible()
    await expect(again.page.get_by_text("Nobody can sign in yet")).to_have_count(0)
    await again.page.get_by_label("E-mail").fill(EMAIL)
    await again.page.get_by_label("Password", exact=True).fill(PASSWORD)
    await again.page.get_by_role("button", name="Sign in").click()
    await expect(again.page.get_by_role("heading", name="Overview")).to_be_visible()
    await again.context.close()
    assert seen.reports + again.reports == []
