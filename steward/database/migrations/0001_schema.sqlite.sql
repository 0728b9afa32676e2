-- What SQLite alone has: append-only guards and the planner's statistics.

CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
-- Retention removes `output` and `state`; nothing else of a step changes.
CREATE TRIGGER steps_no_update BEFORE UPDATE OF org_id, run_id, seq, name, iteration, attempt, status, finished_at,
    changes_total, wire ON steps BEGIN
    SELECT RAISE(ABORT, 'steps is append-only');
END;

-- Fixed statistics of a busy service. Without them SQLite takes every table for small and walks an organization's
-- whole history where a narrow index is at hand, or for a filter of joined rows. Each text: rows, then rows that share the first column of the
-- index, the first two, and so on. Automations are many, or a calendar reads all of them into a filter for its join.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('approvals', 'approvals', '200000 20000 1'),
    ('approvals', 'approvals_by_status', '200000 20000 4000 2 1'),
    ('approvals', 'approvals_of_automation', '200000 20000 200 50 2 1'),
    ('approvals', 'approvals_of_store', '200000 20000 2000 500 2 1'),
    ('approvals', 'approvals_of_round', '200000 20000 1 1'),
    ('approvals', 'approvals_pending', '2000 200 1'),
    ('approvals', 'approvals_to_warn', '2000 2'),
    ('automations', 'automations', '100000 100 1'),
    ('automations', 'automations_by_age', '100000 100 4 2 1'),
    ('automations', 'automations_by_name', '100000 100 4 2 1'),
    ('automations', 'automations_by_platform', '100000 100 50'),
    ('automations', 'automations_by_store', '100000 100 50'),
    ('automations', 'automations_by_template', '100000 100 20'),
    ('automations', 'automations_by_update', '100000 100 2'),
    ('automations', 'automations_with_connections', '100 10'),
    ('closed_periods', 'closed_periods', '20000 200 2 1'),
    ('closed_periods', 'closed_periods_by_scope', '20000 200 100 2'),
    ('closed_periods', 'closed_periods_ended', '19000 190 1'),
    ('closed_periods', 'closed_periods_frozen', '10 1 1 1'),
    ('closed_periods', 'closed_periods_of_holidays', '1000 20 1'),
    ('closed_periods', 'closed_periods_valid', '1000 20 1'),
    ('connections', 'connections', '1000 100 1'),
    ('connections', 'connections_broken', '10 2 1'),
    ('connections', 'connections_by_kind', '1000 100 50 1'),
    ('connections', 'connections_of_stores', '100 20 1'),
    ('connections', 'sqlite_autoindex_connections_2', '1000 100 50 1'),
    ('dir_orgs', 'sqlite_autoindex_dir_orgs_1', '10 1'),
    ('inbox', 'inbox', '100000 10000 500 1'),
    ('inbox', 'inbox_by_age', '100000 2'),
    ('inbox', 'inbox_newest', '100000 10000 500 2 1'),
    ('inbox', 'inbox_unread', '10000 1000 50 1'),
    ('inbox', 'inbox_unread_newest', '10000 1000 50 2 1'),
    ('messages', 'messages', '100000 10000 1'),
    ('messages', 'messages_due', '1000 300 2 1'),
    ('messages', 'messages_of_receiver', '100000 10000 200 200 100 1'),
    ('messages', 'messages_open', '1000 100 2 2 1 1'),
    ('messages', 'messages_to_close', '1000 2 1'),
    ('messages', 'messages_last_sent', '90000 30000 2'),
    ('messages', 'messages_sent', '90000 9000 3000 2'),
    ('messages', 'messages_waiting', '1000 100 50 2'),
    ('notices', 'notices', '100000 10000 1'),
    ('notices', 'notices_new', '1000 2 1'),
    ('notices', 'notices_poison', '10 2 1'),
    ('notices', 'sqlite_autoindex_notices_2', '100000 10000 1'),
    ('occurrences', 'occurrences', '1000000 100000 1000 1'),
    ('occurrences', 'occurrences_by_time', '1000000 100000 2'),
    ('occurrences', 'occurrences_moved', '1000 100 5 1'),
    ('occurrences', 'occurrences_not_queued', '10000 1000 2'),
    ('occurrences', 'occurrences_pending', '1000 100 5 1'),
    ('run_files', 'run_files_by_age', '1000 500 2'),
    ('run_files', 'sqlite_autoindex_run_files_1', '1000 100 2 1'),
    ('runs', 'runs', '1000000 100000 1'),
    ('runs', 'runs_by_age', '1000000 100000 2 1'),
    ('runs', 'runs_by_kind', '1000000 100000 10000 2 1'),
    ('runs', 'runs_leased', '50 20'),
    ('runs', 'runs_of_automation', '1000000 100000 1000 100 2 1'),
    ('runs', 'runs_of_store', '1000000 100000 20000 2000 2 1'),
    ('runs', 'runs_of_slot', '1000000 100000 1000 1'),
    ('runs', 'runs_of_event', '100000 10000 1000 1'),
    ('runs', 'runs_active', '2000 200 1'),
    ('runs', 'runs_parked', '1000 2'),
    ('runs', 'runs_queued', '2000 200 10 1 1'),
    ('runs', 'runs_ready', '1000 2 1'),
    ('runs', 'runs_sleeping', '1000 2'),
    ('schedules', 'schedules', '1000 100 1'),
    ('schedules', 'schedules_audited', '1000 2 1'),
    ('schedules', 'schedules_due', '1000 2 1'),
    ('schedules', 'schedules_failing', '10 2 2 1'),
    ('schedules', 'schedules_next', '1000 100 2 1'),
    ('schedules', 'schedules_next_run', '1000 100 2 1'),
    ('search_terms', 'search_terms', '5000000 500000 100 1'),
    ('search_terms', 'search_terms_of_run', '5000000 500000 20 1'),
    ('step_values', 'sqlite_autoindex_step_values_1', '50000 5000 5 1 1'),
    ('steps', 'sqlite_autoindex_steps_1', '5000000 500000 5 1');
