"""The node notion: databases, pages and blocks that are shared with the bound integration."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.notion_values import (
    notion_id,
    properties_of,
    property_problems,
    rich_text,
    simple_page,
    text_pieces,
    text_problems,
)
from steward.steps.n8n.service_fields import ServiceFields, fields_of_node, path_segment
from steward.steps.n8n.service_nodes import ServiceNode, ServiceOperation
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem, is_expression

_PAGE = 100
_NAMES = (
    "authentication resource operation databaseId pageId blockId title propertiesUi blockUi options simple"
    " simplifyOutput returnAll limit filterType matchType filters filterJson jsonNotice fetchNestedBlocks"
    " text userId noteOwner Credentials"
)
_COLLECTIONS = {"options": frozenset(("icon", "iconType", "sort", "downloadFiles", "filter"))}
_TEXTS = frozenset(
    [
        "paragraph",
        "heading_1",
        "heading_2",
        "heading_3",
        "bulleted_list_item",
        "numbered_list_item",
        "to_do",
        "toggle",
        "quote",
        "callout",
    ]
)
# Conditions of a filter whose value is no text, by what Notion calls the kind of a property.
_EMPTY = frozenset(("is_empty", "is_not_empty"))
_SPANS = frozenset(("past_week", "past_month", "past_year", "next_week", "next_month", "next_year"))


def _id(fields: ServiceFields, name: str, words: str) -> str:
    return path_segment(notion_id(fields.text(name)), words)


def _database_path(fields: ServiceFields) -> str:
    return f"/databases/{_id(fields, 'databaseId', 'database')}"


def _page_path(fields: ServiceFields) -> str:
    return f"/pages/{_id(fields, 'pageId', 'page')}"


def _children_path(fields: ServiceFields) -> str:
    return f"/blocks/{_id(fields, 'blockId', 'block')}/children"


def _icon(fields: ServiceFields) -> dict[str, JsonValue]:
    icon = fields.text("options.icon")
    if not icon:
        return {}
    if fields.text("options.iconType", "emoji") == "file":
        return {"icon": {"type": "external", "external": {"url": icon}}}
    return {"icon": {"type": "emoji", "emoji": icon}}


def _blocks(fields: ServiceFields) -> Sequence[JsonObject]:
    """Returns the blocks that a step writes. Raises ItemFailed."""
    blocks: list[dict[str, JsonValue]] = []
    for row in fields.rows("blockUi.blockValues"):
        kind = row.text("type", "paragraph")
        if kind == "image":
            content: dict[str, JsonValue] = {"type": "external", "external": {"url": row.text("url")}}
        elif kind in _TEXTS:
            content = {"rich_text": text_pieces(row, "textContent")}
            if kind == "to_do":
                content["checked"] = row.flag("checked")
        else:
            raise ItemFailed(f"A block of the kind “{kind[:40]}” cannot be written. Remove it from the step.")
        blocks.append({"object": "block", "type": kind, kind: content})
    return blocks


def _with_blocks(fields: ServiceFields, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    blocks = _blocks(fields)
    return body | _icon(fields) | ({"children": blocks} if blocks else {})


def _create(fields: ServiceFields) -> dict[str, JsonValue]:
    properties = properties_of(fields)
    # The id of the title property is always “title”, whatever its name.
    if title := fields.text("title"):
        properties["title"] = {"title": rich_text(title)}
    parent = {"database_id": notion_id(fields.text("databaseId"))}
    return _with_blocks(fields, {"parent": parent, "properties": properties})


def _create_page(fields: ServiceFields) -> dict[str, JsonValue]:
    properties = {"title": {"title": rich_text(fields.text("title"))}}
    parent = {"page_id": notion_id(fields.text("pageId"))}
    return _with_blocks(fields, {"parent": parent, "properties": properties})


def _update(fields: ServiceFields) -> dict[str, JsonValue]:
    return {"properties": properties_of(fields), **_icon(fields)}


def _append(fields: ServiceFields) -> dict[str, JsonValue]:
    return {"children": _blocks(fields)}


def _value(row: ServiceFields, kind: str, condition: str) -> AnyJson:
    """Returns the operand of a condition. Raises ItemFailed for a kind that is not supported."""
    if condition in _EMPTY:
        return True
    if condition in _SPANS:
        return {}
    match kind:
        case "number":
            return row.value("numberValue")
        case "checkbox":
            return row.flag("checkboxValue")
        case "select" | "status" | "people" | "relation" | "url" | "email" | "title":
            return row.text(f"{kind}Value")
        case "multi_select":
            return row.text("multiSelectValue")
        case "rich_text":
            return row.text("richTextValue")
        case "phone_number":
            return row.text("phoneNumberValue")
        case "date":
            return row.text("date")
        case "created_time" | "last_edited_time":
            return row.text("createdTimeValue" if kind == "created_time" else "lastEditedTime")
    raise ItemFailed(f"A condition on a property of the kind “{kind[:40]}” is not supported. Remove it.")


def _filter(fields: ServiceFields) -> dict[str, AnyJson]:
    kind = fields.text("filterType", "none")
    if kind == "json":
        parsed = fields.json("filterJson", "Filters (JSON)")
        return {"filter": parsed} if parsed else {}
    conditions = []
    for row in fields.rows("filters.conditions") if kind == "manual" else ():
        name, _, of_kind = row.text("key").rpartition("|")
        condition = row.text("condition")
        conditions.append({"property": name, of_kind: {condition: _value(row, of_kind, condition)}})
    if not conditions:
        return {}
    return {"filter": {"and" if fields.text("matchType", "anyFilter") == "allFilters" else "or": conditions}}


def _query(fields: ServiceFields) -> dict[str, JsonValue]:
    sorts = []
    for row in fields.rows("options.sort.sortValue"):
        name = row.text("key")
        by = {"timestamp": name} if row.flag("timestamp") else {"property": name.rpartition("|")[0] or name}
        sorts.append({**by, "direction": row.text("direction", "ascending")})
    return {"page_size": _PAGE, **_filter(fields), **({"sorts": sorts} if sorts else {})}


def _next_page(response: JsonValue, query: JsonObject) -> Mapping[str, AnyJson] | None:
    cursor = response.get("next_cursor") if isinstance(response, Mapping) else None
    return {**query, "start_cursor": cursor} if cursor else None


def _results(response: JsonValue) -> list[AnyJson]:
    results = response.get("results") if isinstance(response, Mapping) else None
    return results if isinstance(results, list) else []


def _is_simple(fields: ServiceFields) -> bool:
    return fields.flag("simple", True)


def _pages(response: AnyJson, fields: ServiceFields) -> list[JsonObject]:
    pages = _results(response) if isinstance(response, Mapping) and "results" in response else [response]
    return [simple_page(page, fields.version) if _is_simple(fields) else page for page in pages]


def _databases(response: AnyJson, fields: ServiceFields) -> list[JsonObject]:
    databases = _results(response) if "results" in response else [response]
    if not _is_simple(fields):
        return databases
    simple: list[JsonObject] = []
    for database in databases:
        title = "".join(str(rich_text.get("plain_text", "")) for rich_text in database.get("title", ()))
        name = "title" if fields.version < 2 else "name"
        address = {} if fields.version < 2 else {"url": database.get("url")}
        simple.append({"id": database.get("id"), name: title, **address})
    return simple


def _block_texts(response: JsonValue, fields: ServiceFields) -> list[JsonObject]:
    """Returns the blocks of a page; simplified ones have their text as `content`."""
    blocks = _results(response)
    if fields.version < 2.2 or not fields.flag("simplifyOutput", True):
        return blocks
    simple: list[JsonObject] = []
    for block in blocks:
        inner = block.get(str(block.get("type")))
        rich_texts = inner.get("rich_text", ()) if isinstance(inner, Mapping) else ()
        content = "".join(str(rich_text.get("plain_text", "")) for rich_text in rich_texts)
        names = ("object", "id", "parent", "has_children", "archived", "type")
        simple.append({name: block.get(name) for name in names} | {"content": content})
    return simple


def _nested_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("fetchNestedBlocks"):
        message = "It also reads the blocks within blocks, which is not supported. Switch that off."
        yield StepProblem("error", "parameter", message)


def _block_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields the blocks and properties that cannot be written."""
    yield from property_problems(node)
    for row in fields_of_node(node).rows("blockUi.blockValues"):
        kind = row.text("type", "paragraph")
        if kind not in _TEXTS | {"image"} and not is_expression(kind):
            message = f"A block of the kind “{kind[:40]}” cannot be written. Remove it from the step."
            yield StepProblem("error", "parameter", message)
        yield from text_problems(row)


