-- The schema, in one text for both engines. engine/migrate.py replaces the macros in braces by each engine's types:
-- {id} ULID text, {int} 64-bit, {ms} instant in milliseconds, {json} JSON text, {bool}, {bytes}, {serial} generated key,
-- {rowless} a table stored in the order of its key, {by_month:column} a table that PostgreSQL partitions by month.
-- A line that begins with {sqlite} or {postgres} is for that engine alone.

-- Directory: read before the organization is known --------------------------------------------------

CREATE TABLE dir_orgs (
    org_id {serial},
    name {text} NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    name_norm {text} NOT NULL UNIQUE
) {strict};

CREATE TABLE dir_clients (
    client_id {text} PRIMARY KEY CHECK (length(client_id) <= 40),
    org_id {int} NOT NULL REFERENCES dir_orgs
) {strict};

CREATE TABLE dir_integrations (
    integration_id {serial},
    org_id {int} NOT NULL REFERENCES dir_orgs
) {strict};

-- Found by the hash of the key in an event's address.
CREATE TABLE dir_endpoints (
    endpoint_key_hash {text} PRIMARY KEY CHECK (length(endpoint_key_hash) = 64),
    org_id {int} NOT NULL REFERENCES dir_orgs,
    integration_id {int} NOT NULL REFERENCES dir_integrations
) {strict};
CREATE INDEX dir_endpoints_of_store ON dir_endpoints (org_id, integration_id);

-- `unclaimed`: created by an invitation that nobody has accepted yet; the first acceptance sets its password.
CREATE TABLE people (
    person_id {serial},
    email {text} NOT NULL,
    email_norm {text} NOT NULL UNIQUE,
    username {text} NOT NULL,
    first_name {text} NOT NULL,
    last_name {text} NOT NULL,
    active {bool} NOT NULL,
    password_hash {text},
    password_changed_at {ms},
    created_at {ms} NOT NULL,
    unclaimed {bool} NOT NULL DEFAULT FALSE
) {strict};

CREATE TABLE sessions (
    session_hash {text} PRIMARY KEY CHECK (length(session_hash) = 64),
    person_id {int} NOT NULL REFERENCES people,
    org_id {int} REFERENCES dir_orgs,
    created_at {ms} NOT NULL,
    seen_at {ms} NOT NULL,
    ip_text {text} NOT NULL,
    agent {text} NOT NULL CHECK (length(agent) <= 200)
) {strict};
CREATE INDEX sessions_by_person ON sessions (person_id);

CREATE TABLE login_attempts (
    kind {text} NOT NULL CHECK (kind IN ('client', 'address', 'email', 'sign_in_address', 'reset_email', 'reset_source')),
    key_hash {text} NOT NULL,
    attempts {json} NOT NULL,
    ends_at {ms} NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, key_hash)
) {rowless};
CREATE INDEX login_attempts_ended ON login_attempts (ends_at);

CREATE TABLE failed_sign_ins (
    kind {text} NOT NULL CHECK (kind IN ('person', 'credential')),
    key_hash {text} NOT NULL,
    object_id {text},
    times {int} NOT NULL,
    began_at {ms} NOT NULL,
    PRIMARY KEY (kind, key_hash)
) {rowless};
CREATE INDEX failed_sign_ins_began ON failed_sign_ins (began_at);

CREATE TABLE service_keys (
    key_id {text} PRIMARY KEY,
    kind {text} NOT NULL CHECK (kind IN ('signing', 'pepper', 'cursor')),
    wrapped {bytes} NOT NULL,
    public {json},
    created_at {ms} NOT NULL,
    retires_at {ms}
) {strict};

-- Found by the hash of a link's token.
CREATE TABLE invitations (
    token_hash {text} PRIMARY KEY CHECK (length(token_hash) = 64),
    org_id {int} NOT NULL REFERENCES dir_orgs,
    person_id {int} NOT NULL REFERENCES people,
    created_by {int} REFERENCES people,
    created_at {ms} NOT NULL,
    expires_at {ms} NOT NULL,
    used_at {ms}
) {strict};
CREATE INDEX invitations_by_person ON invitations (org_id, person_id);

-- A sign-in at a platform between the redirect and the callback; found by the hash of its state, used once.
CREATE TABLE sign_in_states (
    state_hash {text} PRIMARY KEY CHECK (length(state_hash) = 64),
    session_hash {text} NOT NULL CHECK (length(session_hash) = 64),
    org_id {int} NOT NULL REFERENCES dir_orgs,
    integration_id {int},
    kind {text} NOT NULL,
    name {text} NOT NULL,
    key_no {int} NOT NULL,
    verifier_enc {bytes} NOT NULL,
    expires_at {ms} NOT NULL
) {strict};

-- Links that set a new password: the hash of the link's token, used once.
CREATE TABLE password_resets (
    token_hash {text} PRIMARY KEY CHECK (length(token_hash) = 64),
    person_id {int} NOT NULL REFERENCES people,
    created_at {ms} NOT NULL,
    expires_at {ms} NOT NULL,
    used_at {ms}
) {strict};
CREATE INDEX password_resets_by_person ON password_resets (person_id);
CREATE INDEX password_resets_ended ON password_resets (expires_at);

-- Accounts ------------------------------------------------------------------------------------------

CREATE TABLE organizations (
    org_id {int} NOT NULL PRIMARY KEY REFERENCES dir_orgs,
    name {text} NOT NULL,
    zone {text} NOT NULL,
    automations_on {bool} NOT NULL,
    send_without_approval {bool} NOT NULL,
    created_at {ms} NOT NULL,
    closed_from {ms}
) {strict};

-- `invited`: has an invitation and has never joined; `active` is false until then.
CREATE TABLE members (
    org_id {int} NOT NULL REFERENCES organizations,
    person_id {int} NOT NULL REFERENCES people,
    role {text} NOT NULL CHECK (role IN ('member', 'approver', 'owner')),
    active {bool} NOT NULL,
    account_active {bool} NOT NULL,
    email_norm {text} NOT NULL,
    username_norm {text} NOT NULL,
    first_name {text} NOT NULL,
    last_name {text} NOT NULL,
    added_at {ms} NOT NULL,
    last_seen_at {ms},
    invited {bool} NOT NULL DEFAULT FALSE,
    PRIMARY KEY (org_id, person_id)
) {rowless};
CREATE INDEX members_by_email ON members (org_id, email_norm);
CREATE INDEX members_by_person ON members (person_id);
CREATE INDEX members_newest ON members (org_id, added_at, person_id);

CREATE TABLE credentials (
    org_id {int} NOT NULL REFERENCES organizations,
    client_id {text} NOT NULL,
    secret_hmac {text} NOT NULL CHECK (length(secret_hmac) = 64),
    pepper {text} NOT NULL REFERENCES service_keys,
    enabled {bool} NOT NULL,
    epoch {int} NOT NULL CHECK (epoch >= 1),
    label {text} NOT NULL,
    created_at {ms} NOT NULL,
    rotated_at {ms},
    last_login_at {ms},
    PRIMARY KEY (org_id, client_id)
) {rowless};

