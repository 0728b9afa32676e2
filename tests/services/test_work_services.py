"""Nodes of services for tasks, texts, calendars and rows: their calls and the items they return."""

import json
from typing import Any

import pytest

from steward.model.run import RunStatus
from steward.steps.workflow.step_types import ItemFailed
from tests.imports.exports import automated, chain, code, node
from tests.imports.responses.workflows import output_items
from tests.runs.shop import Shop
from tests.services.running import call_of, findings_of, items_of
from tests.services.test_http_services import Api, api, shop, signed_in

__all__ = ["api", "shop"]  # fixtures

ZONE = {"zone": "Europe/Riga"}
CARDS = {"resource": "list", "operation": "getCards", "id": "l1"}
TWO_ROWS = {"conditions": [{"keyName": "id", "keyValue": "1"}, {"keyName": "paid", "keyValue": "true"}]}
SPAN = {"start": "2026-07-01", "end": "2026-07-02"}
DAYS = {"timeMin": "2026-07-01T09:00:00Z", "timeMax": "2026-07-02T09:00:00Z"}
CALENDAR = {"calendar": {"__rl": True, "mode": "list", "value": "ann@shop.example"}}
EVENTS = "/calendars/ann%40shop.example/events"
ROWS = {
    "tableId": "orders",
    "filters": {"conditions": [{"keyName": "id", "condition": "gt", "keyValue": "7"}]},
}
COLUMNS = {"fieldsUi": {"fieldValues": [{"fieldId": "paid", "fieldValue": True}]}}
DOCUMENT = {"documentURL": "https://docs.google.com/document/d/d-1/edit"}
SLIDE_TEXTS = [
    {"text": "[NAME]", "replaceText": "Ada", "pageObjectIds": ["g1"]},
    {"text": "[Day]", "replaceText": "", "matchCase": True},
]
ACTIONS = {
    "actionsUi": {
        "actionFields": [
            {"action": "insert", "text": "Tea"},
            {"action": "insert", "text": "Tea", "locationChoice": "location", "index": 1},
            {"action": "replaceAll", "text": "tea", "replaceText": "Coffee", "matchCase": True},
        ]
    }
}
CALLS: list[tuple[str, float, dict[str, Any], str, dict[str, Any], dict[str, str]]] = [
    (
        "n8n",
        1,
        {"filters": {"activeWorkflows": True, "tags": "shop"}},
        "GET /workflows",
        {},
        {"limit": "100", "active": "true", "tags": "shop"},
    ),
    (
        "n8n",
        1,
        {"operation": "get", "workflowId": {"__rl": True, "mode": "id", "value": "w1"}},
        "GET /workflows/w1",
        {},
        {},
    ),
    (
        "n8n",
        1,
        {"operation": "create", "workflowObject": '{"name": "A", "nodes": [], "id": "7"}'},
        "POST /workflows",
        {"name": "A", "nodes": []},
        {},
    ),
    ("n8n", 1, {"operation": "deactivate", "workflowId": "w1"}, "POST /workflows/w1/deactivate", {}, {}),
    (
        "wordpress",
        1,
        {"title": "Tea", "additionalFields": {"status": "draft", "authorId": 3}},
        "POST /posts",
        {"title": "Tea", "status": "draft", "author": 3},
        {},
    ),
    (
        "wordpress",
        1,
        {"operation": "update", "postId": "7", "updateFields": {"title": "New"}},
        "POST /posts/7",
        {"title": "New"},
        {},
    ),
    (
        "wordpress",
        1,
        {"resource": "page", "operation": "getAll", "options": {"orderBy": "title"}},
        "GET /pages",
        {},
        {"per_page": "100", "orderby": "title"},
    ),
    (
        "todoist",
        2.1,
        {
            "project": {"__rl": True, "value": "9", "mode": "list"},
            "content": "Pack",
            "labels": ["shop"],
            "options": {"dueString": "today"},
        },
        "POST /tasks",
        {"content": "Pack", "project_id": "9", "labels": ["shop"], "due_string": "today"},
        {},
    ),
    (
        "todoist",
        2,
        {"operation": "getAll", "filters": {"projectId": "9"}},
        "GET /tasks",
        {},
        {"limit": "100", "project_id": "9"},
    ),
    (
        "todoist",
        2,
        {"operation": "getAll", "filters": {"filter": "today"}},
        "GET /tasks/filter",
        {},
        {"limit": "100", "query": "today"},
    ),
    ("todoist", 2, {"operation": "close", "taskId": "5"}, "POST /tasks/5/close", {}, {}),
    (
        "trello",
        1,
        {"listId": "l1", "name": "Tea", "additionalFields": {"idMembers": ["a", "b"]}},
        "POST /cards",
        {"idList": "l1", "name": "Tea", "desc": "", "idMembers": "a,b"},
        {},
    ),
    (
        "trello",
        1,
        {
            "operation": "update",
            "id": {"__rl": True, "value": "c1", "mode": "id"},
            "updateFields": {"description": "x"},
        },
        "PUT /cards/c1",
        {"desc": "x"},
        {},
    ),
    ("trello", 1, {**CARDS, "returnAll": True}, "GET /lists/l1/cards", {}, {}),
    (
        "trello",
        1,
        {"resource": "cardComment", "cardId": "c1", "text": "Sent"},
        "POST /cards/c1/actions/comments",
        {"text": "Sent"},
        {},
    ),
    (
        "twitter",
        2,
        {
            "text": "Tea",
            "additionalFields": {
                "inReplyToStatusId": {"__rl": True, "mode": "url", "value": "https://x.com/a/status/77?s=1"}
            },
        },
        "POST /tweets",
        {"text": "Tea", "reply": {"in_reply_to_tweet_id": "77"}},
        {},
    ),
    (
        "sendGrid",
        1,
        {
            "resource": "mail",
            "fromEmail": "a@shop.example",
            "fromName": "Ann",
            "toEmail": "b@shop.example, c@shop.example",
            "subject": "Tea",
            "contentValue": "Hi",
            "additionalFields": {"ccEmail": "d@shop.example"},
        },
        "POST /mail/send",
        {
            "personalizations": [
                {
                    "to": [{"email": "b@shop.example"}, {"email": "c@shop.example"}],
                    "cc": [{"email": "d@shop.example"}],
                    "subject": "Tea",
                }
            ],
            "from": {"email": "a@shop.example", "name": "Ann"},
            "content": [{"type": "text/plain", "value": "Hi"}],
        },
        {},
    ),
    (
        "facebookGraphApi",
        1,
        {
            "node": "me",
            "edge": "photos",
            "graphApiVersion": "v20.0",
            "options": {"fields": {"field": [{"name": "id"}, {"name": "link"}]}},
        },
        "GET /v20.0/me/photos",
        {},
        {"fields": "id,link"},
    ),
    (
        "facebookGraphApi",
        1,
        {
            "httpRequestMethod": "POST",
            "node": "77/feed",
            "options": {"queryParameters": {"parameter": [{"name": "message", "value": "Tea"}]}},
        },
        "POST /77/feed",
        {},
        {"message": "Tea"},
    ),
    (
        "googleTasks",
        1,
        {"task": "t1", "title": "Pack", "additionalFields": {"dueDate": "2026-01-31", "parent": "p"}},
        "POST /lists/t1/tasks",
        {"title": "Pack", "due": "2026-01-31"},
        {"parent": "p"},
    ),
    (
        "googleTasks",
        1,
        {"operation": "getAll", "task": "t1"},
        "GET /lists/t1/tasks",
        {},
        {"maxResults": "100"},
    ),
    (
        "googleDocs",
        2,
        {"folderId": "f1", "title": "Tea"},
        "POST www.googleapis.com/drive/v3/files?supportsAllDrives=true",
        {"name": "Tea", "mimeType": "application/vnd.google-apps.document", "parents": ["f1"]},
        {},
    ),
    ("googleDocs", 2, {"operation": "get", **DOCUMENT}, "GET docs.googleapis.com/v1/documents/d-1", {}, {}),
    (
        "googleDocs",
        2,
        {"operation": "update", **DOCUMENT, **ACTIONS},
        "POST docs.googleapis.com/v1/documents/d-1:batchUpdate",
        {
            "requests": [
                {"insertText": {"endOfSegmentLocation": {}, "text": "Tea"}},
                {"insertText": {"location": {"index": 1}, "text": "Tea"}},
                {
                    "replaceAllText": {
                        "replaceText": "Coffee",
                        "containsText": {"text": "tea", "matchCase": True},
                    }
                },
            ]
        },
        {},
    ),
    ("googleSlides", 2, {"title": "Prices"}, "POST /presentations", {"title": "Prices"}, {}),
    ("googleSlides", 2, {"operation": "get", "presentationId": "p-1"}, "GET /presentations/p-1", {}, {}),
    (
        "googleSlides",
        2,
        {"operation": "replaceText", "presentationId": "p-1", "textUi": {"textValues": SLIDE_TEXTS}},
        "POST /presentations/p-1:batchUpdate",
        {
            "requests": [
                {
                    "replaceAllText": {
                        "replaceText": "Ada",
                        "containsText": {"text": "[NAME]", "matchCase": False},
                        "pageObjectIds": ["g1"],
                    }
                },
                {"replaceAllText": {"replaceText": "", "containsText": {"text": "[Day]", "matchCase": True}}},
            ]
        },
        {},
    ),
    (
        "googleCalendar",
        1.3,
        {
            **CALENDAR,
            "start": "2026-07-01 09:00",
            "end": "2026-07-01T10:00:00Z",
            "additionalFields": {
                "summary": "Tea",
                "attendees": ["a@shop.example,b@shop.example"],
                "sendUpdates": "all",
            },
        },
        f"POST {EVENTS}",
        {
            "start": {"dateTime": "2026-07-01T09:00:00+03:00", "timeZone": "Europe/Riga"},
            "end": {"dateTime": "2026-07-01T13:00:00+03:00", "timeZone": "Europe/Riga"},
            "reminders": {"useDefault": True},
            "summary": "Tea",
            "attendees": [{"email": "a@shop.example"}, {"email": "b@shop.example"}],
        },
        {"sendUpdates": "all"},
    ),
    (
        "googleCalendar",
        1.2,
        {
            **CALENDAR,
            "start": "2026-07-01",
            "end": "2026-07-02",
            "useDefaultReminders": False,
            "additionalFields": {"allday": "yes", "rrule": "FREQ=DAILY;COUNT=2"},
        },
        f"POST {EVENTS}",
        {
            "start": {"date": "2026-07-01"},
            "end": {"date": "2026-07-02"},
            "reminders": {"useDefault": False},
            "recurrence": ["RRULE:FREQ=DAILY;COUNT=2"],
        },
        {},
    ),
    (
        "googleCalendar",
        1.2,
        {**CALENDAR, "operation": "update", "eventId": "e1", "updateFields": {"end": "2026-07-01T10:00:00Z"}},
        f"PATCH {EVENTS}/e1",
        {"end": {"dateTime": "2026-07-01T13:00:00+03:00", "timeZone": "Europe/Riga"}},
        {},
    ),
    (
        "googleCalendar",
        1,
        {
            **CALENDAR,
            "operation": "getAll",
            "options": {"timeMin": "2026-07-01T09:00:00Z", "singleEvents": True},
        },
        f"GET {EVENTS}",
        {},
        {"maxResults": "100", "singleEvents": "true", "timeMin": "2026-07-01T12:00:00+03:00"},
    ),
    (
        "googleCalendar",
        1.3,
        {
            **CALENDAR,
            "operation": "getAll",
            **DAYS,
            "options": {
                "recurringEventHandling": "expand",
                "timeZone": {"__rl": True, "value": "Europe/Riga", "mode": "list"},
            },
        },
        f"GET {EVENTS}",
        {},
        {
            "maxResults": "100",
            "singleEvents": "true",
            "timeZone": "Europe/Riga",
            "timeMin": "2026-07-01T12:00:00+03:00",
            "timeMax": "2026-07-02T12:00:00+03:00",
        },
    ),
    ("supabase", 1, {"tableId": "orders", **COLUMNS}, "POST /orders", {"paid": True}, {}),
    ("supabase", 1, {**ROWS, "operation": "getAll"}, "GET /orders?or=%28id.gt.7%29", {}, {"limit": "100"}),
    (
        "supabase",
        1,
        {**ROWS, "operation": "update", "matchType": "allFilters", **COLUMNS},
        "PATCH /orders?id=gt.7",
        {"paid": True},
        {},
    ),
    (
        "supabase",
        1,
        {"operation": "delete", "tableId": "orders", "filterType": "string", "filterString": "id=eq.7"},
        "DELETE /orders?id=eq.7",
        {},
        {},
    ),
]