def _condition_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    """Yields conditions on properties of kinds that are not compared here, and files to download."""
    yield from _file_problems(node)
    if node.get("options.filter"):
        message = "It filters with a setting of an older version. Add the step again in n8n."
        yield StepProblem("error", "parameter", message)
    rows = fields_of_node(node).rows("filters.conditions") if node.get("filterType") == "manual" else []
    for row in rows:
        key = row.text("key")
        name, _, kind = key.rpartition("|")
        if not is_expression(key) and not (name and _is_compared(row, kind)):
            message = f"Properties of this kind cannot be compared here: “{(name or kind)[:60]}”."
            yield StepProblem("error", "parameter", f"{message} Choose the property again, or remove it.")


def _is_compared(row: ServiceFields, kind: str) -> bool:
    try:
        _value(row, kind, row.text("condition"))
    except ItemFailed:
        return False
    return True


def _file_problems(node: NodeDefinition) -> Iterable[StepProblem]:
    if node.get("options.downloadFiles"):
        yield StepProblem("error", "binary", "It downloads files, which is not supported. Switch that off.")


def _search(kind: str = "") -> Callable[[ServiceFields], dict[str, JsonValue]]:
    """Returns the body of a search for objects of `kind` or, by default, of the kind the step selects."""

    def body(fields: ServiceFields) -> dict[str, JsonValue]:
        chosen = kind or fields.text("options.filter.filters.value")
        sort = fields.value("options.sort.sortValue")
        sort = sort[0] if isinstance(sort, list) and sort else sort
        return {
            "page_size": _PAGE,
            **({"query": fields.text("text")} if fields.text("text") else {}),
            **({"filter": {"property": "object", "value": chosen}} if chosen else {}),
            **({"sort": _search_order(sort)} if isinstance(sort, Mapping) else {}),
        }

    return body


