"""Nodes of services that are tables of calls: the call of each operation and the items it returns."""

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

DETAILS: dict[str, Any] = {"additionalFields": {}}
POST = {"subreddit": "tea", "title": "New"}
MAIL = {"sender": "Ann <ann@shop.example>", "receipients": "bo@a.example, cy@a.example", "subject": "Hi"}
MONDAY = {"resource": "boardItem", "boardId": "1", "itemId": "2"}
# fmt: off
CALLS: list[tuple[str, float, dict[str, Any], str, dict[str, Any], dict[str, str]]] = [
    ("openWeatherMap", 1, {"cityName": "Riga"}, "GET /weather", {}, {"q": "Riga", "units": "metric"}),
    ("openWeatherMap", 1,
     {"operation": "5DayForecast",
      "locationSelection": "zipCode",
      "zipCode": "1050,lv",
      "format": "imperial"},
     "GET /forecast", {}, {"zip": "1050,lv", "units": "imperial"}),
    ("deepL", 1, {"text": "Tea", "translateTo": "DE", "additionalFields": {"sourceLang": "EN"}},
     "POST /translate", {"text": ["Tea"], "target_lang": "DE", "source_lang": "EN"}, {}),
    ("bitly", 1, {"longUrl": "https://a.example", "additionalFields": {"title": "A"}}, "POST /bitlinks",
     {"long_url": "https://a.example", "title": "A"}, {}),
    ("hackerNews", 1,
     {"resource": "all", "additionalFields": {"keyword": "tea", "tags": ["story", "front_page"]}},
     "GET /search", {}, {"hitsPerPage": "100", "query": "tea", "tags": "story,front_page"}),
    ("openAi", 1,
     {"resource": "chat",
      "chatModel": "gpt-4",
      "prompt": {"messages": [{"role": "system", "content": "Be short"}, {"content": "Hi"}]},
      "options": {"maxTokens": 9}},
     "POST /chat/completions",
     {"model": "gpt-4",
      "max_tokens": 9,
      "messages": [{"role": "system", "content": "Be short"}, {"role": "user", "content": "Hi"}]},
     {}),
    ("clickUp", 1, {"list": "7", "name": "Tea", "additionalFields": {"content": "Buy", "parentId": "p"}},
     "POST /list/7/task", {"name": "Tea", "description": "Buy", "parent": "p"}, {}),
    ("clickUp", 1, {"resource": "comment", "commentOn": "task", "id": "9", "commentText": "Done"},
     "POST /task/9/comment", {"comment_text": "Done"}, {}),
    ("asana", 1, {"name": "Tea", "workspace": "1", "otherProperties": {"projects": ["2"], "notes": "Buy"}},
     "POST /tasks", {"data": {"name": "Tea", "workspace": "1", "projects": ["2"], "notes": "Buy"}}, {}),
    ("asana", 1, {"operation": "move", "id": "5", "section": "6", "projectId": "2"},
     "POST /sections/6/addTask", {"data": {"task": "5"}}, {}),
    ("reddit", 1,
     {"operation": "getAll", "subreddit": "tea", "title": "New", "filters": {"category": "hot"}},
     "GET /r/tea/hot.json", {}, {"limit": "100"}),
    ("reddit", 1,
     {"operation": "search", "subreddit": "tea", "keyword": "green", "additionalFields": {"sort": "new"}},
     "GET /r/tea/search.json", {}, {"q": "green", "restrict_sr": "true", "sort": "new", "limit": "100"}),
    ("reddit", 1, {"subreddit": "tea", "title": "New", "kind": "link", "url": "https://a.example"},
     "POST /api/submit", {"title": "New", "sr": "tea", "kind": "link", "url": "https://a.example"},
     {"api_type": "json"}),
    ("linkedIn", 1, {"person": "p1", "text": "Hi"}, "POST /ugcPosts",
     {"author": "urn:li:person:p1",
      "lifecycleState": "PUBLISHED",
      "specificContent": {"com.linkedin.ugc.ShareContent": {"shareCommentary": {"text": "Hi"},
                                                            "shareMediaCategory": "NONE"}},
      "visibility": {"com.linkedin.ugc.MemberNetworkVisibility": "PUBLIC"}},
     {}),
    ("youTube", 1, {"resource": "video", "filters": {"q": "tea"}, "options": {"order": "date"}},
     "GET /search", {},
     {"part": "snippet", "type": "video", "maxResults": "50", "q": "tea", "order": "date"}),
    ("youTube", 1,
     {"resource": "playlistItem", "playlistId": "l", "videoId": "v", "options": {"position": 0}},
     "POST /playlistItems",
     {"snippet": {"playlistId": "l",
                  "resourceId": {"kind": "youtube#video", "videoId": "v"},
                  "position": 0}},
     {"part": "snippet"}),
    ("youTube", 1, {"part": ["id"]}, "GET /channels", {}, {"part": "id", "mine": "true"}),
    ("spotify", 1, {"resource": "track", "operation": "get", "id": "spotify:track:t1"}, "GET /tracks/t1",
     {}, {}),
    ("spotify", 1,
     {"resource": "playlist",
      "operation": "add",
      "id": "spotify:playlist:p1",
      "trackID": "spotify:track:t1"},
     "POST /playlists/p1/tracks", {"uris": ["spotify:track:t1"]}, {}),
    ("strava", 1.1, {"operation": "getAll"}, "GET /athlete/activities", {}, {"per_page": "100"}),
    ("gitlab", 1,
     {"owner": "acme",
      "repository": "shop",
      "title": "Tea",
      "body": "Out",
      "labels": [{"label": "a"}, {"label": "b"}],
      "assignee_ids": [{"assignee": 3}]},
     "POST /projects/acme%2Fshop/issues",
     {"title": "Tea", "description": "Out", "labels": "a,b", "assignee_ids": [3]}, {}),
    ("googleTranslate", 2, {"text": "Tea", "translateTo": "lv"}, "POST /language/translate/v2",
     {"q": "Tea", "target": "lv"}, {}),
    ("googleCloudNaturalLanguage", 1, {"content": "Good", "options": {"language": "en"}},
     "POST /v1/documents:analyzeSentiment",
     {"document": {"type": "PLAIN_TEXT", "language": "en", "content": "Good"}, "encodingType": "UTF16"},
     {}),
    ("googleContacts", 1,
     {"familyName": "Oz",
      "givenName": "Ann",
      "additionalFields": {"emailsUi": {"emailsValues": [{"type": "work", "value": "a@a.example"}]}}},
     "POST /people:createContact",
     {"names": [{"familyName": "Oz", "givenName": "Ann"}],
      "emailAddresses": [{"type": "work", "value": "a@a.example"}]},
     {}),
    ("sendInBlue", 1,
     {"sender": "Ann <ann@shop.example>",
      "receipients": "bo@a.example, cy@a.example",
      "subject": "Hi",
      "sendHTML": True,
      "htmlContent": "<p>Hi</p>"},
     "POST /smtp/email",
     {"sender": {"name": "Ann", "email": "ann@shop.example"},
      "to": [{"email": "bo@a.example"}, {"email": "cy@a.example"}],
      "subject": "Hi",
      "htmlContent": "<p>Hi</p>"},
     {}),
    ("sendInBlue", 1,
     {"resource": "contact",
      "operation": "upsert",
      "email": "a@a.example",
      "upsertAttributes": {"upsertAttributesValues": [{"fieldName": "CITY", "fieldValue": "Riga"}]}},
     "POST /contacts", {"email": "a@a.example", "updateEnabled": True, "attributes": {"CITY": "Riga"}}, {}),
    ("mailjet", 1,
     {"fromEmail": "a@a.example",
      "toEmail": "b@a.example",
      "subject": "Hi",
      "html": "<p>",
      "additionalFields": {}},
     "POST /v3.1/send",
     {"Messages": [{"From": {"Email": "a@a.example"},
                    "Subject": "Hi",
                    "To": [{"Email": "b@a.example"}],
                    "HTMLPart": "<p>"}]},
     {}),
    ("mailerLite", 2,
     {"email": "a@a.example",
      "additionalFields": {"customFieldsUi": {"customFieldsValues": [{"fieldId": "city",
                                                                      "value": "Riga"}]}}},
     "POST /subscribers", {"email": "a@a.example", "fields": {"city": "Riga"}}, {}),
    ("activeCampaign", 1,
     {"email": "a@a.example", "updateIfExists": False, "additionalFields": {"firstName": "Ann"}},
     "POST /contacts", {"contact": {"email": "a@a.example", "firstName": "Ann"}}, {}),
    ("clearbit", 1,
     {"resource": "person", "email": "a@a.example", "additionalFields": {"givenName": "Ann"}},
     "GET https://person-stream.clearbit.com/v2/people/find", {},
     {"email": "a@a.example", "given_name": "Ann"}),
    ("hunter", 1, {"operation": "emailFinder", "domain": "a.example", "firstname": "Ann", "lastname": "Oz"},
     "GET /email-finder", {}, {"domain": "a.example", "first_name": "Ann", "last_name": "Oz"}),
    ("rocketchat", 1, {"channel": "#shop", "text": "Hi", "options": {"alias": "Bot"}},
     "POST /chat.postMessage", {"channel": "#shop", "text": "Hi", "alias": "Bot"}, {}),
    ("pushbullet", 1, {"body": "Hi", "title": "T", "target": "email", "value": "a@a.example"},
     "POST /pushes", {"type": "note", "title": "T", "body": "Hi", "email": "a@a.example"}, {}),
    ("homeAssistant", 1,
     {"resource": "service",
      "operation": "call",
      "domain": "light",
      "service": "turn_on",
      "serviceAttributes": {"attributes": [{"name": "entity_id", "value": "light.shop"}]}},
     "POST /services/light/turn_on", {"entity_id": "light.shop"}, {}),
    ("urlScanIo", 1,
     {"url": "https://a.example", "additionalFields": {"tags": "a, b", "visibility": "private"}},
     "POST /scan/", {"url": "https://a.example", "tags": ["a", "b"], "visibility": "private"}, {}),
    ("bannerbear", 1,
     {"templateId": "t",
      "modificationsUi": {"modificationsValues": [{"name": "a", "text": "b", "imageUrl": ""}]}},
     "POST /images", {"template": "t", "modifications": [{"name": "a", "text": "b"}]}, {}),
    ("raindrop", 1,
     {"resource": "bookmark",
      "operation": "create",
      "link": "https://a.example",
      "collectionId": 7,
      "additionalFields": {"tags": "a,b"}},
     "POST /raindrop", {"link": "https://a.example", "collection": {"$id": 7}, "tags": ["a", "b"]}, {}),
    ("zoom", 1, {"topic": "Tea", "additionalFields": {"duration": 30}}, "POST /users/me/meetings",
     {"topic": "Tea", "duration": 30}, {}),
    ("webflow", 2,
     {"operation": "create",
      "siteId": "s",
      "collectionId": "c",
      "live": True,
      "fieldsUi": {"fieldValues": [{"fieldId": "name", "fieldValue": "Tea"}]}},
     "POST /collections/c/items/live", {"fieldData": {"name": "Tea"}}, {}),
    ("coda", 1.1,
     {"operation": "getAllRows", "docId": "d", "tableId": "t", "options": {"useColumnNames": True}},
     "GET /docs/d/tables/t/rows", {}, {"limit": "100", "useColumnNames": "true"}),
    ("microsoftToDo", 1,
     {"operation": "create", "taskListId": "l", "title": "Tea", "additionalFields": {"content": "Buy"}},
     "POST /lists/l/tasks", {"title": "Tea", "body": {"content": "Buy", "contentType": "html"}}, {}),
    ("baserow", 1, {"tableId": 5, "additionalOptions": {"search": "tea"}}, "GET /rows/table/5/", {},
     {"size": "100", "user_field_names": "true", "search": "tea"}),
    ("n8n", 1,
     {"resource": "execution",
      "operation": "getAll",
      "filters": {"status": "error", "workflowId": {"__rl": True, "mode": "list", "value": "w1"}},
      "options": {"activeWorkflows": True}},
     "GET /executions", {}, {"limit": "100", "status": "error", "workflowId": "w1", "includeData": "true"}),
    ("twitter", 2,
     {"operation": "search",
      "searchText": "tea",
      "additionalFields": {"sortOrder": "recency", "tweetFieldsObject": ["created_at", "lang"]}},
     "GET /tweets/search/recent", {},
     {"query": "tea", "max_results": "100", "sort_order": "recency", "tweet.fields": "created_at,lang"}),
    ("twitter", 2,
     {"resource": "user",
      "operation": "searchUser",
      "user": {"__rl": True, "mode": "username", "value": "@shop"}},
     "GET /users/by/username/shop", {}, {}),
    ("notion", 2.2,
     {"resource": "page",
      "operation": "search",
      "text": "Tea",
      "options": {"filter": {"filters": {"property": "object", "value": "page"}}}},
     "POST /search", {"page_size": 100, "query": "Tea", "filter": {"property": "object", "value": "page"}},
     {}),
    ("notion", 2.2, {"resource": "database", "operation": "getAll"}, "POST /search",
     {"page_size": 100, "filter": {"property": "object", "value": "database"}}, {}),
    ("sendGrid", 1,
     {"resource": "contact",
      "operation": "upsert",
      "email": "a@a.example",
      "additionalFields": {"firstName": "Ann"}},
     "PUT /marketing/contacts", {"contacts": [{"email": "a@a.example", "first_name": "Ann"}]}, {}),
    ("trello", 1, {"resource": "checklist", "operation": "createItem", "checklistId": "c", "name": "Tea"},
     "POST /checklists/c/checkItems", {"name": "Tea"}, {}),
    ("trello", 1, {"resource": "label", "operation": "addLabel", "cardId": "c", "id": "l"},
     "POST /cards/c/idLabels", {"value": "l"}, {}),
    ("todoist", 2.1,
     {"operation": "move", "taskId": "7", "project": {"__rl": True, "mode": "list", "value": "2"}},
     "POST /tasks/7/move", {"project_id": "2"}, {}),
    ("jira", 1, {"resource": "user", "operation": "get", "accountId": "a"}, "GET /2/user", {},
     {"accountId": "a"}),
    ("github", 1.1,
     {"resource": "workflow",
      "operation": "dispatch",
      "owner": "acme",
      "repository": "shop",
      "workflowId": "w.yml",
      "ref": "main",
      "inputs": '{"a": 1}'},
     "POST /repos/acme/shop/actions/workflows/w.yml/dispatches", {"ref": "main", "inputs": {"a": 1}}, {}),
    ("hubspot", 2.1, {"resource": "contactList", "operation": "add", "listId": 5, "email": "a@a.example"},
     "POST /contacts/v1/lists/5/add", {"emails": ["a@a.example"]}, {}),
    ("dropbox", 1, {"operation": "move", "path": "/a.csv", "toPath": "/b.csv"}, "POST /move_v2",
     {"from_path": "/a.csv", "to_path": "/b.csv"}, {}),
    ("dropbox", 1, {"operation": "download", "path": "/a.csv"},
     "GET https://content.dropboxapi.com/2/files/download", {}, {"arg": '{"path": "/a.csv"}'}),
    ("dropbox", 1, {"resource": "folder", "operation": "list", "path": "/"}, "POST /list_folder",
     {"path": "", "limit": 2000}, {}),
    ("microsoftOneDrive", 1, {"operation": "search", "query": "Ann's list"},
     "GET /drive/root/search(q='Ann%27%27s%20list')", {}, {"$top": "200"}),
    ("microsoftOneDrive", 1, {"resource": "folder", "name": "Orders", "options": {"parentFolderId": "p"}},
     "POST /drive/items/p/children", {"name": "Orders", "folder": {}}, {}),
    ("microsoftExcel", 2,
     {"resource": "worksheet",
      "operation": "readRows",
      "workbook": {"__rl": True, "mode": "list", "value": "w"},
      "worksheet": {"__rl": True, "mode": "list", "value": "s"}},
     "GET /drive/items/w/workbook/worksheets/s/usedRange", {}, {}),
    ("mautic", 1, {"operation": "getAll", "options": {"search": "a@a.example", "publishedOnly": True}},
     "GET /contacts", {}, {"limit": "100", "search": "a@a.example", "publishedOnly": "true"}),
    ("mautic", 1,
     {"email": "a@a.example", "firstName": "Ann", "options": {"rawData": True}, "additionalFields": {}},
     "POST /contacts/new", {"email": "a@a.example", "firstname": "Ann"}, {}),
    ("pushover", 1,
     {"userKey": "u", "message": "Hi", "priority": "2", "additionalFields": {"title": "T", "html": True}},
     "POST /messages.json",
     {"token": "__removed_secret_1__",
      "user": "u",
      "message": "Hi",
      "priority": "2",
      "retry": "30",
      "expire": "30",
      "title": "T",
      "html": "1"},
     {}),
    ("apiTemplateIo", 1,
     {"imageTemplateId": "t", "jsonParameters": True, "overridesJson": '[{"name": "a"}]'}, "POST /create",
     {"overrides": [{"name": "a"}]}, {"template_id": "t"}),
    ("salesforce", 1, {"company": "Tea", "lastname": "Oz", "additionalFields": {"email": "a@a.example"}},
     "POST /sobjects/Lead", {"Company": "Tea", "LastName": "Oz", "Email": "a@a.example"}, {}),
    ("salesforce", 1, {"resource": "search", "operation": "query", "query": "SELECT Id FROM Lead"},
     "GET /query", {}, {"q": "SELECT Id FROM Lead"}),
    ("nocoDb", 3,
     {"operation": "update",
      "table": "t",
      "id": "7",
      "fieldsUi": {"fieldValues": [{"fieldName": "paid", "fieldValue": True}]}},
     "PATCH /tables/t/records", {"paid": True, "Id": "7"}, {}),
    ("nocoDb", 3,
     {"operation": "getAll",
      "table": "t",
      "options": {"sort": {"property": [{"field": "a", "direction": "desc"}]}, "fields": ["a", "b"]}},
     "GET /tables/t/records", {}, {"limit": "100", "sort": "-a", "fields": "a,b"}),
]
# fmt: on


