"""The node zoom: meetings, through a bound account."""

from steward.steps.n8n.calls.tables import CallForm, get, get_all, parameters_of, send, success, token_pages
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable

_FIELDS = "agenda duration password type"
_NEW = OptionTable("additionalFields", _FIELDS)
_CHANGES = OptionTable("updateFields", f"{_FIELDS} topic")
_FILTERS = OptionTable("filters", "type")
_OPERATIONS = {
    "meeting.create": send(
        "POST", "/users/me/meetings", CallForm("topic", (_NEW,)), recipient="topic", text="topic"
    ),
    "meeting.get": get("/meetings/{meetingId}"),
    "meeting.getAll": get_all(
        "/users/me/meetings", "meetings", token_pages("next_page_token", "next_page_token"),
        CallForm(tables=(_FILTERS,), fixed={"page_size": 100}), limit=30,
    ),
    "meeting.update": send(
        "PATCH", "/meetings/{meetingId}", CallForm(tables=(_CHANGES,)), to_items=success
    ),
    "meeting.delete": send("DELETE", "/meetings/{meetingId}", to_items=success),
}  # fmt: skip
_DEFAULTS = {"meeting": "create"}


class ZoomNode(HttpServiceNode):
    """Creates, reads, changes and deletes meetings; does not write start times."""

    types = ("zoom",)
    service = "Zoom"
    address = "https://api.zoom.us/v2"
    credential_types = ("zoomOAuth2Api", "zoomApi")
    parameters = parameters_of(_OPERATIONS)
    default_resource = "meeting"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
