"""The dependencies and settings of the periodic notification tasks."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from steward.clock import Clock
from steward.config import default_of
from steward.database.engine.base import Engine, Tx
from steward.model.ids import OrgId, RouteId
from steward.model.notice import ChannelName
from steward.notifications.channel import Channels, DeliveryOutcome
from steward.telemetry.log import Log
from steward.telemetry.metrics import Metrics

# Called in the transaction that stores the outcome of a delivery to a route; returns whether it breaks the
# route.
_RecordRoute = Callable[[Tx, OrgId, RouteId, DeliveryOutcome], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class NotificationRules:
    """The settings of notifications, with their defaults.

    `fan_out_pairs` limits the number of receivers of all notices in one transaction.
    """

    window: timedelta = timedelta(minutes=default_of("notify_window_minutes"))
    quiet_periods: int = default_of("quiet_periods")
    mail_per_day: int = default_of("mail_per_day")
    fan_out_pairs: int = 20_000


@dataclass(slots=True)
class ChannelsDown:
    """The channels that this process could not reach: since when, and when it tries them next."""

    since: dict[ChannelName, datetime] = field(default_factory=dict)
    probe_at: dict[ChannelName, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotificationContext:
    """The dependencies of notification tasks; `channels` holds the configured ones."""

    engine: Engine
    clock: Clock
    log: Log
    metrics: Metrics
    channels: Channels
    rules: NotificationRules = NotificationRules()
    record_route: _RecordRoute | None = None
    wake: Callable[[str], None] = lambda kind: None
    down: ChannelsDown = field(default_factory=ChannelsDown)