@pytest.mark.parametrize(("kind", "version", "parameters", "called", "body", "query"), CALLS)
def test_an_operation_calls_what_its_parameters_say(
    kind: str, version: float, parameters: dict[str, Any], called: str, body: Any, query: dict[str, str]
) -> None:
    """Calls the path with the body and query that the service documents."""
    call = call_of(kind, version, parameters)
    assert (f"{call.method} {call.path}", call.body, dict(call.query)) == (called, body, query)


def test_a_graphql_document_has_the_parameters_as_variables() -> None:
    """Sends values as variables, never as part of the document."""
    call = call_of("linear", 1, {"title": 'A "B"', "teamId": "t", "additionalFields": {"priorityId": 2}})
    assert call.body["variables"] == {"input": {"teamId": "t", "title": 'A "B"', "priority": 2}}
    columns = {"columnId": "status", "value": '{"label": "Done"}'}
    call = call_of("mondayCom", 1, {**MONDAY, "operation": "changeColumnValue", **columns})
    assert call.body["variables"] == {"boardId": "1", "itemId": "2", **columns}
    assert "Done" not in str(call.body["query"])


@pytest.mark.parametrize(
    ("kind", "version", "parameters", "response", "items"),
    [
        ("deepL", 1, {}, {"translations": [{"text": "Tee"}]}, [{"text": "Tee"}]),
        (
            "googleTranslate",
            2,
            {},
            {"data": {"translations": [{"translatedText": "Tee"}]}},
            [{"translatedText": "Tee"}],
        ),
        ("hackerNews", 1, {}, {"id": 1, "children": [{}]}, [{"id": 1}]),
        ("openAi", 1, {"resource": "chat"}, {"choices": [{"index": 0}]}, [{"index": 0}]),
        ("openAi", 1, {"simplifyOutput": False}, {"id": "c", "choices": []}, [{"id": "c", "choices": []}]),
        ("asana", 1, {}, {"data": {"gid": "1"}}, [{"gid": "1"}]),
        ("asana", 1, {"operation": "delete"}, {"data": {}}, [{"success": True}]),
        ("linear", 1, {}, {"data": {"issueCreate": {"issue": {"id": "i"}}}}, [{"id": "i"}]),
        ("mondayCom", 1, {**MONDAY, "operation": "get"}, {"data": {"items": [{"id": "2"}]}}, [{"id": "2"}]),
        (
            "reddit",
            1,
            {"operation": "search"},
            {"data": {"children": [{"data": {"id": "a"}}]}},
            [{"id": "a"}],
        ),
        ("linkedIn", 1, {}, {"id": "urn:li:share:1"}, [{"urn": "urn:li:share:1"}]),
        ("urlScanIo", 1, {}, {"uuid": "u", "url": "x"}, [{"scanId": "u", "url": "x"}]),
        (
            "coda",
            1,
            {"operation": "getAllRows"},
            {"items": [{"id": "r", "values": {"a": 1}}]},
            [{"id": "r", "a": 1}],
        ),
        (
            "dropbox",
            1,
            {"resource": "folder", "operation": "list"},
            {"entries": [{".tag": "file", "size": 3}]},
            [{"contentSize": 3, "type": "file"}],
        ),
        (
            "microsoftOneDrive",
            1,
            {"operation": "search"},
            {"value": [{"id": "a", "file": {}}, {"id": "b", "folder": {}}]},
            [{"id": "a", "file": {}}],
        ),
        (
            "microsoftExcel",
            2,
            {"resource": "worksheet", "operation": "readRows"},
            {"values": [["sku", "stock"], ["TEA", 3]]},
            [{"sku": "TEA", "stock": 3}],
        ),
        (
            "mautic",
            1,
            {"operation": "getAll"},
            {"contacts": {"7": {"id": 7, "fields": {"all": {"id": 7, "email": "a"}}}}},
            [{"id": 7, "email": "a"}],
        ),
        ("activeCampaign", 1, {}, {"contact": {"id": "1"}}, [{"id": "1"}]),
    ],
)
def test_a_response_is_passed_on_as_n8n_does(
    kind: str, version: float, parameters: dict[str, Any], response: Any, items: list[dict[str, Any]]
) -> None:
    """Returns the part of the response that n8n passes on."""
    assert items_of(kind, version, parameters, response) == items


