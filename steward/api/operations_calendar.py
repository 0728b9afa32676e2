"""The rows of the calendar and of schedule preview; operations.py joins them to the table."""

from steward.api.http.operation import Operation
from steward.api.v1 import calendar as occurrences
from steward.api.v1 import schedule
from steward.api.v1.automations import current
from steward.model.account import Scope
from steward.model.refusals import StaleVersion, WrongState

PREFIX = "/v1/automations"
EDIT = f"{PREFIX}/{{automation_id}}/occurrences"

CALENDAR = [
    Operation(
        method="GET",
        path=f"{PREFIX}/occurrences",
        scope=Scope.READ,
        function=occurrences.find,
        query=occurrences.CalendarQuery,
        answer=occurrences.OccurrencesAnswer,
        summary="List coming runs",
    ),
    Operation(
        method="POST",
        path=f"{EDIT}/move",
        scope=Scope.WRITE,
        function=occurrences.move,
        body=occurrences.MoveBody,
        answer=occurrences.EditedAnswer,
        summary="Move a coming run",
        refusals=(StaleVersion, WrongState),
        writes=True,
        wakes=("due", "ready"),
        current=current,
    ),
    Operation(
        method="POST",
        path=f"{EDIT}/skip",
        scope=Scope.WRITE,
        function=occurrences.skip,
        body=occurrences.SlotBody,
        answer=occurrences.EditedAnswer,
        summary="Skip a coming run",
        refusals=(StaleVersion, WrongState),
        writes=True,
        current=current,
    ),
    Operation(
        method="POST",
        path=f"{EDIT}/unskip",
        scope=Scope.WRITE,
        function=occurrences.unskip,
        body=occurrences.SlotBody,
        answer=occurrences.EditedAnswer,
        summary="Take a skip back",
        refusals=(StaleVersion, WrongState),
        writes=True,
        wakes=("due",),
        current=current,
    ),
    Operation(
        method="POST",
        path=f"{PREFIX}/schedule/preview",
        scope=Scope.READ,
        function=schedule.show,
        body=schedule.PreviewBody,
        answer=schedule.PreviewAnswer,
        summary="Preview schedule",
    ),
]
