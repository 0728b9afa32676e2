"""The text of a card for Slack: escaped, without mentions, cut at its end."""

from steward.connectors.base.card_text import CardText, visible
from steward.connectors.base.commands import PostCard
from steward.model.json import JsonObject

TEXT_CHARACTERS = 12_000
_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}


def escaped(text: str) -> str:
    """Escapes text of a store, so that it contains no mention or link markup.

    Removes invisible characters.
    """
    return visible(text).translate(_ESCAPES)


_TEXT = CardText(
    TEXT_CHARACTERS,
    escaped,
    title=lambda title: f"*{title}*",
    link=lambda name, url: f"<{escaped(url)}|{name}>",
)


def message(card: PostCard) -> JsonObject:
    """Returns the body of a webhook's request; lines that do not fit are left out and counted."""
    # Link names stay plain text: a product called @channel notifies nobody.
    return {"text": _TEXT.of(card), "link_names": False, "unfurl_links": False}
