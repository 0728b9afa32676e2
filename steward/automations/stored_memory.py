"""Gives the steps of a run access to the memory of automations, which earlier runs stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from steward.clock import Clock
from steward.database.automations import memory
from steward.database.engine.base import Engine
from steward.model.ids import AutomationId, OrgId
from steward.model.json import JsonValue


@dataclass(frozen=True, slots=True)
class AutomationMemory:
    """The automation's memory, read on demand."""

    engine: Engine
    clock: Clock
    org: OrgId
    automation: AutomationId

    async def all(self, space: str) -> Mapping[str, JsonValue]:
        """Returns everything stored in one space."""
        return await self.of(self.automation, space)

    async def of(self, automation: AutomationId, space: str) -> Mapping[str, JsonValue]:
        """Returns the values that another automation of the organization stored in a space."""
        load = partial(memory.of_space, org=self.org, automation=automation, space=space)
        return await self.engine.read(self.clock.now(), load, org=self.org)

    async def of_template(self, template_id: str, space: str) -> Mapping[str, JsonValue]:
        """Returns the values that all the organization's automations of a template stored in a space."""
        load = partial(memory.of_template, org=self.org, template_id=template_id, space=space)
        return await self.engine.read(self.clock.now(), load, org=self.org)
