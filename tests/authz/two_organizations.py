"""Provides two organizations with one of everything, behind one service and beside fake platforms."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from steward.automations.rules import AutomationRules
from steward.connections.vault import Vault
from steward.connectors import build
from steward.connectors.base.options import SignInClient
from steward.database.accounts import connections
from steward.database.engine.base import Engine, Tx
from steward.database.notifications import inbox
from steward.database.notifications.inbox import InboxGroup
from steward.database.runs import approvals, changes, search_terms, transitions, workers
from steward.database.runs.approvals import Decision
from steward.fake_platforms.application import FakePlatforms, create
from steward.fake_platforms.sheets import FakeTab
from steward.model.approval import Approval, ApprovalKind, ApprovalStatus
from steward.model.change import Action, Change, FieldChange, FieldKind, ObjectRef, Outcome, Proposal
from steward.model.connection import Auth, Connection, ConnectionState
from steward.model.ids import (
    ApprovalId,
    AutomationId,
    ChangeId,
    IntegrationId,
    NoticeId,
    OrgId,
    PersonId,
    RunId,
    new_id,
)
from steward.model.notice import Notice, StoredNotice, Topic
from steward.notifications.channels import route_channels
from steward.outbound.client import Outbound
from steward.outbound.transport import HttpTransport
from steward.runs.checkpoint import change_wire
from steward.scheduling.zones import use_packaged_zones
from steward.search.words import terms_of
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from steward.templates import ALL as TEMPLATES
from tests.automations.world import REPORT
from tests.connectors.options import connector_options
from tests.fake_clock import FakeClock
from tests.people import Caller
from tests.service import BASE_URL, MASTERS, Cast, Service, make_service

PREFIX = "/v1/automations"
OUTSIDE = "127.0.0.1:18411"
MANY = 1_000_000


@dataclass(frozen=True)
class OrganizationIds:
    """Holds the ids of one organization by the names of path and body parameters."""

    automation_id: str
    run_id: str
    approval_id: str
    change_id: str
    integration_id: int
    teams_id: int
    sheet_id: int
    user_id: int
    organization_id: int
    template_id: str
    slot_at: str
    import_id: str
    route_id: str
    message_id: str
    period_id: str

    def one(self, name: str) -> Any:
        """Returns the id of this name."""
        return getattr(self, name)


ABSENT = OrganizationIds(
    automation_id="01JD3Z0QH8N2Y5V7W9X1C4B6A8",
    run_id="01JD3Z0QH8N2Y5V7W9X1C4B6A9",
    approval_id="01JD3Z0QH8N2Y5V7W9X1C4B6AA",
    change_id="01JD3Z0QH8N2Y5V7W9X1C4B6AB",
    integration_id=999_999,
    teams_id=999_998,
    sheet_id=999_997,
    user_id=999_996,
    organization_id=999_995,
    template_id="no-such-template",
    slot_at="2026-05-02T08:00:00Z",
    import_id="01JD3Z0QH8N2Y5V7W9X1C4B6AC",
    route_id="01JD3Z0QH8N2Y5V7W9X1C4B6AE",
    message_id="01JD3Z0QH8N2Y5V7W9X1C4B6AF",
    period_id="01JD3Z0QH8N2Y5V7W9X1C4B6AD",
)


@dataclass
class TwoOrganizations:
    """Holds the service, the ids of both organizations, and words that only the other one's records have."""

    service: Service
    outside: FakePlatforms
    ours: OrganizationIds
    theirs: OrganizationIds
    theirs_alone: tuple[str, ...]
    sessions: dict[str, Caller] = field(default_factory=dict)

    def told(self, raw: bytes) -> list[str]:
        """Returns the other organization's words in a response."""
        text = raw.decode("utf-8")
        return [word for word in self.theirs_alone if word in text]


@dataclass(frozen=True)
class RowsOfTwo:
    """Both organizations and their members, as they stand in a database, and how late it is there."""

    cast: Cast
    ours: OrganizationIds
    theirs: OrganizationIds
    now: datetime


async def create_two(engine: Engine) -> RowsOfTwo:
    """Sets both organizations up in a database that tests are given copies of."""
    two = await make_two(engine, FakeClock())
    service = two.service
    await service.close()
    cast = Cast(service.members, service.own, service.other)
    return RowsOfTwo(cast, two.ours, two.theirs, service.clock.now())


