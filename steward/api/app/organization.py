"""The organisation's own settings over HTTP."""

import msgspec

from steward.accounts import organizations
from steward.accounts.organizations import ChangeOrganization
from steward.api.http.operation import Access, Answer, ApiCall, Operation
from steward.api.schema.fields import Flag, NameText, RequestBody, Text
from steward.database.engine.base import Tx
from steward.model.account import Organization, Role


class OrganizationBody(RequestBody):
    """What to change; a field that is not given stays as it is, null is refused."""

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


class OrganizationAnswer(msgspec.Struct):
    """The organisation."""

    organization: OrganizationRecord


def record(organization: Organization) -> OrganizationRecord:
    """The organisation as answered."""
    return OrganizationRecord(
        id=organization.id,
        name=organization.name,
        timezone=organization.zone,
        send_without_approval=organization.send_without_approval,
        automations_enabled=organization.automations_on,
    )


async def get(tx: Tx, call: ApiCall) -> Answer:
    """`GET /app/organization`."""
    return OrganizationAnswer(record(await organizations.get(tx, call.actor.org)))


async def change(tx: Tx, call: ApiCall) -> Answer:
    """`PATCH /app/organization`: the owner's; whether automations are on is the operator's."""
    body: OrganizationBody = call.body
    sent_fields = body.model_fields_set
    ask = ChangeOrganization(
        name=body.name if "name" in sent_fields else None,
        zone=body.timezone if "timezone" in sent_fields else None,
        send_without_approval=body.send_without_approval if "send_without_approval" in sent_fields else None,
    )
    return OrganizationAnswer(record(await organizations.change(tx, call.actor, ask)))


OPERATIONS = (
    Operation(
        method="GET",
        path="/app/organization",
        access=Access.APP,
        role=Role.MEMBER,
        function=get,
        answer=OrganizationAnswer,
        summary="Get the organisation",
        small=True,
    ),
    Operation(
        method="PATCH",
        path="/app/organization",
        access=Access.APP,
        role=Role.OWNER,
        function=change,
        body=OrganizationBody,
        answer=OrganizationAnswer,
        summary="Change the organisation",
        writes=True,
    ),
)
