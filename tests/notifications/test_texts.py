"""The sentence of a notice and the page it links to."""

import pytest

from steward.model.json import JsonObject
from steward.model.notice import Topic
from steward.notifications.texts import NoticeIds, page, sentence

FACTS = {"automation": "Hide {0}", "store": "Northwind Tea", "changes": 12, "percent": 90, "periods": 3}
IDS = NoticeIds("A", "R", "P", 7, None)


def test_a_sentence_names_what_it_is_about() -> None:
    """Quotes names literally and uses singular and plural of counts."""
    asks = sentence(Topic.APPROVAL_WAITING, FACTS)
    assert asks == "“Hide {0}” on “Northwind Tea” asks for approval of 12 changes"
    one_message = {**FACTS, "kind": "sends", "changes": 1}
    assert sentence(Topic.APPROVAL_WAITING, one_message).endswith("asks for approval of 1 message")
    assert "nine tenths of its time" in sentence(Topic.APPROVAL_EXPIRING, FACTS)


def test_an_undo_is_called_so() -> None:
    """Says so of one notice, at the beginning and inside of its sentence, and not of several."""
    undo: JsonObject = {**FACTS, "undo": True}
    assert sentence(Topic.APPROVAL_WAITING, undo).startswith("Undo of “Hide {0}” on “Northwind Tea” asks")
    assert sentence(Topic.APPROVAL_EXPIRING, undo).startswith("The approval of the undo of “Hide {0}”")
    assert sentence(Topic.APPROVAL_WAITING, undo, count=2) == sentence(Topic.APPROVAL_WAITING, FACTS, count=2)


def test_several_notices_are_counted() -> None:
    """Counts notices of one automation by its name and those of many by their number."""
    assert sentence(Topic.RUN_FAILED, FACTS, count=14) == "“Hide {0}” on “Northwind Tea”: 14 runs failed"
    many = sentence(Topic.RUN_FAILED, FACTS, count=3214, automations=812)
    assert many == "3,214 runs of 812 automations failed"


def test_a_stop_of_changes_and_its_end_read_differently() -> None:
    """Says whether changes were stopped or resumed, of the whole organization or of which store."""
    store: JsonObject = {"scope": "store", "store": "Northwind Tea"}
    texts = [
        sentence(Topic.CHANGES_STOPPED, {**scope, "over": is_over})
        for scope in ({"scope": "organization"}, store)
        for is_over in (False, True)
    ]
    assert texts == [
        "All changes were stopped",
        "Changes were resumed",
        "Changes to “Northwind Tea” were stopped",
        "Changes to “Northwind Tea” were resumed",
    ]


@pytest.mark.parametrize("topic", Topic)
def test_every_topic_has_its_sentence_and_page(topic: Topic) -> None:
    """Has a sentence and a page for every topic, also without facts and ids."""
    for count, automations in ((1, 1), (2, 1), (2, 2)):
        text = sentence(topic, {}, count=count, automations=automations)
        assert text
        assert "{" not in text
        assert page(topic, NoticeIds(), count=count, automations=automations).startswith("/")


def test_a_notice_leads_to_its_record_and_several_to_a_list() -> None:
    """Links one notice to its record and several to a list."""
    assert page(Topic.APPROVAL_WAITING, IDS) == "/approvals/P"
    assert page(Topic.RUN_FAILED, NoticeIds("A", "R")) == "/runs/R"
    assert page(Topic.RUN_FAILED, NoticeIds("A", "R"), count=2) == "/automations/A/runs"
    assert page(Topic.RUN_FAILED, NoticeIds("A", "R"), count=9, automations=2) == "/runs?status=failed"
    assert page(Topic.CONNECTION_LOST, NoticeIds(integration=7)) == "/connections/7"
    assert page(Topic.AUTOMATION_PAUSED, NoticeIds("A")) == "/automations/A"