@pytest.mark.parametrize(("kind", "version", "parameters", "target", "body", "query"), CALLS)
def test_an_operation_calls_what_its_parameters_say(
    kind: str,
    version: float,
    parameters: dict[str, Any],
    target: str,
    body: dict[str, Any],
    query: dict[str, str],
) -> None:
    """Calls the documented method, path, body and query, without findings."""
    call = call_of(kind, version, parameters, ZONE)
    assert (f"{call.method} {call.path}", call.body, call.query) == (target, body, query)
    assert findings_of(kind, version, parameters) == []


REFUSED = [
    ("n8n", 1, {"resource": "audit", "operation": "generate"}, "not supported"),
    ("n8n", 1, {"filters": {"owner": "a"}}, "not known"),
    (
        "googleCalendar",
        1.3,
        {**CALENDAR, "operation": "getAll", "options": {"recurringEventHandling": "expand"}},
        "which days it reads",
    ),
    ("googleCalendar", 1.3, {**CALENDAR, "operation": "getAll", **DAYS}, "the next occurrence"),
    ("googleCalendar", 1.3, {**CALENDAR, "operation": "get", "eventId": "e1"}, "the next occurrence"),
    (
        "googleCalendar",
        1.2,
        {**CALENDAR, "operation": "get", "eventId": "e1", "options": {"returnNextInstance": True}},
        "the next occurrence",
    ),
    ("googleCalendar", 1.3, {**CALENDAR, "end": "2026-07-02"}, "when the event starts"),
    (
        "googleCalendar",
        1.3,
        {**CALENDAR, **SPAN, "additionalFields": {"repeatFrecuency": "Daily"}},
        "not known",
    ),
    ("trello", 1, CARDS, "how many it reads"),
    ("supabase", 1, {**ROWS, "operation": "update", "filters": TWO_ROWS, **COLUMNS}, "all of its conditions"),
    (
        "googleDocs",
        2,
        {"operation": "update", **DOCUMENT, "actionsUi": {"actionFields": [{"object": "table"}]}},
        "otherwise",
    ),
    ("googleSlides", 2, {"operation": "getSlides", "presentationId": "p-1"}, "is not supported"),
    (
        "googleSlides",
        2,
        {"operation": "replaceText", "presentationId": "p", "textUi": {}, "options": {"revisionId": "r"}},
        "revisionId",
    ),
    (
        "facebookGraphApi",
        1,
        {"httpRequestMethod": "POST", "node": "me", "sendBinaryData": True},
        "sends a file",
    ),
    ("supabase", 1, {**ROWS, "operation": "getAll", "useCustomSchema": True}, "another schema"),
    (
        "supabase",
        1,
        {"operation": "get", "tableId": "a", "filters": {"conditions": [{"condition": "cs"}]}},
        "not known",
    ),
    (
        "sendGrid",
        1,
        {
            "resource": "mail",
            "fromEmail": "a@b.example",
            "toEmail": "b@b.example",
            "additionalFields": {"attachments": "data"},
        },
        "not known",
    ),
    ("trello", 1, {"resource": "boardMember", "operation": "getAll"}, "not supported"),
    ("twitter", 2, {"operation": "like", "tweetId": "1"}, "not supported"),
]