CREATE TABLE audit_log (
    org_id {int} NOT NULL,
    id {id} NOT NULL,
    seq {int} NOT NULL CHECK (seq >= 1),
    at {ms} NOT NULL,
    actor_kind {text} NOT NULL CHECK (actor_kind IN ('person', 'credential', 'service', 'operator')),
    actor {text},
    action {text} NOT NULL CHECK (length(action) <= 60),
    object_kind {text},
    object_id {text},
    detail {json} NOT NULL CHECK (length(detail) <= 4096),
    hash {text} NOT NULL CHECK (length(hash) = 64),
    PRIMARY KEY (org_id, id)
) {rowless} {by_month:id};

CREATE INDEX audit_log_by_seq ON audit_log (org_id, seq);
-- For pages of all entries, and of those that one filter chooses.
CREATE INDEX audit_log_by_time ON audit_log (org_id, at, seq);
CREATE INDEX audit_log_by_actor ON audit_log (org_id, actor, at, seq);
CREATE INDEX audit_log_by_action ON audit_log (org_id, action, at, seq);
CREATE INDEX audit_log_by_kind ON audit_log (org_id, object_kind, at, seq);
CREATE INDEX audit_log_by_object ON audit_log (org_id, object_id, at, seq);

-- The end of each organization's chain, how far the periodic check has come, and what it found.
CREATE TABLE audit_heads (
    org_id {int} NOT NULL REFERENCES organizations,
    seq {int} NOT NULL CHECK (seq >= 0),
    hash {text} NOT NULL,
    at {ms} NOT NULL,
    check_at {ms} NOT NULL,
    checked_seq {int} NOT NULL,
    checked_hash {text} NOT NULL,
    pass_began_at {ms} NOT NULL,
    verified_seq {int} NOT NULL,
    verified_at {ms},
    broken_seq {int},
    broken_how {text},
    anchored_at {ms},
    PRIMARY KEY (org_id)
) {rowless};

CREATE INDEX audit_heads_to_check ON audit_heads (check_at);

CREATE TABLE idempotency_keys (
    org_id {int} NOT NULL REFERENCES organizations,
    kind {text} NOT NULL CHECK (kind IN ('run', 'automation', 'undo')),
    key {text} NOT NULL,
    automation_id {id},
    object_id {id} NOT NULL,
    request_sha256 {text} NOT NULL CHECK (length(request_sha256) = 64),
    created_at {ms} NOT NULL,
    PRIMARY KEY (org_id, kind, key)
) {rowless};

-- Connections ---------------------------------------------------------------------------------------

-- `check_at`: when the connection is next checked without a request.
CREATE TABLE connections (
    org_id {int} NOT NULL REFERENCES organizations,
    integration_id {int} NOT NULL,
    kind {text} NOT NULL,
    is_store {bool} NOT NULL,
    name {text} NOT NULL,
    domain {text},
    zone {text},
    currency {text},
    state {text} NOT NULL CHECK (state IN ('connected', 'needs_reconnecting', 'disconnected')),
    auth {text} NOT NULL CHECK (auth IN ('user_sign_in', 'service_account', 'key')),
    account_label {text},
    granted {json} NOT NULL,
    version {int} NOT NULL,
    connected_at {ms} NOT NULL,
    last_ok_at {ms},
    last_error {text} CHECK (length(last_error) <= 300),
    facts {json} NOT NULL,
    subject {text} NOT NULL,
    checked_at {ms},
    check_at {ms} NOT NULL DEFAULT 0,
    token_lease {text},
    token_leased_until {ms},
    PRIMARY KEY (org_id, integration_id),
    UNIQUE (org_id, kind, subject)
) {rowless};
CREATE INDEX connections_to_check ON connections (check_at) WHERE state = 'connected';
CREATE INDEX connections_by_kind ON connections (org_id, kind, integration_id);
CREATE INDEX connections_of_stores ON connections (org_id, integration_id) WHERE is_store;
CREATE INDEX connections_broken ON connections (org_id, integration_id) WHERE state <> 'connected';

CREATE TABLE org_keys (
    org_id {int} NOT NULL REFERENCES organizations,
    key_no {int} NOT NULL,
    wrapped {bytes} NOT NULL,
    kek_id {text} NOT NULL,
    created_at {ms} NOT NULL,
    retired_at {ms},
    PRIMARY KEY (org_id, key_no)
) {rowless};

CREATE TABLE connection_secrets (
    org_id {int} NOT NULL,
    integration_id {int} NOT NULL,
    field {text} NOT NULL CHECK (length(field) <= 40),
    version {int} NOT NULL,
    key_no {int} NOT NULL,
    sealed {bytes} NOT NULL,
    expires_at {ms},
    PRIMARY KEY (org_id, integration_id, field),
    FOREIGN KEY (org_id, integration_id) REFERENCES connections
) {rowless};

-- Automations and the calendar ----------------------------------------------------------------------

