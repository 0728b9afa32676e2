"""The node types imported workflows may be made of."""

from steward.steps.branches import Filter, If, Switch
from steward.steps.code import Code
from steward.steps.compare_datasets import CompareDatasets
from steward.steps.crypto import Crypto
from steward.steps.date_time import DateTime
from steward.steps.google_sheets import GoogleSheets
from steward.steps.graphql import GraphQl
from steward.steps.html_text import Html
from steward.steps.http_request import HttpRequest
from steward.steps.item_lists import ItemLists
from steward.steps.keys import RemoveDuplicates, RenameKeys
from steward.steps.kinds import StepType
from steward.steps.lists import Aggregate, Limit, Sort, SplitOut
from steward.steps.loops import SplitInBatches
from steward.steps.markdown_text import Markdown
from steward.steps.merge import Merge
from steward.steps.microsoft_teams import MicrosoftTeams
from steward.steps.plain import NoOp, RespondToWebhook, StopAndError, Wait
from steward.steps.set_fields import SetFields
from steward.steps.stores import Shopify, WooCommerce
from steward.steps.subplan import ExecuteWorkflow
from steward.steps.summarize import Summarize
from steward.steps.xml_text import Xml

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
