"""The web app's pages and files: their addresses, security policy and caching."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from steward.api.application import create
from steward.api.http.static_files import built
from steward.api.operations import OPERATIONS
from tests.service import BASE_URL, Service

SCRIPT = "console.log('steward');\n" * 100


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """Writes the files of a web app build and returns their folder."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>Steward</title>")
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "pages.json").write_text(json.dumps(["/", "/runs", "/runs/:id"]))
    (tmp_path / "assets/index-abc.js").write_text(SCRIPT)
    return tmp_path


@pytest.fixture
async def browser(service: Service, build: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Yields a client of the service that serves this build."""
    gate = create(service.context, pages=built(build, web_origin=BASE_URL))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=gate), base_url=BASE_URL) as client:
        yield client


async def test_an_address_of_a_page_returns_the_page_and_every_other_does_not(
    browser: httpx.AsyncClient,
) -> None:
    """Answers the page at its addresses, 404 at near misses, and 405 to a POST."""
    for path in ("/", "/runs", "/runs/01JD3Z0QH8N2Y5V7W9X1C4B6A8"):
        page = await browser.get(path)
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for path in (
        "/run",
        "/runs/",
        "/runs/a/b",
        "/pages.json",
        "/manifest.json",
        "/assets/../index.html",
        "/app",
    ):
        other = await browser.get(path)
        assert (other.status_code, other.json()["code"]) == (404, "not_found"), path
    refused = await browser.post("/runs", json={})
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_a_browser_that_opens_an_unknown_address_gets_the_app_with_404(
    browser: httpx.AsyncClient,
) -> None:
    """Answers the app with 404 to a browser at an unknown address; API addresses keep their JSON."""
    accept = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    page = await browser.get("/nothing", headers=accept)
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "<title>Steward</title>" in page.text
    refused = await browser.post("/nothing", headers=accept)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    unknown = await browser.get("/v1/automations/nothing/at/all", headers=accept)
    assert (unknown.status_code, unknown.headers["content-type"]) == (401, "application/json")
    login = await browser.get("/v2/api/automations/login", headers=accept)
    assert (login.status_code, login.headers["content-type"]) == (405, "application/json")


async def test_pages_are_never_cached_and_hashed_files_always(browser: httpx.AsyncClient) -> None:
    """Forbids storing pages, and lets browsers keep files with a hash in their name for a year."""
    page = await browser.get("/")
    assert page.headers["cache-control"] == "no-store"
    script = await browser.get("/assets/index-abc.js", headers={"Accept-Encoding": "gzip"})
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert (script.headers["content-encoding"], script.text) == ("gzip", SCRIPT)
    plain = await browser.get("/assets/index-abc.js", headers={"Accept-Encoding": "identity"})
    assert ("content-encoding" in plain.headers, plain.text) == (False, SCRIPT)


async def test_pages_carry_the_strict_policy(browser: httpx.AsyncClient) -> None:
    """Sends a policy without `unsafe` or foreign origins, and the isolating headers."""
    headers = (await browser.get("/")).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "no-referrer"
    assert "camera=()" in headers["permissions-policy"]
    assert "strict-transport-security" not in headers


async def test_pages_of_an_https_address_ask_browsers_to_keep_to_https(service: Service, build: Path) -> None:
    """Sends HSTS of one year when the public address is https."""
    gate = create(service.context, pages=built(build, web_origin="https://shop.example"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=gate), base_url=BASE_URL) as client:
        page = await client.get("/")
    assert page.headers["strict-transport-security"] == "max-age=31536000"


async def test_a_token_opens_no_page(service: Service, build: Path) -> None:
    """Answers 403 to a valid token on a page."""
    gate = create(service.context, pages=built(build, web_origin=BASE_URL))
    member = await service.token("member")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=gate), base_url=BASE_URL) as client:
        page = await client.get("/", headers={"Authorization": member.headers["Authorization"]})
    assert (page.status_code, page.json()["code"]) == (403, "forbidden")


def test_no_page_begins_like_an_operation(tmp_path: Path) -> None:
    """Uses no page address that begins like an API path."""
    listed = json.loads((Path(__file__).parents[2] / "web/src/pages.json").read_text("utf-8"))
    owned = {operation.path.split("/")[1] for operation in OPERATIONS} | {"v2", "openapi.json", "assets"}
    assert [address for address in listed.values() if address.split("/")[1] in owned] == []


def test_a_service_without_a_build_has_no_pages(tmp_path: Path) -> None:
    """Serves no pages when there is no build."""
    assert built(tmp_path, web_origin=BASE_URL) is None