def _search_order(sort: JsonObject) -> JsonObject:
    direction = sort.get("direction", "descending")
    return {"direction": direction, "timestamp": sort.get("timestamp", "last_edited_time")}


def _searched(response: AnyJson, fields: ServiceFields) -> list[JsonObject]:
    """Returns the pages and databases of a result, each simplified as its kind requires."""
    return [
        item
        for result in _results(response)
        for item in (_databases if result.get("object") == "database" else _pages)(result, fields)
    ]


def _searching(kind: str = "") -> ServiceOperation:
    return ServiceOperation(
        "POST", "/search", _search(kind), to_items=_searched, next_page=_next_page, is_query=True, limit=50
    )


_DATABASE = {"databaseId": "which database it means"}
_PAGE_ID = {"pageId": "which page it means"}
_BLOCK = {"blockId": "which block it means"}
_CREATE_PAGE = ServiceOperation(
    "POST",
    "/pages",
    _create,
    recipient="databaseId",
    text="title",
    needed=_DATABASE,
    to_items=_pages,
    check=_block_problems,
)
_UPDATE_PAGE = ServiceOperation(
    "PATCH",
    "",
    _update,
    recipient="pageId",
    needed=_PAGE_ID,
    choose_path=_page_path,
    to_items=_pages,
    check=_block_problems,
)
_GET_PAGE = ServiceOperation("GET", "", needed=_PAGE_ID, choose_path=_page_path, to_items=_pages)
_OPERATIONS = {
    "databasePage.create": _CREATE_PAGE,
    "databasePage.update": _UPDATE_PAGE,
    "databasePage.get": _GET_PAGE,
    "databasePage.getAll": ServiceOperation(
        "POST", "", _query, needed=_DATABASE, to_items=_pages, next_page=_next_page, is_query=True,
        choose_path=lambda fields: f"{_database_path(fields)}/query", check=_condition_problems, limit=50,
    ),
    "page.create": ServiceOperation(
        "POST", "/pages", _create_page, recipient="pageId", text="title", needed=_PAGE_ID, to_items=_pages,
        check=_block_problems,
    ),
    "page.get": _GET_PAGE,
    "page.archive": ServiceOperation(
        "PATCH", "", {"archived": lambda fields: True}, recipient="pageId", needed=_PAGE_ID,
        choose_path=_page_path, to_items=_pages,
    ),
    "page.search": _searching(),
    "block.append": ServiceOperation(
        "PATCH", "", _append, recipient="blockId", needed=_BLOCK, choose_path=_children_path,
        to_items=lambda response, fields: _results(response), check=_block_problems,
    ),
    "block.getAll": ServiceOperation(
        "GET", "", {"page_size": lambda fields: _PAGE}, needed=_BLOCK, choose_path=_children_path,
        to_items=_block_texts, next_page=_next_page, check=_nested_problems, limit=50,
    ),
    "database.get": ServiceOperation(
        "GET", "", needed=_DATABASE, choose_path=_database_path, to_items=_databases
    ),
    "database.getAll": _searching("database"),
    "database.search": _searching("database"),
    "user.get": ServiceOperation("GET", "/users/{userId}"),
    "user.getAll": ServiceOperation(
        "GET", "/users", {"page_size": lambda fields: _PAGE}, "results", next_page=_next_page
    ),
}  # fmt: skip
_DEFAULTS = {
    "page": "create", "databasePage": "create", "database": "get", "block": "append", "user": "get",
}  # fmt: skip


class NotionNode(ServiceNode):
    """Supports pages, databases and blocks, but not files."""

    types = ("notion",)
    versions = (1, 2, 2.1, 2.2)
    connector = "notion"
    service = "Notion"
    parameters = frozenset(_NAMES.split(" "))
    collections = _COLLECTIONS
    response_parameters = ("simple", "simplifyOutput")
    default_resource = "page"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
