"""An evaluator with children of its own, and the plainest world."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from steward.sandbox.pool import SandboxPool
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.views import ExpressionContext, ExpressionVariables
from tests.expressions.cases import NOW


@pytest.fixture
async def evaluator() -> AsyncIterator[Evaluator]:
    """One run's evaluator; its children end with the test."""
    children = SandboxPool(2)
    try:
        yield Evaluator(children, "org", "run")
    finally:
        await children.close()


@pytest.fixture
def world() -> Callable[[Sequence[Any]], ExpressionContext]:
    """A world of some items and nothing else, in Berlin."""
    return lambda items: ExpressionContext(
        items=items, variables=ExpressionVariables(now=NOW, timezone="Europe/Berlin", seed=3)
    )
