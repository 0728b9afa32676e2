"""The search terms of runs: written with changes, read by their beginnings, newest runs first."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from steward.database.engine.base import Json, PerEngine, Tx
from steward.database.engine.bulk import BulkInsert
from steward.model.change import Change
from steward.model.ids import OrgId, RunId

# Limits of a search: the terms read for each beginning, and the newest runs read for each term.
MAX_TERMS = 64
MAX_RUNS = 200
# Rows to read first, the same number for each term: of many terms, few have more of the newest runs.
_FIRST_ROWS = 1_024
# Sorts after every text with the same beginning: no text contains a greater character.
_LAST = "\U0010ffff"

_INSERT = BulkInsert(
    "search_terms",
    {"org_id": "bigint", "term": "text", "run_id": "text", "seq": "bigint", "position": "bigint"},
    "ON CONFLICT DO NOTHING",
)
# Skips from term to term in the index: a term that many runs share is one row here.
_TERMS = (
    "WITH RECURSIVE next(term, n) AS ("
    "SELECT (SELECT s.term FROM search_terms AS s WHERE s.org_id = :org AND s.term >= :first"
    " AND s.term < :end ORDER BY s.term LIMIT 1), 1"
    " UNION ALL SELECT (SELECT s.term FROM search_terms AS s WHERE s.org_id = :org AND s.term > next.term"
    " AND s.term < :end ORDER BY s.term LIMIT 1), next.n + 1 FROM next"
    " WHERE next.term IS NOT NULL AND next.n < :most) SELECT term FROM next WHERE term IS NOT NULL"
)
_NEWEST = (
    "FROM search_terms AS s WHERE s.org_id = :org AND s.term = {term} AND s.run_id < :before"
    " ORDER BY s.run_id DESC LIMIT :most"
)
_RUNS = PerEngine(
    "SELECT t.value AS term, s.run_id, s.seq, s.position FROM json_each(:terms) AS t"
    " CROSS JOIN search_terms AS s WHERE s.org_id = :org AND s.term = t.value"
    f" AND s.run_id IN (SELECT s.run_id {_NEWEST.format(term='t.value')})",
    "SELECT t.term, newest.run_id, newest.seq, newest.position FROM unnest(CAST(:terms AS text[])) AS t(term)"
    f" CROSS JOIN LATERAL (SELECT s.run_id, s.seq, s.position {_NEWEST.format(term='t.term')}) AS newest",
)
_COUNT = (
    "SELECT count(*) AS n FROM (SELECT 1 FROM search_terms AS s WHERE s.org_id = :org AND s.term >= :first"
    " AND s.term < :end LIMIT :most) AS counted"
)
_WITH_WORD = PerEngine(
    "SELECT r.value AS run_id, s.seq, s.position FROM json_each(:runs) AS r CROSS JOIN search_terms AS s"
    " WHERE s.org_id = :org AND s.run_id = r.value AND s.term = (SELECT min(m.term) FROM search_terms AS m"
    " WHERE m.org_id = :org AND m.run_id = r.value AND m.term >= :first AND m.term < :end)",
    "SELECT r.id AS run_id, s.seq, s.position FROM unnest(CAST(:runs AS text[])) AS r(id) CROSS JOIN LATERAL"
    " (SELECT t.seq, t.position FROM search_terms AS t WHERE t.org_id = :org AND t.run_id = r.id"
    " AND t.term >= :first AND t.term < :end ORDER BY t.term LIMIT 1) AS s",
)
_CHANGES = PerEngine(
    "SELECT c.run_id, c.seq, c.position, c.wire FROM json_each(:rows) AS r CROSS JOIN changes AS c"
    " WHERE c.org_id = :org AND c.run_id = r.value ->> 0 AND c.seq = r.value ->> 1"
    " AND c.position = r.value ->> 2",
    "SELECT c.run_id, c.seq, c.position, c.wire FROM unnest(CAST(:runs AS text[]), CAST(:seqs AS bigint[]),"
    " CAST(:positions AS bigint[])) AS r(run_id, seq, position) CROSS JOIN LATERAL"
    " (SELECT * FROM changes WHERE org_id = :org AND run_id = r.run_id AND seq = r.seq"
    " AND position = r.position OFFSET 0) AS c",
)


class WordPlace(NamedTuple):
    """A change that contains a search word, by its run, step and position."""

    run: RunId
    seq: int
    position: int


@dataclass(frozen=True, slots=True)
class RunMatches:
    """Runs that contain all the words of a query, newest first, each with the changes that contain them.

    `read_to`: the search read no further back than this run; None when it read to the end.
    """

    places_by_run: Mapping[RunId, Sequence[WordPlace]]
    read_to: RunId | None


async def insert(
    tx: Tx, org: OrgId, run: RunId, terms_by_change: Iterable[tuple[Change, Iterable[str]]]
) -> None:
    """Stores the terms of a run's changes, each once, with the first change that contains it."""
    first_changes: dict[str, Change] = {}
    for change, terms in terms_by_change:
        for term in terms:
            if term not in first_changes:
                first_changes[term] = change
    # in the order of the key
    changes = ((term, first_changes[term]) for term in sorted(first_changes))
    await _INSERT.insert(tx, ((org, term, run, change.seq, change.position) for term, change in changes))