async def make_two(engine: Engine, clock: FakeClock, rows: RowsOfTwo | None = None) -> TwoOrganizations:
    """Opens the service with both organizations set up alike and limits that no test here reaches.

    With `rows`, the database was copied with them.
    """
    use_packaged_zones()
    outside = create(1, f"http://{OUTSIDE}", clock.now)
    outside.state.google.books["sheet-prices"].tabs.append(FakeTab(1, "Second"))
    context = _context(outside, clock)
    channels = route_channels(engine, clock, context["vault"], web_origin=BASE_URL)
    cast = None if rows is None else rows.cast
    service = await make_service(engine, clock, cast=cast, channels=channels, **context)
    service.restart(limit_person=MANY, limit_organization=MANY, limit_web=MANY, limit_login=MANY)
    if rows is None:
        ours = await _populate(service, outside, "owner", "ours")
        theirs = await _populate(service, outside, "stranger", "theirs")
    else:
        ours, theirs = rows.ours, rows.theirs
        clock.tick((rows.now - clock.now()).total_seconds())
    ulids = [
        theirs.automation_id,
        theirs.run_id,
        theirs.approval_id,
        theirs.change_id,
        theirs.import_id,
        theirs.route_id,
        theirs.message_id,
    ]
    ulids.append(theirs.period_id)
    names = ["theirs", "Other Shop", "stranger@example.com", "Sven"]
    return TwoOrganizations(service, outside, ours, theirs, (*ulids, *names))


def _context(outside: FakePlatforms, clock: FakeClock) -> Mapping[str, Any]:
    """Returns connectors and vault over fake platforms as app.py makes them, and the templates."""
    sheet = outside.described()["spreadsheet"]
    hosts = frozenset([OUTSIDE])
    register = SecretRegister()
    wire = HttpTransport(
        clock,
        register,
        Log(lambda line: None, clock, register),
        private_hosts=hosts,
        transport=outside.transport(),
    )
    built = build(
        connector_options(
            private_hosts=hosts,
            read_s=10.0,
            sheets_url=sheet["sheets_url"],
            google=SignInClient(sheet["token_url"]),
            teams_hosts=(OUTSIDE,),
            bounded=True,
        )
    )
    templates = {template.facts.template_id: template for template in [*TEMPLATES, REPORT]}
    return {
        "vault": Vault(MASTERS, built, Outbound(wire), register),
        "automation_rules": AutomationRules(templates, built),
    }


async def _populate(service: Service, outside: FakePlatforms, name: str, mark: str) -> OrganizationIds:
    """Creates connections, automations, runs, approvals, changes, a skipped slot and one more person."""
    web = await service.web(name)
    described = outside.described()
    woo = {key: described["woocommerce"][key] for key in ("url", "consumer_key", "consumer_secret")}
    key_file = described["spreadsheet"]["service_account"]
    account = {
        "service_account": key_file,
        "spreadsheet_id": "sheet-prices",
    }
    store = await _connect(web, "woocommerce", woo, mark)
    sheet = await _connect(web, "spreadsheet", account, mark)
    teams = await _connect(web, "teams", {"webhook_url": described["teams"]["webhook_url"]}, mark)
    org = service.members[name].org
    await service.write(partial(_tell_twice, org=org, person=service.members[name].person.id), org=org)
    await service.write(
        partial(_second_store, own=org, mark=mark, keys=woo, vault=service.context.vault), org=org
    )
    first = await create_automation(web, store, f"{mark} one")
    second = await create_automation(web, store, f"{mark} two")
    ended = [await _waiting(service, web, org, key, mark=mark, store=store) for key in (second, first)]
    run, approval, change = ended[-1]
    for key in (first, second):
        await web.post(f"{PREFIX}/{key}/runs", {"idempotency_key": f"{mark}-test-{key}", "mode": "test"})
        await web.patch(f"{PREFIX}/{key}", {"version": 1, "name": f"{mark} again {key}"})
    coming = (await web.get(f"{PREFIX}/occurrences", automation_id=first, limit=3)).data["occurrences"]
    slot = {"slot_at": coming[2]["slot_at"], "occurrence_version": 0, "automation_version": 2}
    skipped = await web.post(f"{PREFIX}/{first}/occurrences/skip", slot)
    assert skipped.status == 200, skipped.body
    guest = {"email": f"{mark}@example.com", "role": "member", "first_name": mark, "last_name": mark}
    for export in (_export(f"{mark} before"), _export(mark)):
        keep = {"source": "workflow_tool", "name": mark, "content": export}
        response = await web.post(f"{PREFIX}/imports", keep)
        assert response.status == 201, response.body
    christmas = {"kind": "yearly", "first": "12-24", "last": "12-26"}
    scope = {"kind": "automation", "automation_id": first}
    closed = {"name": mark, "scope": scope, "stops": "changes", "when": christmas}
    for name in (f"{mark} before", mark):
        period = await web.post("/app/closed-periods", {**closed, "name": name})
        assert period.status == 201, period.body
    invited = await web.post("/app/people", guest)
    assert invited.status == 201, invited.body
    route_id, message_id = await _route(service, web, teams, mark)
    return OrganizationIds(
        automation_id=first,
        run_id=run,
        approval_id=approval,
        change_id=change,
        integration_id=store,
        teams_id=teams,
        sheet_id=sheet,
        user_id=invited.data["person"]["id"],
        organization_id=int(org),
        template_id="hide-out-of-stock-products",
        slot_at=coming[1]["slot_at"],
        import_id=response.data["import"]["id"],
        route_id=route_id,
        message_id=message_id,
        period_id=period.data["closed_period"]["id"],
    )


