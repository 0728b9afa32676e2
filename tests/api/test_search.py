"""The search and the runs of all automations, by word prefixes, on both engines."""

import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from steward.database.engine.base import Tx
from steward.database.runs import changes, search_terms
from steward.model.change import Action, Change, ObjectRef, Outcome, Proposal
from steward.model.ids import ChangeId, IntegrationId, OrgId, RisingIds, RunId
from steward.runs.checkpoint import change_wire
from steward.search.words import terms, terms_of
from tests.api.test_automations import AutomationsApi, desk
from tests.api.test_overview import automation, put
from tests.people import Caller

__all__ = ["desk"]

SEARCH, RUNS = "/app/search", "/app/runs"


async def propose(desk: AutomationsApi, org: OrgId, labels_by_run: Mapping[str, Sequence[str]]) -> None:
    """Stores a proposed change for each label with its search terms."""
    now, ids = desk.service.clock.now(), RisingIds()

    def change(run: str, position: int, label: str) -> Change:
        ref = ObjectRef("product", f"gid://shop/Product/{7000 + position}", label)
        proposal = Proposal(ref, Action.UPDATE, (), (), IntegrationId(1))
        return Change(
            ChangeId(ids.next(now)), RunId(run), 1, "hide", "", position, 1, proposal,
            proposal.item_hash(), Outcome.PROPOSED, None, None,
        )  # fmt: skip

    async def insert(tx: Tx) -> None:
        for run, labels in labels_by_run.items():
            new_changes = [change(run, position, label) for position, label in enumerate(labels)]
            await changes.insert(
                tx, org, [(each_change, change_wire(each_change)) for each_change in new_changes]
            )
            words = ((item, terms_of(item.proposal)) for item in new_changes)
            await search_terms.insert(tx, org, RunId(run), words)

    await desk.service.write(insert, org=org)


async def searched(web: Caller, q: str) -> dict[str, Any]:
    """Returns what the search answers."""
    response = await web.get(SEARCH, q=q)
    assert response.status == 200, response.body
    reply: dict[str, Any] = response.data
    return reply


async def listed(web: Caller, **query: str) -> list[str]:
    """Returns the ids on all pages of the runs."""
    ids: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        response = await web.get(RUNS, **query, **cursor)
        assert response.status == 200, response.body
        ids += [run["id"] for run in response.data["runs"]]
        if response.data["next_cursor"] is None:
            return ids
        cursor = {"cursor": response.data["next_cursor"]}


async def test_each_kind_is_searched_by_beginnings_of_words(desk: AutomationsApi) -> None:
    """Matches prefixes of words in names, SKUs, order numbers and ids, whatever case and signs are typed."""
    service, web = desk.service, await desk.service.web("member")
    org = service.members["member"].org
    automation_id = await automation(desk, "Hide (sencha) teas")
    now = service.clock.now()
    older = await put(service, org, automation_id, "waiting_approval", now - timedelta(hours=2))
    newer = await put(service, org, automation_id, "succeeded", now - timedelta(hours=1))
    labels = ["Green Sencha, 100 g (TEA-100/G)", "#1001, Ada Byron"]
    await propose(desk, org, {older: labels, newer: ["Grüner Tee ½", "Green mug", "ＦＵＬＬ width"]})
    for q, runs in {
        "green": [newer, older],
        "  GREEN sen": [older],
        "tea-100": [older],
        "tea-100/g": [older],
        "#1001": [older],
        "byr": [older],
        "7001": [newer, older],
        "grüner": [newer],
        "full": [newer],
        "reen": [],
        "green nothing": [],
        "%": [],
    }.items():
        assert [hit["id"] for hit in (await searched(web, q))["changes"]] == runs, q
        assert await listed(web, q=q) == runs, q
    response = await searched(web, "sencha gree")
    assert response["changes"][0]["object_label"] == "Green Sencha, 100 g (TEA-100/G)"
    response = await searched(web, "sench")
    assert [hit["id"] for hit in response["automations"]] == [automation_id]
    response = await searched(web, newer[:12].lower())
    assert {hit["id"] for hit in response["runs"]} >= {newer}
    assert newer in await listed(web, q=newer)
    store = (await web.get("/app/connections")).data["connections"][0]
    assert store["integration_id"] in {
        hit["integration_id"] for hit in (await searched(web, store["name"][:3]))["connections"]
    }


async def test_a_search_matches_only_the_callers_organization(desk: AutomationsApi) -> None:
    """Matches nothing of another organization."""
    service = desk.service
    org = service.members["member"].org
    automation_id = await automation(desk, "Private quinces")
    run = await put(service, org, automation_id, "succeeded", service.clock.now())
    await propose(desk, org, {run: ["Private quince jam (QUI-7)"]})
    stranger = await service.web("stranger")
    for q in ("private", "qui-7", run[:10], run):
        response = await searched(stranger, q)
        assert not any(response[kind] for kind in ("automations", "runs", "changes", "approvals")), q
        assert await listed(stranger, q=q) == []
    assert await listed(stranger, integration_id=str(desk.store)) == []


