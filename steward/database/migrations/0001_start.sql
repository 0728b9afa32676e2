-- The first release's tables. One text for both engines; {macros} are spelled by store/migrate.py:
-- {id} ULID text, {int} 64-bit, {ms} instant, {json} JSON text, {bool}, {bytes}, {serial} a sequence's key,
-- {rowless} ends a table kept in the order of its key.

-- Directory: looked up before the organisation is known -------------------------------------------------

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
    created_at {ms} NOT NULL
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
    kind {text} NOT NULL CHECK (kind IN ('client', 'address', 'email', 'sign_in_address')),
    key_hash {text} NOT NULL,
    attempts {json} NOT NULL,
    PRIMARY KEY (kind, key_hash)
) {rowless};

CREATE TABLE service_keys (
    key_id {text} PRIMARY KEY,
    kind {text} NOT NULL CHECK (kind IN ('signing', 'pepper', 'cursor')),
    wrapped {bytes} NOT NULL,
    public {json},
    created_at {ms} NOT NULL,
    retires_at {ms}
) {strict};

-- Accounts -----------------------------------------------------------------------------------------------

CREATE TABLE organizations (
    org_id {int} NOT NULL PRIMARY KEY REFERENCES dir_orgs,
    name {text} NOT NULL,
    zone {text} NOT NULL,
    automations_on {bool} NOT NULL,
    send_without_approval {bool} NOT NULL,
    created_at {ms} NOT NULL
) {strict};

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
    PRIMARY KEY (org_id, person_id)
) {rowless};
CREATE INDEX members_by_email ON members (org_id, email_norm);
CREATE INDEX members_by_person ON members (person_id);

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
    at {ms} NOT NULL,
    actor_kind {text} NOT NULL CHECK (actor_kind IN ('person', 'credential', 'service', 'operator')),
    actor {text},
    action {text} NOT NULL CHECK (length(action) <= 60),
    object_kind {text},
    object_id {text},
    detail {json} NOT NULL CHECK (length(detail) <= 4096),
    PRIMARY KEY (org_id, id)
) {rowless};

CREATE TABLE idem_keys (
    org_id {int} NOT NULL REFERENCES organizations,
    kind {text} NOT NULL CHECK (kind IN ('run', 'automation')),
    key {text} NOT NULL,
    automation_id {id},
    object_id {id} NOT NULL,
    request_sha256 {text} NOT NULL CHECK (length(request_sha256) = 64),
    created_at {ms} NOT NULL,
    PRIMARY KEY (org_id, kind, key)
) {rowless};

-- Connections --------------------------------------------------------------------------------------------

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
    PRIMARY KEY (org_id, integration_id),
    UNIQUE (org_id, kind, subject)
) {rowless};

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

-- Automations and the calendar ---------------------------------------------------------------------------

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
    PRIMARY KEY (org_id, id),
    CHECK ((state = 'paused') = (paused_by IS NOT NULL)),
    CHECK ((kind = 'workflow') = (plan_version IS NOT NULL))
) {rowless};
CREATE INDEX automations_by_age ON automations (org_id, created_at, id);
CREATE INDEX automations_by_name ON automations (org_id, name_folded, id);
CREATE INDEX automations_by_store ON automations (org_id, integration_id);

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

CREATE TABLE schedules (
    org_id {int} NOT NULL,
    automation_id {id} NOT NULL,
    next_run_at {ms},
    next_slot_at {ms},
    slots_after {ms} NOT NULL,
    last_run_at {ms},
    consecutive_failures {int} NOT NULL CHECK (consecutive_failures >= 0),
    audited_until {ms} NOT NULL,
    PRIMARY KEY (org_id, automation_id),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations
) {rowless};
CREATE INDEX schedules_due ON schedules (next_run_at, automation_id) WHERE next_run_at IS NOT NULL;
CREATE INDEX schedules_next ON schedules (org_id, next_run_at, automation_id);
CREATE INDEX schedules_audited ON schedules (audited_until, automation_id);

