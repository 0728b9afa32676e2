"""The supported Shopify Flow task types, by their ids in exported files."""

from collections.abc import Mapping

from steward.steps.shopify_flow.actions import ACTIONS
from steward.steps.shopify_flow.admin_api import ADMIN_REQUEST
from steward.steps.shopify_flow.fetch import CUSTOMERS, ORDERS, PRODUCTS
from steward.steps.shopify_flow.http import HttpRequest
from steward.steps.shopify_flow.hydrate import ReadObjects
from steward.steps.shopify_flow.logic import Condition, Count, ForEach, RunCode, Sum, Wait
from steward.steps.shopify_flow.mail import SendEmail
from steward.steps.shopify_flow.task_types import FlowType

_ALL_TYPES: tuple[FlowType, ...] = (
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
FLOW_TYPES: Mapping[str, FlowType] = {task: task_type for task_type in _ALL_TYPES for task in task_type.tasks}
# also the reading steps, which exist only in a run's plan
RUN_TYPES: Mapping[str, FlowType] = {**FLOW_TYPES, **dict.fromkeys(ReadObjects.tasks, ReadObjects())}
