"""Tests what screens show while the service fails, does not answer, or comes back, and that nothing is lost.

See docs/design/web.md#rules-for-every-screen.
"""

import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import islice
from typing import Any

from playwright.async_api import Locator, Page, Route, expect

from tests.processes.running import eventually
from tests.web.conftest import Look
from tests.web.open_pages import LONG
from tests.web.shops import hiding
from tests.web.site import WebSite

Responder = Callable[[Route], Awaitable[None]]
# The service's calls, except the one that says who is signed in.
CALLS = re.compile(r"/(app|v1)/(?!session$)")
# The page may ask by itself just before: then there is no button any more.
TRY_NOW = """() => [...document.querySelectorAll('[role=alert] button')]
    .find((one) => one.textContent.includes('Try now'))?.click()"""
FAULT = "The service could not answer this request."


async def _respond_500(route: Route) -> None:
    body = {"success": False, "contract_version": 1, "code": "internal", "message": FAULT}
    await route.fulfill(
        status=500,
        body=json.dumps(body),
        headers={"x-request-id": "request-1"},
        content_type="application/json",
    )


async def _refuse(route: Route) -> None:
    await route.abort("connectionrefused")


class _WithheldResponses:
    """Leaves calls without a response until `answering` is set; those that the page gave up stay so.

    Removing the route instead would send the calls that it holds.
    """

    def __init__(self) -> None:
        self.answering = False
        self.held: list[Route] = []

    async def __call__(self, route: Route) -> None:
        """Sends the call on, or holds it permanently."""
        if self.answering:
            await route.continue_()
        else:
            self.held.append(route)


async def _go(page: Page, path: str) -> None:
    """Goes to another screen of the open page, which keeps the code it has loaded."""
    go = "(path) => { history.pushState({}, '', path); dispatchEvent(new PopStateEvent('popstate')); }"
    await page.evaluate(go, path)


async def _pass_minutes(page: Page, loaded: Locator) -> None:
    """Sets the page's clock forward by minutes until `loaded` is visible.

    A call whose 429 arrives after the clock was set forward waits one more minute.
    """

    async def is_loaded() -> bool:
        await page.clock.fast_forward(61_000)
        with suppress(AssertionError):
            await expect(loaded).to_be_visible(timeout=3_000)
            return True
        return False

    await eventually(is_loaded)


async def _run_clock(page: Page, step_ms: int, shown: Locator) -> None:
    """Lets the page's clock run, `step_ms` at a time, until `shown` is visible."""

    async def is_shown() -> bool:
        if await shown.first.is_visible():
            return True
        await page.clock.run_for(step_ms)
        return False

    await eventually(is_shown)


async def _screens(web: WebSite) -> dict[str, str]:
    """Creates a waiting run after two test runs; returns screens and what each shows once it is loaded."""
    automation = await hiding(web, "Comes back", ["Came back"])
    await web.run(automation["id"], "before-it", mode="test")
    test = await web.run(automation["id"], "compared", mode="test")
    run = await web.run(automation["id"], "comes-back")
    return {
        f"/approvals/{run['approval_id']}": "Approve 1 change",
        f"/approvals/review?automation={automation['id']}": "Approve 1 change",
        f"/runs/{run['id']}?tab=changes": "Came back",
        f"/runs/{test['id']}?tab=compare": "1 change in both.",
        "/automations/new/tag-products-by-rule/where": "Which store does it run on?",
    }


# Screens of lists; the words are of what the tests always have. The first three with each commit,
# all in the long run.
LISTS = {
    "/": "Last 7 days",
    "/runs": "Comes back",
    "/approvals": "Comes back",
    "/automations": "Comes back",
    "/connections": "Last good contact",
    "/people": "visitor@shop.example",
    "/organization/closed-times": "Open now.",
    "/account/notifications": "Quiet hours",
}


