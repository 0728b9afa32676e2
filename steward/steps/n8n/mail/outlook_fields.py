"""Converts parameters of microsoftOutlook to Microsoft Graph's messages, filters and fields."""

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from steward.connectors.base.mail import SendMail
from steward.connectors.microsoft_outlook.messages import recipients
from steward.model.json import AnyJson, JsonObject, JsonValue
from steward.outbound.mail_message import Mailbox, one_line
from steward.steps.n8n.mail.mail_nodes import mailboxes
from steward.steps.n8n.service_fields import ServiceFields, path_segment
from steward.steps.workflow.javascript import values as js

MESSAGES, FOLDERS = "/v1.0/me/messages", "/v1.0/me/mailFolders"
_SIMPLE = "id,conversationId,subject,bodyPreview,from,toRecipients,categories,hasAttachments"
ATTACHMENT = "id,lastModifiedDateTime,name,contentType,size,isInline"
_PAGE = 100
_LABELS = {
    "toRecipients": "To",
    "ccRecipients": "CC Recipients",
    "bccRecipients": "BCC Recipients",
    "replyTo": "Reply To",
}
_READ_STATUS = {"read": "true", "unread": "false"}


def message_path(fields: ServiceFields, name: str = "messageId", more: str = "") -> str:
    """Returns the path of a message. Raises ItemFailed if the step names none."""
    return f"{MESSAGES}/{path_segment(fields.text(name), 'message')}{more}"


def message_options(fields: ServiceFields, collection: str) -> dict[str, JsonValue]:
    """Returns the message properties set by a step's options, under Graph's names."""
    chosen = fields.options(
        collection, "categories", "importance", "isRead", "isReadReceiptRequested", "internetMessageHeaders"
    )
    if "importance" in chosen:
        chosen["importance"] = js.text(chosen["importance"]).lower()
    if "internetMessageHeaders" in chosen:
        rows = fields.rows(f"{collection}.internetMessageHeaders.headers")
        chosen["internetMessageHeaders"] = [
            {"name": row.text("name"), "value": row.text("value")} for row in rows if row.text("name")
        ]
    return {name: js.to_json(value) for name, value in chosen.items() if value not in ("", [])}


def bodies(fields: ServiceFields, collection: str, content: str) -> tuple[str | None, str | None]:
    """Returns the text and the HTML of a message, one of them None; text if the file names no type."""
    text = fields.text(content)
    is_html = fields.text(f"{collection}.bodyContentType").lower() == "html"
    return (None, text) if is_html else (text, None)


def new_mail(fields: ServiceFields) -> SendMail:
    """Builds the message from the parameters of one item. Raises ItemFailed."""
    text, markup = bodies(fields, "additionalFields", "bodyContent")
    options = message_options(fields, "additionalFields")
    if not fields.flag("additionalFields.saveToSentItems", True):
        options["saveToSentItems"] = False
    return SendMail(
        to=mailboxes(fields, "toRecipients", "To"),
        subject=one_line(fields.text("subject")),
        text=text,
        html=markup,
        cc=mailboxes(fields, "additionalFields.ccRecipients", "CC Recipients"),
        bcc=mailboxes(fields, "additionalFields.bccRecipients", "BCC Recipients"),
        reply_to=mailboxes(fields, "additionalFields.replyTo", "Reply To"),
        options=options,
    )


def message_body(fields: ServiceFields, collection: str) -> dict[str, JsonValue]:
    """Returns the properties that the step sets on a draft or changed message."""
    body = message_options(fields, collection)
    subject = fields.value("subject") if collection == "additionalFields" else None
    subject = fields.value(f"{collection}.subject") if js.is_missing(subject) else subject
    if not js.is_missing(subject):
        body["subject"] = one_line(js.text(subject))
    content = "bodyContent" if collection == "additionalFields" else f"{collection}.bodyContent"
    if not js.is_missing(fields.value(content)):
        text, markup = bodies(fields, collection, content)
        kind = "text" if markup is None else "html"
        body["body"] = {"contentType": kind, "content": markup if text is None else text}
    for name, label in _LABELS.items():
        path = f"{collection}.{name}"
        if name == "toRecipients" and fields.text("toRecipients"):
            path = name
        if fields.text(path):
            body[name] = recipients(mailboxes(fields, path, label))
    return body


def mailboxes_in(value: JsonValue) -> list[Mailbox]:
    """Returns the addresses in a recipient field of Graph."""
    rows = value if isinstance(value, list) else [value]
    addresses = [row.get("emailAddress") for row in rows if isinstance(row, Mapping)]
    return [
        Mailbox(str(row.get("address")), str(row.get("name") or ""))
        for row in addresses
        if isinstance(row, Mapping) and row.get("address")
    ]


