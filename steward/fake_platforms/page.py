"""The page for people at `/`: shop, sheets, messages, mail, ledger, faults; all text is escaped."""

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

from steward.fake_platforms.exchange import Row
from steward.fake_platforms.state import PlatformState

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:72rem;padding:1.5rem}
h1{margin:0}h2{margin:2.5rem 0 .5rem}nav a{margin-right:1rem}.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.875rem}
th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums}p.note{opacity:.75}
pre{background:var(--soft);padding:.75rem;white-space:pre-wrap;overflow-wrap:anywhere;margin:.5rem 0}
"""
_MAX_ROWS = 100


def _cell(value: Any) -> str:
    kind = ' class="n"' if isinstance(value, int | float) and not isinstance(value, bool) else ""
    return f"<td{kind}>{escape('' if value is None else str(value))}</td>"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[Any, ...]], empty: str) -> str:
    lines = ["<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows]
    if not lines:
        return f"<p>{escape(empty)}</p>"
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(lines)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _shop(state: PlatformState) -> str:
    shop = state.shop
    goods = []
    for row in list(shop.products.values())[:_MAX_ROWS]:
        goods.append((row["id"], row["sku"], row["name"], row["price"], row["stock_quantity"], row["status"]))
        for variation_id in row["variations"]:
            part = shop.variations[variation_id]
            name = f"{row['name']} - {part['name']}"
            goods.append(
                (variation_id, part["sku"], name, part["price"], part["stock_quantity"], part["status"])
            )
    newest = sorted(shop.orders.values(), key=lambda row: -int(row["id"]))[:_MAX_ROWS]
    orders = [
        (row["number"], row["status"], row["total"], row["billing"]["email"], row["date_created_gmt"])
        for row in newest
    ]
    hooks = [(row["id"], row["topic"], row["status"], row["delivery_url"]) for row in shop.webhooks.values()]
    return (
        f'<h2 id="shop">Shop</h2><p>{len(shop.products)} products, {len(shop.variations)} variations, '
        f"{len(shop.orders)} orders, {len(shop.customers)} customers.</p>"
        + _table(("Id", "SKU", "Name", "Price (EUR)", "Stock", "Status"), goods, "No products.")
        + '<h2 id="orders">Orders</h2>'
        + _table(("Number", "Status", "Total (EUR)", "Customer", "Made (GMT)"), orders, "No orders.")
        + '<h2 id="webhooks">Webhooks</h2>'
        + _table(("Id", "Topic", "Status", "Address"), hooks, "Nobody listens to this shop yet.")
    )


def _sheets(state: PlatformState) -> str:
    parts = ['<h2 id="sheets">Spreadsheets</h2>']
    for book in state.google.books.values():
        for tab in book.tabs:
            rows = tab.values()
            parts.append(f"<h3>{escape(book.id)}, tab {escape(tab.title)}</h3>")
            heads = tuple(str(value) for value in rows[0]) if rows else ()
            parts.append(_table(heads, (tuple(row) for row in rows[1 : _MAX_ROWS + 1]), "This tab is empty."))
    return "".join(parts)


def _teams(state: PlatformState) -> str:
    parts = ['<h2 id="teams">Teams inbox</h2>']
    for name, messages in state.teams.inbox.items():
        parts.append(f"<h3>{escape(name)}</h3>")
        if not messages:
            parts.append("<p>No message yet.</p>")
        for message in reversed(messages[-_MAX_ROWS:]):
            parts.append(f"<p>{escape(message['at'])}</p><pre>{escape(message['text'])}</pre>")
    return "".join(parts)


def _messages(anchor: str, title: str, messages: list[Row], text_of: Callable[[Row], str]) -> str:
    parts = [f'<h2 id="{anchor}">{escape(title)}</h2>']
    if not messages:
        parts.append("<p>No message yet.</p>")
    for message in reversed(messages[-_MAX_ROWS:]):
        parts.append(f"<p>{escape(message['at'])}</p><pre>{escape(text_of(message))}</pre>")
    return "".join(parts)


def _mail_text(message: Row) -> str:
    return f"To: {', '.join(message['to'])}\nSubject: {message['subject']}\n\n{message['text']}"


def _ledger(state: PlatformState) -> str:
    entries = list(state.ledger.entries())[-_MAX_ROWS:]
    rows = [
        (
            entry.seq,
            entry.arrived_at.strftime("%Y-%m-%d %H:%M:%S"),
            entry.service,
            f"{entry.request.method} {entry.request.path}",
            "yes" if entry.applied else "no",
            entry.status if entry.status is not None else "dropped",
            "; ".join(
                f"{changed['type']} {changed['id']}: {', '.join(changed['fields'])}"
                for changed in entry.objects
            ),
        )
        for entry in reversed(entries)
    ]
    heads = ("No.", "At (UTC)", "Service", "Write", "Applied", "Answered", "Changed")
    totals = f"{state.ledger.writes_total} writes and {state.ledger.reads_total} reads have arrived."
    return f'<h2 id="ledger">Ledger</h2><p>{totals}</p>' + _table(heads, rows, "No write has arrived.")


def _faults(state: PlatformState) -> str:
    rows = [
        (
            fault.id,
            fault.method,
            fault.path,
            fault.kind,
            fault.skip,
            "all" if fault.count < 0 else fault.count,
            fault.hits,
        )
        for fault in state.faults.all()
    ]
    heads = ("Id", "Method", "Path", "Kind", "Skip", "Count", "Hits")
    return '<h2 id="faults">Faults</h2>' + _table(heads, rows, "No fault is set.")


def rendered(state: PlatformState) -> str:
    """Returns the whole page."""
    names = (
        "shop",
        "orders",
        "webhooks",
        "sheets",
        "teams",
        "slack",
        "mail",
        "deliveries",
        "ledger",
        "faults",
    )
    links = "".join(f'<a href="#{name}">{name.capitalize()}</a>' for name in names)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Sample shop</title><style>{_STYLE}</style></head><body><h1>Fake platforms</h1>"
        f'<p class="note">Seed {state.seed}. Nothing here is real; all is forgotten when it ends.</p>'
        f"<nav>{links}</nav><main>"
        + _shop(state)
        + _sheets(state)
        + _teams(state)
        + _messages("slack", "Slack channel", state.slack.inbox, lambda message: str(message["text"]))
        + _messages("mail", "Mail", state.mailbox.messages, _mail_text)
        + _messages(
            "deliveries",
            "Signed webhooks",
            state.receiver.deliveries,
            lambda message: f"{message['headers']['webhook-id']}\n{message['body']}",
        )
        + _ledger(state)
        + _faults(state)
        + "</main></body></html>"
    )
