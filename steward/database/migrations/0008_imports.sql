-- Imports kept, and the plans of automations made from them (engine 3.4, imports 9).

CREATE TABLE imports (
    org_id {int} NOT NULL REFERENCES organizations,
    id {id} NOT NULL,
    source {text} NOT NULL CHECK (source IN ('workflow_tool', 'store_flow')),
    name {text} NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    sha256 {text} NOT NULL CHECK (length(sha256) = 64),
    bytes {int} NOT NULL CHECK (bytes >= 0),
    supported {int} NOT NULL CHECK (supported IN (0, 1)),
    content {bytes} NOT NULL,
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

-- A run reads the plan of its own version; steps never change after set-up, only what they are bound to.
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
