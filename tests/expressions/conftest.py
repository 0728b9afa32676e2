"""An evaluator with children of its own, and the plainest world."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.views import ExpressionContext, ExpressionVariables
from tests.expressions.cases import NOW
from tests.shared_sandbox import shared_sandbox


@pytest.fixture
def evaluator() -> Evaluator:
    """One run's evaluator."""
    return Evaluator(shared_sandbox(), "org", "run")


@pytest.fixture
def world() -> Callable[[Sequence[Any]], ExpressionContext]:
    """A world of some items and nothing else, in Berlin."""
    return lambda items: ExpressionContext(
        items=items, variables=ExpressionVariables(now=NOW, timezone="Europe/Berlin", seed=3)
    )
