"""Every message for Teams is an adaptive card 1.4 by the published schema.

See docs/design/connectors.md#teams and docs/design/connectors.md#tests.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft6Validator
from jsonschema.exceptions import ValidationError

from steward.connectors.base.commands import PostCard
from steward.connectors.teams.card import message

FILE = Path(__file__).resolve().parents[2] / ".cache" / "cards" / "schema-1.4.json"
SUM = "ab08b77ea256537552e8971796d71d79d4a06f8776e83eceb6f4f9566808eee3"
HEAD = {"type": "message"}
ADAPTIVE = "application/vnd.microsoft.card.adaptive"

pytestmark = pytest.mark.skipif(
    not FILE.exists(), reason="SKIPPED LOUDLY: the schema of cards is not there; run `make cards-schema`"
)


@cache
def schema() -> Draft6Validator:
    """Returns a validator of the published schema of cards 1.4, whose checksum it verifies."""
    content = FILE.read_bytes()
    assert hashlib.sha256(content).hexdigest() == SUM
    return Draft6Validator(json.loads(content))


def card(query: PostCard) -> dict[str, Any]:
    """Returns the one card of the message and checks that the message holds nothing beside it."""
    card_message: dict[str, Any] = json.loads(json.dumps(message(query)))
    [attachment] = card_message.pop("attachments")
    assert card_message == HEAD
    assert (attachment["contentType"], attachment.get("contentUrl")) == (ADAPTIVE, None)
    results: dict[str, Any] = attachment["content"]
    return results


_TEXT = st.text(max_size=60)


@settings(max_examples=15, deadline=None)
@given(
    title=_TEXT,
    text=st.lists(_TEXT, max_size=4),
    facts=st.lists(st.tuples(_TEXT, _TEXT), max_size=4),
    link=st.sampled_from([None, ("Open", "https://shop.example/7")]),
    many=st.sampled_from([0, 3, 1_500]),
)
def test_every_card_is_valid(
    title: str, text: list[str], facts: list[tuple[str, str]], link: Any, many: int
) -> None:
    """Builds cards that the schema accepts from any text, whole or shortened, and names version 1.4.

    See docs/design/connectors.md#tests.
    """
    rows = (*facts, *((f"SKU-{number}", "2 left") for number in range(many)))
    new_card = card(PostCard(title, tuple(text), rows, link=link))
    schema().validate(new_card)
    assert new_card["version"] == "1.4"


def test_the_card_schema_refuses_malformed_cards() -> None:
    """Checks that the schema refuses an unknown element, a fact without a value and a missing text."""
    good = card(PostCard("Hello", facts=(("A", "1"),)))
    wrong: list[Any] = [
        {"type": "Table", "columns": [], "rows": []},
        {"type": "FactSet", "facts": [{"title": "A"}]},
        {"type": "TextBlock"},
    ]
    for block in wrong:
        with pytest.raises(ValidationError):
            schema().validate({**good, "body": [block]})
