"""The Teams card of a notice: escaped text and one link, no interactive elements."""

import json

from steward.connectors.base.notices import NoticeCard
from steward.connectors.teams.card import CARD_BYTES, escaped
from steward.model.json import JsonObject, JsonValue

_TITLE_CHARACTERS = 200
_LINE_CHARACTERS = 500


def notice_message(card: NoticeCard) -> JsonObject:
    """Returns the whole message within 20,000 bytes; lines that do not fit are left out and counted."""
    for count in range(len(card.lines), 0, -1):
        body = _message(card, card.lines[:count], _more(card, count))
        if len(_encoded(body)) <= CARD_BYTES:
            return body
    return _message(card, (), _more(card, 0))


def _encoded(body: JsonObject) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _more(card: NoticeCard, shown_count: int) -> str:
    if shown_count == len(card.lines):
        return card.more
    return f"and {len(card.lines) - shown_count} more lines that do not fit. {card.more}".strip()


def _message(card: NoticeCard, lines: tuple[str, ...], more: str) -> JsonObject:
    title = escaped(card.title, _TITLE_CHARACTERS)
    body: list[JsonValue] = [
        {"type": "TextBlock", "text": title, "wrap": True, "weight": "Bolder", "size": "Medium"}
    ]
    body += [{"type": "TextBlock", "text": escaped(line, _LINE_CHARACTERS), "wrap": True} for line in lines]
    if more:
        body.append({"type": "TextBlock", "text": escaped(more, 200), "wrap": True, "isSubtle": True})
    content: JsonValue = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": [{"type": "Action.OpenUrl", "title": escaped(card.link_title, 60), "url": card.url}],
    }
    attachment: JsonValue = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": content,
    }
    return {"type": "message", "attachments": [attachment]}
