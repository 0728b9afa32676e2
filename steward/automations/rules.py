"""The dependencies of automation commands besides the database: settings, templates, connectors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol, TypeAlias

from steward.config import default_of
from steward.model.connection import Connection
from steward.templates.base import Template

Templates: TypeAlias = Mapping[str, Template]


class ConnectorTopics(Protocol):
    """The topics that a connector's stores can send."""

    @property
    def topics(self) -> Mapping[str, object]:
        """Returns canonical topics, each with how it is detected; empty without events."""
        ...


@dataclass(frozen=True, slots=True)
class AutomationRules:
    """The templates and connectors of this release, and the two settings automations obey."""

    templates: Templates
    connectors: Mapping[str, ConnectorTopics] = field(default_factory=dict)
    late_limit: timedelta = timedelta(minutes=default_of("late_limit_minutes"))
    spread_max: int = default_of("spread_max")

    def topics_of(self, store: Connection) -> frozenset[str]:
        """Returns the topics a store can send: none when its deliveries could not be verified."""
        connector = self.connectors.get(store.kind)
        if connector is None or store.facts.get("events_verified") is False:
            return frozenset()
        return frozenset(connector.topics)
