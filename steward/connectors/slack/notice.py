"""The Slack message of a notice: at most 40 blocks of escaped text and one link, nothing that acts."""

from steward.connectors.base.notices import NoticeCard
from steward.connectors.slack.text import escaped
from steward.model.json import JsonObject, JsonValue

MAX_BLOCKS = 40
# Slack takes 3,000 characters a section; escaping makes at most five of one.
_LINE_CHARACTERS = 500
_TITLE_CHARACTERS = 200


def notice_message(card: NoticeCard, channel: str | None) -> JsonObject:
    """Returns the body; `channel` is named for a bot token alone. Lines over the blocks are counted."""
    # Title, link and what is left out have a block each.
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
        # Link names stay plain text: an automation called @channel calls nobody.
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
    }
    return body if channel is None else {"channel": channel, **body}


def _section(text: str) -> JsonValue:
    return {"type": "section", "text": _text(text)}


def _text(text: str) -> JsonValue:
    # Verbatim: Slack makes no links or mentions of its own from the text.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