-- The zone package slots were worked out with, and since when.
CREATE TABLE zone_package (
    one {int} NOT NULL PRIMARY KEY CHECK (one = 1),
    version {text} NOT NULL,
    since {ms} NOT NULL
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

CREATE TABLE occurrences (
    org_id {int} NOT NULL,
    automation_id {id} NOT NULL,
    slot_at {ms} NOT NULL,
    run_at {ms} NOT NULL,
    local_key {text} NOT NULL CHECK (length(local_key) <= 24),
    state {text} NOT NULL CHECK (state IN ('pending', 'queued', 'skipped')),
    reason {text} CHECK (reason IN ('skipped_previous_running', 'skipped_waiting_approval', 'skipped_too_late',
        'by_merchant')),
    run_id {id},
    moved_from {ms},
    version {int} NOT NULL CHECK (version >= 0),
    by_auditor {bool} NOT NULL,
    kept {bool} NOT NULL,
    updated_at {ms} NOT NULL,
    PRIMARY KEY (org_id, automation_id, slot_at),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations,
    CHECK ((state = 'queued') = (run_id IS NOT NULL)),
    CHECK ((state = 'skipped') = (reason IS NOT NULL))
) {rowless};
CREATE INDEX occurrences_by_time ON occurrences (org_id, run_at);
CREATE INDEX occurrences_of_automation ON occurrences (org_id, automation_id, run_at);
CREATE INDEX occurrences_pending ON occurrences (org_id, automation_id, run_at) WHERE state = 'pending';

-- Runs -----------------------------------------------------------------------------------------------------

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

CREATE TABLE runs (
    org_id {int} NOT NULL REFERENCES organizations,
    id {id} NOT NULL,
    automation_id {id} NOT NULL,
    mode {text} NOT NULL CHECK (mode IN ('live', 'test')),
    status {text} NOT NULL CHECK (status IN ('queued', 'running', 'waiting_approval', 'succeeded', 'failed',
        'refused', 'cancelled', 'expired')),
    queue {text} NOT NULL CHECK (queue IN ('blocked', 'ready', 'leased', 'sleeping', 'parked', 'done')),
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
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations,
    CHECK ((finished_at IS NULL) = (status IN ('queued', 'running', 'waiting_approval'))),
    CHECK ((queue = 'done') = (finished_at IS NOT NULL)),
    CHECK ((queue = 'leased') = (worker_id IS NOT NULL)),
    CHECK ((status = 'waiting_approval') = (queue = 'parked')),
    CHECK (status = 'queued' OR queue <> 'blocked'),
    CHECK ((queue = 'sleeping') = (wake_at IS NOT NULL))
) {rowless};
CREATE INDEX runs_ready ON runs (vt, id) WHERE queue = 'ready';
CREATE INDEX runs_leased ON runs (worker_id) WHERE queue = 'leased';
CREATE INDEX runs_waiting ON runs (org_id, automation_id, queued_at, id)
    WHERE status IN ('queued', 'waiting_approval');
CREATE INDEX runs_sleeping ON runs (wake_at) WHERE queue = 'sleeping';
CREATE INDEX runs_parked ON runs (expires_at) WHERE queue = 'parked';
CREATE INDEX runs_unstarted ON runs (queued_at) WHERE status = 'queued' AND started_at IS NULL;
CREATE UNIQUE INDEX runs_one_live ON runs (org_id, automation_id)
    WHERE mode = 'live' AND queue IN ('ready', 'leased', 'sleeping', 'parked');
CREATE UNIQUE INDEX runs_one_a_slot ON runs (org_id, automation_id, slot_at) WHERE slot_at IS NOT NULL;
CREATE INDEX runs_by_age ON runs (org_id, queued_at, id);
CREATE INDEX runs_of_automation ON runs (org_id, automation_id, queued_at, id);

CREATE TABLE run_facts (
    org_id {int} NOT NULL,
    run_id {id} NOT NULL,
    automation_id {id} NOT NULL,
    automation_name {text} NOT NULL,
    automation_version {int} NOT NULL,
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
    PRIMARY KEY (org_id, run_id),
    FOREIGN KEY (org_id, run_id) REFERENCES runs
) {rowless};
CREATE UNIQUE INDEX run_facts_one_an_event ON run_facts (org_id, automation_id, event_id)
    WHERE event_id IS NOT NULL;

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
    PRIMARY KEY (org_id, run_id, seq),
    FOREIGN KEY (org_id, run_id) REFERENCES runs
) {rowless};

