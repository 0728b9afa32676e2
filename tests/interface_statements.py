"""What the interface says, statement by statement in short words: sections 2.1 to 2.3, 4, 5, 7, 8 and 9.

The last lines of a test's docstring cite statements by section and word: `Interface statements: 2.3 version,
paused_by; 7 absent.` From this list and the citations `make docs` makes docs/interface-coverage.md.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: its section, the word a test cites it by, and what it says."""

    section: str
    word: str
    says: str


_ENVELOPE = {
    "success": "an answer is success true, contract_version and data, an object",
    "refusal": "a refusal is success false and contract_version",
    "message": "a refusal says in plain words what happened and what to do",
    "code": "a refusal may carry a stable code to act on",
    "errors": "only a 422 has errors: field name to messages",
    "StaleOccurrence": "a stale refusal has code stale_version and what is current: occurrence, automation",
}
_TYPES = {
    "Id": "a ULID of 26 characters of its alphabet",
    "Timestamp": "ISO 8601 date-time in UTC",
    "TemplateId": "lower-case letters, digits and hyphens, 2 to 81 characters",
    "Platform": "what an automation runs on: lower-case letters, digits, underscores",
    "ConnectionPlatform": "what a connection is for, by connector id, of the same form",
    "zone": "an IANA timezone name",
}
_AUTOMATION = {
    "id": "Id",
    "version": "integer from 1, raised on every change; an update must carry the one last read",
    "kind": "template or workflow",
    "import_id": "null for a template",
    "template_id": "TemplateId",
    "template_version": "integer from 1",
    "platform": "Platform, or null when the template runs on nothing",
    "integration_id": "what it runs on, or null when the template runs on nothing",
    "store_label": "the name of what it runs on; of several connections their names as last set",
    "name": "at most 120 characters",
    "state": "an AutomationState",
    "paused_by": "merchant, system or null",
    "paused_reason": "plain words or null, kept until resumed",
    "inputs": "the template's inputs, an object",
    "schedule": "Schedule",
    "timezone": "the zone its schedule runs in; its store's zone unless set",
    "spread_minutes": "0 to 9, a fixed offset added to every slot",
    "next_run_at": "Timestamp or null",
    "last_run_at": "Timestamp or null",
    "consecutive_failures": "integer from 0",
    "created_at": "Timestamp",
    "updated_at": "Timestamp",
    "source": "absent for a template",
    "bindings": "empty for a template",
    "plan_version": "absent for a template",
    "readiness": "absent for a template and from lists",
    "connections": "the connections read, in the order set, part of its version; else empty",
    "disconnected": "a run is refused, naming it, while one of its connections is not connected",
    "send_mode": "of workflow automations alone",
    "send_mode_allowed": "absent for a template, on set-up and from lists",
    "trigger": "how it starts",
    "created_by": "the person who set it up, null when made by the service",
    "created_via": "ui in the web app, api-token through the API",
    "api_client_id": "the credential's client id with api-token, else null",
    "makers": "every automation and run records who made it and how",
}
_MOVE = {
    "automationId": "path parameter, an Id",
    "required": "all five fields are required",
    "slot_at": "the coming run's slot_at as read",
    "run_at": "the new time, a Timestamp",
    "this": "only that run moves",
    "this_and_later": "the schedule itself changes and every later run follows",
    "hourly": "this_and_later is not for hourly cadences",
    "occurrence_version": "integer from 0, the version last read",
    "projected": "0 for a projected run, which is written first",
    "automation_version": "integer from 1, the version last read",
    "answer": "200 with the coming run after the change and the automation as it now is",
    "rule 1": "a stale version answers 409 stale_version with what is current",
    "rule 2": "a run already queued or skipped answers 409 wrong_state",
    "rule 3": "a time in the past answers 422",
    "rule 4": "401, 403, 404, 422 by field and 429 as everywhere",
}
_OPERATIONS = {
    "templates": "lists the templates the organization can use, each with readiness",
    "stores": "lists connected stores with the integration_id an automation runs on",
    "create": "takes template_id, integration_id, inputs, schedule, name; answers the automation",
    "required": "name, inputs and schedule are reported as required when absent",
    "update": "carries the version last read; stale answers 409",
    "runs": "run now carries idempotency_key, may carry mode; answers at once with the run, queued",
    "mode": "mode test reads for real and refuses every change",
    "run": "get run: status, steps with sequence numbers",
    "after_seq": "returns only new steps",
    "finished": "a finished run carries its summary and result",
    "occurrences": "lists coming runs, each an Occurrence",
    "preview": "tells the next three run times before saving",
    "connections": "gives each connection's name and state",
    "pause": "exists",
    "resume": "exists",
    "archive": "exists",
    "restore": "exists",
    "cancel": "cancels a run",
    "destinations": "lists destinations",
    "status": "exists",
    "approve": "refused with 403 to a credential's token",
    "reject": "refused with 403 to a credential's token",
    "key": "the same key returns the same run, so a retry never starts two",
    "other": "a key is one across all automations; on another automation it is refused with 422",
}
_IDENTITY = [
    ("5", "bearer", "every request is authenticated by a bearer token"),
    ("5", "active", "as an active user"),
    ("5", "organization", "and scoped to one organization"),
    ("5.1", "json", "login by JSON body: username, email, organization_name, client_id, client_secret"),
    ("5.1", "form", "login as OAuth client credentials by form"),
    ("5.1", "basic", "client id and secret by HTTP Basic in the form variant"),
    ("5.1", "query", "values in the address are ignored"),
    (
        "5.1",
        "answer",
        "nine fields: token, type, lifetime, scope, service_url, direct, user, organization, end",
    ),
    ("5.1", "failed", "401 invalid_credentials, which does not say which value was wrong"),
    ("5.2", "rule 1", "a credential is the organization's; rotation keeps the id and changes the secret"),
    ("5.2", "rule 2", "while automations are off every call with a token answers 403 forbidden"),
    ("5.2", "rule 3", "the named user is active and belongs to the named organization"),
    ("5.3", "read", "allows reading, and previews"),
    ("5.3", "write", "allows creating, changing, running, moving and skipping"),
    ("5.3", "approve", "never held by a credential's token"),
    ("5.3", "missing", "a call without the needed scope answers 403"),
    ("5.4", "lifetime", "60 minutes; expires_in is authoritative"),
    ("5.4", "refresh", "there is no refresh; log in again"),
    ("5.4", "rotated", "rotating the credential ends every token on its next call"),
    ("5.4", "disabled", "disabling the credential ends every token on its next call"),
    ("5.4", "bound", "a token is bound to its user and organization; its claims hold no secret"),
    ("5.4", "changed", "any change invalidates it"),
    ("5.4", "challenge", "missing, expired or revoked: 401 with WWW-Authenticate"),
    ("5.4", "browsers", "browsers call only from the web app's own pages"),
]
_ERRORS = {
    "credentials": "401 invalid_credentials for a login that cannot be validated",
    "token": "401 with WWW-Authenticate for a missing, expired or revoked token",
    "scope": "403 forbidden when the token lacks the scope",
    "outside": "403 forbidden for what is not part of the Automations API",
    "off": "403 forbidden, Automations are switched off for this organisation",
    "absent": "404 for what is not there and for anything of another organization",
    "filter": "another organization's record as a filter matches nothing",
    "calendar": "on the calendar such a filter answers 422",
    "stale_version": "409 with what is current in data",
    "wrong_state": "409 when the row's state does not allow the action",
    "413": "body over its size limit",
    "validation_failed": "422, errors maps fields to messages",
    "unconnected": "422 for running an automation whose store is not connected",
    "past": "422 for a time in the past",
    "reused": "422 for an idempotency key on another automation",
    "limit": "429, nothing was done, Retry-After in whole seconds from 1",
    "unavailable": "503 when the service cannot complete it now",
    "configured": "503 when API access is not configured on this environment",
}
_LIMITS = {
    "person": "600 calls a person and minute, of the API alone",
    "organization": "3,000 calls an organization and minute, of the API alone",
    "web": "the web app is counted apart",
    "login": "10 login attempts a minute, then 429",
    "token": "60 minutes",
    "name": "120 characters of an automation's name",
    "spread_minutes": "0 to 9",
    "start": "a scheduled run starts within ten minutes after its time",
    "topics": "an event trigger has 1 to 8 topics of 1 to 80 characters",
    "waiting": "200 waiting runs before event-started ones are refused",
    "event": "256 KB a store event",
}
_VERSIONS = {
    "prefix": "paths carry /v1",
    "contract_version": "every answer carries it, an integer from 1",
    "automation": "its version is raised on every change",
    "occurrence": "its version is raised by every edit",
    "projected": "version 0 of a projected occurrence",
    "stale": "a stale version is refused, so two tools never overwrite each other",
    "template_version": "integer from 1 recording the version of the template",
}
_WORKFLOWS = [
    (
        "2.3",
        "workflow",
        "of a workflow: import_id, source, bindings, plan_version, readiness, send modes",
    ),
    ("4.3", "imports", "keep, delete, list, see how it would run, run as automation"),
    ("7", "allowance_spent", "422 when keeping a 101st import"),
    ("8", "imports", "100 imports kept an organization"),
    ("8", "bindings", "500 step bindings an automation"),
    ("9", "plan_version", "integer from 1 recording the version of a workflow's plan"),
]


def _section(section: str, output: dict[str, str]) -> list[Statement]:
    return [Statement(section, word, says) for word, says in output.items()]


STATEMENTS: tuple[Statement, ...] = (
    *_section("2.1", _ENVELOPE),
    *_section("2.2", _TYPES),
    *_section("2.3", _AUTOMATION),
    Statement("4", "bearer", "every call except login sends the token"),
    Statement("4", "scope", "each endpoint needs a scope"),
    Statement("4.1", "login", "POST /v2/api/automations/login"),
    *_section("4.2", _MOVE),
    *_section("4.3", _OPERATIONS),
    *(Statement(section, word, says) for section, word, says in _IDENTITY),
    *_section("7", _ERRORS),
    *_section("8", _LIMITS),
    *_section("9", _VERSIONS),
    *(Statement(section, word, says) for section, word, says in _WORKFLOWS),
)
