"""Creates automations under an idempotency key; a repeated request returns the same automation."""

from dataclasses import dataclass, replace
from typing import Protocol

from steward.automations import history
from steward.automations.next_runs import first_timing
from steward.database.accounts import idempotency
from steward.database.automations import records as automations
from steward.database.automations import schedules
from steward.database.automations.history import HistoryAction
from steward.database.engine.base import Tx
from steward.model.account import Actor
from steward.model.automation import Automation
from steward.model.ids import AutomationId
from steward.model.refusals import KeyReused

_KEY_KIND = "automation"


class KeyedCommand(Protocol):
    """A command that creates an automation once for an idempotency key."""

    @property
    def idempotency_key(self) -> str | None:
        """The key of the request, or None."""

    def request_sha256(self) -> str:
        """Returns the hash of the request; equal requests have equal hashes."""


@dataclass(frozen=True, slots=True)
class CreatedAutomation:
    """An automation, and whether an earlier request with the same key created it."""

    automation: Automation
    replayed: bool


async def replayed(tx: Tx, actor: Actor, command: KeyedCommand) -> CreatedAutomation | None:
    """Returns the automation that an earlier request with the same key created.

    Returns None without a key or such a request. Raises KeyReused if that request was for something else.
    """
    if command.idempotency_key is None:
        return None
    stored_key = await idempotency.find(tx, actor.org, _KEY_KIND, key=command.idempotency_key)
    if stored_key is None:
        return None
    if stored_key.request_sha256 != command.request_sha256():
        message = "This idempotency key was used for another automation. Use a new one."
        raise KeyReused(errors={"idempotency_key": [message]})
    automation = await automations.get(tx, actor.org, AutomationId(stored_key.object_id))
    return CreatedAutomation(automation, replayed=True)


async def store_key(
    tx: Tx, actor: Actor, command: KeyedCommand, automation: Automation
) -> CreatedAutomation | None:
    """Stores the command's key, if it has one, with the automation that is about to be stored.

    If a concurrent request has stored the key first, returns the automation of that request. Raises KeyReused
    like `replayed`.
    """
    if command.idempotency_key is None or await idempotency.store(
        tx,
        actor.org,
        _KEY_KIND,
        key=command.idempotency_key,
        object_id=automation.id,
        automation=automation.id,
        request_sha256=command.request_sha256(),
    ):
        return None
    return await replayed(tx, actor, command)


async def insert_automation(tx: Tx, actor: Actor, automation: Automation) -> Automation:
    """Stores a new automation, its schedule row and the first entry of its history.

    Returns it with `next_run_at`.
    """
    timing = await first_timing(tx, automation)
    await automations.insert(tx, actor.org, automation)
    await schedules.insert(tx, actor.org, automation.id, timing)
    await history.add_entry(tx, actor, automation, action=HistoryAction.CREATED)
    return replace(automation, next_run_at=timing.next_run_at)
