"""A running service in process: the API over a fresh database, with the cast and two organizations."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import httpx
import pytest

from steward.accounts import credentials, organizations, people
from steward.accounts.credentials import IssuedCredential
from steward.accounts.keys import open_ring
from steward.accounts.organizations import CreateOrganization
from steward.accounts.passwords import PasswordHasher
from steward.accounts.people import CreatePerson
from steward.api.application import create
from steward.api.http.context import AppContext, EndpointRules
from steward.api.http.handler import RequestHandler
from steward.api.operations import OPERATIONS, RAW_OPERATIONS
from steward.automations.rules import AutomationRules
from steward.connections.vault import Vault
from steward.database.engine.base import Engine, Tx
from steward.model.account import Organization, Role
from steward.outbound.client import Outbound
from steward.outbound.transport import HttpTransport
from steward.security.envelope import MasterKey
from steward.security.passwords import Cost, hash_password
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from steward.templates import ALL as TEMPLATES
from tests.fake_clock import FakeClock
from tests.people import PASSWORD, ApiResponse, Caller, Member
from tests.shared_sandbox import shared_sandbox

BASE_URL = "http://127.0.0.1:8400"
MASTERS = (MasterKey("test", bytes(range(32))),)
# Far below what is served with: tests ask whether a password is right, not what finding out costs.
CHEAP = Cost(memory=64, passes=1)
LOGIN = "/v2/api/automations/login"

RULES = EndpointRules(base_url=BASE_URL, auth_url=BASE_URL, web_origin=BASE_URL, service_version="0.1.0")


@lru_cache(maxsize=1)
def hashed_password() -> str:
    """The hash of the password all of the cast have."""
    return hash_password(PASSWORD, CHEAP)


@dataclass
class Tenant:
    """One organization of the tests and its API credential."""

    organization: Organization
    issued: IssuedCredential


@dataclass(frozen=True)
class Cast:
    """The persons and organizations of the tests, as they stand in a database."""

    members: dict[str, Member]
    own: Tenant
    other: Tenant


class Service:
    """The application and short ways to call it."""

    def __init__(
        self, context: AppContext, clock: FakeClock, *, lines: list[str], wake_hints: list[str]
    ) -> None:
        self.context = context
        self.clock = clock
        self.lines = lines  # of the log
        self.wake_hints = wake_hints  # that the worker received
        self.extra: list[Any] = []
        self.members: dict[str, Member] = {}
        self.own: Tenant
        self.other: Tenant
        self._clients: list[httpx.AsyncClient] = []
        self.gate = self._gate()

    def _gate(self) -> RequestHandler:
        return create(self.context, operations=[*OPERATIONS, *self.extra], raw_operations=RAW_OPERATIONS)

    def restart(self, *, extra: list[Any] | None = None, **rules: Any) -> None:
        """The service again, with other rules or further operations; callers made before call the new one."""
        offered = self.context.automation_rules
        if "spread_max" in rules:
            offered = replace(offered, spread_max=rules.pop("spread_max"))
        rules = replace(self.context.rules, **rules)
        self.context = replace(self.context, rules=rules, automation_rules=offered)
        self.extra = self.extra if extra is None else extra
        self.gate = self._gate()

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """The application as it now is, for a transport."""
        await self.gate(scope, receive, send)

    def nobody(self, address: str = "203.0.113.7") -> Caller:
        """A caller without token or session."""
        transport = httpx.ASGITransport(app=self.app, client=(address, 50_000))
        client = httpx.AsyncClient(transport=transport, base_url=self.context.rules.base_url)
        self._clients.append(client)
        return Caller(client)

    def login_body(self, name: str, **changes: Any) -> dict[str, Any]:
        """The login of one of the cast, with `changes`."""
        member = self.members[name]
        tenant = self.other if name == "stranger" else self.own
        body = {
            "username": member.person.username,
            "email": member.person.email,
            "organization_name": member.organization_name,
            "client_id": tenant.issued.credential.client_id,
            "client_secret": tenant.issued.secret,
        }
        return {key: value for key, value in {**body, **changes}.items() if value is not ...}

    async def log_in(self, name: str, **changes: Any) -> ApiResponse:
        """What the login answers."""
        return await self.nobody(f"2001:db8:{len(self._clients):x}::1").post(
            LOGIN, self.login_body(name, **changes)
        )

    async def token(self, name: str) -> Caller:
        """One of the cast by a token of their organization's credential."""
        caller = self.nobody()
        tenant = self.other if name == "stranger" else self.own
        member = self.members[name]
        now = self.clock.now()
        token = self.context.keys.signer.sign(
            person=member.person.id,
            org=member.org,
            client_id=tenant.issued.credential.client_id,
            scopes=["automations:read", "automations:write"],
            epoch=tenant.issued.credential.epoch,
            jti="01JD3Z0QH8N2Y5V7W9X1C4B6A8",
            now=int(now.timestamp()),
        )
        caller.headers["Authorization"] = f"Bearer {token}"
        return caller

    async def web(self, name: str, password: str = PASSWORD) -> Caller:
        """One of the cast signed in to the web app, with their organization chosen."""
        caller = self.nobody(f"2001:db8:{len(self._clients):x}::1")
        body = {"email": self.members[name].person.email, "password": password}
        response = await caller.post("/app/session", body)
        assert response.status == 200, response.body
        caller.csrf = response.data["session"]["csrf_token"]
        return caller

    async def write(self, act: Any, **args: Any) -> Any:
        """Runs `act(tx)` in a transaction at the clock's time."""
        return await self.context.engine.write(self.clock.now(), act, **args)

    async def close(self) -> None:
        """Ends clients and threads."""
        for client in self._clients:
            await client.aclose()
        self.context.hashing.close()


