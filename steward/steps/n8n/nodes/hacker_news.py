"""The node hackerNews: articles and users of Hacker News, without an account."""

from collections.abc import Mapping, Sequence

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import CallForm, get, get_all, numbered_pages, parameters_of
from steward.steps.n8n.http_service_nodes import PublicServiceNode
from steward.steps.n8n.option_tables import OptionTable, joined
from steward.steps.n8n.service_fields import ServiceFields

_SIZE = 100
_FILTERS = OptionTable("additionalFields", "keyword:query", {"tags": joined("tags")})
_ARTICLE = OptionTable("additionalFields", "includeComments")


def _article(response: AnyJson, fields: ServiceFields) -> Sequence[Mapping[str, AnyJson]]:
    """Returns an article, with its comments if the step asks for them."""
    article = dict(response) if isinstance(response, Mapping) else {}
    if not fields.flag("additionalFields.includeComments"):
        article.pop("children", None)
    return [article]


_OPERATIONS = {
    "all.getAll": get_all(
        "/search", "hits", numbered_pages("hits", _SIZE, first=0),
        CallForm(tables=(_FILTERS,), fixed={"hitsPerPage": _SIZE}), limit=100,
    ),
    "article.get": get("/items/{articleId}", CallForm(tables=(_ARTICLE,)), to_items=_article),
    "user.get": get("/users/{username}"),
}  # fmt: skip
_DEFAULTS = {"all": "getAll", "article": "get", "user": "get"}


class HackerNewsNode(PublicServiceNode):
    """Lists and reads articles and users through the search API that Hacker News recommends."""

    types = ("hackerNews",)
    service = "Hacker News"
    address = "https://hn.algolia.com/api/v1"
    parameters = parameters_of(_OPERATIONS)
    default_resource = "article"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
