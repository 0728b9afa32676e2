"""Nodes of services for customers and sales: the call of each operation and the items it returns."""

from typing import Any

import pytest

from steward.steps.workflow.step_types import ItemFailed
from tests.services.running import call_of, findings_of, items_of

PIPEDRIVE = [
    (
        {
            "title": "Tea",
            "associateWith": "person",
            "person_id": 7,
            "additionalFields": {
                "value": 9,
                "customProperties": {"property": [{"name": "a1b2", "value": "x"}]},
            },
        },
        "POST /deals",
        {"title": "Tea", "person_id": 7, "value": 9, "a1b2": "x"},
    ),
    (
        {"operation": "update", "dealId": 5, "updateFields": {"stage_id": 2}},
        "PUT /deals/5",
        {"stage_id": 2},
    ),
    (
        {"operation": "getAll", "filters": {"owned_by_you": True, "status": "open"}},
        "GET /deals",
        {"limit": "100", "owned_by_you": "1", "status": "open"},
    ),
    (
        {
            "operation": "search",
            "term": "tea",
            "exactMatch": True,
            "additionalFields": {"personId": 3, "fields": ["title", "notes"], "status": "all"},
        },
        "GET /deals/search",
        {"term": "tea", "limit": "100", "exact_match": "true", "person_id": "3", "fields": "title,notes"},
    ),
    ({"operation": "duplicate", "dealId": 5}, "POST /deals/5/duplicate", {}),
    (
        {"resource": "person", "name": "Ann", "additionalFields": {"email": ["a@shop.example"]}},
        "POST /persons",
        {"name": "Ann", "email": ["a@shop.example"]},
    ),
    ({"resource": "person", "operation": "delete", "personId": 4}, "DELETE /persons/4", {}),
    ({"resource": "organization", "operation": "get", "organizationId": 4}, "GET /organizations/4", {}),
    (
        {"resource": "activity", "subject": "Call", "additionalFields": {"deal_id": 5}},
        "POST /activities",
        {"subject": "Call", "done": "0", "deal_id": 5},
    ),
    (
        {"resource": "note", "content": "Paid", "additionalFields": {"org_id": 8}},
        "POST /notes",
        {"content": "Paid", "org_id": 8},
    ),
    (
        {"resource": "lead", "operation": "getAll", "filters": {"archived_status": "archived"}},
        "GET /leads",
        {"limit": "100", "archived_status": "archived"},
    ),
]
COLLECTION = {"propertiesCollection": {"propertiesValues": {"properties": ["email", "city|string"]}}}
FILTERS = {
    "filterGroupsValues": [
        {"filtersUi": {"filterValues": [{"propertyName": "po_number|string", "value": 12}]}},
        {"filtersUi": {"filterValues": [{"propertyName": "city", "operator": "HAS_PROPERTY"}]}},
    ]
}
CASES = [
    {"filters": [{"propertyName": "po_number", "operator": "EQ", "value": "12"}]},
    {"filters": [{"propertyName": "city", "operator": "HAS_PROPERTY"}]},
]
HUBSPOT = [
    (
        2.1,
        {
            "email": "a@shop.example",
            "options": {"resolveData": False},
            "additionalFields": {
                "firstName": "Ann",
                "lastName": "",
                "customPropertiesUi": {"customPropertiesValues": [{"property": "paid", "value": "Yes"}]},
            },
        },
        "POST /contacts/v1/contact/createOrUpdate/email/a%40shop.example",
        {"properties": [{"property": "firstname", "value": "Ann"}, {"property": "paid", "value": "Yes"}]},
    ),
    (
        2.1,
        {"operation": "get", "contactId": {"__rl": True, "mode": "id", "value": "7"}}
        | {"additionalFields": COLLECTION | {"propertyMode": "valueOnly"}},
        "GET /contacts/v1/contact/vid/7/profile?property=email&property=city&propertyMode=valueOnly",
        {},
    ),
    (2.1, {"operation": "getAll"}, "GET /contacts/v1/lists/all/contacts/all", {"count": "100"}),
    (
        1,
        {"resource": "contact", "operation": "delete", "contactId": 7},
        "DELETE /contacts/v1/contact/vid/7",
        {},
    ),
    (
        2.1,
        {
            "resource": "company",
            "name": "Tea Ltd",
            "additionalFields": {"companyDomainName": "tea.example", "countryRegion": "Latvia"},
        },
        "POST /companies/v2/companies",
        {
            "properties": [
                {"name": "name", "value": "Tea Ltd"},
                {"name": "domain", "value": "tea.example"},
                {"name": "country", "value": "Latvia"},
            ]
        },
    ),
    (
        1,
        {
            "stage": "closedwon",
            "additionalFields": {"amount": 9, "associatedVids": 7, "closeDate": "2026-01-01T01:00:00+01:00"},
        },
        "POST /deals/v1/deal",
        {
            "associations": {"associatedVids": [7]},
            "properties": [
                {"name": "dealstage", "value": "closedwon"},
                {"name": "amount", "value": 9},
                {"name": "closedate", "value": 1767225600000},
            ],
        },
    ),
    (
        1,
        {"operation": "update", "dealId": 5, "updateFields": {"stage": "won"}},
        "PUT /deals/v1/deal/5",
        {"properties": [{"name": "dealstage", "value": "won"}]},
    ),
    (
        1,
        {"operation": "search", "filterGroupsUi": FILTERS, "additionalFields": {"query": "tea"}},
        "POST /crm/v3/objects/deals/search",
        {"filterGroups": CASES, "limit": 100, "query": "tea"},
    ),
    (
        2.1,
        {
            "operation": "search",
            "additionalFields": {"sortBy": "email", "direction": "ASCENDING", "properties": ["email"]},
        },
        "POST /crm/v3/objects/contacts/search",
        {
            "filterGroups": [],
            "limit": 100,
            "properties": ["email"],
            "sorts": [{"propertyName": "email", "direction": "ASCENDING"}],
        },
    ),
]
PROJECT = {"__rl": True, "mode": "list", "value": "10000"}
DOCUMENT = {
    "type": "doc",
    "version": 1,
    "content": [{"type": "paragraph", "content": [{"type": "text", "text": "Paid"}]}],
}
JIRA = [
    (
        {
            "project": PROJECT,
            "issueType": {"__rl": True, "mode": "list", "value": "10001"},
            "summary": "Sold out",
            "additionalFields": {
                "description": "Tea",
                "labels": ["shop"],
                "priority": {"__rl": True, "mode": "id", "value": 2},
                "componentIds": [7],
                "parentIssueKey": "shop-1",
                "customFieldsUi": {"customFieldsValues": [{"fieldId": "customfield_1", "fieldValue": "x"}]},
            },
        },
        "POST /2/issue",
        {
            "fields": {
                "summary": "Sold out",
                "project": {"id": "10000"},
                "issuetype": {"id": "10001"},
                "description": "Tea",
                "labels": ["shop"],
                "priority": {"id": "2"},
                "components": [{"id": "7"}],
                "parent": {"key": "SHOP-1"},
                "customfield_1": "x",
            }
        },
    ),
    (
        {"operation": "update", "issueKey": "SHOP-2", "updateFields": {"summary": "New"}},
        "PUT /2/issue/SHOP-2",
        {"fields": {"summary": "New"}},
    ),
    (
        {"operation": "update", "issueKey": "SHOP-2", "updateFields": {"statusId": "31"}},
        "POST /2/issue/SHOP-2/transitions",
        {"transition": {"id": "31"}},
    ),
    ({"operation": "get", "issueKey": "SHOP-2"}, "GET /2/issue/SHOP-2", {}),
    (
        {"operation": "getAll", "options": {"jql": "project = SHOP", "expand": "changelog"}},
        "GET /2/search/jql",
        {"maxResults": "100", "jql": "project = SHOP", "fields": "*navigable", "expand": "changelog"},
    ),
    ({"operation": "changelog", "issueKey": "A-1"}, "GET /2/issue/A-1/changelog", {"maxResults": "100"}),
    ({"operation": "delete", "issueKey": "A-1"}, "DELETE /2/issue/A-1", {}),
    (
        {"resource": "issueComment", "issueKey": "A-1", "comment": "Paid"},
        "POST /3/issue/A-1/comment",
        {"body": DOCUMENT},
    ),
    (
        {"resource": "issueComment", "issueKey": "A-1", "comment": "*Paid*", "options": {"wikiMarkup": True}},
        "POST /2/issue/A-1/comment",
        {"body": "*Paid*"},
    ),
    (
        {"resource": "issueComment", "operation": "getAll", "issueKey": "A-1"},
        "GET /2/issue/A-1/comment",
        {"maxResults": "100"},
    ),
]
ZENDESK = [
    (
        {
            "description": "Where is my tea?",
            "additionalFields": {
                "subject": "Order 7",
                "group": 5,
                "customFieldsUi": {"customFieldsValues": [{"id": 9, "value": "x"}]},
            },
        },
        "POST /tickets.json",
        {
            "ticket": {
                "comment": {"body": "Where is my tea?"},
                "subject": "Order 7",
                "group_id": 5,
                "custom_fields": [{"id": 9, "value": "x"}],
            }
        },
    ),
    (
        {"operation": "update", "id": "7", "updateFields": {"status": "solved", "publicReply": "Sent"}},
        "PUT /tickets/7.json",
        {"ticket": {"status": "solved", "comment": {"body": "Sent", "public": True}}},
    ),
    (
        {"operation": "update", "id": "7", "updateFields": {"internalNote": "<b>Sent</b>"}},
        "PUT /tickets/7.json",
        {"ticket": {"comment": {"html_body": "<b>Sent</b>", "public": False}}},
    ),
    (
        {"operation": "getAll", "options": {"query": "tea", "status": "open", "sortBy": "created_at"}},
        "GET /search.json",
        {"query": "type:ticket tea status:open", "per_page": "100", "sort_by": "created_at"},
    ),
    ({"operation": "delete", "id": "7"}, "DELETE /tickets/7.json", {}),
    (
        {"resource": "user", "name": "Ann", "additionalFields": {"email": "a@shop.example"}},
        "POST /users.json",
        {"user": {"name": "Ann", "email": "a@shop.example"}},
    ),
    (
        {"resource": "user", "operation": "getAll", "filters": {"role": ["agent", "admin"]}},
        "GET /users.json?role%5B%5D=agent&role%5B%5D=admin",
        {"per_page": "100"},
    ),
    (
        {"resource": "user", "operation": "search", "filters": {"query": "a@shop.example"}},
        "GET /users/search.json",
        {"per_page": "100", "query": "a@shop.example"},
    ),
]
MEMBER = {"list": "l1", "email": "a@shop.example"}
MAILCHIMP = [
    (
        {
            **MEMBER,
            "status": "subscribed",
            "options": {"timestampSignup": "2026-01-31T12:00:00+02:00", "tags": "tea,shop"},
            "mergeFieldsUi": {"mergeFieldsValues": [{"name": "FNAME", "value": "Ann"}]},
            "groupsUi": {"groupsValues": [{"categoryId": "c", "categoryFieldId": "g1", "value": True}]},
        },
        "POST /lists/l1/members",
        {
            "email_address": "a@shop.example",
            "status": "subscribed",
            "timestamp_signup": "2026-01-31 10:00:00",
            "tags": ["tea", "shop"],
            "merge_fields": {"FNAME": "Ann"},
            "interests": {"g1": True},
        },
    ),
    (
        {
            **MEMBER,
            "operation": "update",
            "updateFields": {
                "status": "unsubscribed",
                "mergeFieldsUi": {"mergeFieldsValues": [{"name": "FNAME", "value": "Ann"}]},
            },
        },
        "PUT /lists/l1/members/a%40shop.example",
        {"status": "unsubscribed", "merge_fields": {"FNAME": "Ann"}},
    ),
    (
        {"operation": "getAll", "list": "l1", "options": {"status": "subscribed"}},
        "GET /lists/l1/members",
        {"count": "500", "status": "subscribed"},
    ),
    (
        {**MEMBER, "resource": "memberTag", "tags": ["tea"], "options": {"isSyncing": True}},
        "POST /lists/l1/members/a%40shop.example/tags",
        {"tags": [{"name": "tea", "status": "active"}], "is_syncing": True},
    ),
    (
        {**MEMBER, "resource": "memberTag", "operation": "delete", "tags": ["tea"]},
        "POST /lists/l1/members/a%40shop.example/tags",
        {"tags": [{"name": "tea", "status": "inactive"}]},
    ),
    (
        {"resource": "campaign", "options": {"listId": "l1", "sortField": "send_time"}},
        "GET /campaigns",
        {"count": "500", "list_id": "l1", "sort_field": "send_time"},
    ),
    (
        {"resource": "campaign", "operation": "send", "campaignId": "c1"},
        "POST /campaigns/c1/actions/send",
        {},
    ),
]
STRIPE = [
    (
        {
            "resource": "customer",
            "operation": "create",
            "name": "Ann",
            "additionalFields": {
                "email": "a@shop.example",
                "address": {"details": {"city": "Riga", "line1": "Tea 1"}},
                "metadata": {"metadataProperties": [{"key": "shop", "value": 7}]},
                "shipping": {"shippingProperties": {"name": "Ann", "address": {"details": {"city": "Riga"}}}},
            },
        },
        "POST /customers",
        {
            "name": "Ann",
            "email": "a@shop.example",
            "address[city]": "Riga",
            "address[line1]": "Tea 1",
            "metadata[shop]": "7",
            "shipping[name]": "Ann",
            "shipping[address][city]": "Riga",
        },
    ),
    ({"resource": "customer", "customerId": "cus_1"}, "GET /customers/cus_1", {}),
    (
        {"resource": "customer", "operation": "getAll", "filters": {"email": "a@shop.example"}},
        "GET /customers",
        {"limit": "100", "email": "a@shop.example"},
    ),
    (
        {
            "resource": "customer",
            "operation": "update",
            "customerId": "cus_1",
            "updateFields": {"phone": "1"},
        },
        "POST /customers/cus_1",
        {"phone": "1"},
    ),
    ({"resource": "charge", "operation": "getAll"}, "GET /charges", {"limit": "100"}),
    ({"resource": "charge", "chargeId": "ch_1"}, "GET /charges/ch_1", {}),
]
CALLS = [("mailchimp", 1, *case) for case in MAILCHIMP] + [("stripe", 1, *case) for case in STRIPE]
CALLS += [("jira", 1, *case) for case in JIRA] + [("zendesk", 1, *case) for case in ZENDESK]
CALLS += [("pipedrive", 1, *case) for case in PIPEDRIVE] + [("hubspot", *case) for case in HUBSPOT]