async def _route(service: Service, web: Caller, teams: int, mark: str) -> tuple[str, str]:
    """Creates a route with two deliveries; returns the ids of the route and the newer delivery."""
    routes, chosen = "/app/notification-routes", {"channel": "teams", "integration_id": teams}
    route = await web.post(routes, {"name": mark, "topics": ["run_failed"], **chosen})
    assert route.status == 201, route.body
    route_id = route.data["route"]["id"]
    for _ in range(2):
        service.clock.tick(1)  # a connection takes one message a second
        tested = await web.post(f"{routes}/{route_id}/test")
        assert tested.data["accepted"], tested.body
    [delivery, _] = (await web.get(f"{routes}/{route_id}/deliveries")).data["deliveries"]
    return route_id, delivery["id"]


async def _tell_twice(tx: Tx, org: OrgId, person: PersonId) -> None:
    """Adds two lines to a person's inbox."""
    for topic in (Topic.CHANGES_STOPPED, Topic.CONNECTION_LOST):
        notice = Notice(topic=topic, dedupe=str(topic), facts={})
        stored = StoredNotice(org, NoticeId(new_id(tx.now)), notice, tx.now)
        group = InboxGroup(str(topic), stored, 1, 1, tx.now)
        await inbox.add_many(tx, org, [(person, group)], read=True)


_LISTED = {"resource": "product", "operation": "getAll", "limit": 1, "options": {}}


def _export(mark: str) -> Mapping[str, Any]:
    """Returns a workflow of two steps that reads the store, named by the mark."""
    start, then = f"{mark} begin", f"{mark} then"
    steps = [
        {"name": start, "type": "n8n-nodes-base.manualTrigger", "typeVersion": 1, "parameters": {}},
        {"name": then, "type": "n8n-nodes-base.wooCommerce", "typeVersion": 1, "parameters": _LISTED},
    ]
    wires = {start: {"main": [[{"node": then, "type": "main", "index": 0}]]}}
    return {"name": mark, "nodes": steps, "connections": wires}


async def _connect(web: Caller, kind: str, settings: Mapping[str, Any], mark: str) -> int:
    body = {"kind": kind, "name": f"{mark} {kind}", "settings": settings}
    response = await web.post("/app/connections", body)
    assert response.status == 201, response.body
    return int(response.data["connection"]["integration_id"])


async def create_automation(web: Caller, store: int, name: str) -> str:
    """Creates a daily automation on a store."""
    body = {
        "template_id": "hide-out-of-stock-products",
        "name": name,
        "inputs": {},
        "schedule": {"cadence": "daily", "run_at": "08:00"},
        "integration_id": store,
        "timezone": "UTC",
    }
    response = await web.post(PREFIX, body)
    assert response.status == 201, response.body
    return str(response.data["automation"]["id"])


