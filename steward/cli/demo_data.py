"""Creates the demo's data: an organization with people, connections, automations and notifications."""

import json
import os
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from steward import app
from steward.accounts import credentials, organizations, people
from steward.accounts.organizations import CreateOrganization
from steward.accounts.people import CreatePerson
from steward.automations import setup
from steward.automations.setup import CreateCommand
from steward.connections import account_check, connect
from steward.database.engine.base import Tx
from steward.model.account import ROLE_SCOPES, Actor, CreatedVia, Role
from steward.model.automation import Automation
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject
from steward.model.notice import GROUPS, ChannelName, NoticeGroup, Topic
from steward.model.notification_route import RouteFilter
from steward.notifications import routes
from steward.notifications.routes import RouteContent

_ORGANIZATION = "Demo Shop"
_PEOPLE = (
    (Role.OWNER, "owner@demo.example", "Olive", "Owner"),
    (Role.APPROVER, "approver@demo.example", "Arno", "Approver"),
    (Role.MEMBER, "member@demo.example", "Mira", "Member"),
)


async def make_demo_data(service: app.WiredProcess, file: Path, sandbox: Mapping[str, Any]) -> dict[str, Any]:
    organization, cast, owner = await _accounts(service)
    connections = await _connect(service, owner, sandbox)
    automations = await _automations(service, owner, connections)
    await _routes(service, owner, connections, sandbox)

    async def issue(tx: Tx) -> credentials.IssuedCredential:
        return await credentials.issue(tx, service.context.keys, owner.org, "Demo")

    issued = await service.engine.write(service.clock.now(), issue, org=owner.org)
    to_store = {
        "organization": organization,
        "people": cast,
        "credential": {"client_id": issued.credential.client_id, "client_secret": issued.secret},
        "connections": connections,
        "automations": [{"id": automation.id, "name": automation.name} for automation in automations],
    }
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as out:
        json.dump(to_store, out, indent=1)
    return to_store


async def _accounts(service: app.WiredProcess) -> tuple[dict[str, Any], list[dict[str, Any]], Actor]:
    cast: list[dict[str, Any]] = []
    passwords = [secrets.token_urlsafe(12) for _ in _PEOPLE]
    hashes = [await service.context.hashing.hash(password) for password in passwords]

    async def make(tx: Tx) -> Actor:
        cast.clear()
        organization = await organizations.create(tx, CreateOrganization(_ORGANIZATION, "Europe/Berlin"))
        actor: Actor | None = None
        for (role, email, first, last), password, hashed in zip(_PEOPLE, passwords, hashes, strict=True):
            person = await people.create(tx, CreatePerson(email, first, last, password_hash=hashed))
            await people.add_to_organization(tx, person, organization.id, role)
            cast.append(
                {
                    "id": person.id,
                    "email": email,
                    "username": person.username,
                    "password": password,
                    "role": role,
                }
            )
            if role is Role.OWNER:
                actor = Actor(organization.id, person.id, ROLE_SCOPES[role], CreatedVia.UI, None, role)
        assert actor is not None
        return actor

    owner = await service.engine.write(service.clock.now(), make)
    return {"id": owner.org, "name": _ORGANIZATION}, cast, owner


async def _connect(
    service: app.WiredProcess, owner: Actor, sandbox: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Connects the organization to accounts on the fake platforms and returns the connections."""
    shop, sheets = sandbox["woocommerce"], sandbox["spreadsheet"]
    account = {"service_account": sheets["service_account"]}
    accounts: list[tuple[str, str, dict[str, Any]]] = [
        (
            "woocommerce",
            "Northwind Tea",
            {name: shop[name] for name in ("url", "consumer_key", "consumer_secret")},
        ),
        ("spreadsheet", "Buying prices", {**account, "spreadsheet_id": "sheet-prices"}),
        ("spreadsheet", "Log", {**account, "spreadsheet_id": "sheet-log"}),
        ("teams", "Shop floor", {"webhook_url": sandbox["teams"]["webhook_url"]}),
        ("slack", "Ops channel", dict(sandbox["slack"])),
        ("cloud_s3", "Supplier files", dict(sandbox["cloud_s3"])),
    ]
    connections = []
    vault = service.context.vault
    for kind, name, settings in accounts:
        checked = await account_check.check_settings(
            vault, owner.org, kind, submitted=settings, now=service.clock.now()
        )
        keep = partial(connect.connect, actor=owner, name=name, checked=checked, vault=vault)
        connected = await service.engine.write(service.clock.now(), keep, org=owner.org)
        number = connected.connection.integration_id
        connections.append({"integration_id": number, "kind": kind, "name": name})
    return connections


async def _automations(
    service: app.WiredProcess, owner: Actor, connections: list[dict[str, Any]]
) -> list[Automation]:
    """Creates three automations, one per template: prices daily, hiding hourly, the alert on weekdays."""
    number = {connection["name"]: IntegrationId(connection["integration_id"]) for connection in connections}
    shop = number["Northwind Tea"]
    sheet: JsonObject = {"integration_id": number["Buying prices"], "tab": "Prices"}
    teams: JsonObject = {"integration_id": number["Shop floor"]}
    commands = [
        CreateCommand(
            template_id="price-update-from-spreadsheet",
            name="Prices from the buying sheet",
            inputs={"sheet": sheet, "sku_column": "SKU", "price_column": "Price"},
            schedule={"cadence": "daily", "run_at": "06:00"},
            integration_id=shop,
        ),
        CreateCommand(
            template_id="hide-out-of-stock-products",
            name="Hide what is sold out",
            inputs={},
            schedule={"cadence": "hourly"},
            integration_id=shop,
        ),
        CreateCommand(
            template_id="low-stock-alert",
            name="Low stock to the shop floor",
            inputs={"threshold": 5, "teams": teams},
            schedule={"cadence": "weekdays", "run_at": "08:00"},
            integration_id=shop,
        ),
    ]
    rules = service.worker_context.automation_rules
    automations = []
    for command in commands:
        create = partial(setup.create, actor=owner, command=command, rules=rules)
        created = await service.engine.write(service.clock.now(), create, org=owner.org)
        automations.append(created.automation)
    return automations


async def _routes(
    service: app.WiredProcess, owner: Actor, connections: list[dict[str, Any]], sandbox: Mapping[str, Any]
) -> None:
    """Routes approvals to the Slack channel, and all notices to a signed webhook."""
    number = {connection["name"]: IntegrationId(connection["integration_id"]) for connection in connections}
    approvals = frozenset(topic for topic in Topic if GROUPS[topic] is NoticeGroup.APPROVALS)
    contents = (
        RouteContent(
            "Approvals to the ops channel",
            ChannelName.SLACK,
            RouteFilter(topics=approvals),
            integration=number["Ops channel"],
        ),
        RouteContent(
            "Everything to a program",
            ChannelName.WEBHOOK,
            RouteFilter(topics=frozenset(Topic)),
            url=sandbox["webhook"]["url"],
        ),
    )
    for content in contents:
        create = partial(routes.create, vault=service.context.vault, actor=owner, content=content)
        await service.engine.write(service.clock.now(), create, org=owner.org)
