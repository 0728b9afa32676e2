"""Seals and stores the static data of a workflow's scripts for its automation.

See docs/design/static-data.md.
"""

import json
from collections.abc import Awaitable, Callable
from functools import partial

from steward.clock import Clock
from steward.connections import rotation
from steward.connections import vault as vaults
from steward.connections.vault import Vault
from steward.database.automations import static_data as rows
from steward.database.engine.base import Engine, Tx
from steward.model.ids import AutomationId, OrgId, RunId
from steward.model.json import JsonObject
from steward.model.run import Mode, Run
from steward.steps.workflow.static_data import StaticData


def of_run(engine: Engine, clock: Clock, vault: Vault, run: Run) -> StaticData:
    """Returns the static data of the run's automation, read at its first need."""
    read_stored = partial(read, vault=vault, org=run.org, automation=run.automation_id)

    async def load() -> JsonObject:
        return await engine.read(clock.now(), read_stored, org=run.org)

    return StaticData(load)


async def writes_at_end(
    vault: Vault, run: Run, static_data: StaticData
) -> Callable[[Tx], Awaitable[None]] | None:
    """Returns the static data to write if a live run succeeds; None if its scripts changed nothing."""
    objects = None if run.mode is Mode.TEST else await static_data.changed()
    if objects is None:
        return None
    return partial(
        write,
        vault=vault,
        org=run.org,
        automation=run.automation_id,
        run=run.id,
        objects=objects,
    )


async def read(tx: Tx, vault: Vault, org: OrgId, automation: AutomationId) -> JsonObject:
    """Returns the objects that are stored, by key."""
    stored = await rows.get(tx, org, automation)
    if stored is None:
        return {}
    key_no, sealed = stored
    field = rotation.static_data_field(automation)
    text = await vaults.open_text(tx, vault, org, field=field, key_no=key_no, sealed=sealed)
    objects: JsonObject = json.loads(text)
    return objects


async def write(
    tx: Tx, vault: Vault, org: OrgId, automation: AutomationId, *, run: RunId, objects: JsonObject
) -> None:
    """Stores the objects as a run left them."""
    text = json.dumps(objects, ensure_ascii=False, separators=(",", ":"))
    field = rotation.static_data_field(automation)
    key_no, sealed = await vaults.seal_text(tx, vault, org, field=field, text=text)
    await rows.put(tx, org, automation, key_no=key_no, content=sealed, run=run)
