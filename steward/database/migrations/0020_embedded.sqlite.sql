-- Rows of steps are as long as six to a page: kept in the order of runs, each new one split pages between those of
-- other runs. In the order they are written only their narrow key is put among others. A step's output lies in its
-- row when it is short, and is removed there as the others are in step_values.
ALTER TABLE steps RENAME TO steps_before;
DROP TRIGGER steps_kept;
CREATE TABLE steps (
    org_id INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL CHECK (seq >= 1),
    name TEXT NOT NULL CHECK (length(name) <= 120),
    iteration TEXT NOT NULL CHECK (length(iteration) <= 120),
    attempt INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('succeeded', 'failed', 'skipped', 'refused', 'held')),
    finished_at INTEGER NOT NULL,
    changes_total INTEGER NOT NULL,
    wire TEXT NOT NULL,
    output BLOB,
    state TEXT CHECK (state IN ('done', 'held', 'skipped', 'failed')),
    PRIMARY KEY (org_id, run_id, seq),
    FOREIGN KEY (org_id, run_id) REFERENCES runs,
    CHECK ((output IS NULL) = (state IS NULL))
) STRICT;
INSERT INTO steps (org_id, run_id, seq, name, iteration, attempt, status, finished_at, changes_total, wire)
    SELECT org_id, run_id, seq, name, iteration, attempt, status, finished_at, changes_total, wire
    FROM steps_before;
DROP TABLE steps_before;
CREATE TRIGGER steps_kept BEFORE UPDATE OF org_id, run_id, seq, name, iteration, attempt, status, finished_at,
    changes_total, wire ON steps BEGIN
    SELECT RAISE(ABORT, 'steps is append-only');
END;

-- An automation is never deleted, and whoever writes a lane or a slot has read it: no look-up for each of them. An
-- automation's few slots are found by their key.
ALTER TABLE lanes RENAME TO lanes_before;
CREATE TABLE lanes (
    org_id INTEGER NOT NULL,
    automation_id TEXT NOT NULL,
    holder_run_id TEXT,
    dropped INTEGER NOT NULL CHECK (dropped >= 0),
    dropped_at INTEGER,
    PRIMARY KEY (org_id, automation_id)
) STRICT, WITHOUT ROWID;
INSERT INTO lanes SELECT org_id, automation_id, holder_run_id, dropped, dropped_at FROM lanes_before;
DROP TABLE lanes_before;

ALTER TABLE occurrences RENAME TO occurrences_before;
CREATE TABLE occurrences (
    org_id INTEGER NOT NULL,
    automation_id TEXT NOT NULL,
    slot_at INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    local_key TEXT NOT NULL CHECK (length(local_key) <= 24),
    state TEXT NOT NULL,
    reason TEXT,
    run_id TEXT,
    moved_from INTEGER,
    version INTEGER NOT NULL CHECK (version >= 0),
    by_auditor INTEGER NOT NULL,
    kept INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, automation_id, slot_at),
    CHECK (CASE state
        WHEN 'queued' THEN run_id IS NOT NULL AND reason IS NULL
        WHEN 'pending' THEN run_id IS NULL AND reason IS NULL
        WHEN 'skipped' THEN run_id IS NULL AND reason IS NOT NULL AND reason IN ('skipped_previous_running',
            'skipped_waiting_approval', 'skipped_too_late', 'by_merchant')
        ELSE 0 END)
) STRICT, WITHOUT ROWID;
INSERT INTO occurrences SELECT org_id, automation_id, slot_at, run_at, local_key, state, reason, run_id, moved_from,
    version, by_auditor, kept, updated_at FROM occurrences_before;
DROP TABLE occurrences_before;
CREATE INDEX occurrences_by_time ON occurrences (org_id, run_at);
CREATE INDEX occurrences_pending ON occurrences (org_id, automation_id, run_at) WHERE state = 'pending';

-- What a slot and a run may be is asked by cases, of which the commonest is the first: the same rules, a third of
-- the comparisons. Nothing of this lies in the rows of runs, so SQLite is only told anew what they are; and that
-- their organisation is there is said by their automation.
CREATE TABLE runs_anew (
    org_id INTEGER NOT NULL,
    id TEXT NOT NULL,
    automation_id TEXT NOT NULL,
    mode TEXT NOT NULL CHECK (mode IN ('live', 'test')),
    status TEXT NOT NULL,
    queue TEXT NOT NULL,
    vt INTEGER NOT NULL,
    worker_id INTEGER,
    epoch INTEGER NOT NULL CHECK (epoch >= 0),
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    wake_at INTEGER,
    last_seq INTEGER NOT NULL CHECK (last_seq >= 0),
    plan_version INTEGER,
    slot_at INTEGER,
    approval_id TEXT,
    cancel_at INTEGER,
    cancel_code TEXT,
    leased_ms INTEGER NOT NULL,
    queued_at INTEGER NOT NULL,
    started_at INTEGER,
    waiting_since INTEGER,
    expires_at INTEGER,
    finished_at INTEGER,
    PRIMARY KEY (org_id, id),
    FOREIGN KEY (org_id, automation_id) REFERENCES automations,
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
        ELSE 0 END)
) STRICT, WITHOUT ROWID;
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = (SELECT replace(sql, 'runs_anew', 'runs') FROM sqlite_schema WHERE name = 'runs_anew')
    WHERE type = 'table' AND name = 'runs';
PRAGMA writable_schema = RESET;
DROP TABLE runs_anew;

DELETE FROM sqlite_stat1 WHERE tbl IN ('steps', 'lanes', 'occurrences');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('steps', 'sqlite_autoindex_steps_1', '5000000 500000 5 1'),
    ('lanes', 'lanes', '1000 100 1'),
    ('occurrences', 'occurrences', '1000000 100000 1000 1'),
    ('occurrences', 'occurrences_by_time', '1000000 100000 2'),
    ('occurrences', 'occurrences_pending', '1000 100 5 1');
