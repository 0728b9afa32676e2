-- What SQLite alone has: the append-only guards.

CREATE TRIGGER audit_log_kept BEFORE UPDATE ON audit_log BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
CREATE TRIGGER audit_log_stays BEFORE DELETE ON audit_log BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
CREATE TRIGGER steps_kept BEFORE UPDATE ON steps BEGIN
    SELECT RAISE(ABORT, 'steps is append-only');
END;

-- What the planner is told about sizes, once and for all: without it SQLite takes every table for small and
-- walks an organisation's whole history where a narrow index is at hand. The figures are a busy service's.
-- Each: rows, then rows that share the first column, the first two, and so on.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('runs', 'runs', '1000000 100000 1'),
    ('runs', 'runs_ready', '1000 2 1'),
    ('runs', 'runs_leased', '50 20'),
    ('runs', 'runs_waiting', '2000 200 10 1 1'),
    ('runs', 'runs_sleeping', '1000 2'),
    ('runs', 'runs_parked', '1000 2'),
    ('runs', 'runs_unstarted', '1000 2'),
    ('runs', 'runs_one_live', '2000 200 1'),
    ('runs', 'runs_one_a_slot', '1000000 100000 1000 1'),
    ('runs', 'runs_by_age', '1000000 100000 2 1'),
    ('runs', 'runs_of_automation', '1000000 100000 1000 2 1'),
    ('run_facts', 'run_facts', '1000000 100000 1'),
    ('run_facts', 'run_facts_one_an_event', '100000 10000 1000 1'),
    ('steps', 'steps', '5000000 500000 5 1'),
    ('lanes', 'lanes', '1000 100 1'),
    ('automations', 'automations', '1000 100 1'),
    ('automations', 'automations_by_age', '1000 100 2 1'),
    ('automations', 'automations_by_name', '1000 100 2 1'),
    ('automations', 'automations_by_store', '1000 100 50'),
    ('schedules', 'schedules', '1000 100 1'),
    ('schedules', 'schedules_due', '1000 2 1'),
    ('schedules', 'schedules_next', '1000 100 2 1'),
    ('schedules', 'schedules_audited', '1000 2 1'),
    ('occurrences', 'occurrences', '1000000 100000 1000 1'),
    ('occurrences', 'occurrences_by_time', '1000000 100000 2'),
    ('occurrences', 'occurrences_of_automation', '1000000 100000 1000 2'),
    ('occurrences', 'occurrences_pending', '1000 100 5 1');