async def test_screens_that_failed_fill_once_the_service_is_back(open_page: Look, web: WebSite) -> None:
    """Each screen says that the service cannot be reached, and loads when it is back, without a click."""
    screens = await _screens(web)
    seen = await open_page("approver")
    page = seen.page
    for path, words in screens.items():
        await page.route(CALLS, _refuse)
        await seen.open(path)
        main = page.get_by_role("main")
        await expect(main.get_by_text("The service cannot be reached.").first).to_be_visible()
        await page.unroute(CALLS)
        await page.evaluate(TRY_NOW)
        await expect(page.get_by_text("Trying again in")).to_be_hidden()
        await expect(main.get_by_text(words).first).to_be_visible()
        await expect(main.get_by_text("The service cannot be reached.")).to_have_count(0)


async def test_screens_continue_after_a_sign_in_and_after_too_many_requests(
    open_page: Look, web: WebSite
) -> None:
    """Screens ask to sign in again (401), then say how long they wait (429), and load by themselves.

    These are the screens of records, and the overview, runs and approvals; in the long run all lists.
    """
    screens = await _screens(web) | dict(islice(LISTS.items(), None if LONG else 3))
    seen = await open_page("approver")
    page = seen.page
    await page.clock.install()
    await seen.open("/account")
    slow = page.get_by_role("status").filter(has_text="Too many requests in a short time.")
    dialog = page.get_by_role("dialog", name="Sign in again")
    session = await (await page.request.get(f"{seen.origin}/app/session")).json()

    async def sign_in(route: Route) -> None:
        await route.fulfill(body=json.dumps(session), content_type="application/json")

    for path, words in screens.items():
        await page.route(CALLS, _respond_401)
        await _go(page, path)
        await expect(dialog).to_be_visible()
        await page.unroute(CALLS)
        await page.route(CALLS, _respond_429)
        # As many sign-ins as there are screens would be too many for the service.
        await page.route("**/app/session", sign_in)
        await dialog.get_by_label("Password", exact=True).fill("the password")
        await dialog.get_by_role("button", name="Sign in").click()
        await expect(dialog).to_be_hidden()
        await page.unroute("**/app/session")
        await expect(slow).to_contain_text("Loading continues automatically within 60 s.")
        await page.unroute(CALLS)
        await _pass_minutes(page, page.get_by_role("main").get_by_text(words).filter(visible=True).first)
        await expect(slow).to_have_count(0)


async def test_try_again_gives_up_a_call_without_a_response(open_page: Look, web: WebSite) -> None:
    """After five seconds without a response, Try again sends the call again and the screen fills."""
    automation = await hiding(web, "Hangs", ["Hung"])
    run = await web.run(automation["id"], "hangs")
    seen = await open_page("approver")
    page = seen.page
    await page.clock.install()
    await seen.open("/account")
    main = page.get_by_role("main")
    for path, words in (
        (f"/automations/{automation['id']}/versions", "made from version 1 of its template"),
        (f"/runs/{run['id']}", "Review 1 change"),
        ("/calendar?view=list", "Today"),
    ):
        calls = _WithheldResponses()
        await page.route(CALLS, calls)
        await _go(page, path)
        again = main.get_by_role("button", name="Try again")
        await expect(main.get_by_label("Loading").first).to_be_visible()
        # Bars, then words: each timer begins when the one before has ended, and those of a screen once its
        # code is there.
        await _run_clock(page, 6000, again)
        await expect(again).to_have_count(1)
        assert calls.held
        calls.answering = True
        await again.click()
        await expect(main.get_by_text(words).first).to_be_visible()
        await expect(main.get_by_label("Loading")).to_have_count(0)
        await page.unroute(CALLS)


async def test_a_session_without_a_response_can_be_asked_for_again(open_page: Look) -> None:
    """If the service does not say who is signed in, the page offers to ask again instead of staying empty."""
    seen = await open_page("member")
    page = seen.page
    await page.clock.install()
    calls = _WithheldResponses()
    await page.route("**/app/session", calls)
    await page.goto(f"{seen.origin}/account")
    await expect(page.get_by_label("Loading")).to_be_attached()
    await page.clock.run_for(6000)
    again = page.get_by_role("button", name="Try again")
    await expect(again).to_be_visible()
    assert calls.held
    calls.answering = True
    await again.click()
    await expect(page.get_by_role("heading", name="Account")).to_be_visible()


