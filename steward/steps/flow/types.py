"""The tasks a flow may be made of, by their id in files."""

from collections.abc import Mapping

from steward.steps.flow.kinds import FlowType

ALL: tuple[FlowType, ...] = ()
FLOW_TYPES: Mapping[str, FlowType] = {task: one for one in ALL for task in one.tasks}
