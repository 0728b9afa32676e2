"""The text of a card for Slack: escaped, without mentions, cut at its end."""

import unicodedata

from steward.connectors.base.commands import PostCard
from steward.model.json import JsonObject

TEXT_CHARACTERS = 12_000
_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


def escaped(text: str) -> str:
    """Escapes text of a store: no mention, no link of its own, no invisible character."""
    plain = "".join(sign for sign in text if sign == "\n" or unicodedata.category(sign) not in ("Cc", "Cf"))
    return plain.translate(_ESCAPES)


def message(card: PostCard) -> JsonObject:
    """Returns the body of a webhook's request; lines that do not fit are left out and counted."""
    head = f"*{escaped(card.title)}*"
    lines = [escaped(line) for line in card.text]
    lines += [f"{escaped(name)}: {escaped(value)}" for name, value in card.facts]
    link = ""
    if card.link is not None and card.link[1].startswith("https://") and "|" not in card.link[1]:
        link = f"<{escaped(card.link[1])}|{escaped(card.link[0])}>"
    line_count = len(lines)
    while (
        line_count
        and len(_text(head, lines[:line_count], _more(card, len(lines) - line_count), link)) > TEXT_CHARACTERS
    ):
        line_count -= 1
    text = _text(head[:TEXT_CHARACTERS], lines[:line_count], _more(card, len(lines) - line_count), link)
    # Link names stay plain text: a product called @channel calls nobody.
    return {"text": text, "link_names": False, "unfurl_links": False}


def _more(card: PostCard, left_out: int) -> str:
    return escaped(card.more.replace("{n}", str(left_out))) if left_out else ""


def _text(head: str, lines: list[str], more: str, link: str) -> str:
    return "\n".join(line for line in (head, *lines, more, link) if line)
