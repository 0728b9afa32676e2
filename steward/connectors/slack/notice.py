"""The Slack message of a notice: at most 40 blocks of escaped text and one link, nothing interactive."""

from steward.connectors.base.notices import NoticeCard
from steward.connectors.slack.text import escaped
from steward.model.json import JsonObject, JsonValue

MAX_BLOCKS = 40
# Slack allows 3,000 characters per section; escaping turns one character into at most five.
_LINE_CHARACTERS = 500
_TITLE_CHARACTERS = 200


def notice_message(card: NoticeCard, channel: str | None) -> JsonObject:
    """Returns the body; only a bot token names a `channel`. Lines beyond the block limit are counted."""
    # Title, link and the number of lines left out take a block each.
    room = MAX_BLOCKS - 3
    more = card.more
    if len(card.lines) > room:
        more = f"and {len(card.lines) - room} more lines that do not fit. {card.more}".strip()
    title = escaped(_cut(card.title, _TITLE_CHARACTERS))
    blocks: list[JsonValue] = [_section(f"*{title}*")]
    blocks += [_section(escaped(_cut(line, _LINE_CHARACTERS))) for line in card.lines[:room]]
    if more:
        blocks.append({"type": "context", "elements": [_text(escaped(_cut(more, _TITLE_CHARACTERS)))]})
    blocks.append(_section(f"<{escaped(card.url)}|{escaped(card.link_title)}>"))
    body: dict[str, JsonValue] = {
        "text": title,
        "blocks": blocks,
        # Link names stay plain text: an automation called @channel notifies nobody.
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
    }
    return body if channel is None else {"channel": channel, **body}


def _section(text: str) -> JsonValue:
    return {"type": "section", "text": _text(text)}


def _text(text: str) -> JsonValue:
    # Verbatim: Slack turns no text into links or mentions.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
