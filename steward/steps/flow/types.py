"""The tasks a flow may be made of, by their id in files."""

from collections.abc import Mapping

from steward.steps.flow.actions import ACTIONS
from steward.steps.flow.admin_api import ADMIN_REQUEST
from steward.steps.flow.fetch import CUSTOMERS, ORDERS, PRODUCTS
from steward.steps.flow.http import HttpRequest
from steward.steps.flow.hydrate import ReadObjects
from steward.steps.flow.kinds import FlowType
from steward.steps.flow.logic import Condition, Count, ForEach, RunCode, Sum, Wait
from steward.steps.flow.mail import SendEmail

ALL: tuple[FlowType, ...] = (
    Condition(),
    ForEach(),
    Count(),
    Sum(),
    RunCode(),
    Wait(),
    HttpRequest(),
    SendEmail(),
    ORDERS,
    PRODUCTS,
    CUSTOMERS,
    *ACTIONS,
    ADMIN_REQUEST,
)
FLOW_TYPES: Mapping[str, FlowType] = {task: one for one in ALL for task in one.tasks}
# What a run has beside them: the steps that are put into its plan.
RUN_TYPES: Mapping[str, FlowType] = {**FLOW_TYPES, **dict.fromkeys(ReadObjects.tasks, ReadObjects())}
