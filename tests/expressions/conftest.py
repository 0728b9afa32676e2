"""Provides an evaluator, and contexts that hold only input items."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.views import ExpressionContext, ExpressionVariables
from tests.expressions.cases import NOW
from tests.shared_sandbox import shared_sandbox


@pytest.fixture
def evaluator() -> Evaluator:
    """Provides the evaluator of one run."""
    return Evaluator(shared_sandbox(), "org", "run")


@pytest.fixture
def context_of() -> Callable[[Sequence[Any]], ExpressionContext]:
    """Provides a function that returns a context with these items and nothing else, in Berlin's time zone."""
    return lambda items: ExpressionContext(
        items=items, variables=ExpressionVariables(now=NOW, timezone="Europe/Berlin", seed=3)
    )
