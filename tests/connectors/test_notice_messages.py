"""Notices in Teams and Slack: escaped text, one link, within the limits, and no actions."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steward.connectors.base.notices import NoticeCard, NoticePoster
from steward.connectors.slack.notice import MAX_BLOCKS
from steward.connectors.slack.notice import notice_message as slack_message
from steward.connectors.teams.card import CARD_BYTES
from steward.connectors.teams.notice import notice_message as teams_message
from tests.connectors.conformance.test_every_connector import BUILT

URL = "https://steward.example/inbox"
CARD = NoticeCard("3 approvals wait for you", ("Price update: 12 changes",), URL, more="and 7 more")
HOSTILE = "<!channel> @here <https://evil.example|click> & **bold** [x](https://evil.example) \u202ereversed"


def content_of(message: Any) -> dict[str, Any]:
    """Returns the adaptive card inside a Teams message."""
    [attachment] = message["attachments"]
    card: dict[str, Any] = attachment["content"]
    return card


def texts_of(blocks: list[Any]) -> list[str]:
    """Returns the texts of Slack's blocks in order."""
    return [
        (block["text"] if block["type"] == "section" else block["elements"][0])["text"] for block in blocks
    ]


def test_a_teams_card_shows_title_lines_what_is_left_out_and_one_link() -> None:
    """Shows title, lines, the rest and one link, and no other action."""
    card = content_of(teams_message(CARD))
    assert [block["text"] for block in card["body"]] == [
        "3 approvals wait for you",
        "Price update: 12 changes",
        "and 7 more",
    ]
    assert card["actions"] == [{"type": "Action.OpenUrl", "title": "Open in Steward", "url": URL}]
    assert "Action.Submit" not in json.dumps(card)


def test_a_slack_message_shows_the_same_and_names_the_channel_of_a_bot_alone() -> None:
    """Shows the same in Slack and names the channel for a bot alone, since a webhook has its own."""
    body: Any = slack_message(CARD, "C123")
    assert body["channel"] == "C123"
    assert texts_of(body["blocks"]) == [
        "*3 approvals wait for you*",
        "Price update: 12 changes",
        "and 7 more",
        f"<{URL}|Open in Steward>",
    ]
    assert {block["type"] for block in body["blocks"]} == {"section", "context"}
    assert "channel" not in slack_message(CARD, None)


def test_hostile_names_are_text() -> None:
    """Escapes mentions, links and markup, and drops characters that reverse the reading direction."""
    card = replace(CARD, title=HOSTILE, lines=(HOSTILE,))
    for text in texts_of(slack_message(card, None)["blocks"])[:2]:  # type: ignore[arg-type]
        assert "&lt;!channel&gt;" in text
        assert "<" not in text
        assert "\u202e" not in text
    for block in content_of(teams_message(card))["body"][:2]:
        assert "\\*\\*bold\\*\\*" in block["text"]
        assert "\\[x\\]" in block["text"]
        assert "\u202e" not in block["text"]


@pytest.mark.parametrize(("lines", "is_cut"), [(MAX_BLOCKS - 3, False), (MAX_BLOCKS - 2, True)])
def test_slack_gets_at_most_40_blocks(lines: int, is_cut: bool) -> None:
    """Shows every line at 40 blocks, and counts the lines that do not fit one past it."""
    card = replace(CARD, lines=tuple(f"line {number}" for number in range(lines)))
    texts = texts_of(slack_message(card, None)["blocks"])  # type: ignore[arg-type]
    assert len(texts) == MAX_BLOCKS
    assert texts[-2] == ("and 1 more lines that do not fit. and 7 more" if is_cut else "and 7 more")


def test_a_teams_card_stays_below_20_000_bytes() -> None:
    """Shows the lines that fit into 20,000 bytes and counts the rest; one byte more drops the last line."""
    lines = tuple("x" * 490 for _ in range(60))
    body = teams_message(replace(CARD, lines=lines))
    displayed = len(content_of(body)["body"]) - 2
    assert 0 < displayed < 60
    assert size_of(body) <= CARD_BYTES
    assert f"and {60 - displayed} more lines" in content_of(body)["body"][-1]["text"]
    whole = teams_message(replace(CARD, lines=lines[:displayed]))
    assert size_of(whole) <= CARD_BYTES
    room = CARD_BYTES - size_of(teams_message(replace(CARD, lines=("",) * 100)))
    fitting = ("x" * (room // 100),) * 100
    assert len(content_of(teams_message(replace(CARD, lines=fitting)))["body"]) == 102
    rest = room - 100 * (room // 100)
    one_past = (*fitting[:-1], fitting[-1] + "x" * (rest + 1))
    assert len(content_of(teams_message(replace(CARD, lines=one_past)))["body"]) < 102


def size_of(body: Any) -> int:
    """Returns the size of a message in bytes as sent."""
    return len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())


@settings(max_examples=25, deadline=None)
@given(title=st.text(max_size=300), lines=st.lists(st.text(max_size=600), max_size=50))
def test_any_text_makes_a_message_within_the_limits(title: str, lines: list[str]) -> None:
    """Stays within 3,000 characters a section, 40 blocks a message and 20,000 bytes a card."""
    card = replace(CARD, title=title, lines=tuple(lines))
    assert size_of(teams_message(card)) <= CARD_BYTES
    texts = texts_of(slack_message(card, None)["blocks"])  # type: ignore[arg-type]
    assert len(texts) <= MAX_BLOCKS
    assert max(len(text) for text in texts) <= 3000


def test_teams_and_slack_alone_take_notices() -> None:
    """Checks that Teams and Slack are the only connectors that post notices."""
    assert {kind for kind, connector in BUILT.items() if isinstance(connector, NoticePoster)} == {
        "slack",
        "teams",
    }
