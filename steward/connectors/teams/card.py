"""The Teams message: an adaptive card 1.4 with escaped text, smaller than 20,000 bytes."""

import json
import re
from collections.abc import Sequence

from steward.connectors.base.card_text import lines_left_out, lines_that_fit, visible
from steward.connectors.base.commands import PostCard
from steward.model.json import JsonObject, JsonValue

CARD_BYTES = 20_000
_LONGEST_LINE = 2_000
_SIGNS = re.compile(r"([\\`*_{}\[\]()<>#+\-!|~&])")
# A number and a dot at the start of a line would begin a numbered list.
_LIST = re.compile(r"^(\s*[0-9]{1,9})\.(?=\s|$)", re.MULTILINE)
_MARKUP = re.compile(r"(https?:|ftp:|mailto:|www\.)", re.IGNORECASE)


def message(command: PostCard) -> JsonObject:
    """Returns the whole message; lines that do not fit are left out from the end and counted."""
    line_count = len(command.text) + len(command.facts)
    return _cut(command, lines_that_fit(line_count, lambda count: _size(_cut(command, count)) <= CARD_BYTES))


def escaped(text: str, longest: int = _LONGEST_LINE) -> str:
    """Escapes text of a store, so that it has no effect as Markdown, link or mention.

    Removes invisible characters and cuts it to `longest`.
    """
    plain = visible(text)
    if len(plain) > longest:
        plain = plain[: longest - 1] + "…"
    plain = _LIST.sub(r"\1\\.", _SIGNS.sub(r"\\\1", plain))
    # A zero-width space keeps an address from becoming a link.
    return _MARKUP.sub("\\1\u200b", plain)


def _cut(command: PostCard, line_count: int) -> JsonObject:
    text = list(command.text[:line_count])
    facts = list(command.facts[: max(line_count - len(command.text), 0)])
    return _message(command, text, facts, len(command.text) + len(command.facts) - line_count)


def _message(
    command: PostCard, text: Sequence[str], facts: Sequence[tuple[str, str]], left_out: int
) -> JsonObject:
    title = escaped(command.title, 200)
    body: list[JsonValue] = [
        {"type": "TextBlock", "text": title, "wrap": True, "weight": "Bolder", "size": "Medium"}
    ]
    body += [{"type": "TextBlock", "text": escaped(line), "wrap": True} for line in text]
    if facts:
        pairs = [{"title": escaped(name, 200), "value": escaped(value)} for name, value in facts]
        body.append({"type": "FactSet", "facts": pairs})
    if left_out:
        more = escaped(lines_left_out(command, left_out))
        body.append({"type": "TextBlock", "text": more, "wrap": True, "isSubtle": True})
    card: dict[str, JsonValue] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    if command.link is not None and command.link[1].startswith("https://") and len(command.link[1]) <= 1000:
        name = escaped(command.link[0], 60)
        card["actions"] = [{"type": "Action.OpenUrl", "title": name, "url": command.link[1]}]
    attachment: JsonValue = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def _size(value: JsonObject) -> int:
    """Returns the bytes as sent, with room for the id that the writer adds."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")) + 60
