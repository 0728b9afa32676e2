"""The node wordpress: posts, pages and users of a site, through an account bound at its host."""

from collections.abc import Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, joined
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation

_PAGE = 100
_NAMES = (
    "resource operation title postId pageId userId username name firstName lastName email password"
    " additionalFields updateFields options returnAll limit"
)
_LISTS: Mapping[str, AnyJson] = {
    "categories": joined("categories"),
    "excludedCategories": joined("categories_exclude"),
    "tags": joined("tags"),
    "excludedTags": joined("tags_exclude"),
    "author": joined("author"),
}
_POST = (
    "authorId:author content slug password status commentStatus:comment_status pingStatus:ping_status format"
    " sticky categories tags date"
)
_PAGE_FIELDS = (
    "authorId:author parentId:parent content slug password status commentStatus:comment_status"
    " pingStatus:ping_status menuOrder:menu_order featuredMediaId:featured_media"
)
_READ = "context orderBy:orderby order search after before status"


def _with_title(table: OptionTable) -> AnyJson:
    return lambda fields: {"title": fields.text("title"), **table.read(fields)}


def _next_page(response: AnyJson, query: Mapping[str, AnyJson]) -> Mapping[str, AnyJson] | None:
    is_full = isinstance(response, list) and len(response) == _PAGE
    return {**query, "page": str(int(query.get("page", "1")) + 1)} if is_full else None


def _list(path: str, names: str, shapes: Mapping[str, AnyJson] | None = None) -> ServiceOperation:
    table = OptionTable("options", names, shapes or {})
    return ServiceOperation(
        "GET", path, lambda fields: {"per_page": _PAGE, **table.read(fields)}, next_page=_next_page, limit=50,
        check=table.check,
    )  # fmt: skip


def _get(path: str, key: str, words: str) -> ServiceOperation:
    table = OptionTable("options", "password context")
    return ServiceOperation("GET", path, table.read, needed={key: words}, check=table.check)


def _writes(path: str, key: str, noun: str, names: str) -> dict[str, ServiceOperation]:
    """Returns the operations that create and update posts or pages."""
    new, changes = OptionTable("additionalFields", names), OptionTable("updateFields", f"title {names}")
    return {
        "create": ServiceOperation(
            "POST", path, _with_title(new), recipient="title", text="additionalFields.content",
            needed={"title": f"the title of the {noun}"}, check=new.check,
        ),
        "update": ServiceOperation(
            "POST", f"{path}/{{{key}}}", changes.read, recipient=key, text="updateFields.content",
            needed={key: f"which {noun} it means"}, check=changes.check,
        ),
    }  # fmt: skip


def _force_query(fields: ServiceFields) -> dict[str, str]:
    return {"force": "true"} if fields.flag("options.force") else {}


_FORCE = OptionTable("options", "force")
_OPERATIONS = {
    **{f"post.{name}": row for name, row in _writes("/posts", "postId", "post", _POST).items()},
    **{f"page.{name}": row for name, row in _writes("/pages", "pageId", "page", _PAGE_FIELDS).items()},
    "post.get": _get("/posts/{postId}", "postId", "which post it means"),
    "page.get": _get("/pages/{pageId}", "pageId", "which page it means"),
    "post.getAll": _list("/posts", f"{_READ} sticky", _LISTS),
    "page.getAll": _list("/pages", f"{_READ} parent menuOrder:menu_order", {"author": _LISTS["author"]}),
    "post.delete": ServiceOperation(
        "DELETE", "/posts/{postId}", query=_force_query, recipient="postId",
        needed={"postId": "which post it means"}, check=_FORCE.check,
    ),
    "page.delete": ServiceOperation(
        "DELETE", "/pages/{pageId}", query=_force_query, recipient="pageId",
        needed={"pageId": "which page it means"}, check=_FORCE.check,
    ),
    "user.get": ServiceOperation(
        "GET", "/users/{userId}", OptionTable("options", "context").read,
        needed={"userId": "which person it means"}, check=OptionTable("options", "context").check,
    ),
    "user.getAll": _list("/users", "context orderBy:orderby order search"),
}  # fmt: skip


_DEFAULTS = {"post": "create", "page": "create", "user": "create"}


class WordpressNode(HttpServiceNode):
    """Supports posts and pages, and reading users, but not creating or changing users."""

    types = ("wordpress",)
    versions = (1,)
    service = "WordPress"
    address = "https://{host}/wp-json/wp/v2"
    credential_types = ("wordpressApi",)
    parameters = frozenset(_NAMES.split())
    default_resource = "post"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
