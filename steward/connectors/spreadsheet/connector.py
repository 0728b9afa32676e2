"""The Google Sheets connector: its operations and how a spreadsheet is connected."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from steward.connectors.base.connector import (
    AnyWriteOperation,
    Capabilities,
    ConnectionKind,
    ConnectorFacts,
    Destination,
    Health,
    Receivable,
)
from steward.connectors.base.deliveries import EventSource, TopicSpec
from steward.connectors.base.options import Options
from steward.connectors.base.queries import TABS, VALUES, ReadOp, TabsQuery
from steward.connectors.base.settings import (
    BadSettings,
    ConnectionSecrets,
    ConnectionSettings,
    unknown_settings,
)
from steward.connectors.spreadsheet.operations import APPEND, WRITE
from steward.connectors.spreadsheet.operations_tabs import ADD_TAB, CLEAR, DELETE_ROWS
from steward.connectors.spreadsheet.reader import SpreadsheetReader, object_of
from steward.connectors.spreadsheet.writer import SpreadsheetWriter
from steward.model.connection import Auth
from steward.model.json import JsonObject
from steward.outbound.client import ManagementClient, ReadClient, WriteClient
from steward.outbound.endpoint import PlatformEndpoint, RateLimit, ServiceAccount, Timeouts, UserSignIn
from steward.outbound.errors import CallError, PlatformUnavailable, Unauthorized
from steward.security.rsa_keys import is_rsa_key
from steward.telemetry.redact import Secret

_SCOPES = ("https://www.googleapis.com/auth/spreadsheets",)
_PACE = RateLimit(max_concurrency=4, reads_per_minute=50, writes_per_minute=50, max_concurrent_writes=1)
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_EMAIL = re.compile(r"[^@\s]{1,200}@[^@\s]{1,200}")
_SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["service_account", "spreadsheet_id"],
    "properties": {
        "service_account": {"type": "object", "title": "Key file of the service account", "secret": True},
        "spreadsheet_id": {"type": "string", "title": "Id of the spreadsheet", "maxLength": 128},
    },
}


class SpreadsheetConnector:
    """Connects Google spreadsheets; the operator's settings hold the two addresses."""

    topics: Mapping[str, TopicSpec] = {}
    events: EventSource | None = None
    title: ClassVar[str] = "Google Sheets"
    capabilities: ClassVar[Capabilities] = Capabilities(
        reads=True, writes=True, receives=frozenset((Receivable.TABLE,)), sign_in=True
    )

    def __init__(
        self,
        *,
        sheets_url: str,
        token_url: str,
        read_s: float,
        client: tuple[str | None, str | None] = (None, None),
        bounded: bool = False,
    ) -> None:
        self._sheets_url = sheets_url.rstrip("/")
        self._token_url = token_url
        self._client_id, secret = client
        self._client_secret = None if secret is None else Secret(secret)
        self._times = Timeouts.of_kind(read_s, bounded=bounded)
        self.facts = ConnectorFacts(
            "spreadsheet", self.title, ConnectionKind.ACCOUNT,
            (Auth.SERVICE_ACCOUNT, Auth.USER_SIGN_IN), _PACE,
            self._times, _SCHEMA, self.capabilities, ("v4",), sign_in_scopes=" ".join(_SCOPES),
            sign_in_provider="google",
        )  # fmt: skip
        self.reads: Mapping[str, ReadOp[Any, Any]] = {"tabs": TABS, "values": VALUES}
        changes: tuple[AnyWriteOperation, ...] = (APPEND, WRITE, CLEAR, DELETE_ROWS, ADD_TAB)
        self.writes: Mapping[str, AnyWriteOperation] = {op.name: op for op in changes}

    @classmethod
    def from_options(cls, options: Options) -> Self:
        """Returns the connector configured by the operator's settings."""
        return cls(
            sheets_url=options.sheets_url,
            token_url=options.google.token_url,
            client=(options.google.id, options.google.secret),
            read_s=options.read_s,
            bounded=options.bounded,
        )

    def settings(self, form: JsonObject) -> ConnectionSettings:
        """Validates service_account and spreadsheet_id. Raises BadSettings."""
        errors = unknown_settings(
            form, ("service_account", "spreadsheet_id"), "This is not a setting of a spreadsheet."
        )
        sheet = form.get("spreadsheet_id")
        if not isinstance(sheet, str) or not _ID.fullmatch(sheet):
            errors["spreadsheet_id"] = ["Give the id from the spreadsheet's address, between /d/ and /edit."]
        account = form.get("service_account")
        fields = account if isinstance(account, Mapping) else {}
        email, key, key_id = (fields.get(name) for name in ("client_email", "private_key", "private_key_id"))
        if not _is_email(email) or not is_rsa_key(key):
            errors["service_account"] = ["Give the JSON key file of a service account, unchanged."]
        if errors:
            raise BadSettings(errors)
        plain = {"spreadsheet_id": str(sheet), "client_email": str(email)}
        if isinstance(key_id, str) and 1 <= len(key_id) <= 200:
            plain["private_key_id"] = key_id
        sealed = {"private_key": Secret(str(key))}
        return ConnectionSettings(plain, sealed, Auth.SERVICE_ACCOUNT, subject=plain["spreadsheet_id"])

    def endpoint(self, secrets: ConnectionSecrets) -> PlatformEndpoint:
        """Returns the endpoint of the Sheets address with the account's token; one rate limit per account."""
        refresh = secrets.sealed.get("refresh_token")
        if refresh is not None:
            return self._signed_in(secrets, refresh)
        email = secrets.plain["client_email"]
        proof = ServiceAccount(
            email,
            secrets.sealed["private_key"],
            secrets.plain.get("private_key_id"),
            self._token_url,
            _SCOPES,
        )
        return PlatformEndpoint("spreadsheet", self._sheets_url, proof, self._times, _PACE, f"google {email}")

    def reader(self, http: ReadClient, secrets: ConnectionSecrets) -> SpreadsheetReader:
        """Returns a reader of the spreadsheet."""
        return SpreadsheetReader(http, self.writes, spreadsheet_id=secrets.plain.get("spreadsheet_id"))

    def writer(self, http: WriteClient, secrets: ConnectionSecrets) -> SpreadsheetWriter:
        """Returns a writer of the spreadsheet."""
        return SpreadsheetWriter(http, spreadsheet_id=secrets.plain.get("spreadsheet_id"))

    async def check(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Checks that the spreadsheet is shared with the account, or that the sign-in works.

        Write access is only known at the first write.
        """
        if "spreadsheet_id" not in secrets.plain:
            return await self._check_person(http, secrets)
        sheet, email = secrets.plain["spreadsheet_id"], secrets.plain["client_email"]
        fields = "spreadsheetId,properties(title,timeZone)"
        try:
            description = object_of(await http.get(f"/v4/spreadsheets/{sheet}", {"fields": fields}))
        except CallError as error:
            name = "service_account" if isinstance(error, Unauthorized) else None
            return Health(ok=False, account_label=email, error=error, error_field=name)
        properties = description.get("properties")
        shown_properties = properties if isinstance(properties, dict) else {}
        title, zone = shown_properties.get("title"), shown_properties.get("timeZone")
        label = title if isinstance(title, str) and title else sheet
        return Health(
            ok=True,
            account_label=label,
            name=label,
            zone=zone if isinstance(zone, str) else None,
            rights=("read",),
            version="v4",
        )

    async def destinations(
        self, http: ReadClient, secrets: ConnectionSecrets, parent: str | None
    ) -> list[Destination]:
        """Returns the connected spreadsheet, or the titles of its tabs below it. Raises CallError."""
        sheet = secrets.plain.get("spreadsheet_id")
        reader = self.reader(http, secrets)
        if sheet is None:
            # People enter the address of the account's spreadsheet; only its tabs can be listed.
            return [] if parent is None or not _ID.fullmatch(parent) else await _tabs_of(reader, parent)
        if parent is None:
            return [Destination(sheet, "spreadsheet", await reader.title())]
        if parent != sheet:
            return []
        return await _tabs_of(reader, parent)

    def _signed_in(self, secrets: ConnectionSecrets, refresh: Secret) -> PlatformEndpoint:
        """Returns the endpoint of a person's sign-in. Raises BadSettings without the operator's app."""
        if self._client_id is None or self._client_secret is None:
            raise BadSettings({"": ["The operator has taken the sign-in to Google out of use."]})
        proof = UserSignIn(self._client_id, self._client_secret, refresh, self._token_url)
        key = f"google user {secrets.integration_id}"
        return PlatformEndpoint("spreadsheet", self._sheets_url, proof, self._times, _PACE, key)

    async def _check_person(self, http: ManagementClient, secrets: ConnectionSecrets) -> Health:
        """Checks that the sign-in still yields tokens, by requesting a spreadsheet that cannot exist."""
        label = secrets.plain.get("account", "Google account")
        try:
            response = await http.get("/v4/spreadsheets/steward-sign-in-check", {"fields": "spreadsheetId"})
        except CallError as error:
            return Health(ok=False, account_label=label, error=error)
        if response.status == 401:
            return Health(ok=False, account_label=label, error=Unauthorized())
        if response.status >= 500:
            return Health(ok=False, account_label=label, error=PlatformUnavailable())
        return Health(ok=True, account_label=label, name=label, rights=("read", "write"), version="v4")


async def _tabs_of(reader: SpreadsheetReader, sheet: str) -> list[Destination]:
    tabs = [tab async for page in reader.read(TABS, TabsQuery(sheet)) for tab in page.items]
    return [Destination(tab.title, "tab", tab.title, sheet) for tab in tabs]


def _is_email(text: object) -> bool:
    return isinstance(text, str) and _EMAIL.fullmatch(text) is not None


CONNECTOR = SpreadsheetConnector
