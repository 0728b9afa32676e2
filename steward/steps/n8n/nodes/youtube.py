"""The node youTube: channels, playlists and videos, as the person who signed in."""

from collections.abc import Callable, Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, parameters_of, send, success, token_pages
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.step_types import ItemFailed

_PARTS: Mapping[str, str] = {
    "channel": "brandingSettings contentDetails contentOwnerDetails id localizations snippet statistics"
    " status topicDetails",
    "playlist": "contentDetails id localizations player snippet status",
    "playlistItem": "contentDetails id snippet status",
    "video": "contentDetails id liveStreamingDetails localizations player recordingDetails snippet statistics"
    " status topicDetails",
}
_PAGES = token_pages("nextPageToken", "pageToken")
_CHANNELS = OptionTable("filters", "categoryId forUsername id managedByMe")
_PLAYLISTS = OptionTable("filters", "channelId id")
_VIDEOS = OptionTable(
    "filters",
    "channelId forMine publishedAfter publishedBefore q regionCode relatedToVideoId videoCategoryId"
    " videoType",
)
_SEARCH = OptionTable("options", "order safeSearch")
_POSITION = OptionTable("options", "position")
_LIMIT = 25


def _part(resource: str, fields: ServiceFields) -> str:
    chosen = fields.value("part")
    names = [str(name) for name in chosen] if isinstance(chosen, list) and chosen else ["*"]
    return ",".join(_PARTS[resource].split() if "*" in names else names)


def _query(resource: str, form: CallForm) -> Callable[[ServiceFields], dict[str, AnyJson]]:
    def query(fields: ServiceFields) -> dict[str, AnyJson]:
        values = {"part": _part(resource, fields), **form(fields)}
        if not (values.keys() - {"part"}):
            values["mine"] = "true"
        return values

    return query


def _read(resource: str, path: str, form: CallForm) -> ServiceOperation:
    """Returns an operation that reads the object named by a parameter."""
    needed = form.names.partition(":")[0]
    return get(path, form, "items", needed=needed, makes=_query(resource, form))


def _list(resource: str, path: str, form: CallForm, needed: str = "") -> ServiceOperation:
    return get_all(path, "items", _PAGES, form, limit=_LIMIT, needed=needed, makes=_query(resource, form))


def _search(fields: ServiceFields) -> dict[str, AnyJson]:
    filters = _VIDEOS.read(fields)
    return {"part": "snippet", "type": "video", "maxResults": 50, **filters, **_SEARCH.read(fields)}


def _new_item(fields: ServiceFields) -> dict[str, AnyJson]:
    video = fields.text("videoId")
    if not video:
        raise ItemFailed("This step does not say which video it adds. Fill it in.")
    resource = {"kind": "youtube#video", "videoId": video}
    snippet = {"playlistId": fields.text("playlistId"), "resourceId": resource, **_POSITION.read(fields)}
    return {"snippet": snippet}


_OPERATIONS = {
    "channel.get": _read("channel", "/channels", CallForm("channelId:id")),
    "channel.getAll": _list("channel", "/channels", CallForm(tables=(_CHANNELS,))),
    "playlist.get": _read("playlist", "/playlists", CallForm("playlistId:id")),
    "playlist.getAll": _list("playlist", "/playlists", CallForm(tables=(_PLAYLISTS,))),
    "playlistItem.get": _read("playlistItem", "/playlistItems", CallForm("playlistItemId:id")),
    "playlistItem.getAll": _list(
        "playlistItem", "/playlistItems", CallForm("playlistId", fixed={"maxResults": 50}), "playlistId"
    ),
    "playlistItem.add": send(
        "POST", "/playlistItems", CallForm("playlistId videoId", (_POSITION,)),
        needed="playlistId videoId", recipient="playlistId", text="videoId",
        query=lambda fields: {"part": "snippet"}, makes=_new_item,
    ),
    "playlistItem.delete": send(
        "DELETE", "/playlistItems", needed="playlistItemId", recipient="playlistItemId",
        query=lambda fields: {"id": fields.text("playlistItemId")}, to_items=success,
    ),
    "video.get": _read("video", "/videos", CallForm("videoId:id")),
    "video.getAll": get_all(
        "/search", "items", _PAGES, CallForm(tables=(_VIDEOS, _SEARCH)), limit=_LIMIT, makes=_search
    ),
    "video.rate": send(
        "POST", "/videos/rate", needed="videoId rating", recipient="videoId", text="rating",
        query=lambda fields: {"id": fields.text("videoId"), "rating": fields.text("rating")},
        to_items=success,
    ),
    "video.delete": send(
        "DELETE", "/videos", needed="videoId", recipient="videoId",
        query=lambda fields: {"id": fields.text("videoId")}, to_items=success,
    ),
}  # fmt: skip
_DEFAULTS = {"channel": "getAll", "playlist": "getAll", "playlistItem": "add", "video": "getAll"}


class YouTubeNode(HttpServiceNode):
    """Reads channels, playlists and videos, and extends playlists; does not upload files."""

    types = ("youTube",)
    service = "YouTube"
    address = "https://www.googleapis.com/youtube/v3"
    credential_types = ("youTubeOAuth2Api",)
    parameters = parameters_of(_OPERATIONS, "part")
    default_resource = "channel"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
