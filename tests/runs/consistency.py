"""Checks that a run's counts, its summary text and its recorded changes agree."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from steward.model.change import Change, Outcome
from steward.model.run import Run
from steward.templates.base import OTHER_OUTCOMES

DONE = re.compile(r"(\d+) of (\d+) (?:prices?|products?) (?:changed|hidden)")
DONE_IN_GENERAL = re.compile(r"(\d+) (?:changed|sent)\b(?! meanwhile)")
OF_WRITES = ("applied", "sent", "declined", "conflicts", "failed", "unknown", "proposed")


def assert_agrees(run: Run, changes: Sequence[Change], *, sends: bool = False) -> None:
    """Asserts that the summary's counts match the changes, and the numbers in its text the counts."""
    assert run.summary is not None, run
    counts: Any = run.summary["counts"]
    tally = Counter(change.outcome for change in changes)
    applied = tally[Outcome.APPLIED]
    expected = {
        "applied": 0 if sends else applied,
        "sent": applied if sends else 0,
        "declined": tally[Outcome.DECLINED],
        "conflicts": tally[Outcome.CONFLICT],
        "failed": tally[Outcome.FAILED],
        "unknown": tally[Outcome.UNKNOWN],
        "proposed": len(changes),
    }
    assert {name: counts[name] for name in OF_WRITES} == expected, run.summary
    assert counts["unchanged"] >= tally[Outcome.UNCHANGED], run.summary
    text = str(run.summary["text"])
    for outcome, words in OTHER_OUTCOMES.items():
        numbers = [int(number) for number in re.findall(rf"(\d+) {words}\b", text)]
        assert sends or numbers == ([tally[outcome]] if tally[outcome] else []), (outcome, text)
    if (match := DONE.search(text)) is not None:
        assert (int(match[1]), int(match[2])) == (applied, len(changes)), text
    elif (in_general := DONE_IN_GENERAL.search(text)) is not None:
        assert int(in_general[1]) == applied, text
    else:
        assert sends or applied == 0, text
