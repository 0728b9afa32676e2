"""The dependencies of endpoints: parts of the service, and settings."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network

from steward.accounts.keys import KeyRing
from steward.accounts.passwords import PasswordHasher
from steward.automations.rules import AutomationRules
from steward.clock import Clock
from steward.config import default_of
from steward.connections.destinations import DestinationCache
from steward.connections.sign_in import SignInApps
from steward.connections.vault import Vault
from steward.database.engine.base import Engine
from steward.database.engine.disk_space import DiskSpace
from steward.events.receive import DeliveryIntake
from steward.notifications.channel import Channels
from steward.runs.run_context import FileFolder
from steward.sandbox.pool import SandboxPool
from steward.telemetry.log import Log
from steward.telemetry.traces import NO_TRACES, Traces


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRules:
    """The settings that endpoints follow, with their defaults; app.py fills them in."""

    base_url: str
    auth_url: str
    web_origin: str
    service_version: str
    api_access: bool = True
    limit_person: int = default_of("limit_person")
    limit_organization: int = default_of("limit_organization")
    limit_web: int = default_of("limit_web")
    limit_login: int = default_of("limit_login")
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    session_idle_minutes: int = default_of("session_idle_minutes")
    session_hours: int = default_of("session_hours")
    approver_not_starter: bool = False
    max_waiting_hand: int = default_of("max_waiting_hand")
    undo_for: timedelta = timedelta(days=default_of("undo_days"))
    settle_quiet: timedelta = timedelta(seconds=default_of("settle_quiet_seconds"))
    imports_kept: int = default_of("imports_kept")
    sign_in: SignInApps = field(default_factory=SignInApps)
    mail: bool = False
    quiet_periods: int = default_of("quiet_periods")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext:
    """The dependencies of a call before its operation: authentication, rate limits and readiness."""

    engine: Engine
    clock: Clock
    log: Log
    rules: EndpointRules
    keys: KeyRing
    traces: Traces = NO_TRACES


@dataclass(frozen=True, slots=True, kw_only=True)
class AppContext(ServiceContext):
    """The dependencies of operations; an endpoint passes those that a domain function uses on to it."""

    automation_rules: AutomationRules
    hashing: PasswordHasher
    vault: Vault
    channels: Channels = field(default_factory=dict)
    sandbox_pool: SandboxPool = field(default_factory=lambda: SandboxPool(2))
    intake: DeliveryIntake | None = None
    destinations: DestinationCache = field(default_factory=DestinationCache)
    space: DiskSpace | None = None
    files: FileFolder | None = None
    wake: Callable[[str], None] = lambda name: None
