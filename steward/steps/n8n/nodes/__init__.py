"""The n8n node types available to imported workflows: each module here defines a `StepType`."""

import importlib
import pkgutil
from collections.abc import Iterator

from steward.steps.workflow.step_types import StepType


def _node_types() -> Iterator[StepType]:
    for module_info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for member in vars(module).values():
            is_own_class = isinstance(member, type) and member.__module__ == module.__name__
            if is_own_class and issubclass(member, StepType) and member.types:
                yield member()


BY_TYPE: dict[str, StepType] = {name: step_type for step_type in _node_types() for name in step_type.types}