@pytest.mark.parametrize(("kind", "parameters"), [("linear", {}), ("mondayCom", MONDAY)])
def test_a_refusal_within_a_response_fails_the_item(kind: str, parameters: dict[str, Any]) -> None:
    """Fails the item with the words of a GraphQL error."""
    with pytest.raises(ItemFailed, match="No access"):
        items_of(kind, 1, parameters, {"errors": [{"message": "No access"}]})


@pytest.mark.parametrize(
    ("kind", "version", "parameters", "level", "words"),
    [
        ("clickUp", 1, {"list": "1", "name": "a", "additionalFields": {"dueDate": "x"}}, "error", "dueDate"),
        ("sendInBlue", 1, {**MAIL, "additionalFields": {"tag": "x"}}, "error", "tag"),
        ("baserow", 1, {"tableId": 5, "additionalOptions": {"order": {}}}, "error", "filters or sorts"),
        ("nocoDb", 2, {"operation": "getAll", "table": "t", "version": 2}, "error", "before 0.200"),
        ("linkedIn", 1, {"text": "Hi", "shareMediaCategory": "IMAGE"}, "error", "an image"),
        ("openAi", 1, {"prompt": "Hi"}, "error", "model"),
        ("openWeatherMap", 1, {}, "warning", "which place"),
        ("bannerbear", 1, {"additionalFields": {"waitForImage": True}, "templateId": "t"}, "error", "waits"),
        ("n8nTrainingCustomerMessenger", 1, {"message": "Hi"}, "note", "nobody"),
        ("postgres", 2.5, {"operation": "select"}, "error", "the database's own protocol"),
        ("mqtt", 1, {}, "error", "a protocol of its own"),
    ],
)
def test_unsupported_parameters_make_findings(
    kind: str, version: float, parameters: dict[str, Any], level: str, words: str
) -> None:
    """Reports what is not supported, with its level and what to do."""
    assert any(
        found == level and words in message for found, message in findings_of(kind, version, parameters)
    )


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_file_is_fetched_and_sent_by_an_account(shop: Shop, api: Api) -> None:
    """Fetches a file without approval, and sends it as its bytes after one that names it."""
    account = await signed_in(shop, api, "content.dropboxapi.com")
    api.respond = lambda request: {"name": "tea.json"}
    fetch = node("Fetch", "dropbox", 1, {"operation": "download", "path": "/tea.json"})
    store = node(
        "Store", "dropbox", 1, {"path": "/copy.json", "binaryData": True, "binaryPropertyName": "data"}
    )
    automation = await automated(
        shop, chain(fetch, store, code("Read", "return items")), accounts={"Fetch": account, "Store": account}
    )
    run = await shop.waiting(automation)
    [change] = await shop.changes(run)
    assert "tea.json" in str([field.after for field in change.proposal.fields])
    await shop.approve(run)
    ended = await shop.until_settled(run)
    assert ended.status is RunStatus.SUCCEEDED, ended
    fetched, sent = api.seen
    assert (fetched.method, fetched.url.params["arg"]) == ("GET", '{"path": "/tea.json"}')
    assert (sent.method, sent.content) == ("POST", b'{"name": "tea.json"}')
    assert sent.headers["content-type"] == "application/json"
    assert await output_items(shop, run, "Read") == [{"name": "tea.json"}]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_public_api_is_read_without_an_account(shop: Shop, api: Api) -> None:
    """Reads the pages of a public API until there are as many as the step asks for."""
    api.host = "hn.algolia.com"
    api.respond = lambda request: {"hits": [{"page": request.url.params.get("page", "0")}] * 100}
    parameters = {"resource": "all", "limit": 150, "additionalFields": {"keyword": "tea"}}
    automation = await automated(shop, chain(node("List", "hackerNews", 1, parameters)))
    run = await shop.run_and_drain(automation)
    assert run.status is RunStatus.SUCCEEDED, run
    assert [request.url.params.get("page") for request in api.seen] == [None, "1"]
    assert len(await output_items(shop, run, "List")) == 150


def test_a_comment_on_something_else_fails_the_item() -> None:
    """A comment on an unknown kind of object never goes to a list of the same id."""
    parameters = {"resource": "comment", "commentOn": "goal", "id": "9", "commentText": "Done"}
    with pytest.raises(ItemFailed, match="“goal” cannot be commented on"):
        call_of("clickUp", 1, parameters)
