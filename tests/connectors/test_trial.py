"""The trial on a real shop, run on the fake one: everything works and the shop is left unchanged."""

import asyncio
import copy
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from steward.clock import SystemClock
from steward.fake_platforms import serve
from steward.fake_platforms.application import FakePlatforms, create
from tests.trial import __main__ as tool
from tests.trial.signing import base_string, is_private


@pytest.fixture
async def served() -> AsyncIterator[FakePlatforms]:
    """Yields fake platforms on a socket."""
    bound = serve.listening("127.0.0.1", 0)
    world = create(1, serve.address(bound), SystemClock().now)
    ready = asyncio.Event()
    server = serve.server(world, ready.set, own_signals=False)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    await ready.wait()
    yield world
    server.should_exit = True
    await task
    bound.close()


def keys(world: FakePlatforms) -> tuple[str, str, str]:
    """Returns address, key and secret of the shop."""
    described = world.described()["woocommerce"]
    return described["url"], described["consumer_key"], described["consumer_secret"]


def everything(world: FakePlatforms) -> dict[str, Any]:
    """Returns a copy of all that the shop stores."""
    shop = world.state.shop
    names = ("products", "variations", "terms", "orders", "refunds", "customers", "webhooks")
    return {name: copy.deepcopy(getattr(shop, name)) for name in names}


async def test_everything_is_tried_and_put_back(
    served: FakePlatforms, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tries every read, change, webhook and delivery, prints no secret and restores the shop.

    See docs/design/connectors.md#tests.
    """
    before = everything(served)
    assert await tool.trial(*keys(served), None)
    out = capsys.readouterr().out
    assert "not tried" not in out
    assert out.splitlines()[-1].endswith("the shop is as it was found")
    assert everything(served) == before
    assert not any(secret in out for secret in keys(served)[1:])


async def test_an_interrupted_trial_puts_back_and_one_that_cannot_says_so(
    served: FakePlatforms, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Restores the shop after one and two interrupts, and lists what a refusing shop keeps."""
    before = everything(served)
    whole = tool.changes

    async def interrupted(*_: Any) -> None:
        await whole(*_)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    remove = tool.TrialObjects.remove

    async def twice(things: tool.TrialObjects) -> list[str]:
        os.kill(os.getpid(), signal.SIGINT)
        return await remove(things)

    monkeypatch.setattr(tool, "changes", interrupted)
    monkeypatch.setattr(tool.TrialObjects, "remove", twice)
    assert await tool.trial(*keys(served), None)
    out = capsys.readouterr().out
    assert "interrupted" in out
    assert "Still putting the shop back" in out
    assert everything(served) == before
    refuse = {
        "method": "DELETE",
        "path": "/wp-json/wc/v3/orders/**",
        "kind": "status",
        "status": 403,
        "count": -1,
    }
    served.state.faults.make(refuse)
    assert not await tool.trial(*keys(served), None)
    out = capsys.readouterr().out
    assert "LEFT IN THE SHOP: orders named steward-trial-" in out
    assert "LEFT IN THE SHOP: orders: 41 where there were 40" in out
    assert out.splitlines()[-1].endswith("not all could be put back")


async def test_plain_http_is_for_private_addresses_and_keys_must_be_let_in(served: FakePlatforms) -> None:
    """Refuses plain HTTP to public addresses, which would expose the keys, and keys that the shop refuses."""
    url, key, _ = keys(served)
    assert is_private(url)
    assert not is_private("http://93.184.215.14")
    with pytest.raises(SystemExit, match="private or loopback"):
        await tool.trial("http://93.184.215.14", "ck_x", "cs_x", None)
    with pytest.raises(SystemExit, match="on no way"):
        await tool.trial(url, key, "cs_wrong", None)


def test_the_signature_base_string_matches_the_standards_example() -> None:
    """Builds the signature base string of the example in RFC 5849 section 3.4.1.1."""
    query = [
        ("b5", "=%3D"), ("a3", "a"), ("c@", ""), ("a2", "r b"), ("c2", ""), ("a3", "2 q"),
        ("oauth_consumer_key", "9djdj82h48djs9d2"), ("oauth_token", "kkk9d7dh3k39sjv7"),
        ("oauth_signature_method", "HMAC-SHA1"), ("oauth_timestamp", "137131201"),
        ("oauth_nonce", "7d8f3e4a"),
    ]  # fmt: skip
    pairs = (
        "a2%3Dr%2520b%26a3%3D2%2520q%26a3%3Da%26b5%3D%253D%25253D%26c%2540%3D%26c2%3D%26"
        "oauth_consumer_key%3D9djdj82h48djs9d2%26oauth_nonce%3D7d8f3e4a%26oauth_signature_method%3DHMAC-"
        "SHA1%26oauth_timestamp%3D137131201%26oauth_token%3Dkkk9d7dh3k39sjv7"
    )
    expected = f"POST&http%3A%2F%2Fexample.com%2Frequest&{pairs}"
    assert base_string("POST", "http://example.com/request", query) == expected