async def _second_store(tx: Tx, own: OrgId, mark: str, keys: Mapping[str, str], vault: Vault) -> None:
    """Adds another connection to the same shop, which connecting would refuse."""
    integration = await connections.new_integration_id(tx, own)
    connection = Connection(
        org=own,
        integration_id=integration,
        kind="woocommerce",
        is_store=True,
        name=f"{mark} second",
        domain=None,
        zone="Europe/Berlin",
        currency=None,
        state=ConnectionState.CONNECTED,
        auth=Auth.KEY,
        account_label=None,
        facts={"settings": {"url": keys["url"]}},
        version=1,
        connected_at=tx.now,
        last_ok_at=tx.now,
        checked_at=tx.now,
        last_error=None,
    )
    await connections.insert(tx, own, connection, subject=str(connection.integration_id))


async def _waiting(
    service: Service, web: Caller, org: OrgId, automation: str, *, mark: str, store: int
) -> tuple[str, str, str]:
    """Starts a run by hand and brings it to an approval with two changes."""
    body = {"idempotency_key": f"{mark}-{automation}"}
    response = await web.post(f"{PREFIX}/{automation}/runs", body)
    assert response.status == 201, response.body
    run = RunId(response.data["run"]["id"])
    others = [member.org for member in service.members.values() if member.org != org]

    async def claim(tx: Tx) -> transitions.Lease:
        worker = await workers.register(tx, "test", version="0", slots=1, lease_ms=30_000)
        claimed = await transitions.claim(tx, worker=worker, free=1, full=others)
        assert claimed is not None
        [lease] = claimed.leases
        return lease

    lease = await service.write(claim)
    assert lease.run == run
    now = service.clock.now()
    approval = ApprovalId(new_id(now))
    ids = sorted(ChangeId(new_id(now)) for _ in range(2))

    async def park(tx: Tx) -> None:
        assert await transitions.start(tx, lease)
        for position, change in enumerate(ids):
            new_change = _change(change, run, position, mark)
            await changes.insert(tx, org, [(new_change, change_wire(new_change))])
            await search_terms.insert(tx, org, run, [(new_change, terms_of(new_change.proposal))])
        asked_approval = _approval(org, approval, run, AutomationId(automation), mark=mark, now=now)
        # Two rounds that expired, so that lists of decided approvals have two pages.
        for past in (2, 3):
            over = replace(asked_approval, id=ApprovalId(new_id(now)), round=past)
            await approvals.insert(tx, org, over, integration=IntegrationId(store))
            decision = Decision(ApprovalStatus.EXPIRED)
            assert await approvals.decide(tx, org, over.id, version=1, decision=decision)
        await approvals.insert(tx, org, asked_approval, integration=IntegrationId(store))
        assert await transitions.park(
            tx, lease, approval=approval, expires_at=asked_approval.expires_at, leased_ms=0
        )

    await service.write(park, org=org)
    return str(run), str(approval), str(ids[0])


def _change(change: ChangeId, run: RunId, position: int, mark: str) -> Change:
    field = FieldChange("status", "Status", "publish", "draft", FieldKind.TEXT)
    thing = ObjectRef("product", str(position), f"{mark} {position}")
    proposal = Proposal(thing, Action.UPDATE, (field,), (), IntegrationId(1))
    return Change(
        id=change,
        run_id=run,
        seq=1,
        name="hide",
        iteration="",
        position=position,
        round=1,
        proposal=proposal,
        item_hash=proposal.item_hash(),
        outcome=Outcome.PROPOSED,
        message=None,
        applied_at=None,
    )


def _approval(
    org: OrgId, approval: ApprovalId, run: RunId, automation: AutomationId, *, mark: str, now: Any
) -> Approval:
    return Approval(
        org=org,
        id=approval,
        run_id=run,
        automation_id=automation,
        automation_name=f"{mark} one",
        store_label=mark,
        round=1,
        kind=ApprovalKind.CHANGES,
        version=1,
        status=ApprovalStatus.PENDING,
        change_hash="0" * 64,
        counts={"total": 2, "by_action": {"update": 2}, "irreversible": 0, "undoable": 0},
        warnings=(),
        created_at=now,
        expires_at=now + timedelta(hours=72),
        decided_at=None,
        decided_by=None,
        comment=None,
    )
