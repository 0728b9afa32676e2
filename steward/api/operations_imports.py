"""The rows of imports; operations.py joins them to the table."""

from steward.api.http.operation import EmptyAnswer, Operation
from steward.api.v1 import imports
from steward.api.v1.automations import AutomationAnswer
from steward.model.account import Scope
from steward.model.refusals import AllowanceSpent, KeyReused, NotConnected

PREFIX = "/v1/automations/imports"
IMPORT = f"{PREFIX}/{{import_id}}"

IMPORTS = [
    Operation(
        method="POST",
        path=PREFIX,
        scope=Scope.WRITE,
        prepare=imports.prepare_keep,
        function=imports.keep,
        body=imports.KeepBody,
        body_limit=imports.CONTENT_BYTES,
        body_values=imports.CONTENT_VALUES,
        answer=imports.ImportAnswer,
        summary="Keep import",
        status=201,
        refusals=(AllowanceSpent,),
        writes=True,
    ),
    Operation(
        method="GET",
        path=PREFIX,
        scope=Scope.READ,
        function=imports.find,
        query=imports.ImportsQuery,
        answer=imports.ImportsAnswer,
        summary="List imports",
    ),
    Operation(
        method="POST",
        path=f"{PREFIX}/preview",
        scope=Scope.READ,
        prepare=imports.prepare_preview,
        function=imports.preview_sent,
        body=imports.ImportPreviewBody,
        body_limit=imports.CONTENT_BYTES,
        body_values=imports.CONTENT_VALUES,
        answer=imports.ImportPreviewAnswer,
        summary="See how an export would run",
    ),
    Operation(
        method="GET",
        path=IMPORT,
        scope=Scope.READ,
        function=imports.get,
        answer=imports.ImportAnswer,
        summary="Get import",
    ),
    Operation(
        method="DELETE",
        path=IMPORT,
        scope=Scope.WRITE,
        function=imports.delete,
        answer=EmptyAnswer,
        summary="Delete import",
        writes=True,
    ),
    Operation(
        method="POST",
        path=f"{IMPORT}/preview",
        scope=Scope.READ,
        function=imports.preview_kept,
        body=imports.PreviewKeptBody,
        answer=imports.ImportPreviewAnswer,
        summary="See how an import would run",
    ),
    Operation(
        method="POST",
        path=f"{IMPORT}/automations",
        scope=Scope.WRITE,
        function=imports.run_as_automation,
        body=imports.RunAsBody,
        answer=AutomationAnswer,
        summary="Run import as automation",
        status=201,
        refusals=(KeyReused, NotConnected),
        writes=True,
        wakes=("due",),
    ),
]
