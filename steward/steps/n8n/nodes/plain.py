"""Steps that hand items on, wait or stop: noOp, respondToWebhook, wait, stopAndError (imports 6)."""

from collections.abc import Iterable
from datetime import UTC, timedelta

from steward.model.plan import StepKind
from steward.steps.workflow.items import Item, Items
from steward.steps.workflow.javascript import dates as js_dates
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import (
    Asked,
    Call,
    ItemFailed,
    Problem,
    Result,
    StepBroke,
    StepType,
    Takes,
    is_expression,
    same,
)

LONGEST_WAIT = timedelta(days=90)
_UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}


def passed(items: Items) -> Items:
    """The items, each paired with itself."""
    return [Item(item.json, same(place)) for place, item in enumerate(items)]


class NoOp(StepType):
    """Nothing at all."""

    types = ("noOp",)
    takes_of = Takes.WHOLE
    per_item = False

    async def run(self, call: Call) -> Result:
        """The items."""
        return Result([passed(call.items)])


class RespondToWebhook(StepType):
    """Nobody waits for an answer here, so it hands its items on."""

    types = ("respondToWebhook",)
    takes_of = Takes.WHOLE
    versions = (1, 1.1, 1.2, 1.3, 1.4, 1.5)
    per_item = False

    def check(self, asked: Asked) -> Iterable[Problem]:
        """It answers nobody."""
        words = (
            "It answers whoever called the workflow; here nobody waits, so items only pass. Remove the step."
        )
        yield Problem("warning", "parameter", words)

    async def run(self, call: Call) -> Result:
        """The items."""
        return Result([passed(call.items)])


class StopAndError(StepType):
    """Fails as a whole with the message the person wrote."""

    types = ("stopAndError",)
    takes_of = Takes.NOTHING
    per_item = False
    options = frozenset()
    known = frozenset(("errorType", "errorMessage", "errorObject"))

    async def run(self, call: Call) -> Result:
        """Never: raises StepBroke."""
        params = call.first
        if params.text("errorType", "errorMessage") == "errorObject":
            value = params.get("errorObject", "")
            message = value if isinstance(value, str) else js.json_text(value)
        else:
            message = params.text("errorMessage")
        raise StepBroke(message or "The workflow was stopped by this step.")


class Wait(StepType):
    """Until a time or for a while, at most 90 days; a test run passes at once."""

    types = ("wait",)
    takes_of = Takes.WHOLE
    versions = (1, 1.1)
    kind = StepKind.WAIT
    per_item = False
    known = frozenset(("resume", "amount", "unit", "dateTime", "options", "limitWaitTime"))

    def check(self, asked: Asked) -> Iterable[Problem]:
        """Only time ends a wait."""
        resume = asked.get("resume", "timeInterval")
        if resume not in ("timeInterval", "specificTime"):
            words = "It waits for a call or a form, which cannot reach it here. Wait for a time instead."
            yield Problem("error", "parameter", words)
        amount = asked.get("amount", 5 if asked.version > 1 else 1)
        unit = str(asked.get("unit", "seconds" if asked.version > 1 else "hours"))
        is_interval = resume == "timeInterval" and js.is_number(amount) and unit in _UNITS
        if is_interval and amount * _UNITS[unit] > LONGEST_WAIT.total_seconds():
            yield Problem("error", "parameter", "It waits longer than 90 days. Wait for less.")
        if not is_expression(unit) and unit not in _UNITS:
            yield Problem("error", "parameter", "The unit of its time is not known. Choose another one.")
        at = asked.get("dateTime", "=")
        if resume == "specificTime" and not is_expression(at) and js_dates.parse(str(at), UTC) is None:
            yield Problem("error", "parameter", "The time it waits for cannot be read. Give a date and time.")

    async def run(self, call: Call) -> Result:
        """The items, and until when the run sleeps."""
        params, now = call.first, call.scene.now
        if params.text("resume", "timeInterval") == "specificTime":
            zone = js_dates.zone_of(call.scene.zone) or UTC
            until = js_dates.parse(params.text("dateTime"), zone)
            if until is None:
                raise ItemFailed("The time to wait for cannot be read.")
        else:
            unit = params.text("unit", "seconds" if call.version > 1 else "hours")
            amount = js.number(params.get("amount", 5 if call.version > 1 else 1))
            if amount != amount or amount < 0 or unit not in _UNITS:
                raise ItemFailed("How long to wait cannot be read.")
            until = now + timedelta(seconds=min(amount * _UNITS[unit], 10 * LONGEST_WAIT.total_seconds()))
        if until - now > LONGEST_WAIT:
            raise StepBroke("This step would wait longer than 90 days.")
        return Result([passed(call.items)], wait_until=until if until > now else None)