-- `facet`: state, origin and trigger in one number, for the indexes of lists (model/automation.py).
CREATE TABLE automations (
    org_id {int} NOT NULL REFERENCES organizations,
    id {id} NOT NULL,
    version {int} NOT NULL CHECK (version >= 1),
    kind {text} NOT NULL CHECK (kind IN ('template', 'workflow')),
    template_id {text} NOT NULL,
    template_version {int} NOT NULL,
    import_id {id},
    source {text},
    platform {text},
    integration_id {int},
    store_label {text} NOT NULL,
    name {text} NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    name_folded {text} NOT NULL,
    state {text} NOT NULL CHECK (state IN ('draft', 'active', 'paused', 'archived')),
    paused_by {text} CHECK (paused_by IN ('merchant', 'system')),
    paused_reason {text},
    inputs {json} NOT NULL,
    schedule {json} NOT NULL,
    timezone {text} NOT NULL,
    spread_minutes {int} NOT NULL CHECK (spread_minutes BETWEEN 0 AND 9),
    trigger_json {json} NOT NULL,
    connections {json} NOT NULL,
    bindings {json} NOT NULL,
    send_mode {text},
    plan_version {int},
    created_at {ms} NOT NULL,
    updated_at {ms} NOT NULL,
    created_by {int},
    created_via {text},
    api_client_id {text},
    {sqlite} facet INTEGER GENERATED ALWAYS AS (
    {postgres} facet smallint GENERATED ALWAYS AS (
        CASE state WHEN 'draft' THEN 0 WHEN 'active' THEN 10 WHEN 'paused' THEN 20 WHEN 'archived' THEN 30 END
        + CASE WHEN kind = 'template' THEN 0 WHEN source = 'workflow_tool' THEN 2 ELSE 4 END
        + CASE WHEN substr(trigger_json, 1, 15) = '{"kind":"event"' THEN 1 ELSE 0 END)
    {sqlite} VIRTUAL,
    {postgres} STORED,
    PRIMARY KEY (org_id, id),
    CHECK ((state = 'paused') = (paused_by IS NOT NULL)),
    CHECK ((kind = 'workflow') = (plan_version IS NOT NULL))
) {rowless};
CREATE INDEX automations_by_age ON automations (org_id, facet, created_at, id);
CREATE INDEX automations_by_name ON automations (org_id, facet, name_folded, id);
CREATE INDEX automations_by_store ON automations (org_id, integration_id);
CREATE INDEX automations_by_template ON automations (org_id, template_id);
CREATE INDEX automations_by_platform ON automations (org_id, platform);
CREATE INDEX automations_by_update ON automations (org_id, updated_at);
CREATE INDEX automations_with_connections ON automations (org_id) WHERE connections <> '[]';

CREATE TABLE memory (
    org_id {int} NOT NULL,
    automation_id {id} NOT NULL,
    space {text} NOT NULL CHECK (length(space) <= 40),
    key {text} NOT NULL CHECK (length(key) <= 200),
    value {json} NOT NULL CHECK (length(value) <= 4096),
    run_id {id} NOT NULL,
    updated_at {ms} NOT NULL,
    PRIMARY KEY (org_id, automation_id, space, key),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations
) {rowless};

-- What the scripts of an imported workflow keep from run to run, sealed under a data key.
CREATE TABLE static_data (
    org_id {int} NOT NULL,
    automation_id {id} NOT NULL,
    content {bytes} NOT NULL,
    content_key {int} NOT NULL,
    run_id {id} NOT NULL,
    updated_at {ms} NOT NULL,
    PRIMARY KEY (org_id, automation_id),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations
) {strict};

-- `due_at`: the first slot that is not decided, open or closed; `next_run_at`: the first that is open.
-- `queue_opened_at`: until when a closed period held the automation's runs.
CREATE TABLE schedules (
    org_id {int} NOT NULL,
    automation_id {id} NOT NULL,
    next_run_at {ms},
    next_slot_at {ms},
    slots_after {ms} NOT NULL,
    last_run_at {ms},
    consecutive_failures {int} NOT NULL CHECK (consecutive_failures >= 0),
    audited_until {ms} NOT NULL,
    events_dropped {int} NOT NULL DEFAULT 0 CHECK (events_dropped >= 0),
    events_dropped_at {ms},
    due_at {ms},
    queue_opened_at {ms},
    {postgres} turn bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, automation_id),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations
) {rowless};
CREATE INDEX schedules_due ON schedules (due_at, automation_id) WHERE due_at IS NOT NULL;
CREATE INDEX schedules_next ON schedules (org_id, due_at, automation_id);
CREATE INDEX schedules_next_run ON schedules (org_id, next_run_at, automation_id);
CREATE INDEX schedules_failing ON schedules (org_id, consecutive_failures, last_run_at) WHERE consecutive_failures > 0;
CREATE INDEX schedules_audited ON schedules (audited_until, automation_id);

-- The release of the time zone data that computed the stored slots, and the instant it came into use.
CREATE TABLE time_zone_data (
    singleton {int} NOT NULL PRIMARY KEY CHECK (singleton = 1),
    version {text} NOT NULL,
    since {ms} NOT NULL
) {strict};

-- A version a row; the valid one has no end. `changed_by` ended a version or began one that is not the first.
CREATE TABLE closed_periods (
    org_id {int} NOT NULL REFERENCES organizations,
    id {id} NOT NULL,
    version {int} NOT NULL CHECK (version >= 1),
    valid_from {ms} NOT NULL,
    valid_until {ms},
    name {text} NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
    scope_kind {text} NOT NULL CHECK (scope_kind IN ('organization', 'store', 'automation')),
    integration_id {int},
    automation_id {id},
    stops {text} NOT NULL CHECK (stops IN ('changes', 'runs')),
    kind {text} NOT NULL CHECK (kind IN ('once', 'weekly', 'yearly', 'freeze')),
    when_json {json} NOT NULL,
    timezone {text} NOT NULL,
    origin {json},
    made_by {int},
    made_at {ms} NOT NULL,
    changed_by {int},
    PRIMARY KEY (org_id, id, version),
    CHECK ((scope_kind = 'store') = (integration_id IS NOT NULL)),
    CHECK ((scope_kind = 'automation') = (automation_id IS NOT NULL))
) {rowless};
CREATE UNIQUE INDEX closed_periods_valid ON closed_periods (org_id, id) WHERE valid_until IS NULL;
CREATE INDEX closed_periods_ended ON closed_periods (org_id, valid_until) WHERE valid_until IS NOT NULL;
CREATE INDEX closed_periods_by_scope ON closed_periods (org_id, scope_kind, id);
CREATE INDEX closed_periods_of_holidays ON closed_periods (org_id, id) WHERE origin IS NOT NULL;
CREATE UNIQUE INDEX closed_periods_frozen ON closed_periods (org_id, scope_kind, coalesce(integration_id, 0))
    WHERE kind = 'freeze' AND valid_until IS NULL;

-- What a periodic task still has to rewrite after a change of an organization's closed periods.
CREATE TABLE closing_work (
    org_id {int} NOT NULL PRIMARY KEY REFERENCES organizations,
    after_automation {id},
    requested_at {ms} NOT NULL
) {strict};

CREATE TABLE automation_history (
    org_id {int} NOT NULL,
    id {id} NOT NULL,
    automation_id {id} NOT NULL,
    at {ms} NOT NULL,
    action {text} NOT NULL CHECK (action IN ('created', 'changed', 'paused', 'resumed', 'archived', 'restored',
        'moved', 'skipped', 'unskipped')),
    version {int} NOT NULL,
    person_id {int},
    via {text} NOT NULL CHECK (via IN ('ui', 'api-token', 'service')),
    api_client_id {text},
    reason {text} CHECK (length(reason) <= 500),
    fields {json} NOT NULL,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations
) {rowless};
CREATE INDEX history_by_automation ON automation_history (org_id, automation_id, id);

-- Without a foreign key on SQLite: an automation is never deleted, and the writer has just read it.
CREATE TABLE occurrences (
    org_id {int} NOT NULL,
    automation_id {id} NOT NULL,
    slot_at {ms} NOT NULL,
    run_at {ms} NOT NULL,
    local_key {text} NOT NULL CHECK (length(local_key) <= 24),
    state {text} NOT NULL,
    reason {text},
    run_id {id},
    moved_from {ms},
    version {int} NOT NULL CHECK (version >= 0),
    by_auditor {bool} NOT NULL,
    from_edit {bool} NOT NULL,
    updated_at {ms} NOT NULL,
    exempt {bool} NOT NULL DEFAULT FALSE,
    closed_name {text} CHECK (length(closed_name) BETWEEN 1 AND 80),
    {postgres} FOREIGN KEY (org_id, automation_id) REFERENCES automations,
    PRIMARY KEY (org_id, automation_id, slot_at),
    CHECK (CASE state
        WHEN 'queued' THEN run_id IS NOT NULL AND reason IS NULL
        WHEN 'pending' THEN run_id IS NULL AND reason IS NULL
        WHEN 'skipped' THEN run_id IS NULL AND reason IS NOT NULL AND reason IN ('skipped_previous_running',
            'skipped_waiting_approval', 'skipped_too_late', 'by_merchant')
        ELSE FALSE END)
) {rowless};
CREATE INDEX occurrences_by_time ON occurrences (org_id, run_at);
{postgres} CREATE INDEX occurrences_of_automation ON occurrences (org_id, automation_id, run_at);
{sqlite} CREATE INDEX occurrences_moved ON occurrences (org_id, automation_id, run_at) WHERE run_at <> slot_at;
CREATE INDEX occurrences_not_queued ON occurrences (org_id, run_at) WHERE state <> 'queued';
CREATE INDEX occurrences_pending ON occurrences (org_id, automation_id, run_at) WHERE state = 'pending';

