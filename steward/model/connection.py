"""Connections of an organization, and how automations use them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steward.model.ids import IntegrationId, OrgId
from steward.model.json import JsonObject

# The sign-in of an account of an HTTP API that sends no key, and of a step that asks for none.
NO_SIGN_IN = "none"


class ConnectionState(StrEnum):
    """Whether a connection can be used."""

    CONNECTED = "connected"
    NEEDS_RECONNECTING = "needs_reconnecting"
    DISCONNECTED = "disconnected"


class Auth(StrEnum):
    """The method by which a connection authenticates."""

    USER_SIGN_IN = "user_sign_in"
    SERVICE_ACCOUNT = "service_account"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class Connection:
    """An organization's connection to a store or account, without its secrets."""

    org: OrgId
    integration_id: IntegrationId
    kind: str
    is_store: bool
    name: str
    domain: str | None
    zone: str | None
    currency: str | None
    state: ConnectionState
    auth: Auth
    account_label: str | None
    facts: JsonObject
    version: int
    connected_at: datetime
    last_ok_at: datetime | None
    checked_at: datetime | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class AutomationConnection:
    """A connection that an automation reads."""

    integration_id: IntegrationId
    kind: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """The connections that a template or workflow lacks before it can run."""

    ready: bool
    missing: tuple[str, ...]