async def test_a_failing_service_keeps_what_was_typed_and_says_what_to_do(
    open_page: Look, web: WebSite
) -> None:
    """A refused save shows the message with the request's id; what was typed is saved by the next try."""
    automation = await web.automation("Fails to be saved")
    seen = await open_page("member")
    page = seen.page
    await page.clock.install()
    await seen.open(f"/automations/{automation['id']}/schedule")
    time = page.get_by_label("Time", exact=True)
    await time.fill("07:35")
    await time.blur()
    save = page.get_by_role("button", name="Save changes")
    path = f"**/v1/automations/{automation['id']}"
    responders: list[tuple[Responder, str]] = [
        (_respond_500, FAULT),
        (_refuse, "The service cannot be reached."),
        (_respond_429, "Wait a moment."),
    ]
    for respond, words in responders:
        await page.route(path, respond)
        await save.click()
        await expect(page.get_by_role("main").get_by_text(words).first).to_be_visible()
        await expect(time).to_have_value("07:35")
        await page.unroute(path)
        if respond is _refuse:
            await page.evaluate(TRY_NOW)
            await expect(page.get_by_text("Trying again in")).to_be_hidden()
        if respond is _respond_500:
            await page.get_by_text("Details").click()
            await expect(page.get_by_text("request-1")).to_be_visible()
    await expect(save).to_contain_text(" s)")
    await page.clock.run_for(61_000)
    await expect(save).not_to_have_attribute("aria-disabled", "true")
    await save.click()
    await expect(save).to_have_count(0)
    owner = await web.session_of("owner")
    stored: dict[str, Any] = (await owner.call("GET", f"/v1/automations/{automation['id']}"))["automation"]
    assert stored["schedule"]["run_at"] == "07:35"


async def _respond_401(route: Route) -> None:
    body = {"success": False, "contract_version": 1, "code": "unauthenticated", "message": "Sign in."}
    await route.fulfill(status=401, body=json.dumps(body), content_type="application/json")


async def test_a_page_older_than_the_service_says_so_and_keeps_what_was_typed(open_page: Look) -> None:
    """Code that is missing for a moment is fetched again; code that is gone leads to Load again.

    See docs/design/web.md#rules-for-every-screen.
    """
    seen = await open_page("member")
    page = seen.page
    await page.clock.install()
    await seen.open("/account")
    heading = page.get_by_role("heading", name="People")
    updated = page.get_by_role("alert").filter(has_text="Steward was updated")
    attempts: list[str] = []

    async def missing(route: Route) -> None:
        attempts.append(route.request.url)
        await route.fulfill(status=404)

    await page.route("**/assets/People-*.js", missing, times=1)
    await _go(page, "/people")
    await _run_clock(page, 2500, heading)
    assert len(attempts) == 1
    await expect(updated).to_have_count(0)

    await _go(page, "/account")
    await page.get_by_label("Current password").fill("typed")
    await page.route("**/assets/Palette-*.js", missing)

    async def is_outdated() -> bool:
        # A call whose limit passes on the page's clock before its response arrives is an outage, which ends
        # the search.
        await page.keyboard.press("Control+k")
        await page.clock.run_for(2500)
        return await updated.is_visible()

    await eventually(is_outdated)
    await expect(page.get_by_label("Current password")).to_have_value("typed")
    assert await seen.audit() == []
    seen.reports.clear()  # the browser reports what it could not fetch
    await updated.get_by_role("button", name="Load again").click()
    await expect(updated).to_have_count(0)
    await expect(page.get_by_label("Current password")).to_have_value("")


async def _respond_429(route: Route) -> None:
    body = {"success": False, "contract_version": 1, "code": "rate_limited", "message": "Wait a moment."}
    await route.fulfill(
        status=429, body=json.dumps(body), headers={"retry-after": "60"}, content_type="application/json"
    )
