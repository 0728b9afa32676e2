"""Builds the items that the trigger of a workflow passes on."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from steward.model.json import JsonObject
from steward.model.plan import PlanTrigger
from steward.model.run import Run
from steward.run_queue.summaries import START
from steward.runs.storage import payload
from steward.runs.walk.state import Walk
from steward.steps.workflow import start_times
from steward.steps.workflow.items import Items, trigger_items


async def start_items(walk: Walk, entry: PlanTrigger) -> Items:
    """Returns the trigger's items: the payload's, the event's body, the schedule's time, or an empty one."""
    timezone = walk.claimed.automation.timezone
    load = partial(payload.start_item, vault=walk.ctx.vault, run=walk.run, entry=entry, zone=timezone)
    start_item = await walk.read(load)
    if start_item is not None:
        return [start_item]
    start = walk.journal.get(START)
    event = start.output.get("event") if start is not None and isinstance(start.output, dict) else None
    if isinstance(event, Mapping):
        body = event.get("payload", {})
        if entry.replaced == "webhook":
            mode = payload.execution_mode(walk.run)
            call = {"headers": {}, "params": {}, "query": {}, "body": body, "executionMode": mode}
            return trigger_items([call])
        return trigger_items([body if isinstance(body, Mapping) else {"body": body}])
    if entry.kind == "schedule" and entry.tells_time:
        return trigger_items([start_times.schedule_item(_started_at(walk.run), timezone)])
    return trigger_items([{}])


def flow_data(walk: Walk, entry: PlanTrigger) -> JsonObject:
    """Returns the data of a Shopify Flow trigger: the schedule's time, or nothing."""
    return start_times.flow_item(_started_at(walk.run)) if entry.kind == "schedule" else {}


def _started_at(run: Run) -> datetime:
    return run.slot_at or run.started_at or run.queued_at
