"""The node bitly: short links, through a bound account."""

from steward.steps.n8n.calls.tables import CallForm, get, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable

_NEW = OptionTable("additionalFields", "title domain group:group_guid tags")
_CHANGES = OptionTable("updateFields", "longUrl:long_url title archived tags")
_OPERATIONS = {
    "link.create": send(
        "POST", "/bitlinks", CallForm("longUrl:long_url", (_NEW,)), needed="longUrl", recipient="longUrl"
    ),
    "link.get": get("/bitlinks/{id}"),
    "link.update": send("PATCH", "/bitlinks/{id}", CallForm(tables=(_CHANGES,))),
}
_DEFAULTS = {"link": "create"}


class BitlyNode(HttpServiceNode):
    """Creates, reads and changes short links."""

    types = ("bitly",)
    service = "Bitly"
    address = "https://api-ssl.bitly.com/v4"
    credential_types = ("bitlyApi", "bitlyOAuth2Api")
    parameters = parameters_of(_OPERATIONS)
    default_resource = "link"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