@pytest.mark.parametrize(("kind", "version", "parameters", "words"), REFUSED)
def test_unsupported_node_parameters_are_errors(
    kind: str, version: float, parameters: dict[str, Any], words: str
) -> None:
    """Reports one error that says what to do instead."""
    [(level, message)] = findings_of(kind, version, parameters)
    assert level == "error"
    assert words in message


NOT_SENT = [
    ("supabase", {"operation": "delete", "tableId": "orders"}, "which rows"),
    ("supabase", {"operation": "update", "tableId": "orders", "filterType": "none"}, "which rows"),
    ("googleCalendar", {**CALENDAR, "start": "soon", "end": "later"}, "is not a date"),
    ("facebookGraphApi", {"node": "../me"}, "which node"),
    ("n8n", {"operation": "create", "workflowObject": "[]"}, "which workflow"),
]


@pytest.mark.parametrize(("kind", "parameters", "words"), NOT_SENT)
def test_a_call_that_would_mean_something_else_is_not_made(
    kind: str, parameters: dict[str, Any], words: str
) -> None:
    """Fails items whose condition is missing or value is unreadable, instead of meaning every row."""
    with pytest.raises(ItemFailed, match=words):
        call_of(kind, 1, parameters, ZONE)


def test_responses_are_output_as_n8n_does() -> None:
    """Returns the records inside a response, a document's text, or success if it is empty, as n8n does."""
    assert items_of("n8n", 1, {}, {"data": [{"id": "w1"}]}) == [{"id": "w1"}]
    assert items_of("todoist", 2, {"operation": "close", "taskId": "1"}, {}) == [{"success": True}]
    assert items_of("twitter", 2, {"text": "Tea"}, {"data": {"id": "1"}}) == [{"id": "1"}]
    cards = [{"id": str(number)} for number in range(120)]
    listing = {"resource": "list", "operation": "getCards", "id": "l1"}
    assert items_of("trello", 1, listing, cards) == cards[:100]
    assert items_of("trello", 1, {**listing, "returnAll": True}, cards) == cards
    block = {"paragraph": {"elements": [{"textRun": {"content": "Te"}}, {"textRun": {"content": "a\n"}}]}}
    document = {"documentId": "d-1", "title": "x", "body": {"content": [{"sectionBreak": {}}, block]}}
    got = {"operation": "get", **DOCUMENT}
    assert items_of("googleDocs", 2, got, document) == [{"documentId": "d-1", "content": "Tea\n"}]
    assert items_of("googleDocs", 2, {**got, "simple": False}, document) == [document]
    replaced = {"documentId": "d-1", "replies": [{"replaceAllText": {"occurrencesChanged": 2}}]}
    updated = {"operation": "update", **DOCUMENT}
    assert items_of("googleDocs", 2, updated, replaced) == [{"occurrencesChanged": 2, "documentId": "d-1"}]