@pytest.mark.parametrize(("kind", "version", "parameters", "target", "sent"), CALLS)
def test_an_operation_calls_what_its_parameters_say(
    kind: str, version: float, parameters: dict[str, Any], target: str, sent: dict[str, Any]
) -> None:
    """Calls the documented method and path with the documented query or body, without findings."""
    call = call_of(kind, version, parameters)
    assert f"{call.method} {call.path}" == target
    assert (call.query if call.method == "GET" else call.body) == sent
    assert findings_of(kind, version, parameters) == []


IS_OF = {"filtersUi": {"filterValues": [{"propertyName": "a", "operator": "BETWEEN"}]}}
REFUSED = [
    ("mailchimp", {**MEMBER, "status": "subscribed", "jsonParameters": True}, "written as JSON"),
    ("mailchimp", {**MEMBER, "operation": "delete"}, "not supported"),
    ("stripe", {"resource": "charge", "operation": "create"}, "not supported"),
    ("jira", {"operation": "get", "issueKey": "A-1", "simplifyOutput": True}, "simplifies"),
    ("jira", {"operation": "get", "issueKey": "A-1", "jiraVersion": "server"}, "only Jira Cloud"),
    (
        "jira",
        {"operation": "update", "issueKey": "A-1", "updateFields": {"statusId": "1", "summary": "S"}},
        "the status and other fields at once",
    ),
    ("zendesk", {"description": "Tea", "jsonParameters": True}, "written as JSON"),
    ("zendesk", {"operation": "get", "id": "7", "ticketType": "suspended"}, "suspended"),
    (
        "zendesk",
        {"operation": "update", "id": "7", "updateFields": {"internalNote": "a", "publicReply": "b"}},
        "a note and a reply at once",
    ),
    ("hubspot", {"resource": "ticket"}, "not supported"),
    ("hubspot", {"operation": "search", "additionalFields": {"sortBy": "email"}}, "in which direction"),
    ("hubspot", {"operation": "search", "filterGroupsUi": {"filterGroupsValues": [IS_OF]}}, "BETWEEN"),
    ("hubspot", {"operation": "getAll", "filters": {"archived": True}}, "“archived” is not known"),
    ("pipedrive", {"operation": "get", "dealId": 1, "resolveProperties": True}, "names of your own fields"),
    ("pipedrive", {"title": "Tea", "additionalFields": {"origin": "x"}}, "“origin” is not known"),
    ("pipedrive", {"resource": "file", "operation": "create"}, "not supported"),
]