-- Runs ----------------------------------------------------------------------------------------------

CREATE TABLE workers (
    worker_id {serial},
    name {text} NOT NULL CHECK (length(name) <= 200),
    version {text} NOT NULL,
    state {text} NOT NULL CHECK (state IN ('alive', 'stopping', 'dead')),
    lease_until {ms} NOT NULL,
    started_at {ms} NOT NULL,
    slots {int} NOT NULL
) {strict};
CREATE INDEX workers_leases ON workers (lease_until) WHERE state IN ('alive', 'stopping');

-- API processes without a worker: which releases still serve, for `steward doctor` and `steward migrate --clean`.
CREATE TABLE api_processes (
    name {text} NOT NULL PRIMARY KEY CHECK (length(name) <= 200),
    version {text} NOT NULL,
    lease_until {ms} NOT NULL
) {rowless};

-- `kind`: status, mode and starter in one number, for the indexes of lists (model/run.py).
CREATE TABLE runs (
    org_id {int} NOT NULL,
    id {id} NOT NULL,
    automation_id {id} NOT NULL,
    -- The store it was queued for; the automation may have moved to another since.
    integration_id {int},
    mode {text} NOT NULL CHECK (mode IN ('live', 'test')),
    status {text} NOT NULL,
    queue {text} NOT NULL,
    vt {int} NOT NULL,
    worker_id {int},
    epoch {int} NOT NULL CHECK (epoch >= 0),
    attempt {int} NOT NULL CHECK (attempt >= 1),
    wake_at {ms},
    last_seq {int} NOT NULL CHECK (last_seq >= 0),
    plan_version {int},
    slot_at {ms},
    approval_id {id},
    cancel_at {ms},
    cancel_code {text},
    leased_ms {int} NOT NULL,
    queued_at {ms} NOT NULL,
    started_at {ms},
    waiting_since {ms},
    expires_at {ms},
    finished_at {ms},
    automation_name {text} NOT NULL,
    automation_version {int} NOT NULL CHECK (automation_version > 0),
    template_id {text} NOT NULL,
    template_version {int} NOT NULL,
    started_by {text} NOT NULL CHECK (started_by IN ('schedule', 'event', 'hand')),
    event_id {id},
    event_topic {text},
    event_received_at {ms},
    idempotency_key {text},
    created_by {int},
    created_via {text},
    api_client_id {text},
    code {text},
    message {text},
    current_step {json},
    summary {json},
    result {json} CHECK (length(result) <= 65536),
    lost_at {ms},
    payload {bytes},
    payload_key {int},
    undo_of {id},
    exempt {bool} NOT NULL DEFAULT FALSE,
    held_name {text},
    held_until {ms},
    held_at {ms},
    -- Copied from `schedules.turn` when the run is queued or promoted; both rise by one when the run begins (not an undo).
    -- It is a key of `runs_active`, so that lookups read no entries of earlier runs, which PostgreSQL keeps while a
    -- transaction is open.
    {postgres} turn bigint NOT NULL DEFAULT 0,
    {sqlite} kind INTEGER GENERATED ALWAYS AS (
    {postgres} kind smallint GENERATED ALWAYS AS (
        CASE status WHEN 'queued' THEN 0 WHEN 'running' THEN 10 WHEN 'waiting_approval' THEN 20
            WHEN 'succeeded' THEN 30 WHEN 'failed' THEN 40 WHEN 'refused' THEN 50 WHEN 'cancelled' THEN 60
            WHEN 'expired' THEN 70 END
        + CASE mode WHEN 'live' THEN 0 ELSE 3 END
        + CASE started_by WHEN 'schedule' THEN 0 WHEN 'event' THEN 1 ELSE 2 END)
    {sqlite} VIRTUAL,
    {postgres} STORED,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations,
    CHECK (mode = 'live' OR started_by = 'hand'),
    CHECK ((payload IS NULL) = (payload_key IS NULL)),
    CHECK ((queue = 'leased') = (worker_id IS NOT NULL)),
    CHECK ((queue = 'sleeping') = (wake_at IS NOT NULL)),
    CHECK ((queue = 'done') = (finished_at IS NOT NULL)),
    CHECK (CASE queue
        WHEN 'ready' THEN status = 'queued' OR status = 'running'
        WHEN 'leased' THEN status = 'running' OR status = 'queued'
        WHEN 'blocked' THEN status = 'queued'
        WHEN 'parked' THEN status = 'waiting_approval'
        WHEN 'sleeping' THEN status = 'running' OR status = 'queued'
        WHEN 'done' THEN status IN ('succeeded', 'failed', 'refused', 'cancelled', 'expired')
        ELSE FALSE END)
) {rowless};
CREATE INDEX runs_ready ON runs (vt, id) WHERE queue = 'ready';
CREATE INDEX runs_leased ON runs (worker_id) WHERE queue = 'leased';
{sqlite} CREATE INDEX runs_queued ON runs (org_id, automation_id, queued_at, id) WHERE status = 'queued';
-- Few runs are blocked, so that few entries of earlier ones are in the way while a transaction stays open.
{postgres} CREATE INDEX runs_blocked ON runs (org_id, automation_id, queued_at, id) WHERE queue = 'blocked';
{postgres} CREATE INDEX runs_queued_tests ON runs (org_id, automation_id) WHERE status = 'queued' AND mode = 'test';
CREATE INDEX runs_sleeping ON runs (wake_at) WHERE queue = 'sleeping';
CREATE INDEX runs_parked ON runs (expires_at) WHERE queue = 'parked';
-- PostgreSQL: the collation orders as the column's does, and keeps lookups to this index (functions.postgres.sql).
{sqlite} CREATE UNIQUE INDEX runs_active ON runs (org_id, automation_id)
{postgres} CREATE UNIQUE INDEX runs_active ON runs (automation_id COLLATE "POSIX", turn, org_id)
    WHERE mode = 'live' AND queue IN ('ready', 'leased', 'sleeping', 'parked');
CREATE UNIQUE INDEX runs_of_slot ON runs (org_id, automation_id, slot_at) WHERE slot_at IS NOT NULL;
CREATE UNIQUE INDEX runs_of_event ON runs (org_id, automation_id, event_id) WHERE event_id IS NOT NULL;
-- Few runs share one instant: PostgreSQL sorts them when it reads, and needs no id in the index. Its indexes of all
-- automations' runs have a condition that is always true, so that only statements which state it use them (run_indexes.py).
{sqlite} CREATE INDEX runs_by_age ON runs (org_id, queued_at, id);
{postgres} CREATE INDEX runs_by_age ON runs (org_id, queued_at) WHERE automation_version > 0;
-- For lists by status, mode and starter: of all automations, of one, and of one store.
{sqlite} CREATE INDEX runs_by_kind ON runs (org_id, kind, queued_at, id);
{postgres} CREATE INDEX runs_by_kind ON runs (org_id, kind, queued_at) WHERE started_by > '';
{sqlite} CREATE INDEX runs_of_automation ON runs (org_id, automation_id, kind, queued_at, id);
-- PostgreSQL: by automation first. Otherwise lookups of a run by its key take this index while the table is young.
{postgres} CREATE INDEX runs_of_automation ON runs (automation_id, org_id, kind, queued_at);
{sqlite} CREATE INDEX runs_of_store ON runs (org_id, integration_id, kind, queued_at, id) WHERE integration_id IS NOT NULL;
{postgres} CREATE INDEX runs_of_store ON runs (org_id, integration_id, kind, queued_at) WHERE integration_id IS NOT NULL;

-- Totals of live runs, written after each quarter of an hour. A row with automation_id '' totals the organization's runs
-- queued in that quarter, an automation's row the changes made by its runs queued on a UTC day. `open`: the ids of runs
-- whose numbers are not final yet.
CREATE TABLE run_totals (
    org_id {int} NOT NULL,
    automation_id {text} NOT NULL,
    starts_at {ms} NOT NULL,
    succeeded {int} NOT NULL,
    failed {int} NOT NULL,
    stopped {int} NOT NULL,
    applied {int} NOT NULL,
    conflicts {int} NOT NULL,
    open {json},
    PRIMARY KEY (org_id, automation_id, starts_at)
) {rowless};
CREATE INDEX run_totals_open ON run_totals (org_id, starts_at) WHERE open IS NOT NULL;

-- Six rows fill a page of SQLite: stored by their key, each new one would split the pages of other runs, so the table
-- keeps the order in which rows are written. A short output lies in its row there, instead of in step_values.
CREATE TABLE steps (
    org_id {int} NOT NULL,
    run_id {id} NOT NULL,
    seq {int} NOT NULL CHECK (seq >= 1),
    name {text} NOT NULL CHECK (length(name) <= 120),
    iteration {text} NOT NULL CHECK (length(iteration) <= 120),
    attempt {int} NOT NULL,
    status {text} NOT NULL CHECK (status IN ('succeeded', 'failed', 'skipped', 'refused', 'held')),
    finished_at {ms} NOT NULL,
    changes_total {int} NOT NULL,
    wire {text} NOT NULL,
    {sqlite} output {bytes},
    {sqlite} state {text} CHECK (state IN ('done', 'held', 'skipped', 'failed')),
    {sqlite} FOREIGN KEY (org_id, run_id) REFERENCES runs,
    {sqlite} CHECK ((output IS NULL) = (state IS NULL)),
    PRIMARY KEY (org_id, run_id, seq)
) {strict} {by_month:run_id};

CREATE TABLE step_values (
    org_id {int} NOT NULL,
    run_id {id} NOT NULL,
    name {text} NOT NULL,
    iteration {text} NOT NULL,
    seq {int} NOT NULL,
    output {bytes} NOT NULL,
    unknown_paths {json},
    state {text} NOT NULL CHECK (state IN ('done', 'held', 'skipped', 'failed')),
    {sqlite} FOREIGN KEY (org_id, run_id) REFERENCES runs,
    PRIMARY KEY (org_id, run_id, name, iteration)
) {strict} {by_month:run_id};

-- Files of a run's items by the hash of their content. Their sealed content lies in `run_file_parts` on PostgreSQL,
-- and in a folder beside the database on SQLite.
CREATE TABLE run_files (
    org_id {int} NOT NULL,
    run_id {id} NOT NULL,
    sha256 {text} NOT NULL CHECK (length(sha256) = 64),
    size {int} NOT NULL CHECK (size BETWEEN 0 AND 20971520),
    key_no {int} NOT NULL,
    created_at {ms} NOT NULL,
    is_test {bool} NOT NULL,
    PRIMARY KEY (org_id, run_id, sha256),
    FOREIGN KEY (org_id, run_id) REFERENCES runs
) {strict};
CREATE INDEX run_files_by_age ON run_files (is_test, created_at);

-- The sealed content of a file in pieces of 256 KiB, since one value of 20 MiB would be held whole by every reader.
-- Empty on SQLite.
CREATE TABLE run_file_parts (
    org_id {int} NOT NULL,
    run_id {id} NOT NULL,
    sha256 {text} NOT NULL,
    part {int} NOT NULL CHECK (part >= 0),
    sealed {bytes} NOT NULL CHECK (length(sealed) <= 262144),
    PRIMARY KEY (org_id, run_id, sha256, part),
    FOREIGN KEY (org_id, run_id, sha256) REFERENCES run_files ON DELETE CASCADE
) {strict};

CREATE TABLE changes (
    org_id {int} NOT NULL,
    run_id {id} NOT NULL,
    id {id} NOT NULL,
    seq {int} NOT NULL,
    name {text} NOT NULL,
    iteration {text} NOT NULL,
    position {int} NOT NULL,
    round {int} NOT NULL CHECK (round >= 0),
    integration_id {int},
    object_type {text} NOT NULL,
    object_id {text},
    wire {json} NOT NULL,
    before_json {json} NOT NULL,
    after_json {json} NOT NULL,
    parts {json} NOT NULL,
    item_hash {text} NOT NULL CHECK (length(item_hash) = 64),
    outcome {text} NOT NULL CHECK (outcome IN ('proposed', 'approved', 'declined', 'applied', 'unchanged',
        'conflict', 'failed', 'refused_test', 'expired', 'cancelled', 'unknown')),
    message {text},
    applied_at {ms},
    undoable {bool} NOT NULL,
    undo_of_change {id},
    {sqlite} FOREIGN KEY (org_id, run_id) REFERENCES runs,
    PRIMARY KEY (org_id, run_id, id),
    UNIQUE (org_id, run_id, name, iteration, position)
) {rowless} {by_month:run_id};
CREATE INDEX changes_in_order ON changes (org_id, run_id, seq, position);
CREATE INDEX changes_undoing ON changes (org_id, undo_of_change) WHERE undo_of_change IS NOT NULL;

-- The words by which a run is searched for: those of the objects that it proposes to change, each once, with the step
-- and position of the first such change. Run ids rise with time: of one word the newest runs are read first.
CREATE TABLE search_terms (
    org_id {int} NOT NULL,
    term {text} NOT NULL CHECK (length(term) BETWEEN 1 AND 64),
    run_id {id} NOT NULL,
    seq {int} NOT NULL,
    position {int} NOT NULL,
    {sqlite} FOREIGN KEY (org_id, run_id) REFERENCES runs,
    PRIMARY KEY (org_id, term, run_id)
) {rowless};
CREATE INDEX search_terms_of_run ON search_terms (org_id, run_id, term);

-- The write ledger: one row for each remote write, with its intent and its outcome.
CREATE TABLE write_ledger (
    org_id {int} NOT NULL,
    write_key {text} NOT NULL CHECK (length(write_key) = 36),
    run_id {id} NOT NULL,
    change_id {id} NOT NULL,
    part {int} NOT NULL CHECK (part >= 1),
    batch_key {text},
    integration_id {int},
    idempotency_class {text} NOT NULL CHECK (idempotency_class IN ('idempotent', 'readable', 'marked',
        'at_most_once')),
    state {text} NOT NULL CHECK (state IN ('intent', 'done', 'refused', 'conflict', 'unknown', 'not_sent')),
    epoch {int} NOT NULL,
    attempt {int} NOT NULL CHECK (attempt BETWEEN 1 AND 5),
    request_sha256 {text} NOT NULL CHECK (length(request_sha256) = 64),
    intent_at {ms} NOT NULL,
    call_deadline_at {ms} NOT NULL,
    reconcile_after {ms} NOT NULL,
    resolved_at {ms},
    resolved_by {text} CHECK (resolved_by IN ('call', 'read_back', 'marker', 'person')),
    message {text},
    remote_ref {text} CHECK (length(remote_ref) <= 200),
    answer {bytes},
    answer_key_no {int},
    PRIMARY KEY (org_id, write_key),
    UNIQUE (org_id, change_id, part),
    CHECK ((answer IS NULL) = (answer_key_no IS NULL)),
    FOREIGN KEY (org_id, run_id) REFERENCES runs
) {rowless};
CREATE INDEX write_ledger_open ON write_ledger (org_id, run_id) WHERE state IN ('intent', 'unknown');
CREATE INDEX write_ledger_of_batch ON write_ledger (org_id, run_id, batch_key);
CREATE INDEX write_ledger_to_reconcile ON write_ledger (reconcile_after) WHERE state IN ('intent', 'unknown');

-- `chosen`: the changes of the run that an undo run puts back; NULL: all that can be undone.
CREATE TABLE undos (
    org_id {int} NOT NULL,
    run_id {id} NOT NULL,
    of_run_id {id} NOT NULL,
    chosen {json},
    PRIMARY KEY (org_id, run_id),
    FOREIGN KEY (org_id, run_id) REFERENCES runs
) {rowless};
CREATE INDEX undos_of_run ON undos (org_id, of_run_id);

-- What an automation remembered before a change of a run made it remember something else; NULL: nothing.
CREATE TABLE memory_log (
    org_id {int} NOT NULL,
    run_id {id} NOT NULL,
    name {text} NOT NULL,
    iteration {text} NOT NULL,
    position {int} NOT NULL,
    space {text} NOT NULL,
    key {text} NOT NULL,
    seq {int} NOT NULL,
    before_value {json},
    after_value {json},
    PRIMARY KEY (org_id, run_id, name, iteration, position, space, key),
    FOREIGN KEY (org_id, run_id) REFERENCES runs
) {rowless};

-- Without a foreign key: an approval outlives its run.
CREATE TABLE approvals (
    org_id {int} NOT NULL,
    id {id} NOT NULL,
    run_id {id} NOT NULL,
    automation_id {id} NOT NULL,
    integration_id {int},
    round {int} NOT NULL,
    kind {text} NOT NULL CHECK (kind IN ('changes', 'sends')),
    version {int} NOT NULL CHECK (version >= 1),
    status {text} NOT NULL CHECK (status IN ('pending', 'approved', 'partly_approved', 'rejected', 'expired',
        'superseded', 'cancelled')),
    change_hash {text} NOT NULL CHECK (length(change_hash) = 64),
    counts {json} NOT NULL,
    warnings {json} NOT NULL,
    follows {json} NOT NULL,
    created_at {ms} NOT NULL,
    expires_at {ms} NOT NULL,
    decided_at {ms},
    decided_by {int},
    session_hash {text},
    comment {text} CHECK (length(comment) <= 500),
    excluded_changes {json},
    write_now {bool} NOT NULL DEFAULT FALSE,
    -- When people are next told that it is about to expire, and how often they were; null once it is decided.
    warn_at {ms},
    warned {int} NOT NULL DEFAULT 0 CHECK (warned BETWEEN 0 AND 2),
    PRIMARY KEY (org_id, id),
    CHECK ((status IN ('approved', 'partly_approved', 'rejected')) = (decided_by IS NOT NULL)),
    CHECK (warn_at IS NULL OR status = 'pending')
) {rowless};
CREATE INDEX approvals_to_warn ON approvals (warn_at) WHERE warn_at IS NOT NULL;
-- Each row is in one of the two unique indexes.
CREATE UNIQUE INDEX approvals_pending ON approvals (org_id, run_id) WHERE status = 'pending';
CREATE UNIQUE INDEX approvals_of_round ON approvals (org_id, run_id, round) WHERE status <> 'pending';
-- For lists by status. An automation or a store has few pending approvals; its decided ones are kept. Retention empties
-- the counts of an approval whose run it removes: no list has it any more.
{sqlite} CREATE INDEX approvals_by_status ON approvals (org_id, status, expires_at, id) WHERE counts <> '{}';
{postgres} CREATE INDEX approvals_by_status ON approvals (org_id, status, expires_at) WHERE counts <> '{}';
{sqlite} CREATE INDEX approvals_of_automation ON approvals (org_id, automation_id, status, expires_at, id)
{postgres} CREATE INDEX approvals_of_automation ON approvals (org_id, automation_id, status, expires_at)
    WHERE status <> 'pending' AND counts <> '{}';
{sqlite} CREATE INDEX approvals_of_store ON approvals (org_id, integration_id, status, expires_at, id)
{postgres} CREATE INDEX approvals_of_store ON approvals (org_id, integration_id, status, expires_at)
    WHERE status <> 'pending' AND counts <> '{}';

-- Virtual time stamps (`vt`) that share workers fairly among organizations.
CREATE TABLE fairness_orgs (
    org_id {int} NOT NULL PRIMARY KEY REFERENCES dir_orgs,
    last_vt {int} NOT NULL
) {strict};

CREATE TABLE fairness_clock (
    singleton {int} NOT NULL PRIMARY KEY CHECK (singleton = 1),
    vt {int} NOT NULL
) {strict};
INSERT INTO fairness_clock (singleton, vt) VALUES (1, 0);

-- Rows that a periodic task failed with: how often, and until when they are deferred.
CREATE TABLE deferred_rows (
    task {text} NOT NULL,
    key {text} NOT NULL,
    failures {int} NOT NULL,
    not_before {ms} NOT NULL,
    message {text} NOT NULL,
    last_failed_at {ms} NOT NULL,
    PRIMARY KEY (task, key)
) {rowless};

-- `server_history`: the identifier and timeline of the PostgreSQL server that was served last. `restoring`: the progress
-- of `steward restored`.
CREATE TABLE service_stats (
    singleton {int} NOT NULL PRIMARY KEY CHECK (singleton = 1),
    minutes {json} NOT NULL,
    oldest_due_at {ms},
    written_at {ms} NOT NULL,
    server_history {text},
    restoring {json}
) {strict};

-- Notifications -------------------------------------------------------------------------------------

-- Facts that people are notified of, written in the transaction of the change that they report. `topic` is one of
-- model/notice.py; `facts` holds what a message says. `inbox_only`: it may have been sent before the database was restored.
CREATE TABLE notices (
    org_id {int} NOT NULL REFERENCES organizations,
    id {id} NOT NULL,
    topic {text} NOT NULL CHECK (length(topic) BETWEEN 1 AND 40),
    dedupe {text} NOT NULL CHECK (length(dedupe) BETWEEN 1 AND 160),
    automation_id {id},
    run_id {id},
    approval_id {id},
    integration_id {int},
    route_id {id},
    person_id {int},
    count {int} NOT NULL CHECK (count >= 1),
    facts {json} NOT NULL CHECK (length(facts) <= 2048),
    created_at {ms} NOT NULL,
    state {text} NOT NULL CHECK (state IN ('new', 'fanned_out', 'poison')),
    failures {int} NOT NULL DEFAULT 0 CHECK (failures BETWEEN 0 AND 5),
    not_before {ms} NOT NULL,
    inbox_only {bool} NOT NULL DEFAULT FALSE,
    PRIMARY KEY (org_id, id),
    UNIQUE (org_id, dedupe)
) {rowless};
CREATE INDEX notices_new ON notices (not_before, id) WHERE state = 'new';
CREATE INDEX notices_poison ON notices (org_id, id) WHERE state = 'poison';

-- A person's list in the web app: one unread row for each group, with a count.
CREATE TABLE inbox (
    org_id {int} NOT NULL REFERENCES organizations,
    person_id {int} NOT NULL REFERENCES people,
    id {id} NOT NULL,
    group_key {text} NOT NULL CHECK (length(group_key) BETWEEN 1 AND 160),
    topic {text} NOT NULL CHECK (length(topic) BETWEEN 1 AND 40),
    automation_id {id},
    run_id {id},
    approval_id {id},
    integration_id {int},
    route_id {id},
    count {int} NOT NULL CHECK (count >= 1),
    automations {int} NOT NULL DEFAULT 1 CHECK (automations >= 1),
    facts {json} NOT NULL CHECK (length(facts) <= 2048),
    first_at {ms} NOT NULL,
    last_at {ms} NOT NULL,
    read_at {ms},
    PRIMARY KEY (org_id, person_id, id)
) {rowless};
CREATE UNIQUE INDEX inbox_unread ON inbox (org_id, person_id, group_key) WHERE read_at IS NULL;
CREATE INDEX inbox_newest ON inbox (org_id, person_id, last_at, id);
CREATE INDEX inbox_unread_newest ON inbox (org_id, person_id, last_at, id) WHERE read_at IS NULL;
CREATE INDEX inbox_by_age ON inbox (last_at);

-- A message to one person (`person_id`) or one route (`route_id`) through a channel. The other column is 0 or empty instead
-- of NULL, because a unique index does not compare NULLs. `next_try_at`: when the next step of an unfinished message is due, by its
-- state: closing, delivery, or the end of the lease. `envelope` fixes what the message says, and so its bytes.
CREATE TABLE messages (
    org_id {int} NOT NULL REFERENCES organizations,
    id {id} NOT NULL,
    person_id {int} NOT NULL DEFAULT 0,
    route_id {id} NOT NULL DEFAULT '',
    channel {text} NOT NULL CHECK (channel IN ('email', 'push', 'teams', 'slack', 'webhook')),
    kind {text} NOT NULL CHECK (kind IN ('notices', 'digest', 'transactional', 'test')),
    state {text} NOT NULL CHECK (state IN ('collecting', 'due', 'sending', 'sent', 'refused', 'expired', 'obsolete')),
    created_at {ms} NOT NULL,
    due_at {ms} NOT NULL,
    next_try_at {ms},
    closed_at {ms},
    expires_at {ms},
    lease_until {ms},
    attempt {int} NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    count {int} NOT NULL DEFAULT 0 CHECK (count >= 0),
    envelope {json} CHECK (length(envelope) <= 8192),
    sealed {bytes},
    sealed_key {int},
    last_status {int},
    error {text} CHECK (length(error) <= 300),
    sent_at {ms},
    PRIMARY KEY (org_id, id),
    CHECK ((state IN ('collecting', 'due', 'sending')) = (next_try_at IS NOT NULL)),
    CHECK ((state = 'sending') = (lease_until IS NOT NULL)),
    CHECK ((state = 'sent') = (sent_at IS NOT NULL)),
    CHECK ((sealed IS NULL) = (sealed_key IS NULL)),
    CHECK ((person_id = 0) <> (route_id = ''))
) {rowless};
CREATE UNIQUE INDEX messages_open ON messages (org_id, person_id, route_id, channel, kind) WHERE state = 'collecting';
CREATE INDEX messages_to_close ON messages (next_try_at, id) WHERE state = 'collecting';
CREATE INDEX messages_due ON messages (channel, next_try_at, id) WHERE state IN ('due', 'sending');
CREATE INDEX messages_of_receiver ON messages (org_id, person_id, route_id, channel, closed_at);
CREATE INDEX messages_last_sent ON messages (channel, sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX messages_sent ON messages (org_id, channel, sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX messages_waiting ON messages (org_id, channel, due_at) WHERE state IN ('due', 'sending');

CREATE TABLE message_notices (
    org_id {int} NOT NULL,
    message_id {id} NOT NULL,
    notice_id {id} NOT NULL,
    PRIMARY KEY (org_id, message_id, notice_id),
    FOREIGN KEY (org_id, message_id) REFERENCES messages ON DELETE CASCADE
) {rowless};
CREATE INDEX message_notices_by_notice ON message_notices (org_id, notice_id);

-- `mail_refusals`: how many mails in a row the person's server refused permanently.
CREATE TABLE notification_preferences (
    org_id {int} NOT NULL REFERENCES organizations,
    person_id {int} NOT NULL REFERENCES people,
    preferences {json} NOT NULL,
    mail_refusals {int} NOT NULL DEFAULT 0 CHECK (mail_refusals >= 0),
    updated_at {ms} NOT NULL,
    PRIMARY KEY (org_id, person_id)
) {rowless};

-- Where notices go beside people. `url` and the signing secrets of a webhook are sealed; `old_secret` signs as well
-- until `old_secret_until`.
CREATE TABLE notification_routes (
    org_id {int} NOT NULL REFERENCES organizations,
    id {id} NOT NULL,
    name {text} NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
    channel {text} NOT NULL CHECK (channel IN ('teams', 'slack', 'webhook')),
    integration_id {int},
    target {text} CHECK (length(target) <= 80),
    url {bytes},
    secret {bytes},
    old_secret {bytes},
    old_secret_until {ms},
    key_no {int},
    topics {json} NOT NULL,
    automation_ids {json},
    integration_ids {json},
    state {text} NOT NULL CHECK (state IN ('ok', 'broken')),
    reason {text} CHECK (length(reason) <= 300),
    failures {int} NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failing_since {ms},
    broken_at {ms},
    last_accepted_at {ms},
    created_at {ms} NOT NULL,
    created_by {int},
    PRIMARY KEY (org_id, id),
    CHECK ((channel = 'webhook') = (url IS NOT NULL AND secret IS NOT NULL AND key_no IS NOT NULL)),
    CHECK ((channel = 'webhook') = (integration_id IS NULL)),
    CHECK ((old_secret IS NULL) = (old_secret_until IS NULL))
) {rowless};
CREATE INDEX notification_routes_broken ON notification_routes (org_id) WHERE state = 'broken';

-- After how many periods without a success people are told, and since when an automation is without one.
CREATE TABLE automation_watch (
    org_id {int} NOT NULL,
    automation_id {id} NOT NULL,
    quiet_after {int} CHECK (quiet_after BETWEEN 1 AND 50),
    quiet_since {ms},
    notified_at {ms},
    PRIMARY KEY (org_id, automation_id),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations
) {rowless};

-- Store events --------------------------------------------------------------------------------------

-- The automations that a canonical topic of a store starts; a row exists only while its automation is active.
CREATE TABLE automation_topics (
    org_id {int} NOT NULL REFERENCES organizations,
    integration_id {int} NOT NULL,
    topic {text} NOT NULL CHECK (length(topic) BETWEEN 1 AND 80),
    automation_id {id} NOT NULL,
    PRIMARY KEY (org_id, integration_id, topic, automation_id),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations
) {rowless};
CREATE INDEX automation_topics_of ON automation_topics (org_id, automation_id);

-- A store that sends events: when its subscriptions are checked next. `topics_revision` counts changes of the topics
-- that its automations need.
CREATE TABLE listeners (
    org_id {int} NOT NULL REFERENCES organizations,
    integration_id {int} NOT NULL,
    next_at {ms} NOT NULL,
    checked_at {ms},
    topics_revision {int} NOT NULL DEFAULT 0,
    tries {int} NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, integration_id),
    FOREIGN KEY (org_id, integration_id) REFERENCES connections
) {rowless};
CREATE INDEX listeners_due ON listeners (next_at);

-- A subscription at the store, by its native topic; several canonical topics may share one.
CREATE TABLE subscriptions (
    org_id {int} NOT NULL,
    integration_id {int} NOT NULL,
    topic {text} NOT NULL CHECK (length(topic) BETWEEN 1 AND 80),
    state {text} NOT NULL CHECK (state IN ('requested', 'active', 'failed')),
    remote_id {text},
    reason {text} CHECK (length(reason) <= 300),
    unused_since {ms},
    repairs {int} NOT NULL DEFAULT 0,
    repairs_since {ms},
    PRIMARY KEY (org_id, integration_id, topic),
    FOREIGN KEY (org_id, integration_id) REFERENCES listeners
) {rowless};

-- Whether the store delivers a canonical topic, as shown with the automations it starts. Objects modified before
-- `active_since` start no run.
CREATE TABLE topic_deliveries (
    org_id {int} NOT NULL,
    integration_id {int} NOT NULL,
    topic {text} NOT NULL CHECK (length(topic) BETWEEN 1 AND 80),
    state {text} NOT NULL CHECK (state IN ('pending', 'active', 'failed')),
    reason {text} CHECK (length(reason) <= 300),
    active_since {ms},
    PRIMARY KEY (org_id, integration_id, topic),
    FOREIGN KEY (org_id, integration_id) REFERENCES listeners
) {rowless};

-- Catch-up of one type of object of a store: since when, up to which instant, and the initial fill.
CREATE TABLE catch_ups (
    org_id {int} NOT NULL,
    integration_id {int} NOT NULL,
    object_type {text} NOT NULL CHECK (length(object_type) BETWEEN 1 AND 40),
    since {ms} NOT NULL,
    fill {text} NOT NULL CHECK (fill IN ('none', 'pending', 'done')),
    read_until {ms} NOT NULL,
    ids_compared_at {ms} NOT NULL,
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
) {strict} {by_month:event_id};

-- The last state of an object, from which topics are derived; `delivered` holds, for each topic, the modified time up
-- to which it was delivered.
CREATE TABLE last_seen (
    org_id {int} NOT NULL REFERENCES organizations,
    integration_id {int} NOT NULL,
    object_type {text} NOT NULL,
    object_id {text} NOT NULL,
    fields {json} NOT NULL CHECK (length(fields) <= 2048),
    modified_at {ms},
    seen_at {ms} NOT NULL,
    delivered {json} NOT NULL DEFAULT '{}',
    PRIMARY KEY (org_id, integration_id, object_type, object_id)
) {rowless};

-- Recent changes of an automation: their echo starts no run of the same automation. `set_modified_at`: whether the
-- write itself set the object's modified time.
CREATE TABLE own_changes (
    org_id {int} NOT NULL REFERENCES organizations,
    integration_id {int} NOT NULL,
    object_type {text} NOT NULL,
    object_id {text} NOT NULL,
    automation_id {id} NOT NULL,
    run_id {id} NOT NULL,
    applied_at {ms} NOT NULL,
    modified_at {ms},
    set_modified_at {bool} NOT NULL,
    by_event {bool} NOT NULL,
    PRIMARY KEY (org_id, integration_id, object_type, object_id, automation_id, run_id)
) {rowless};
CREATE INDEX own_changes_by_age ON own_changes (applied_at);

-- Imports -------------------------------------------------------------------------------------------

CREATE TABLE imports (
    org_id {int} NOT NULL REFERENCES organizations,
    id {id} NOT NULL,
    source {text} NOT NULL CHECK (source IN ('workflow_tool', 'store_flow')),
    name {text} NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    sha256 {text} NOT NULL CHECK (length(sha256) = 64),
    bytes {int} NOT NULL CHECK (bytes >= 0),
    supported {int} NOT NULL CHECK (supported IN (0, 1)),
    content {bytes} NOT NULL,
    content_key {int} NOT NULL,
    plan {bytes} NOT NULL,
    report {text} NOT NULL,
    created_at {ms} NOT NULL,
    created_by {int},
    created_via {text},
    api_client_id {text},
    PRIMARY KEY (org_id, id),
    UNIQUE (org_id, source, sha256)
) {strict};
CREATE INDEX imports_newest ON imports (org_id, created_at, id);

-- A run reads the plan of its own version; after set-up only the bindings of its steps change.
CREATE TABLE plans (
    org_id {int} NOT NULL REFERENCES organizations,
    automation_id {id} NOT NULL,
    plan_version {int} NOT NULL CHECK (plan_version >= 1),
    plan {bytes} NOT NULL,
    sha256 {text} NOT NULL CHECK (length(sha256) = 64),
    created_at {ms} NOT NULL,
    PRIMARY KEY (org_id, automation_id, plan_version),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations
) {strict};
