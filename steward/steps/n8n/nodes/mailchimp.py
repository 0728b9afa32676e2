"""The node mailchimp: members of audiences, their tags, and campaigns, through a bound account."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable, Shape, joined, rows_of
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem

_PAGE = 500
_NAMES = (
    "authentication resource operation list email status jsonParameters options updateFields mergeFieldsUi"
    " groupsUi locationFieldsUi returnAll limit campaignId tags"
)
_MEMBER = {"list": "the audience", "email": "the email of the member"}


def _tag_texts(value: JsonValue) -> JsonObject:
    return {"tags": value if isinstance(value, list) else str(value).split(",")}


def _location(value: JsonValue) -> JsonObject:
    rows = rows_of(value, "locationFieldsValues")
    return {"location": dict(rows[0])} if rows else {}


def _merge_fields(value: JsonValue) -> JsonObject:
    rows = rows_of(value, "mergeFieldsValues")
    return {"merge_fields": {str(row.get("name")): row.get("value", "") for row in rows}} if rows else {}


def _groups(value: JsonValue) -> dict[str, JsonValue]:
    rows = rows_of(value, "groupsValues")
    return (
        {"interests": {str(row.get("categoryFieldId")): row.get("value", False) for row in rows}}
        if rows
        else {}
    )


def _moment(name: str) -> Shape:
    """Returns a shape that writes a date in Mailchimp's format, in UTC if it has an offset.

    The shape raises ItemFailed for any other text.
    """

    def shape(value: JsonValue) -> dict[str, str]:
        try:
            moment = datetime.fromisoformat(str(value).strip())
        except ValueError:
            message = f"“{str(value)[:60]}” is not a date for Mailchimp. Write it as 2026-01-31 12:00."
            raise ItemFailed(message) from None
        return {name: (moment.astimezone(UTC) if moment.tzinfo else moment).strftime("%Y-%m-%d %H:%M:%S")}

    return shape


_PLAIN = "emailType:email_type ipOptIn:ip_opt ipSignup:ip_signup language vip"
_DATES: Mapping[str, Shape] = {
    "timestampOpt": _moment("timestamp_opt"),
    "timestampSignup": _moment("timestamp_signup"),
}
_NEW = OptionTable("options", _PLAIN, {**_DATES, "tags": _tag_texts})
_CHANGES = OptionTable(
    "updateFields",
    f"{_PLAIN} status",
    {
        **_DATES,
        "mergeFieldsUi": _merge_fields,
        "groupsUi": _groups,
        "locationFieldsUi": _location,
        "skipMergeValidation": lambda value: {},
    },
)


def _new_member(fields: ServiceFields) -> JsonObject:
    """Returns a new member; fields, groups and location are parameters beside the options."""
    return {
        "email_address": fields.text("email"),
        "status": fields.text("status"),
        **_NEW.read(fields),
        **_merge_fields(fields.value("mergeFieldsUi")),
        **_groups(fields.value("groupsUi")),
        **_location(fields.value("locationFieldsUi")),
    }


def _validation(fields: ServiceFields) -> dict[str, str]:
    return {"skip_merge_validation": "true"} if fields.flag("updateFields.skipMergeValidation") else {}


def _tags(status: str) -> Callable[[ServiceFields], dict[str, AnyJson]]:
    def body(fields: ServiceFields) -> dict[str, AnyJson]:
        value = fields.value("tags")
        names = value if isinstance(value, list) else [value]
        tags = [{"name": js.text(name), "status": status} for name in names if name not in ("", None)]
        return {"tags": tags, "is_syncing": True if fields.flag("options.isSyncing") else None}

    return body


def _checked(table: OptionTable) -> Callable[[NodeDefinition], Iterable[StepProblem]]:
    def check(node: NodeDefinition) -> Iterable[StepProblem]:
        yield from table.check(node)
        if node.get("jsonParameters"):
            message = "Its fields are written as JSON, which is not supported. Write them one by one."
            yield StepProblem("error", "parameter", message)

    return check


def _done(response: JsonValue, fields: ServiceFields) -> Sequence[JsonObject]:
    return [{"success": True}]


def _pages(path: str, items: str, options: str, **needed: str) -> ServiceOperation:
    """Returns an operation that lists by offset."""
    table = OptionTable("options", options)

    def next_page(response: JsonValue, query: Mapping[str, str]) -> Mapping[str, str] | None:
        page = response if isinstance(response, Mapping) else {}
        listed = page.get(items)
        count = len(listed) if isinstance(listed, list) else 0
        position = int(query.get("offset", "0")) + count
        more = count > 0 and position < int(js.number(page.get("total_items", 0)))
        return {**query, "offset": str(position)} if more else None

    return ServiceOperation(
        "GET", path, lambda fields: {"count": _PAGE, **table.read(fields)}, items, needed=needed,
        next_page=next_page, check=_checked(table),
    )  # fmt: skip


def _tagging(status: str) -> ServiceOperation:
    return ServiceOperation(
        "POST", f"{_MEMBER_PATH}/tags", _tags(status), recipient="email", needed=_MEMBER, to_items=_done,
        check=_checked(OptionTable("options", "isSyncing")),
    )  # fmt: skip


_MEMBER_PATH = "/lists/{list}/members/{email}"
_CAMPAIGN = {"campaignId": "which campaign it means"}
_READ = OptionTable("options", "", {"fields": joined("fields"), "excludeFields": joined("exclude_fields")})
_OPERATIONS = {
    "member.create": ServiceOperation(
        "POST", "/lists/{list}/members", _new_member, recipient="email",
        needed=_MEMBER | {"status": "the status of the member"}, check=_checked(_NEW),
    ),
    "member.update": ServiceOperation(
        "PUT", _MEMBER_PATH, _CHANGES.read, recipient="email", needed=_MEMBER, query=_validation,
        check=_checked(_CHANGES),
    ),
    "member.get": ServiceOperation("GET", _MEMBER_PATH, _READ.read, needed=_MEMBER, check=_checked(_READ)),
    "member.getAll": _pages(
        "/lists/{list}/members", "members",
        "beforeLastChanged:before_last_changed beforeTimestampOpt:before_timestamp_opt emailType:email_type"
        " sinceLastChanged:since_last_changed status",
        list="the audience",
    ),
    "memberTag.create": _tagging("active"),
    "memberTag.delete": _tagging("inactive"),
    "campaign.get": ServiceOperation("GET", "/campaigns/{campaignId}", needed=_CAMPAIGN),
    "campaign.getAll": _pages(
        "/campaigns", "campaigns",
        "beforeCreateTime:before_create_time beforeSendTime:before_send_time listId:list_id"
        " sinceCreateTime:since_create_time sinceSendTime:since_send_time sortDirection:sort_dir"
        " sortField:sort_field status",
    ),
    "campaign.send": ServiceOperation(
        "POST", "/campaigns/{campaignId}/actions/send", recipient="campaignId", needed=_CAMPAIGN,
        to_items=_done,
    ),
    "campaign.replicate": ServiceOperation(
        "POST", "/campaigns/{campaignId}/actions/replicate", recipient="campaignId", needed=_CAMPAIGN
    ),
}  # fmt: skip
_DEFAULTS = {"member": "create", "memberTag": "create", "campaign": "getAll", "listGroup": "getAll"}


class MailchimpNode(HttpServiceNode):
    """Supports audience members and campaigns; rejects permanent deletion and fields given as JSON."""

    types = ("mailchimp",)
    versions = (1,)
    service = "Mailchimp"
    address = "https://{host}/3.0"
    credential_types = ("mailchimpApi", "mailchimpOAuth2Api")
    parameters = frozenset(_NAMES.split())
    default_resource = "member"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