def selected(fields: ServiceFields) -> dict[str, JsonValue]:
    """Returns the query that selects the fields of a message."""
    if fields.version < 2:
        return {"$select": _joined(fields.value("additionalFields.fields"))}
    output = fields.text("output", "simple")
    if output == "fields":
        return {"$select": _joined(fields.value("fields"))}
    return {"$select": _SIMPLE} if output == "simple" else {}


def selected_fields(default: str = "") -> AnyJson:
    """Returns a query function that selects the step's chosen fields, or `default` if it names none."""

    def query(fields: ServiceFields) -> dict[str, JsonValue]:
        collection = "additionalFields" if fields.version < 2 else "options"
        return {"$select": _joined(fields.value(f"{collection}.fields")) or default or None}

    return query


def listed_folders(fields: ServiceFields) -> dict[str, JsonValue]:
    """Returns the query that lists folders."""
    collection = "additionalFields" if fields.version < 2 else "options"
    return {
        **selected_fields()(fields),
        "$filter": fields.text(f"{collection}.filter") or None,
        "$top": _top(fields),
    }


def listed_messages(fields: ServiceFields) -> dict[str, JsonValue]:
    """Returns the query that lists messages."""
    query = {**selected(fields), "$top": _top(fields)}
    if fields.version < 2:
        return {**query, "$filter": fields.text("additionalFields.filter") or None}
    if fields.text("filtersUI.values.filterBy", "filters") == "search":
        text = fields.text("filtersUI.values.search")
        return {**query, "$search": f'"{text}"' if text else None}
    return {**query, "$filter": " and ".join(_conditions(fields, "filtersUI.values.filters")) or None}


def _folder_conditions(fields: ServiceFields, path: str) -> list[str]:
    conditions = []
    for name, sign, joint in (("foldersToInclude", "eq", " or "), ("foldersToExclude", "ne", " and ")):
        folders = fields.value(f"{path}.{name}")
        folders = folders if isinstance(folders, list) else [folders] if folders else []
        if folders:
            terms = [f"parentFolderId {sign} '{_quoted(js.text(folder))}'" for folder in folders]
            conditions.append(f"({joint.join(terms)})" if len(terms) > 1 else terms[0])
    return conditions


def _conditions(fields: ServiceFields, path: str) -> list[str]:
    conditions = _folder_conditions(fields, path)
    sender = fields.text(f"{path}.sender")
    if sender:
        part = "address" if "@" in sender else "name"
        conditions.append(f"from/emailAddress/{part} eq '{_quoted(sender)}'")
    if fields.flag(f"{path}.hasAttachments"):
        conditions.append("hasAttachments eq true")
    status = _READ_STATUS.get(fields.text(f"{path}.readStatus"))
    if status is not None:
        conditions.append(f"isRead eq {status}")
    for name, sign in (("receivedAfter", "ge"), ("receivedBefore", "le")):
        moment = fields.text(f"{path}.{name}")
        if moment:
            conditions.append(f"receivedDateTime {sign} {_instant(moment)}")
    custom = fields.text(f"{path}.custom")
    return [*conditions, *([custom] if custom else [])]


def _instant(text: str) -> str:
    """Returns a date in Graph's filter syntax; without an offset it is UTC."""
    has_zone = text.endswith("Z") or "+" in text[10:] or "-" in text[10:]
    if len(text) == 10:
        return f"{text}T00:00:00Z"
    return text if has_zone else f"{text}Z"


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def _joined(value: JsonValue) -> str | None:
    names = [js.text(name) for name in value] if isinstance(value, list) else [js.text(value or "")]
    return ",".join(name for name in names if name) or None


def _top(fields: ServiceFields) -> str:
    """Returns the page size: the step's limit, at most 500, or the default if all are read."""
    text = fields.text("limit", str(_PAGE))
    if fields.flag("returnAll") or not text.isdigit():
        return str(_PAGE)
    return str(min(max(int(text), 1), 500))


def next_page(response: JsonValue, query: JsonObject) -> Mapping[str, AnyJson] | None:
    """Returns the query of the next page from Graph's link to it."""
    link = response.get("@odata.nextLink") if isinstance(response, Mapping) else None
    return dict(parse_qsl(urlsplit(link).query, keep_blank_values=True)) if isinstance(link, str) else None


def simplified(message: JsonValue, fields: ServiceFields) -> JsonObject:
    """Returns a message in the step's output form, which version 2 simplifies by default."""
    whole = dict(message) if isinstance(message, Mapping) else {}
    if fields.version < 2 or fields.text("output", "simple") != "simple":
        return whole
    senders, receivers = mailboxes_in(whole.get("from")), mailboxes_in(whole.get("toRecipients"))
    short: dict[str, JsonValue] = {
        name: whole.get(name) for name in ("id", "conversationId", "subject", "bodyPreview")
    }
    short |= {
        "from": senders[0].address if senders else None,
        "to": [receiver.address for receiver in receivers],
    }
    short |= {name: whole.get(name) for name in ("categories", "hasAttachments")}
    return {name: value for name, value in short.items() if value is not None}
