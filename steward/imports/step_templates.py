"""The expressions of a plan's steps, with the paths of their parameters."""

from collections.abc import Mapping
from typing import Any

from steward.model.plan import PlanStep
from steward.steps.workflow.execute import EXPRESSION
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.template import ParameterTemplate


def templates_of(step: PlanStep) -> list[tuple[str, ParameterTemplate]]:
    """Returns the expressions of a step, each with the path of its parameter."""
    templates: list[tuple[str, ParameterTemplate]] = []

    def visit(value: Any, path: str) -> None:
        if isinstance(value, Mapping):
            if value.keys() == EXPRESSION:
                templates.append((path, template.decode_template(value)))
                return
            for name, member in value.items():
                visit(member, f"{path}.{name}" if path else str(name))
        elif isinstance(value, list | tuple):
            for index, member in enumerate(value):
                visit(member, f"{path}.{index}")

    visit(step.config, "")
    return templates