@pytest.mark.parametrize(("kind", "parameters", "words"), REFUSED)
def test_unsupported_node_parameters_are_errors(kind: str, parameters: dict[str, Any], words: str) -> None:
    """Reports one error that says what to do instead."""
    [(level, message)] = findings_of(kind, 1, parameters)
    assert level == "error"
    assert words in message


def test_responses_of_pipedrive_are_its_records() -> None:
    """Returns only Pipedrive's records, nothing for no data, and search hits with their score."""
    assert items_of("pipedrive", 1, {"title": "Tea"}, {"success": True, "data": {"id": 1}}) == [{"id": 1}]
    assert items_of("pipedrive", 1, {"operation": "getAll"}, {"success": True, "data": None}) == []
    request_body = {"operation": "search", "term": "tea"}
    response = {"data": {"items": [{"result_score": 0.5, "item": {"id": 3}}]}}
    assert items_of("pipedrive", 1, request_body, response) == [{"result_score": 0.5, "id": 3}]
    raw = request_body | {"additionalFields": {"rawData": True}}
    assert items_of("pipedrive", 1, raw, response) == [{"result_score": 0.5, "item": {"id": 3}}]


def test_a_contact_of_hubspot_is_not_read_again() -> None:
    """Warns that n8n would return the whole HubSpot contact and Steward only its `vid` and `isNew`."""
    [(level, message)] = findings_of("hubspot", 2.1, {"email": "a@shop.example"})
    assert level == "warning"
    assert "only its “vid” and “isNew” are" in message


