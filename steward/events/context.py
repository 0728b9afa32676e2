"""The dependencies of the periodic event tasks."""

from dataclasses import dataclass
from datetime import timedelta

from steward.automations.rules import AutomationRules
from steward.config import default_of
from steward.connections.vault import Vault
from steward.runs.run_context import TaskContext


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRules:
    """The settings of events, with their defaults."""

    max_waiting: int = default_of("max_waiting_events")
    catch_up: timedelta = timedelta(minutes=default_of("catch_up_minutes"))
    base_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventContext(TaskContext):
    """The periodic tasks' view of the process; `vault` gives access to the stores."""

    vault: Vault
    automation_rules: AutomationRules
    rules: EventRules = EventRules()
