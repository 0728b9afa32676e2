"""The rows of people, invitations, passwords, the organisation and destinations; operations.py joins them."""

from steward.api.app import organization as app_organization
from steward.api.app import people as app_people
from steward.api.app.session import SessionAnswer
from steward.api.http.operation import Access, Operation
from steward.api.schema.fields import PageQuery
from steward.api.v1 import destinations
from steward.model.account import Role, Scope
from steward.model.refusals import NotConnected, WrongState

PERSON = "/app/people/{user_id}"
# As the sign-in: small bodies of a few values.
SMALL_BODY = 16 * 1024
FEW_VALUES = 1_000

DESTINATIONS = [
    Operation(
        method="GET",
        path="/v1/automations/destinations",
        scope=Scope.READ,
        prepare=destinations.prepare,
        function=destinations.find,
        query=destinations.DestinationsQuery,
        answer=destinations.DestinationsAnswer,
        summary="List destinations",
        refusals=(NotConnected,),
        seconds=15.0,
    ),
]

PEOPLE_OF_ORGANIZATION = [
    Operation(
        method="GET",
        path="/app/people",
        access=Access.APP,
        role=Role.MEMBER,
        function=app_people.find,
        query=PageQuery,
        answer=app_people.PeopleAnswer,
        summary="List people",
    ),
    Operation(
        method="POST",
        path="/app/people",
        access=Access.APP,
        role=Role.OWNER,
        function=app_people.invite,
        body=app_people.InviteBody,
        answer=app_people.InvitedAnswer,
        summary="Invite a person",
        status=201,
        writes=True,
    ),
    Operation(
        method="PATCH",
        path=PERSON,
        access=Access.APP,
        role=Role.OWNER,
        function=app_people.change_role,
        body=app_people.RoleBody,
        answer=app_people.PersonAnswer,
        summary="Change a person's role",
        refusals=(WrongState,),
        writes=True,
    ),
    Operation(
        method="POST",
        path=f"{PERSON}/deactivate",
        access=Access.APP,
        role=Role.OWNER,
        function=app_people.deactivate,
        answer=app_people.PersonAnswer,
        summary="End a person's membership",
        refusals=(WrongState,),
        writes=True,
    ),
    Operation(
        method="POST",
        path=f"{PERSON}/activate",
        access=Access.APP,
        role=Role.OWNER,
        function=app_people.activate,
        answer=app_people.PersonAnswer,
        summary="Restore a person's membership",
        refusals=(WrongState,),
        writes=True,
    ),
]

OWN_ACCOUNT = [
    Operation(
        method="POST",
        path="/app/password",
        access=Access.SESSION,
        prepare=app_people.prepare_password,
        function=app_people.change_password,
        body=app_people.PasswordBody,
        body_limit=SMALL_BODY,
        body_values=FEW_VALUES,
        answer=SessionAnswer,
        summary="Change one's own password",
        writes=True,
    ),
    Operation(
        method="POST",
        path="/app/invitations/accept",
        access=Access.PUBLIC,
        attempt=app_people.count_acceptance,
        prepare=app_people.prepare_acceptance,
        function=app_people.accept,
        body=app_people.AcceptBody,
        body_limit=SMALL_BODY,
        body_values=FEW_VALUES,
        answer=SessionAnswer,
        summary="Accept an invitation",
        writes=True,
    ),
]

ORGANIZATION = [
    Operation(
        method="GET",
        path="/app/organization",
        access=Access.APP,
        role=Role.MEMBER,
        function=app_organization.get,
        answer=app_organization.OrganizationAnswer,
        summary="Get the organisation",
        small=True,
    ),
    Operation(
        method="PATCH",
        path="/app/organization",
        access=Access.APP,
        role=Role.OWNER,
        function=app_organization.change,
        body=app_organization.OrganizationBody,
        answer=app_organization.OrganizationAnswer,
        summary="Change the organisation",
        writes=True,
    ),
]

PEOPLE = [*DESTINATIONS, *PEOPLE_OF_ORGANIZATION, *OWN_ACCOUNT, *ORGANIZATION]
