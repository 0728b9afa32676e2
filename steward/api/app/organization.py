"""The settings that owners manage: the organization, its API credentials and its audit log."""

import msgspec

from steward.accounts import organizations
from steward.accounts.organizations import ChangeOrganization
from steward.api.app import audit
from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.fields import Flag, NameText, RequestBody, Text
from steward.database.accounts import credentials
from steward.database.engine.base import Tx
from steward.model.account import Credential, Organization, Role
from steward.model.instants import wire_time, wire_time_or_none


class OrganizationBody(RequestBody):
    """The fields to change; omitted ones stay as they are, and null is refused."""

    name: NameText = ""
    timezone: Text = ""
    send_without_approval: Flag = False


class OrganizationRecord(msgspec.Struct):
    """The settings of an organization."""

    id: int
    name: str
    timezone: str
    send_without_approval: bool
    automations_enabled: bool


class OrganizationResponse(msgspec.Struct):
    """The organization."""

    organization: OrganizationRecord


def record(organization: Organization) -> OrganizationRecord:
    """Returns the API record of the organization."""
    return OrganizationRecord(
        id=organization.id,
        name=organization.name,
        timezone=organization.zone,
        send_without_approval=organization.send_without_approval,
        automations_enabled=organization.automations_on,
    )


async def get(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/organization`."""
    return OrganizationResponse(record(await organizations.get(tx, call.actor.org)))


async def change(tx: Tx, call: ApiCall) -> Response:
    """Handles `PATCH /app/organization`. Only the operator switches automations on or off."""
    body: OrganizationBody = call.body
    sent_fields = body.model_fields_set
    command = ChangeOrganization(
        name=body.name if "name" in sent_fields else None,
        zone=body.timezone if "timezone" in sent_fields else None,
        send_without_approval=body.send_without_approval if "send_without_approval" in sent_fields else None,
    )
    return OrganizationResponse(record(await organizations.change(tx, call.actor, command)))


class CredentialRecord(msgspec.Struct):
    """An API credential, never with its secret."""

    client_id: str
    label: str
    enabled: bool
    created_at: str
    rotated_at: str | None
    last_login_at: str | None


class CredentialsResponse(msgspec.Struct):
    """All credentials of the organization, oldest first; `api_access`: whether the API is switched on."""

    api_access: bool
    login_url: str
    credentials: list[CredentialRecord]


async def credentials_of(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/credentials`."""
    rules = call.context.rules
    records = [credential_record(credential) for credential in await credentials.every(tx, call.actor.org)]
    return CredentialsResponse(rules.api_access, f"{rules.auth_url}/v2/api/automations/login", records)


def credential_record(credential: Credential) -> CredentialRecord:
    return CredentialRecord(
        credential.client_id,
        credential.label,
        credential.enabled,
        wire_time(credential.created_at),
        wire_time_or_none(credential.rotated_at),
        wire_time_or_none(credential.last_login_at),
    )


OPERATIONS = (
    Operation(
        name="organization.get",
        method="GET",
        path="/app/organization",
        access=Access.APP,
        role=Role.MEMBER,
        function=get,
        response=OrganizationResponse,
        summary="Get the organization",
        small=True,
    ),
    Operation(
        name="organization.update",
        method="PATCH",
        path="/app/organization",
        access=Access.APP,
        role=Role.OWNER,
        function=change,
        body=OrganizationBody,
        response=OrganizationResponse,
        summary="Change the organization",
        writes=True,
    ),
    Operation(
        name="credentials.list",
        method="GET",
        path="/app/credentials",
        access=Access.APP,
        role=Role.OWNER,
        function=credentials_of,
        response=CredentialsResponse,
        summary="List API credentials",
    ),
    *audit.OPERATIONS,
)
