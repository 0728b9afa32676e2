"""Shortcuts to connectors over the fake platforms, whose ledger records every request."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import httpx

from steward.connectors import build
from steward.connectors.base.connector import Connector, PlannedChanges, Reader
from steward.connectors.base.options import SignInClient
from steward.connectors.base.queries import ReadOp, RecordPage
from steward.connectors.base.settings import ConnectionSecrets
from steward.connectors.base.writing import WriteOutcome, Writer, WriteState
from steward.fake_platforms.application import FakePlatforms, create
from steward.model.change import Batch, Part, Proposal, batch_key, write_key
from steward.model.ids import IntegrationId, OrgId, RunId
from steward.outbound.client import Outbound
from steward.outbound.grant import WriteGrant
from steward.outbound.transport import HttpTransport
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister
from tests.connectors.options import connector_options
from tests.fake_clock import FakeClock

URL = "http://127.0.0.1:8500"
HOST = "127.0.0.1:8500"
ORG = OrgId(1)
SHOP, SHEET, TEAMS = IntegrationId(11), IntegrationId(12), IntegrationId(13)
_NUMBERS = {"woocommerce": SHOP, "spreadsheet": SHEET, "teams": TEAMS, "cloud_s3": IntegrationId(14)}
RUN = RunId("01KAH1B0M4N7P9Q2R5S8T1V3W6")
I = TypeVar("I")  # noqa: E741
P = TypeVar("P")


@dataclass
class FakePlatformsClient:
    """Holds the fake platforms, an HTTP client over them and the connectors."""

    clock: FakeClock
    world: FakePlatforms
    transport: httpx.AsyncBaseTransport
    register: SecretRegister = field(default_factory=SecretRegister)
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        log = Log(self.lines.append, self.clock, self.register)
        wire = HttpTransport(self.clock, self.register, log, private_hosts=[HOST], transport=self.transport)
        self.outbound = Outbound(wire, jitter=lambda: 0.5)
        self.connectors = build(
            connector_options(
                private_hosts=frozenset([HOST]),
                sheets_url=f"{URL}/sheets",
                google=SignInClient(f"{URL}/google/token"),
                teams_hosts=(".logic.azure.com", ".environment.api.powerplatform.com", HOST),
            )
        )
        self._position = 0

    def connection(
        self, kind: str, account: dict[str, Any] | None = None, facts: dict[str, Any] | None = None
    ) -> "Connection":
        """Returns a connection of `kind` with the platform's own keys, `account` settings and facts."""
        described = self.world.described()[kind]
        if kind == "spreadsheet":
            described = {
                "service_account": described["service_account"],
                "spreadsheet_id": described["spreadsheet_ids"][0],
            }
        elif kind == "woocommerce":
            described = {name: described[name] for name in ("url", "consumer_key", "consumer_secret")}
        connector = self.connectors[kind]
        settings = connector.settings({**described, **(account or {})})
        secrets = ConnectionSecrets(
            _NUMBERS[kind], settings.plain, settings.sealed, currency="EUR", facts=facts or {}
        )
        return Connection(self, connector, secrets)

    def keys(self, count: int) -> list[str]:
        """Returns write keys that were not used before."""
        self._position += 1
        return [
            write_key(RUN, "step", "-", position=self._position, part=part, version=1)
            for part in range(1, count + 1)
        ]

    def written(self) -> list[dict[str, Any]]:
        """Returns every write that arrived, also those that were refused or cut off."""
        return self.world.state.ledger.writes()


@dataclass
class Connection:
    """A connection and what a run receives of it."""

    outside: FakePlatformsClient
    connector: Connector
    secrets: ConnectionSecrets

    @property
    def number(self) -> IntegrationId:
        """Returns the integration id."""
        return self.secrets.integration_id

    def reader(self) -> Reader:
        """Returns a reader of the connection."""
        http = self.outside.outbound.read_client(ORG, self.number, self.connector.endpoint(self.secrets))
        return self.connector.reader(http, self.secrets)

    def writer(self, keys: Sequence[str], **changed: Any) -> Writer:
        """Returns a writer for writes whose intent is stored; `changed` replaces fields of its grant."""
        now = self.outside.clock.now()
        grant: dict[str, Any] = {
            "org": ORG,
            "run": RUN,
            "epoch": 1,
            "change_hash": "0" * 64,
            "connections": dict.fromkeys(keys, self.number),
            "confirmed_until": lambda: now + timedelta(seconds=30),
            "send_by": now + timedelta(seconds=5),
        }
        link = self.connector.endpoint(self.secrets)
        http = self.outside.outbound.write_client(WriteGrant(**{**grant, **changed}), self.number, link)
        return self.connector.writer(http, self.secrets)

    async def check(self) -> Any:
        """Checks the connection as connecting does."""
        http = self.outside.outbound.management_client(ORG, None, self.connector.endpoint(self.secrets))
        return await self.connector.check(http, self.secrets)

    async def all(self, op: ReadOp[P, I], params: P) -> list[I]:
        """Returns every item of a read over all pages."""
        pages: AsyncIterator[RecordPage[I]] = self.reader().read(op, params)
        return [item async for page in pages for item in page.items]

    def plan(self, name: str, *asks: Any) -> PlannedChanges:
        """Returns the changes that an operation plans."""
        return self.connector.writes[name].plan(asks, integration_id=self.number)

    async def send(self, parts: Sequence[Part], writer: Writer | None = None) -> list[WriteOutcome]:
        """Sends one request with these parts and returns their outcomes."""
        keys = self.outside.keys(len(parts))
        batch = Batch(tuple(parts), tuple(keys), batch_key(keys))
        return await (writer or self.writer(keys)).apply(batch)

    async def apply(self, proposals: Sequence[Proposal]) -> list[WriteState]:
        """Sends all parts grouped by operation, in order, and returns their states."""
        states: list[WriteState] = []
        for op in dict.fromkeys(part.operation for proposal in proposals for part in proposal.parts):
            parts = [
                part for each_proposal in proposals for part in each_proposal.parts if part.operation == op
            ]
            for group in self.connector.writes[op].group(parts):
                states += [outcome.state for outcome in await self.send(group)]
        return states


def outside(clock: FakeClock, seed: int = 1) -> FakePlatformsClient:
    """Creates fresh fake platforms in this process."""
    deliver = httpx.MockTransport(lambda request: httpx.Response(200))
    world = create(seed, URL, clock.now, deliver=deliver, sleep=clock.sleep)
    return FakePlatformsClient(clock, world, world.transport())
