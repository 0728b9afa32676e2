"""Lists of the fake shop: shared filters, order, pages, totals, `Link`, `_fields`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.woocommerce.arguments import Arg, moment, validated

_LIST_ARGS: dict[str, Arg] = {
    "page": Arg("integer", minimum=1),
    "per_page": Arg("integer", minimum=1, maximum=100),
    "search": Arg("string"),
    "after": Arg("date"),
    "before": Arg("date"),
    "modified_after": Arg("date"),
    "modified_before": Arg("date"),
    "dates_are_gmt": Arg("boolean"),
    "exclude": Arg("integers"),
    "include": Arg("integers"),
    "offset": Arg("integer"),
    "order": Arg("string", ("asc", "desc")),
}


@dataclass(frozen=True, slots=True)
class RouteResult:
    """The result of a route: a status, a value for JSON, headers."""

    status: int
    value: Any
    headers: dict[str, str] = field(default_factory=dict)


def only_fields(row: Row, fields: str | None, *, keep_links: bool) -> Row:
    """Returns the fields named by `_fields`; single objects keep their links, lists do not."""
    if not fields:
        return row
    inner: dict[str, set[str]] = {}
    for name in filter(None, comma_separated(fields)):
        top, _, subfield = name.partition(".")
        inner.setdefault(top, set()).add(subfield)
    if keep_links:
        inner["_links"] = {""}
    selected: Row = {}
    for key, value in row.items():
        if "" in inner.get(key, ()):
            selected[key] = value
        elif key in inner and isinstance(value, dict):
            selected[key] = only_fields(value, ",".join(inner[key]), keep_links=False)
    return selected


def _instant(text: str, *, gmt: bool, zone: ZoneInfo) -> str:
    instant = moment(text)
    assert instant is not None, "checked by LIST_ARGS"
    if instant.tzinfo is not None:
        return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    in_utc = instant if gmt else instant.replace(tzinfo=zone).astimezone(UTC)
    return in_utc.strftime("%Y-%m-%dT%H:%M:%S")


def _dated(rows: Iterable[Row], arguments: Row, zone: ZoneInfo) -> Iterable[Row]:
    gmt = arguments.get("dates_are_gmt", False)
    for name, column, later in (
        ("after", "date_created_gmt", True),
        ("before", "date_created_gmt", False),
        ("modified_after", "date_modified_gmt", True),
        ("modified_before", "date_modified_gmt", False),
    ):
        if name in arguments:
            edge = _instant(arguments[name], gmt=gmt, zone=zone)
            rows = [r for r in rows if r[column] and (r[column] > edge if later else r[column] < edge)]
    return rows


def _ordered(rows: list[Row], arguments: Row, keys: dict[str, str], *, default: str) -> list[Row]:
    by = arguments.get("orderby", default)
    if by == "include" and arguments.get("include"):
        positions = {object_id: n for n, object_id in enumerate(arguments["include"])}
        return sorted(rows, key=lambda row: positions[row["id"]])
    column = keys.get(by, "id")
    down = arguments.get("order", "asc" if default in ("name", "") else "desc") == "desc"
    if column == "id":
        return sorted(rows, key=lambda row: int(row["id"]), reverse=down)
    if column == "price":
        return sorted(rows, key=lambda row: (float(row["price"] or 0), row["id"]), reverse=down)
    return sorted(rows, key=lambda row: (row[column] or "", row["id"]), reverse=down)


@dataclass(frozen=True, slots=True)
class Listing:
    """The list of a resource: its own arguments, sort columns and default order."""

    args: dict[str, Arg]
    sort: dict[str, str]
    default: str
    zone: ZoneInfo
    text: tuple[str, ...] = ("name",)

    def read(self, query: Row) -> Row:
        """Returns the validated arguments. Raises ShopError."""
        allowed = Arg("string", (*self.sort, "include"))
        return validated(query, {**_LIST_ARGS, "orderby": allowed, **self.args})

    def respond(
        self, rows: Iterable[Row], arguments: Row, query: Row, *, url: str, show: Callable[[Row], Row]
    ) -> RouteResult:
        """Returns one page of `rows` after the shared filters, with totals and links."""
        rows = _dated(self._filtered(rows, arguments), arguments, self.zone)
        chosen = _ordered(list(rows), arguments, self.sort, default=self.default)
        size, page = arguments.get("per_page", 10), arguments.get("page", 1)
        start = max(arguments.get("offset", (page - 1) * size), 0)
        fields = query.get("_fields")
        value = [only_fields(show(row), fields, keep_links=False) for row in chosen[start : start + size]]
        pages = -(-len(chosen) // size)
        headers = {"x-wp-total": str(len(chosen)), "x-wp-totalpages": str(pages)}
        return RouteResult(200, value, headers | _links(url, query, page, pages))

    def _filtered(self, rows: Iterable[Row], arguments: Row) -> Iterable[Row]:
        if arguments.get("include"):
            rows = [row for row in rows if row["id"] in set(arguments["include"])]
        if arguments.get("exclude"):
            rows = [row for row in rows if row["id"] not in set(arguments["exclude"])]
        if arguments.get("search"):
            words = arguments["search"].casefold().split()
            rows = [row for row in rows if self._matches(row, words)]
        return rows

    def _matches(self, row: Row, needle: list[str]) -> bool:
        text = " ".join(str(row.get(name, "")) for name in self.text).casefold()
        return all(word in text for word in needle)


def _links(url: str, query: Row, page: int, pages: int) -> dict[str, str]:
    links: list[str] = []
    for name, number in (("prev", min(page - 1, pages)), ("next", page + 1)):
        if 1 <= number <= pages and pages > 0:
            links.append(f'<{url}?{urlencode({**query, "page": number})}>; rel="{name}"')
    return {"link": ", ".join(links)} if links else {}


def comma_separated(text: str) -> set[str]:
    """Returns the parts of a list in one query parameter."""
    return {part.strip() for part in text.split(",")}


def in_status(rows: Iterable[Row], arguments: Row) -> list[Row]:
    """Returns the rows of the requested status, or all but the trash."""
    status = arguments.get("status", "any")
    return [row for row in rows if (row["status"] != "trash" if status == "any" else row["status"] == status)]


def with_values(rows: Iterable[Row], arguments: Row, names: Iterable[str]) -> list[Row]:
    """Returns the rows whose fields equal the arguments with these names that were sent."""
    expected = {name: arguments[name] for name in names if name in arguments}
    return [row for row in rows if all(row.get(name) == value for name, value in expected.items())]


def stamp(now: datetime, zone: ZoneInfo) -> tuple[str, str]:
    """Formats an instant as the shop does: in its own zone and in GMT, whole seconds."""
    local = now.astimezone(zone).strftime("%Y-%m-%dT%H:%M:%S")
    return local, now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
