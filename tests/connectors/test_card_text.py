"""Cards as one text, and the hosts that a connector of messages calls."""

from dataclasses import replace

import pytest

from steward.connectors.base.card_text import CardText
from steward.connectors.base.commands import PostCard
from steward.connectors.base.settings import BadSettings
from steward.connectors.teams.connector import TeamsConnector
from tests.connectors.conformance.test_every_connector import OPTIONS

CARD = PostCard(
    "Low stock", ("Two variants",), (("TEA-1", "3"), ("TEA-2", "4")), ("Open", "https://a.example")
)
WHOLE = "Low stock\nTwo variants\nTEA-1: 3\nTEA-2: 4\nOpen: https://a.example"


@pytest.mark.parametrize(
    ("max_characters", "text"),
    [
        (len(WHOLE), WHOLE),
        (len(WHOLE) - 1, "Low stock\nTwo variants\nand 2 more\nOpen: https://a.example"),
        (10, "Low stock\nand 3 more\nOpen: https://a.example"),
    ],
)
def test_lines_that_do_not_fit_are_left_out_from_the_end_and_counted(max_characters: int, text: str) -> None:
    """Keeps all lines at the limit; one character past it lines go, never the title or the link."""
    assert CardText(max_characters, str).of(CARD) == text


def test_texts_are_escaped_cleaned_and_titles_cut() -> None:
    """Escapes title, lines and names before they are formatted; a title has at most 200 characters."""
    text = CardText(1_000, str.upper, title="*{}*".format, link="<{1}|{0}>".format)
    card = replace(CARD, title="t" * 201, text=("a\u202eb\x07",), facts=())
    assert text.of(card) == f"*{'T' * 199}…*\nAB\n<https://a.example|OPEN>"


@pytest.mark.parametrize("address", ["http://a.example", "https://a.example/\u202e", "https://a.example/|b"])
def test_a_link_that_would_break_or_hide_something_is_left_out(address: str) -> None:
    """Takes https addresses of visible characters alone."""
    assert CardText(1_000, str).of(PostCard("Low stock", link=("Open", address))) == "Low stock"


def test_an_empty_list_of_hosts_allows_none() -> None:
    """An operator who names no host of Teams lets nobody connect it."""
    connector = TeamsConnector(replace(OPTIONS, teams_hosts=()))
    with pytest.raises(BadSettings, match="webhook_url"):
        connector.settings({"webhook_url": "https://any.example/workflow?sig=1"})


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("  ", "This is needed"),
        ("https://any.example/" + "a" * 2000, "on one line of at most 2000 characters"),
        ("https://any.example/\na", "on one line of at most 2000 characters"),
    ],
)
def test_an_unusable_address_is_refused_with_what_is_wrong(url: str, words: str) -> None:
    """Refuses an absent address, a long one and one of two lines, each in its own words."""
    with pytest.raises(BadSettings, match=words):
        TeamsConnector(replace(OPTIONS, teams_hosts=())).settings({"webhook_url": url})
