-- SQLite takes no constraint away: approvals are made anew, the same but for the reference to their run.

ALTER TABLE approvals RENAME TO approvals_before;
CREATE TABLE approvals (
    org_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    automation_id TEXT NOT NULL,
    integration_id INTEGER,
    round INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('changes', 'sends')),
    version INTEGER NOT NULL CHECK (version >= 1),
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'partly_approved', 'rejected', 'expired',
        'superseded', 'cancelled')),
    change_hash TEXT NOT NULL CHECK (length(change_hash) = 64),
    counts TEXT NOT NULL,
    warnings TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    decided_at INTEGER,
    decided_by INTEGER,
    session_hash TEXT,
    comment TEXT CHECK (length(comment) <= 500),
    excepted TEXT,
    PRIMARY KEY (org_id, id),
    UNIQUE (org_id, run_id, round),
    CHECK ((status IN ('approved', 'partly_approved', 'rejected')) = (decided_by IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO approvals SELECT * FROM approvals_before;
DROP TABLE approvals_before;
CREATE UNIQUE INDEX approvals_one_pending ON approvals (org_id, run_id) WHERE status = 'pending';
CREATE INDEX approvals_ending ON approvals (expires_at, id) WHERE status = 'pending';
CREATE INDEX approvals_by_end ON approvals (org_id, expires_at, id);
