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
    state TEXT NOT NULL CHECK (state IN ('pending', 'queued', 'skipped')),
    reason TEXT CHECK (reason IN ('skipped_previous_running', 'skipped_waiting_approval', 'skipped_too_late',
        'by_merchant')),
    run_id TEXT,
    moved_from INTEGER,
    version INTEGER NOT NULL CHECK (version >= 0),
    by_auditor INTEGER NOT NULL,
    kept INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, automation_id, slot_at),
    CHECK ((state = 'queued') = (run_id IS NOT NULL)),
    CHECK ((state = 'skipped') = (reason IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO occurrences SELECT org_id, automation_id, slot_at, run_at, local_key, state, reason, run_id, moved_from,
    version, by_auditor, kept, updated_at FROM occurrences_before;
DROP TABLE occurrences_before;
CREATE INDEX occurrences_by_time ON occurrences (org_id, run_at);
CREATE INDEX occurrences_pending ON occurrences (org_id, automation_id, run_at) WHERE state = 'pending';

DELETE FROM sqlite_stat1 WHERE tbl IN ('steps', 'lanes', 'occurrences');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('steps', 'sqlite_autoindex_steps_1', '5000000 500000 5 1'),
    ('lanes', 'lanes', '1000 100 1'),
    ('occurrences', 'occurrences', '1000000 100000 1000 1'),
    ('occurrences', 'occurrences_by_time', '1000000 100000 2'),
    ('occurrences', 'occurrences_pending', '1000 100 5 1');
