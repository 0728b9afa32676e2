"""Tests that engines with one fault each are caught by the scenarios.

See docs/guides/contributors.md#tests.
"""

from collections.abc import Awaitable, Callable

import pytest

from tests.crash import scenarios
from tests.crash.wrong import (
    approval_without_hash,
    blind_retry,
    early_settling,
    finish_without_fence,
    new_key_per_attempt,
    no_intent,
    outcome_without_fence,
    promotion_without_condition,
)
from tests.runs.shop import Shop

Scene = Callable[[Shop], Awaitable[list[str]]]
Install = Callable[[pytest.MonkeyPatch], None]

SCENES: list[Scene] = [
    scenarios.killed_after_a_call,
    scenarios.killed_before_a_write,
    scenarios.late_call,
    scenarios.late_refusal,
    scenarios.late_end,
    scenarios.passed_over,
    scenarios.tampered,
]
WRONG: dict[str, tuple[Install, Scene]] = {
    "no intent before the call": (no_intent.install, scenarios.killed_after_a_call),
    "blind retry": (blind_retry.install, scenarios.killed_after_a_call),
    "a new key for each attempt": (new_key_per_attempt.install, scenarios.killed_before_a_write),
    "settling before settle_after": (early_settling.install, scenarios.late_call),
    "outcome without fence": (outcome_without_fence.install, scenarios.late_refusal),
    "finish without fence": (finish_without_fence.install, scenarios.late_end),
    "promotion without lane condition": (promotion_without_condition.install, scenarios.passed_over),
    "approval without hash": (approval_without_hash.install, scenarios.tampered),
}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
async def test_the_engine_passes_the_scene(shop: Shop, scene: Scene) -> None:
    """The right engine passes every scenario. See docs/guides/contributors.md#tests."""
    assert await scene(shop) == []


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_engine_is_caught(
    sqlite_shop: Shop, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each faulty engine fails at least one scenario. See docs/guides/contributors.md#tests."""
    install, scene = WRONG[name]
    install(monkeypatch)
    try:
        caught = await scene(sqlite_shop)
    except AssertionError as error:
        caught = [str(error)]
    assert caught != []