def test_the_first_version_of_a_post_is_posted_by_the_present_interface() -> None:
    """Warns that the first version of the API has ended; posts go to the present one."""
    [(level, message)] = findings_of("twitter", 1, {"text": "Tea"})
    assert (level, "has ended" in message) == ("warning", True)


async def test_a_meeting_has_one_id_and_dates_are_in_the_zone_of_the_automation(shop: Shop, api: Api) -> None:
    """Sends an event in the automation's zone with one conference request id after a restart."""
    account = await signed_in(shop, api, "www.googleapis.com")
    api.respond = lambda request: {"id": "e1", "sent": json.loads(request.content)}
    meeting = {"conferenceDataUi": {"conferenceDataValues": {"conferenceSolution": "hangoutsMeet"}}}
    parameters = {
        **CALENDAR,
        "start": "2026-07-01T09:00",
        "end": "2026-07-01T10:00",
        "additionalFields": meeting,
    }
    export = chain(node("Meet", "googleCalendar", 1.3, parameters), code("Read", "return items"))

    automation = await automated(shop, export, accounts={"Meet": account})
    run = await shop.waiting(automation)
    await shop.approve(run)
    await shop.restart()
    assert (await shop.until_settled(run)).status is RunStatus.SUCCEEDED
    [request] = api.seen
    assert request.url.params["conferenceDataVersion"] == "1"
    [item] = await output_items(shop, run, "Read")
    assert item["sent"]["start"] == {"dateTime": "2026-07-01T09:00:00+00:00", "timeZone": "UTC"}
    assert len(item["sent"]["conferenceData"]["createRequest"]["requestId"]) == 32
