"""user erase and org erase: no table holds the erased data, and the service goes on beside."""

import asyncio
import io
import json
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from steward.accounts import people
from steward.accounts.people import CreatePerson
from steward.cli.run import run
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.engine.sqlite import take_lock
from steward.database.operator.erasure import RETAINED, TABLES
from steward.fake_platforms.application import FakePlatforms
from steward.model.account import Role
from steward.model.run import RunStatus
from tests.cli.planted import holding, tables_of
from tests.events.world import open_listener, order
from tests.fake_clock import FakeClock
from tests.people import PASSWORD, Member
from tests.populated_service import PopulatedService, populated
from tests.runs.shop import Shop, connect_all, neighbour, open_shop
from tests.service import hashed_password

__all__ = ["populated"]
# A quotation mark and a backslash have a meaning in JSON and in LIKE.
EMAIL, FIRST, LAST = "Zsuzsa.Q@quellenhof.example", "Zsuzsanna", 'Quellenhof "Q\\"'
USERNAME = "zsuzsi-77"
PLANTED = (EMAIL, "quellenhof", FIRST, USERNAME)
CUSTOMER = "hermione.customer@example.net"
V1 = "/v1/automations"
Erase = Callable[..., Awaitable[tuple[int, Any]]]


@pytest.fixture
def steward(database_url: str, tmp_path: Path) -> Erase:
    """Returns a function that runs a command beside the service; it returns exit code and output."""
    environ = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": database_url,
        "STEWARD_DATA_DIR": str(tmp_path / "data"),
    }

    async def call(*words: str) -> tuple[int, Any]:
        out = io.StringIO()
        status = await asyncio.to_thread(run, [*words, "--json"], environ, out=out, err=io.StringIO())
        return status, json.loads(out.getvalue())

    return call


async def add_person(populated: PopulatedService, role: Role = Role.APPROVER) -> Member:
    """Adds a person with unmistakable names."""
    service = populated.service

    async def act(tx: Any) -> Any:
        command = CreatePerson(EMAIL, FIRST, LAST, USERNAME, hashed_password())
        person = await people.create(tx, command)
        await people.add_to_organization(tx, person, service.own.organization.id, role)
        return person

    organization = service.own.organization
    member = Member(await service.write(act), organization.id, organization.name, role)
    service.members["zsuzsa"] = member
    return member


async def leave_traces(populated: PopulatedService) -> dict[str, Any]:
    """Creates what a person leaves behind: sessions, tokens, attempts, decisions and reasons."""
    service, shop = populated.service, populated.shop
    session, token = await service.web("zsuzsa"), await service.token("zsuzsa")
    assert (await service.log_in("zsuzsa")).status == 200
    wrong = {"email": EMAIL, "password": "not this one"}
    assert (await service.nobody("198.51.100.77").post("/app/session", wrong)).status == 401
    waiting = await shop.waiting(await shop.hiding(threshold=5))
    approval = await shop.approval(waiting)
    comment = f"Fine by me, {FIRST} {LAST} <{EMAIL}> or {EMAIL.lower()}"
    response = await session.post(f"{V1}/approvals/{approval.id}/approve", {"version": 1, "comment": comment})
    assert response.status == 200, response.body
    await shop.until_settled(waiting)
    body = {"template_id": "hide-out-of-stock-products", "name": "Hers", "inputs": {}}
    body |= {
        "schedule": {"cadence": "daily", "run_at": "08:00"},
        "integration_id": populated.number("woocommerce"),
    }
    new_automation = (await token.post(V1, body)).data["automation"]
    reason = {"reason": f"{FIRST} {LAST} is away"}
    assert (await session.post(f"{V1}/{new_automation['id']}/pause", reason)).status == 200
    return {"session": session, "token": token, "approval": approval.id, "automation": new_automation["id"]}