async def test_pages_of_a_search_hold_every_run_once_in_order(desk: AutomationsApi) -> None:
    """Pages hits in order, each run once, by one or two words and with status, days and limits."""
    service, web = desk.service, await desk.service.web("member")
    org, chance = service.members["member"].org, random.Random(7)
    mine = await automation(desk, "Mine")
    now = service.clock.now()
    words: dict[str, list[str]] = {}
    statuses: dict[str, str] = {}
    for number in range(260):
        status = chance.choice(("succeeded", "failed"))
        run = await put(service, org, mine, status, now - timedelta(minutes=10 * number))
        statuses[run] = status
        words[run] = ["common", chance.choice(("red", "blue")), f"sku-{number}"]
    await propose(desk, org, {run: [" ".join(of_run)] for run, of_run in words.items()})
    newest = list(words)

    def having(*beginnings: str) -> list[str]:
        return [
            run
            for run in newest
            if all(any(word.startswith(start) for word in words[run]) for start in beginnings)
        ]

    assert await listed(web, q="comm", limit="100") == newest
    assert await listed(web, q="comm red", limit="33") == having("comm", "red")
    assert await listed(web, q="sku-25") == having("sku-25")
    failed = [run for run in having("blue") if statuses[run] == "failed"]
    assert await listed(web, q="blue", status="failed", limit="20") == failed
    days = {
        "from": (now - timedelta(hours=30)).isoformat(),
        "to": (now - timedelta(hours=20)).isoformat(),
    }
    assert await listed(web, q="comm", **days) == newest[121:181]


async def test_pages_are_right_however_words_that_begin_alike_share_runs(desk: AutomationsApi) -> None:
    """Pages right when many words of the same prefix share runs, for several limits."""
    service, web = desk.service, await desk.service.web("member")
    org, chance = service.members["member"].org, random.Random(11)
    mine = await automation(desk, "Mine")
    now = service.clock.now()
    words: dict[str, set[str]] = {}
    for number in range(150):
        status = "failed" if number % 2 else "succeeded"
        run = await put(service, org, mine, status, now - timedelta(minutes=10 * number))
        words[run] = {*(f"each{word}" for word in range(60)), f"turn{number % 30}"}
        words[run] |= {chance.choice(("mixa", "mixa", "mixb"))}
        words[run] |= {f"mix{number % 40}"} if chance.random() < 0.2 else set()
    await propose(desk, org, {run: sorted(of_run) for run, of_run in words.items()})
    newest = list(words)
    for limit in ("30", "45", "100"):
        for q in ("mix", "each", "turn"):
            assert await listed(web, q=q, limit=limit) == newest, (q, limit)
            assert await listed(web, q=q, limit=limit, status="failed") == newest[1::2], (q, limit)
    page = await web.get(RUNS, q="each", limit="100")
    assert len(page.data["runs"]) == 100


async def test_runs_are_listed_by_the_store_they_ran_on(desk: AutomationsApi) -> None:
    """Lists runs by the store they ran on, and refuses a store together with an automation."""
    web = await desk.service.web("member")
    automation = await desk.create(schedule={"cadence": "manual"})
    body = {"idempotency_key": "one", "mode": "test"}
    response = await desk.member.post(f"/v1/automations/{automation['id']}/runs", body)
    run = response.data["run"]["id"]
    other = await desk.create(schedule={"cadence": "manual"}, integration_id=desk.other_store)
    response = await desk.member.post(
        f"/v1/automations/{other['id']}/runs", {"idempotency_key": "two", "mode": "test"}
    )
    assert await listed(web, integration_id=str(desk.store)) == [run]
    assert await listed(web, integration_id=str(desk.store), mode="live") == []
    labels = (await web.get(RUNS)).data["store_labels"]
    assert set(labels) == {run, response.data["run"]["id"]}
    assert labels[run] == automation["store_label"] != other["store_label"]
    assert (await web.get(RUNS, q=run)).data["store_labels"] == {run: labels[run]}
    assert await listed(web, integration_id=str(desk.other_store)) == [response.data["run"]["id"]]
    refused = await web.get(RUNS, integration_id=str(desk.store), automation_id=automation["id"])
    assert (refused.status, list(refused.body["errors"])) == (422, ["integration_id"])


def test_texts_are_cut_into_words_and_whole_numbers() -> None:
    """Cuts text of any script into case-folded words of at most 64 characters, and keeps SKUs whole too."""
    assert list(terms("Crème-brûlée (SKU_1.5) — № 7")) == [
        "crème-brûlée", "crème", "brûlée", "sku_1.5", "sku", "1", "5", "no", "7",
    ]  # fmt: skip
    assert list(terms("STRASSE straße हिन्दी")) == ["strasse", "strasse", "हनद"]
    assert [len(term) for term in terms("x" * 100)] == [64]
