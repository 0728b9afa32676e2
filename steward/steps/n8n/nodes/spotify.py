"""The node spotify: playlists, tracks, albums and artists, as the person who signed in."""

from collections.abc import Callable

from steward.steps.n8n.calls.tables import CallForm, get, get_all, offset_pages, parameters_of, send
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields, path_segment

_PAGES = offset_pages("items", 50)
_SIZE = CallForm(fixed={"limit": 50})
_POSITION = OptionTable("additionalFields", "position")


def _path(start: str, end: str = "") -> Callable[[ServiceFields], str]:
    """Returns a function for a path with the bare id, which may be given as `spotify:track:id`."""

    def path(fields: ServiceFields) -> str:
        number = fields.text("id").rpartition(":")[2]
        return f"{start}/{path_segment(number, 'id')}{end}"

    return path


_OPERATIONS = {
    "playlist.get": get("", needed="id", choose_path=_path("/playlists")),
    "playlist.getTracks": get_all(
        "", "items", _PAGES, _SIZE, needed="id", choose_path=_path("/playlists", "/tracks")
    ),
    "playlist.getUserPlaylists": get_all("/me/playlists", "items", _PAGES, _SIZE),
    "playlist.add": send(
        "POST", "", CallForm(tables=(_POSITION,), shapes={"trackID": lambda uri: {"uris": [uri]}}),
        needed="id trackID", recipient="id", text="trackID", choose_path=_path("/playlists", "/tracks"),
    ),
    "track.get": get("", needed="id", choose_path=_path("/tracks")),
    "track.getAudioFeatures": get("", needed="id", choose_path=_path("/audio-features")),
    "artist.get": get("", needed="id", choose_path=_path("/artists")),
    "artist.getAlbums": get_all(
        "", "items", _PAGES, _SIZE, needed="id", choose_path=_path("/artists", "/albums")
    ),
    "album.get": get("", needed="id", choose_path=_path("/albums")),
    "album.getTracks": get_all(
        "", "items", _PAGES, _SIZE, needed="id", choose_path=_path("/albums", "/tracks")
    ),
    "library.getLikedTracks": get_all("/me/tracks", "items", _PAGES, _SIZE),
}  # fmt: skip


class SpotifyNode(HttpServiceNode):
    """Reads and extends playlists; reads tracks, albums and artists; does not control the player."""

    types = ("spotify",)
    service = "Spotify"
    address = "https://api.spotify.com/v1"
    credential_types = ("spotifyOAuth2Api",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "player"
    operations = _OPERATIONS