async def test_a_person_is_erased_and_what_they_did_stays(
    populated: PopulatedService, steward: Erase, database_url: str
) -> None:
    """Removes every trace of the person's identity and keeps counts, decisions and audit entries.

    This is the right of GDPR article 17.
    """
    person = (await add_person(populated)).person
    traces = await leave_traces(populated)
    invited = {"email": EMAIL.upper(), "first_name": FIRST, "last_name": LAST, "role": "member"}
    assert (await (await populated.service.web("stranger")).post("/app/people", invited)).status == 201
    before = await tables_of(database_url)
    assert {"people.email", "members.email_norm", "approvals.comment", "automation_history.reason"} <= set(
        holding(before, PLANTED)
    )
    requests = ("user", "erase", "--user", EMAIL, "--confirm")
    status, refused = await steward(*requests, "Somebody Else")
    assert (status, refused["error"]["code"]) == (1, "not_confirmed")
    assert holding(await tables_of(database_url), PLANTED) == holding(before, PLANTED)

    status, facts = await steward(*requests, f"{FIRST} {LAST}")
    assert (status, facts["user"]["id"]) == (0, person.id), facts
    after = await tables_of(database_url)
    assert holding(after, PLANTED) == []
    gone = {"sessions", "login_attempts", "failed_sign_ins", "invitations", "inbox"}
    for table in before.keys() - gone - {"audit_log", "rate_windows"}:
        assert len(after[table]) == len(before[table]), table
    for table in ("sessions", "inbox"):
        assert [row for row in after[table] if row["person_id"] == person.id] == []
    [decided] = [row for row in after["approvals"] if row["id"] == traces["approval"]]
    assert (decided["decided_by"], decided["session_hash"]) == (person.id, None)
    assert decided["comment"] == "Fine by me, A former member <A former member> or A former member"
    done = [row for row in after["audit_log"] if row["action"] == "person_erased"]
    assert str(person.id) in {row["object_id"] for row in done}
    assert {row["org_id"] for row in done} == set(facts["user"]["organizations"])
    assert len(done) == 2

    assert (await traces["session"].get("/app/session")).status == 401
    assert (await traces["token"].get(f"{V1}/status")).status in (401, 403)
    assert (await populated.service.log_in("zsuzsa")).status == 401
    signing_in = {"email": EMAIL, "password": PASSWORD}
    assert (await populated.service.nobody("198.51.100.78").post("/app/session", signing_in)).status == 401
    owner = await populated.service.web("owner")
    [displayed] = [
        each_person
        for each_person in (await owner.get("/app/people")).data["people"]
        if each_person["id"] == person.id
    ]
    assert (displayed["first_name"], displayed["last_name"]) == ("A former", "member")
    assert (await owner.get(f"{V1}/{traces['automation']}")).status == 200


async def test_an_invitation_goes_with_the_person(
    populated: PopulatedService, steward: Erase, database_url: str
) -> None:
    """Erases a person who was only invited by the address, and the invitation with it."""
    stranger = await populated.service.web("stranger")
    body = {"email": EMAIL, "first_name": FIRST, "last_name": LAST, "role": "member"}
    assert (await stranger.post("/app/people", body)).status == 201
    assert holding(await tables_of(database_url), PLANTED)
    for blank in ("", " "):  # a person who was only invited has no name yet
        status, refused = await steward("user", "erase", "--user", EMAIL, "--confirm", blank)
        assert (status, refused["error"]["code"]) == (1, "not_confirmed")
    status, _ = await steward("user", "erase", "--user", EMAIL, "--confirm", EMAIL)
    assert status == 0
    after = await tables_of(database_url)
    assert (holding(after, PLANTED), after["invitations"]) == ([], [])


async def test_the_last_owner_is_not_erased(populated: PopulatedService, steward: Erase) -> None:
    """Refuses to erase the last owner until there is another one."""
    owner = populated.service.members["owner"].person
    requests = ("user", "erase", "--user", str(owner.id), "--confirm", owner.email)
    status, refused = await steward(*requests)
    assert (status, refused["error"]["code"]) == (1, "wrong_state")
    assert "Demo Shop" in refused["error"]["message"]
    await add_person(populated, Role.OWNER)
    assert (await steward(*requests))[0] == 0


