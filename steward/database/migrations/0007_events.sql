-- Store events: where they arrive, what is listened to, what arrived, what was last seen (engine 3.3, 14).

-- Found by the hash of the key in an event's address, before the organisation is known.
CREATE TABLE dir_endpoints (
    endpoint_key_hash {text} PRIMARY KEY CHECK (length(endpoint_key_hash) = 64),
    org_id {int} NOT NULL REFERENCES dir_orgs,
    integration_id {int} NOT NULL REFERENCES dir_integrations
) {strict};
CREATE INDEX dir_endpoints_of_store ON dir_endpoints (org_id, integration_id);

-- Which active automations a canonical topic of a store starts. Rows are there only while one is active.
CREATE TABLE automation_topics (
    org_id {int} NOT NULL REFERENCES organizations,
    integration_id {int} NOT NULL,
    topic {text} NOT NULL CHECK (length(topic) BETWEEN 1 AND 80),
    automation_id {id} NOT NULL,
    PRIMARY KEY (org_id, integration_id, topic, automation_id),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations
) {rowless};
CREATE INDEX automation_topics_of ON automation_topics (org_id, automation_id);

-- A store that is listened to, or was: when its subscriptions are looked at next.
CREATE TABLE listeners (
    org_id {int} NOT NULL REFERENCES organizations,
    integration_id {int} NOT NULL,
    next_at {ms} NOT NULL,
    checked_at {ms},
    asked {int} NOT NULL DEFAULT 0,
    tries {int} NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, integration_id),
    FOREIGN KEY (org_id, integration_id) REFERENCES connections
) {rowless};
CREATE INDEX listeners_due ON listeners (next_at);

-- What a store was asked to tell, by its native topic; several canonical ones may share one.
CREATE TABLE subscriptions (
    org_id {int} NOT NULL,
    integration_id {int} NOT NULL,
    topic {text} NOT NULL CHECK (length(topic) BETWEEN 1 AND 80),
    state {text} NOT NULL CHECK (state IN ('wanted', 'made', 'failed')),
    remote_id {text},
    reason {text} CHECK (length(reason) <= 300),
    unwanted_since {ms},
    mended {int} NOT NULL DEFAULT 0,
    mended_since {ms},
    PRIMARY KEY (org_id, integration_id, topic),
    FOREIGN KEY (org_id, integration_id) REFERENCES listeners
) {rowless};

-- Whether a canonical topic of a store is listened to, as shown with the automations it starts.
CREATE TABLE topics_heard (
    org_id {int} NOT NULL,
    integration_id {int} NOT NULL,
    topic {text} NOT NULL CHECK (length(topic) BETWEEN 1 AND 80),
    state {text} NOT NULL CHECK (state IN ('not_yet', 'yes', 'failed')),
    reason {text} CHECK (length(reason) <= 300),
    PRIMARY KEY (org_id, integration_id, topic),
    FOREIGN KEY (org_id, integration_id) REFERENCES listeners
) {rowless};

-- A type of object of a listening store that is read again: since when, up to where, and the first fill.
CREATE TABLE catch_ups (
    org_id {int} NOT NULL,
    integration_id {int} NOT NULL,
    object_type {text} NOT NULL CHECK (length(object_type) BETWEEN 1 AND 40),
    since {ms} NOT NULL,
    fill {text} NOT NULL CHECK (fill IN ('none', 'wanted', 'done')),
    read_until {ms} NOT NULL,
    ids_at {ms} NOT NULL,
    next_at {ms} NOT NULL,
    tries {int} NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, integration_id, object_type),
    FOREIGN KEY (org_id, integration_id) REFERENCES listeners
) {rowless};
CREATE INDEX catch_ups_due ON catch_ups (next_at);

CREATE TABLE events (
    org_id {int} NOT NULL REFERENCES organizations,
    id {id} NOT NULL,
    integration_id {int} NOT NULL,
    dedupe_key {text} NOT NULL CHECK (length(dedupe_key) = 64),
    topic {text} NOT NULL CHECK (length(topic) BETWEEN 1 AND 80),
    polled {bool} NOT NULL,
    received_at {ms} NOT NULL,
    occurred_at {ms},
    bytes {int} NOT NULL,
    oversize {bool} NOT NULL,
    state {text} NOT NULL CHECK (state IN ('new', 'matched', 'poison')),
    tries {int} NOT NULL DEFAULT 0,
    not_before {ms} NOT NULL,
    pointer {json},
    PRIMARY KEY (org_id, id),
    UNIQUE (org_id, integration_id, dedupe_key)
) {rowless};
CREATE INDEX events_new ON events (not_before, id) WHERE state = 'new';
CREATE INDEX events_poison ON events (org_id, id) WHERE state = 'poison';

CREATE TABLE event_bodies (
    org_id {int} NOT NULL,
    event_id {id} NOT NULL,
    body {bytes} NOT NULL,
    PRIMARY KEY (org_id, event_id)
) {strict};

-- What was last seen of an object, from which topics are derived (connectors 8).
CREATE TABLE last_seen (
    org_id {int} NOT NULL REFERENCES organizations,
    integration_id {int} NOT NULL,
    object_type {text} NOT NULL,
    object_id {text} NOT NULL,
    fields {json} NOT NULL CHECK (length(fields) <= 2048),
    modified_at {ms},
    seen_at {ms} NOT NULL,
    PRIMARY KEY (org_id, integration_id, object_type, object_id)
) {rowless};

-- What an automation changed lately: its echo starts no run of the same automation (connectors 9.5).
CREATE TABLE own_changes (
    org_id {int} NOT NULL REFERENCES organizations,
    integration_id {int} NOT NULL,
    object_type {text} NOT NULL,
    object_id {text} NOT NULL,
    automation_id {id} NOT NULL,
    run_id {id} NOT NULL,
    applied_at {ms} NOT NULL,
    modified_at {ms},
    moved {bool} NOT NULL,
    by_event {bool} NOT NULL,
    PRIMARY KEY (org_id, integration_id, object_type, object_id, automation_id, run_id)
) {rowless};
CREATE INDEX own_changes_by_age ON own_changes (applied_at);