async def make_service(
    engine: Engine, clock: FakeClock, *, cast: Cast | None = None, **context: Any
) -> Service:
    """The service with its cast, which it creates unless the database was copied with this `cast`.

    `context` replaces values of the tests (automation_rules, vault).
    """
    lines: list[str] = []
    woken: list[str] = []
    log = Log(lines.append, clock, SecretRegister())
    ring = await open_ring(engine, clock.now(), MASTERS, issuer=BASE_URL, audience=BASE_URL)
    register = SecretRegister()
    context_fields: Mapping[str, Any] = {
        "vault": Vault(MASTERS, {}, Outbound(HttpTransport(clock, register, log)), register),
        "automation_rules": AutomationRules({template.facts.template_id: template for template in TEMPLATES}),
        "wake": woken.append,
        "sandbox_pool": shared_sandbox(),
        **context,
    }
    new_app_context = AppContext(
        engine=engine,
        clock=clock,
        rules=context_fields.get("rules", RULES),
        keys=ring,
        hashing=PasswordHasher(CHEAP),
        log=log,
        **{name: value for name, value in context_fields.items() if name != "rules"},
    )
    service = Service(new_app_context, clock, lines=lines, wake_hints=woken)
    if cast is None:
        await service.write(lambda tx: settle(tx, service))
    else:
        service.members, service.own, service.other = dict(cast.members), cast.own, cast.other
    return service


async def create_cast(engine: Engine) -> Cast:
    """Creates the service's keys and the cast in a database that tests are given copies of."""
    service = await make_service(engine, FakeClock())
    await service.close()
    return Cast(service.members, service.own, service.other)


async def settle(tx: Tx, service: Service) -> None:
    """The two organizations, their credentials and the cast."""
    ring = service.context.keys
    own_organization = await organizations.create(tx, CreateOrganization("Demo Shop", "Europe/Berlin"))
    other = await organizations.create(tx, CreateOrganization("Other Shop"))
    cast = {
        "owner": (own_organization, Role.OWNER, "Olga", "Owner"),
        "approver": (own_organization, Role.APPROVER, "Anton", "Approver"),
        "member": (own_organization, Role.MEMBER, "Mia", "Member"),
        "stranger": (other, Role.OWNER, "Sven", "Stranger"),
    }
    for name, (organization, role, first_name, last_name) in cast.items():
        command = CreatePerson(
            email=f"{name}@example.com",
            first_name=first_name,
            last_name=last_name,
            password_hash=hashed_password(),
        )
        person = await people.create(tx, command)
        await people.add_to_organization(tx, person, organization.id, role)
        service.members[name] = Member(person, organization.id, organization.name, role)
    service.own = Tenant(own_organization, await credentials.issue(tx, ring, own_organization.id, "tests"))
    service.other = Tenant(other, await credentials.issue(tx, ring, other.id, "tests"))


@pytest.fixture
async def service(engine: Engine, clock: FakeClock, cast: Cast) -> AsyncIterator[Service]:
    """A running service over a fresh database, once on each engine."""
    new_service = await make_service(engine, clock, cast=cast)
    yield new_service
    await new_service.close()


@pytest.fixture
async def nobody(service: Service) -> Caller:
    """A caller without token or session."""
    return service.nobody()


@pytest.fixture
async def owner(service: Service) -> Caller:
    """The owner, by token."""
    return await service.token("owner")


@pytest.fixture
async def approver(service: Service) -> Caller:
    """The approver, by token."""
    return await service.token("approver")


@pytest.fixture
async def member(service: Service) -> Caller:
    """The member, by token."""
    return await service.token("member")


@pytest.fixture
async def stranger(service: Service) -> Caller:
    """The owner of another organization, by its token."""
    return await service.token("stranger")