async def busy_organization(populated: PopulatedService) -> Shop:
    """Creates runs of every kind, an event with a customer's data and an import."""
    listener, shop = await open_listener(populated), populated.shop
    await listener.automation("orders/create", name="Quellenhof orders")
    actual = order(71, billing={"email": CUSTOMER, "first_name": "Hermione"})
    assert (await listener.deliver("order.created", actual)).status == 200
    await listener.automation("orders/updated", name="Quellenhof later")
    await shop.drain()
    assert (await listener.deliver("order.updated", {**actual, "note": CUSTOMER})).status == 200
    await shop.waiting(await shop.pricing())
    nodes = [{"name": "Quellenhof", "type": "n8n-nodes-base.noOp", "typeVersion": 1, "parameters": {}}]
    stored = {"source": "workflow_tool", "name": "Quellenhof", "content": {"nodes": nodes, "connections": {}}}
    assert (await (await populated.service.token("member")).post(f"{V1}/imports", stored)).status == 201
    owner = await populated.service.web("owner")
    renamed = await owner.patch("/app/organization", {"name": "Quellenhof Tea", "timezone": "Europe/Vienna"})
    assert renamed.status == 200, renamed.body
    await shop.run_now(await shop.alerting())
    return shop


async def test_an_organization_is_erased_beside_a_running_worker(
    populated: PopulatedService, steward: Erase, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Erases an organization beside its worker but for its id and audit log (GDPR articles 17 and 28)."""
    await add_person(populated)
    await leave_traces(populated)
    shop = await busy_organization(populated)
    org = int(populated.service.own.organization.id)
    before = await tables_of(database_url)
    planted = ("quellenhof", CUSTOMER, "olga", "anton", "member@example.com")
    assert len(holding(before, planted)) > 15
    status, refused = await steward("org", "erase", "--org", str(org), "--confirm", "Demo Shop")
    assert (status, refused["error"]["code"]) == (1, "not_confirmed")

    capsys.readouterr()
    erasing = steward("org", "erase", "--org", str(org), "--confirm", "Quellenhof Tea")
    (status, facts), _ = await asyncio.gather(erasing, shop.drain())
    assert status == 0, facts
    assert set(facts) == {
        "organization", "removed", "people_anonymised", "subscriptions_left", "file_rewritten",
    }  # fmt: skip
    assert facts["removed"]["runs"] >= 3
    assert {item["store"] for item in facts["subscriptions_left"]} == {shop.connections["woocommerce"].name}
    await shop.pass_time(minutes=10)
    after = await tables_of(database_url)
    # The person is still a member of the other organization, under their own name.
    remaining = [
        location
        for location in holding(after, planted)
        if location.partition(".")[0] not in ("people", "members")
    ]
    assert remaining == []
    owned = {table: [row for row in rows if row.get("org_id") == org] for table, rows in after.items()}
    assert {table for table, rows in owned.items() if rows} == set(RETAINED)
    [done] = [row for row in owned["audit_log"] if row["action"] == "organization_erased"]
    assert json.loads(done["detail"])["runs"] == facts["removed"]["runs"]
    assert len(owned["audit_log"]) > len([row for row in before["audit_log"] if row["org_id"] == org])
    assert capsys.readouterr().out == ""

    stranger = await populated.service.token("stranger")
    assert (await stranger.get(f"{V1}/status")).status == 200
    assert (await populated.service.log_in("owner")).status == 401
    status, again = await steward("org", "list")
    assert f"Erased organization {org}" in [organization["name"] for organization in again["organizations"]]


@dataclass
class PausedTransport(httpx.AsyncBaseTransport):
    """Passes requests to the fake shop; awaits `meanwhile` before the first read of products."""

    inner: httpx.AsyncBaseTransport
    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answers as the shop does."""
        meanwhile = self.meanwhile
        if meanwhile is not None and request.method == "GET" and "/products" in request.url.path:
            self.meanwhile = None
            await meanwhile()
        return await self.inner.handle_async_request(request)


async def test_a_worker_drops_a_run_that_is_erased_under_its_hands(
    database_url: str, clock: FakeClock, tmp_path: Path, steward: Erase, capsys: pytest.CaptureFixture[str]
) -> None:
    """Drops a run whose organization is erased meanwhile, and continues another organization's run."""
    held: list[PausedTransport] = []

    def around(world: FakePlatforms) -> None:
        held.append(PausedTransport(world.transport()))
        world.transport = lambda: held[0]  # type: ignore[method-assign]

    shop = await open_shop(database_url, clock, tmp_path, around=around)
    await connect_all(shop)
    beside = await neighbour(shop)
    org, done = str(shop.owner.org), []
    await shop.run_now(await shop.pricing())
    other = await beside.run_now(await beside.pricing())

    async def erase() -> None:
        done.append(await steward("org", "erase", "--org", org, "--confirm", "test"))

    held[0].meanwhile = erase
    capsys.readouterr()
    await shop.drain()
    [(status, facts)] = done
    assert (status, facts["removed"]["runs"]) == (0, 1)
    assert (await beside.run(other)).status is RunStatus.WAITING_APPROVAL
    assert capsys.readouterr().out == ""
    await shop.service.close()
    after = await tables_of(database_url)
    assert {
        table for table, rows in after.items() if any(str(row.get("org_id")) == org for row in rows)
    } == RETAINED


async def test_every_table_of_an_organization_is_erased_or_kept_on_purpose(database_url: str) -> None:
    """Checks that each table with `org_id` is in the list to erase or in the list to keep."""
    if is_sqlite(database_url):
        file = sqlite3.connect(sqlite_path(database_url))
        names = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {name: {row[1] for row in file.execute(f"PRAGMA table_info({name})")} for name in names}
        file.close()
        owned = {name for name, table_columns in columns.items() if "org_id" in table_columns}
    else:
        connection = await asyncpg.connect(database_url)
        rows = await connection.fetch(
            "SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
            " JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'org_id'"
            " WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        )
        await connection.close()
        owned = {row["relname"] for row in rows} - {"rate_windows"}
    assert owned == TABLES.keys() | RETAINED


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_nothing_is_left_in_the_bytes_of_the_file(
    database_url: str, populated: PopulatedService, steward: Erase
) -> None:
    """Rewrites the file when the service is stopped, so that its bytes hold nothing.

    See docs/guides/operators.md.
    """
    await busy_organization(populated)
    file = sqlite_path(database_url)
    await populated.close()
    org = str(populated.service.own.organization.id)
    assert b"uellenhof" in file.read_bytes()
    status, facts = await steward("org", "erase", "--org", org, "--confirm", "Quellenhof Tea")
    assert (status, facts["file_rewritten"]) == (0, True)
    for path in file.parent.glob(f"{file.name}*"):
        content = path.read_bytes()
        assert b"uellenhof" not in content, path
        assert CUSTOMER.encode() not in content, path


async def test_a_file_in_use_is_not_rewritten(database_url: str, steward: Erase) -> None:
    """Refuses `compact` while the file is in use, and on PostgreSQL. See docs/guides/operators.md."""
    if not is_sqlite(database_url):
        status, refused = await steward("compact")
        assert (status, refused["error"]["code"]) == (1, "wrong_engine")
        return
    path = sqlite_path(database_url)
    with closing(take_lock(path)):
        status, refused = await steward("compact")
        assert (status, refused["error"]["code"]) == (1, "already_served")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        status, refused = await steward("compact")
        assert (status, refused["error"]["code"]) == (1, "not_rewritten")
    with closing(sqlite3.connect(path, isolation_level=None)) as reading:
        reading.execute("BEGIN")
        reading.execute("SELECT * FROM people").fetchall()
        status, refused = await steward("compact")
        assert (status, refused["error"]["code"]) == (1, "not_rewritten")
    status, facts = await steward("compact")
    assert (status, facts["bytes"]) == (0, path.stat().st_size)
