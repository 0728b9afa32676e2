"""The node types imported workflows may be made of."""

from steward.steps.n8n.nodes.branches import Filter, If, Switch
from steward.steps.n8n.nodes.code import Code
from steward.steps.n8n.nodes.compare_datasets import CompareDatasets
from steward.steps.n8n.nodes.crypto import Crypto
from steward.steps.n8n.nodes.date_time import DateTime
from steward.steps.n8n.nodes.google_sheets import GoogleSheets
from steward.steps.n8n.nodes.graphql import GraphQl
from steward.steps.n8n.nodes.html_text import Html
from steward.steps.n8n.nodes.http_request import HttpRequest
from steward.steps.n8n.nodes.item_lists import ItemLists
from steward.steps.n8n.nodes.keys import RemoveDuplicates, RenameKeys
from steward.steps.n8n.nodes.lists import Aggregate, Limit, Sort, SplitOut
from steward.steps.n8n.nodes.loops import SplitInBatches
from steward.steps.n8n.nodes.markdown_text import Markdown
from steward.steps.n8n.nodes.merge import Merge
from steward.steps.n8n.nodes.microsoft_teams import MicrosoftTeams
from steward.steps.n8n.nodes.plain import NoOp, RespondToWebhook, StopAndError, Wait
from steward.steps.n8n.nodes.set_fields import SetFields
from steward.steps.n8n.nodes.stores import Shopify, WooCommerce
from steward.steps.n8n.nodes.subplan import ExecuteWorkflow
from steward.steps.n8n.nodes.summarize import Summarize
from steward.steps.n8n.nodes.xml_text import Xml
from steward.steps.workflow.step_types import StepType

ALL: list[StepType] = [
    SetFields(),
    If(),
    Filter(),
    Switch(),
    Merge(),
    SplitInBatches(),
    SplitOut(),
    Aggregate(),
    Sort(),
    Limit(),
    Summarize(),
    RenameKeys(),
    RemoveDuplicates(),
    CompareDatasets(),
    ItemLists(),
    Code(),
    NoOp(),
    RespondToWebhook(),
    StopAndError(),
    Wait(),
    DateTime(),
    Crypto(),
    Xml(),
    Html(),
    Markdown(),
    HttpRequest(),
    GraphQl(),
    GoogleSheets(),
    MicrosoftTeams(),
    WooCommerce(),
    Shopify(),
    ExecuteWorkflow(),
]
BY_TYPE: dict[str, StepType] = {name: one for one in ALL for name in one.types}
