"""The node strava: activities, as the person who signed in."""

from steward.steps.n8n.calls.tables import CallForm, get, get_all, numbered_pages, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable

_PAGES = numbered_pages("", 100)
_SIZE = CallForm(fixed={"per_page": 100})
_NEW = OptionTable("additionalFields", "commute description distance trainer")
_CHANGES = OptionTable(
    "updateFields", "commute description gear_id hide_from_home name sport_type trainer type"
)
_OPERATIONS = {
    "activity.create": send(
        "POST", "/activities",
        CallForm("name type sport_type startDate:start_date_local elapsedTime:elapsed_time", (_NEW,)),
        needed="name startDate elapsedTime", text="name",
    ),
    "activity.get": get("/activities/{activityId}"),
    "activity.getAll": get_all("/athlete/activities", "", _PAGES, _SIZE, limit=50),
    "activity.update": send(
        "PUT", "/activities/{activityId}", CallForm(tables=(_CHANGES,)), text="updateFields.name"
    ),
    "activity.getComments": get_all("/activities/{activityId}/comments", "", _PAGES, _SIZE, limit=50),
    "activity.getKudos": get_all("/activities/{activityId}/kudos", "", _PAGES, _SIZE, limit=50),
    "activity.getLaps": get_all("/activities/{activityId}/laps", "", _PAGES, _SIZE, limit=50),
    "activity.getZones": get_all("/activities/{activityId}/zones", "", _PAGES, _SIZE, limit=50),
}  # fmt: skip
_DEFAULTS = {"activity": "create"}


class StravaNode(HttpServiceNode):
    """Supports all operations on activities, except reading their measurement streams."""

    types = ("strava",)
    versions = (1, 1.1)
    service = "Strava"
    address = "https://www.strava.com/api/v3"
    credential_types = ("stravaOAuth2Api",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "activity"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