async def matches(
    tx: Tx, org: OrgId, words: Sequence[str], *, before: RunId | None, limit: int = MAX_RUNS
) -> RunMatches:
    """Returns the newest runs, before `before`, in which a term begins with each of `words`.

    Reads at least the `limit` newest runs of the rarest word, and searches them for the others.
    """
    rarest, *others = await _rarest_first(tx, org, words)
    term_rows = await tx.all(_TERMS, _range(org, rarest) | {"most": MAX_TERMS})
    places_by_term, read_to = await _newest(tx, org, [row["term"] for row in term_rows], before, limit)
    places: dict[RunId, list[WordPlace]] = {}
    for word_place in chain.from_iterable(places_by_term):
        places.setdefault(word_place.run, []).append(word_place)
    runs = sorted((run for run in places if read_to is None or run >= read_to), reverse=True)
    for word in others:
        runs = await _with_word(tx, org, runs, word, places)
    return RunMatches({run: places[run] for run in runs}, read_to)


async def _newest(
    tx: Tx, org: OrgId, terms: Sequence[str], before: RunId | None, limit: int
) -> tuple[Collection[Sequence[WordPlace]], RunId | None]:
    """Returns the places of each term, newest first, and the oldest run up to which they are complete.

    The run is None when they are complete to the end. The `limit` newest runs of all terms are complete, or
    all runs if there are fewer.
    """
    few = min(_FIRST_ROWS // max(len(terms), 1), limit)
    places_by_term = await _newest_of_each(tx, org, terms, before, few)
    lasts = {term: places[-1].run for term, places in places_by_term.items() if len(places) == few}
    newest = sorted(
        {word_place.run for places in places_by_term.values() for word_place in places}, reverse=True
    )
    # Only a term whose last read run is newer than this one can have another of the newest runs.
    enough = newest[limit - 1] if len(newest) >= limit else ""
    if unfinished := [term for term, last in lasts.items() if last > enough]:
        again = await _newest_of_each(tx, org, unfinished, before, limit)
        places_by_term |= again
        for term, places in again.items():
            if len(places) == limit:
                lasts[term] = places[-1].run
            else:
                del lasts[term]
    return places_by_term.values(), max(lasts.values(), default=None)


async def _newest_of_each(
    tx: Tx, org: OrgId, terms: Sequence[str], before: RunId | None, limit: int
) -> dict[str, list[WordPlace]]:
    """Returns the newest places of each term, at most `limit`, newest first."""
    args = {"org": org, "terms": list(terms), "before": before or _LAST, "most": limit}
    places_by_term: dict[str, list[WordPlace]] = {}
    for row in await tx.all(_RUNS, args):
        word_place = WordPlace(RunId(row["run_id"]), row["seq"], row["position"])
        places_by_term.setdefault(row["term"], []).append(word_place)
    for places in places_by_term.values():
        places.sort(reverse=True)
    return places_by_term


async def _rarest_first(tx: Tx, org: OrgId, words: Sequence[str]) -> list[str]:
    if len(words) == 1:
        return list(words)
    counts: dict[str, int] = {}
    for word in words:
        row = await tx.first(_COUNT, _range(org, word) | {"most": MAX_RUNS})
        counts[word] = int(row["n"]) if row else 0
    return sorted(words, key=lambda word: (counts[word], -len(word)))


async def _with_word(
    tx: Tx, org: OrgId, runs: Sequence[RunId], word: str, places: Mapping[RunId, list[WordPlace]]
) -> list[RunId]:
    """Returns the `runs` that have a term that begins with `word`, and adds its places to `places`."""
    rows = await tx.all(_WITH_WORD, _range(org, word) | {"runs": list(runs)})
    having: set[RunId] = set()
    for row in rows:
        run = RunId(row["run_id"])
        having.add(run)
        places[run].append(WordPlace(run, row["seq"], row["position"]))
    return [run for run in runs if run in having]


def _range(org: OrgId, word: str) -> dict[str, object]:
    return {"org": org, "first": word, "end": word + _LAST}


async def objects(tx: Tx, org: OrgId, places: Collection[WordPlace]) -> dict[WordPlace, tuple[str, str]]:
    """Returns type and label of each change's object."""
    args: dict[str, object] = {"org": org}
    if tx.dialect == "sqlite":
        args["rows"] = Json([list(word_place) for word_place in places])
    else:
        args |= {
            "runs": [word_place.run for word_place in places],
            "seqs": [word_place.seq for word_place in places],
            "positions": [word_place.position for word_place in places],
        }
    object_by_place = {}
    for row in await tx.all(_CHANGES, args):
        ref = json.loads(row["wire"])["object"]
        object_by_place[WordPlace(RunId(row["run_id"]), row["seq"], row["position"])] = (
            ref["type"],
            ref["label"],
        )
    return object_by_place
