"""The connection, document and tab that a spreadsheet step reads or writes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from steward.connectors.base.queries import TABS, VALUES, TabsQuery, ValuesQuery
from steward.connectors.base.records import SheetTab, SheetTable
from steward.model.connection import Auth
from steward.model.json import AnyJson, JsonObject
from steward.steps.base import AccountAccess
from steward.steps.workflow.external_calls import account_of, read_all
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, Params, StepCall, is_expression

_ADDRESS = re.compile(r"/d/([A-Za-z0-9_-]{20,})")


def _located(value: AnyJson) -> tuple[str, str, str | None]:
    """Splits n8n's resource locator into its mode, its value and its cached name."""
    if isinstance(value, Mapping):
        cached = value.get("cachedResultName")
        return str(value.get("mode", "id")), js.text(value.get("value", "")), cached if cached else None
    return "id", js.text(value) if not js.is_missing(value) else "", None


def document_of(parameters: JsonObject) -> str | None:
    """Returns the spreadsheet's id, or None if an expression decides it."""
    mode, value, _ = _located(parameters.get("documentId", parameters.get("sheetId", "")))
    if not value or is_expression(value):
        return None
    match = _ADDRESS.search(value)
    return match[1] if match else (None if mode == "url" else value)


def tab_of(parameters: JsonObject) -> str | None:
    """Returns the tab's title or cached title, or None if it is unknown."""
    if "sheetName" not in parameters:
        area = parameters.get("range", "")
        name = area.partition("!")[0] if isinstance(area, str) and "!" in area else None
        return None if name is None or is_expression(area) else name.strip("'")
    mode, value, cached = _located(parameters["sheetName"])
    if mode == "name":
        return None if not value or is_expression(value) else value
    return cached


@dataclass(frozen=True, slots=True)
class SheetLocation:
    """The bound connection, and the document and tab of this run."""

    account: AccountAccess
    document: str | None
    params: Params

    @classmethod
    def of(cls, call: StepCall) -> "SheetLocation":
        """Resolves the location of a step. Raises WorkflowStepFailed."""
        account = account_of(call)
        binding = call.environment.binding(call.step.name) or {}
        target = binding.get("target")
        bound = target.get("spreadsheet_id") if isinstance(target, Mapping) else None
        named = bound or document_of(call.first.tree)
        uses_own_document = account.connection.auth is Auth.SERVICE_ACCOUNT
        return cls(
            account, None if uses_own_document else named if isinstance(named, str) else None, call.first
        )

    async def tab(self) -> str | None:
        """Returns the tab's title. Raises ItemFailed."""
        tree = self.params.tree
        named = tab_of(tree)
        if named is not None or "sheetName" not in tree:
            return named
        mode, value, _ = _located(self.params.get("sheetName"))
        if mode == "name":
            return value or None
        number = value.removeprefix("gid=")
        for tab in await self.tabs():
            if tab.id == number:
                return tab.title
        raise ItemFailed("The tab of this step is no longer in the spreadsheet.")

    async def tabs(self) -> list[SheetTab]:
        """Returns all tabs of the document. Raises ItemFailed."""
        return await read_all(self.account.reader.read(TABS, TabsQuery(self.document)))

    async def table(
        self, area: str | None = None, *, values: str = "UNFORMATTED_VALUE", dates: str = "SERIAL_NUMBER"
    ) -> tuple[str, SheetTable]:
        """Reads the whole tab, or a range of it, with the tab's title. Raises ItemFailed."""
        query = ValuesQuery(await self.tab(), area, spreadsheet_id=self.document, values=values, dates=dates)
        tables = await read_all(self.account.reader.read(VALUES, query))
        if not tables:
            raise ItemFailed("The tab cannot be read.")
        return tables[0].tab, tables[0]
