"""The checker of histories finds what a lying store does; a true one passes."""

from tests.fleet.history import History, Outcome


def _history() -> History:
    history = History()
    history.add("kept", Outcome.ACKNOWLEDGED, 0.0, 1.0)
    history.add("also kept", Outcome.ACKNOWLEDGED, 2.0, 9.0)
    history.add("refused", Outcome.REFUSED, 1.0, 2.0)
    history.add("lost answer", Outcome.UNKNOWN, 2.0, 8.0)
    history.add("never arrived", Outcome.UNKNOWN, 2.0, 8.0)
    return history


def test_a_true_store_passes() -> None:
    """What is not known may be there or not."""
    assert _history().violations(["kept", "also kept", "lost answer"]) == []


def test_each_lie_of_a_store_is_named() -> None:
    """An acknowledged act lost, one made twice, a refused one made, and one that nobody did."""
    stored = ["kept", "kept", "refused", "lost answer", "lost answer", "stranger"]
    assert _history().violations(stored) == [
        "also kept: acknowledged and lost",
        "kept: 2 times",
        "lost answer: 2 times",
        "refused: refused and there",
        "stranger: nobody did this",
    ]


def test_the_service_is_back_with_the_first_act_begun_after_the_fault() -> None:
    """Ignores responses to acts that began before the fault."""
    assert _history().first_acknowledged(0.5) == 9.0
    assert _history().first_acknowledged(2.5) is None


def test_the_longest_pause_is_between_successful_actions() -> None:
    """Counts from the fault and up to the end, and only acknowledged acts."""
    history = _history()
    assert history.longest_pause(0.5, 10.0) == 8.0
    assert history.longest_pause(0.5, 30.0) == 21.0
    assert history.longest_pause(1.5, 3.0) == 1.5