CREATE TABLE step_values (
    org_id {int} NOT NULL,
    run_id {id} NOT NULL,
    name {text} NOT NULL,
    iteration {text} NOT NULL,
    seq {int} NOT NULL,
    output {bytes} NOT NULL,
    unknown_paths {json},
    state {text} NOT NULL CHECK (state IN ('done', 'held', 'skipped', 'failed')),
    PRIMARY KEY (org_id, run_id, name, iteration),
    FOREIGN KEY (org_id, run_id) REFERENCES runs
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
    PRIMARY KEY (org_id, run_id, id),
    UNIQUE (org_id, run_id, name, iteration, position),
    FOREIGN KEY (org_id, run_id) REFERENCES runs
) {rowless};
CREATE INDEX changes_in_order ON changes (org_id, run_id, seq, position);

CREATE TABLE effects (
    org_id {int} NOT NULL,
    effect_key {text} NOT NULL CHECK (length(effect_key) = 36),
    run_id {id} NOT NULL,
    change_id {id} NOT NULL,
    part {int} NOT NULL CHECK (part >= 1),
    batch_key {text},
    integration_id {int},
    class {text} NOT NULL CHECK (class IN ('keyed', 'readable', 'marked', 'blind')),
    state {text} NOT NULL CHECK (state IN ('intent', 'done', 'refused', 'conflict', 'unknown', 'not_sent')),
    epoch {int} NOT NULL,
    attempt {int} NOT NULL CHECK (attempt BETWEEN 1 AND 5),
    request_sha256 {text} NOT NULL CHECK (length(request_sha256) = 64),
    intent_at {ms} NOT NULL,
    call_deadline_at {ms} NOT NULL,
    settle_after {ms} NOT NULL,
    settled_at {ms},
    settled_by {text} CHECK (settled_by IN ('call', 'read_back', 'marker', 'person')),
    message {text},
    remote_ref {text} CHECK (length(remote_ref) <= 200),
    PRIMARY KEY (org_id, effect_key),
    UNIQUE (org_id, change_id, part),
    FOREIGN KEY (org_id, run_id) REFERENCES runs
) {rowless};
CREATE INDEX effects_open ON effects (org_id, run_id) WHERE state IN ('intent', 'unknown');
CREATE INDEX effects_of_batch ON effects (org_id, run_id, batch_key);
CREATE INDEX effects_to_settle ON effects (settle_after) WHERE state IN ('intent', 'unknown');

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
    created_at {ms} NOT NULL,
    expires_at {ms} NOT NULL,
    decided_at {ms},
    decided_by {int},
    session_hash {text},
    comment {text} CHECK (length(comment) <= 500),
    excepted {json},
    PRIMARY KEY (org_id, id),
    UNIQUE (org_id, run_id, round),
    FOREIGN KEY (org_id, run_id) REFERENCES runs,
    CHECK ((status IN ('approved', 'partly_approved', 'rejected')) = (decided_by IS NOT NULL))
) {rowless};
CREATE UNIQUE INDEX approvals_one_pending ON approvals (org_id, run_id) WHERE status = 'pending';
CREATE INDEX approvals_ending ON approvals (expires_at, id) WHERE status = 'pending';
CREATE INDEX approvals_by_end ON approvals (org_id, expires_at, id);

CREATE TABLE lanes (
    org_id {int} NOT NULL,
    automation_id {id} NOT NULL,
    holder_run_id {id},
    dropped {int} NOT NULL CHECK (dropped >= 0),
    dropped_at {ms},
    PRIMARY KEY (org_id, automation_id),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations
) {rowless};

CREATE TABLE fair_orgs (
    org_id {int} NOT NULL PRIMARY KEY REFERENCES dir_orgs,
    last_vt {int} NOT NULL
) {strict};

CREATE TABLE fair_clock (
    one {int} NOT NULL PRIMARY KEY CHECK (one = 1),
    vt {int} NOT NULL
) {strict};
INSERT INTO fair_clock (one, vt) VALUES (1, 0);

CREATE TABLE tick_failures (
    tick {text} NOT NULL,
    key {text} NOT NULL,
    failures {int} NOT NULL,
    not_before {ms} NOT NULL,
    message {text} NOT NULL,
    last_at {ms} NOT NULL,
    PRIMARY KEY (tick, key)
) {rowless};

CREATE TABLE service_stats (
    one {int} NOT NULL PRIMARY KEY CHECK (one = 1),
    minutes {json} NOT NULL,
    oldest_due_at {ms},
    written_at {ms} NOT NULL
) {strict};
