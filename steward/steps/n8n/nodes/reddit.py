"""The node reddit: posts and comments, as the person who signed in."""

from collections.abc import Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, parameters_of, send, success
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.workflow.javascript import values as js

_FILTERS = OptionTable("filters", "category")
_SORT = OptionTable("additionalFields", "sort")
_PAGE = 100


def _posts(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    """Returns the posts of a listing."""
    children = js.get_path(response, "data.children")
    rows = [js.get_path(child, "data") for child in children] if isinstance(children, list) else []
    return [row for row in rows if isinstance(row, Mapping)]


def _next_page(response: AnyJson, query: Mapping[str, AnyJson]) -> Mapping[str, AnyJson] | None:
    after = js.get_path(response, "data.after")
    return {**query, "after": js.text(after)} if js.truthy(after) else None


def _listing_path(fields: ServiceFields) -> str:
    category = fields.text("filters.category")
    end = f"/{path_segment(category, 'category')}" if category else ""
    return f"/r/{path_segment(fields.text('subreddit'), 'subreddit')}{end}.json"


def _listing(fields: ServiceFields) -> dict[str, AnyJson]:
    return {"limit": _PAGE}


def _search_path(fields: ServiceFields) -> str:
    if fields.text("location", "subreddit") == "allReddit":
        return "/search.json"
    return f"/r/{path_segment(fields.text('subreddit'), 'subreddit')}/search.json"


def _search(fields: ServiceFields) -> dict[str, AnyJson]:
    query: dict[str, AnyJson] = {"q": fields.text("keyword"), "limit": _PAGE, **_SORT.read(fields)}
    if fields.text("location", "subreddit") != "allReddit":
        query["restrict_sr"] = "true"
    return query


def _new_post(fields: ServiceFields) -> dict[str, AnyJson]:
    kind = fields.text("kind", "self")
    text = {"text": fields.text("text")} if kind == "self" else {"url": fields.text("url")}
    body: dict[str, AnyJson] = {
        "title": fields.text("title"), "sr": fields.text("subreddit"), "kind": kind, **text
    }  # fmt: skip
    return body | ({"resubmit": "true"} if fields.flag("resubmit") else {})


def _as_json(fields: ServiceFields) -> dict[str, str]:
    return {"api_type": "json"}


def _json_data(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    data = js.get_path(response, "json.data")
    return [data] if isinstance(data, Mapping) else []


_OPERATIONS = {
    "post.create": send(
        "POST", "/api/submit", CallForm("title kind text url resubmit"), needed="subreddit title",
        recipient="subreddit", text="title", is_form=True, query=_as_json, to_items=_json_data,
        makes=_new_post,
    ),
    "post.getAll": get_all(
        "", "", _next_page, CallForm(tables=(_FILTERS,)), limit=100, needed="subreddit",
        choose_path=_listing_path, to_items=_posts, makes=_listing,
    ),
    "post.search": get_all(
        "", "", _next_page, CallForm("location subreddit", (_SORT,)), limit=100, needed="keyword",
        choose_path=_search_path, to_items=_posts, makes=_search,
    ),
    "post.delete": send(
        "POST", "/api/del", CallForm(shapes={"postId": lambda value: {"id": f"t3_{value}"}}),
        needed="postId", recipient="postId", is_form=True, to_items=success,
    ),
    "postComment.create": send(
        "POST", "/api/comment",
        CallForm("commentText:text", shapes={"postId": lambda value: {"thing_id": f"t3_{value}"}}),
        needed="postId commentText", recipient="postId", text="commentText", is_form=True,
        query=_as_json, to_items=_json_data,
    ),
    "subreddit.get": get(
        "/r/{subreddit}/about.json", items="data",
        choose_path=lambda fields: (
            f"/r/{path_segment(fields.text('subreddit'), 'subreddit')}"
            f"/about{'/rules' if fields.text('content', 'about') == 'rules' else ''}.json"
        ),
    ),
}  # fmt: skip
_DEFAULTS = {"post": "create", "postComment": "create", "subreddit": "get"}


class RedditNode(HttpServiceNode):
    """Creates, lists, searches and deletes posts, comments on them, and reads subreddits."""

    types = ("reddit",)
    service = "Reddit"
    address = "https://oauth.reddit.com"
    credential_types = ("redditOAuth2Api",)
    parameters = parameters_of(_OPERATIONS, "content")
    default_resource = "post"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