@pytest.mark.parametrize("date", ["soon", "31.01.2026"])
def test_a_date_that_a_service_does_not_take_fails_its_item(date: str) -> None:
    """Fails the item of a date that cannot be read, and sends nothing."""
    with pytest.raises(ItemFailed, match="is not a date"):
        call_of("hubspot", 1, {"stage": "won", "additionalFields": {"closeDate": date}})
    with pytest.raises(ItemFailed, match="is not a date"):
        call_of("mailchimp", 1, {**MEMBER, "status": "pending", "options": {"timestampSignup": date}})


def test_responses_are_the_records_within_them() -> None:
    """Returns the records inside answers, and success where the service answers with an empty body."""
    assert items_of("zendesk", 1, {"description": "Tea"}, {"ticket": {"id": 1}}) == [{"id": 1}]
    assert items_of("zendesk", 1, {"operation": "getAll"}, {"results": [{"id": 1}]}) == [{"id": 1}]
    assert items_of("zendesk", 1, {"operation": "delete", "id": "1"}, {}) == [{"success": True}]
    assert items_of("jira", 1, {"operation": "getAll"}, {"issues": [{"key": "A-1"}]}) == [{"key": "A-1"}]
    assert items_of("jira", 1, {"operation": "update"}, {}) == [{"success": True}]
    listed = {"resource": "customer", "operation": "getAll"}
    assert items_of("stripe", 1, listed, {"data": [{"id": "cus_1"}]}) == [{"id": "cus_1"}]
    assert items_of("mailchimp", 1, {"operation": "getAll"}, {"members": [{"id": "m"}]}) == [{"id": "m"}]
    request_body = {"operation": "changelog", "issueKey": "A-1"}
    assert items_of("jira", 1, request_body, {"values": [{"id": "1"}]}) == [{"id": "1"}]
