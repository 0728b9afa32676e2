-- What PostgreSQL alone has: row-level security, partitions, append-only guards and the rights of the two roles.

-- Counts calls in a window of one minute; lost with a crash of the server, which nobody misses.
CREATE UNLOGGED TABLE rate_windows (
    kind text NOT NULL CHECK (kind IN ('person', 'org', 'web')),
    org_id bigint NOT NULL,
    key bigint NOT NULL,
    minute bigint NOT NULL,
    used bigint NOT NULL,
    PRIMARY KEY (kind, org_id, key, minute)
);

ALTER TABLE schedules SET (fillfactor = 70);

-- Rows of the queue change many times in their short life. The server's defaults let a fifth of a table die first.
DO $$
DECLARE
    busy text;
BEGIN
    FOREACH busy IN ARRAY ARRAY['runs', 'schedules', 'events', 'listeners']
    LOOP
        EXECUTE format('ALTER TABLE %I SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,'
            ' autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.02,'
            ' toast.autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_threshold = 1000,'
            ' toast.autovacuum_vacuum_cost_delay = 0)', busy);
    END LOOP;
END $$;

-- Old months are dropped instead of deleted row by row. The default partition takes rows of months that were not
-- created in time. Their tables have no foreign key to `runs`: rows are written under the run's row lock alone, and
-- dropping a referencing partition would lock `runs`.
DO $$
DECLARE
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['audit_log', 'changes', 'event_bodies', 'step_values', 'steps']
    LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', parent || '_default', parent);
        PERFORM steward_protect_partition(parent || '_default');
        EXECUTE format('CREATE POLICY all_tenants ON %I TO steward_queue USING (true)', parent || '_default');
        EXECUTE format('GRANT SELECT (org_id) ON %I TO steward_queue', parent || '_default');
    END LOOP;
END $$;
SELECT steward_create_partitions(steward_now(), 3);

-- The list of organizations is read once a statement, not once a row, and `IS TRUE` keeps it from taking part in the
-- choice of an index.
DO $$
DECLARE
    owned text;
    inside text := '(org_id = ANY ((SELECT string_to_array(nullif(current_setting(''app.orgs''), ''''), '','')'
        '::bigint[])::bigint[])) IS TRUE';
BEGIN
    FOREACH owned IN ARRAY ARRAY['organizations', 'members', 'credentials', 'audit_log', 'audit_heads', 'idempotency_keys',
        'connections', 'org_keys', 'connection_secrets', 'automations', 'memory', 'schedules', 'automation_history',
        'occurrences', 'runs', 'steps', 'step_values', 'changes', 'write_ledger', 'approvals', 'automation_topics',
        'listeners', 'subscriptions', 'topic_deliveries', 'catch_ups', 'events', 'event_bodies', 'last_seen',
        'own_changes', 'closed_periods', 'closing_work', 'imports', 'plans', 'static_data', 'run_files',
        'run_file_parts', 'undos', 'memory_log',
        'notices', 'inbox', 'messages', 'message_notices', 'notification_preferences', 'notification_routes',
        'automation_watch', 'run_totals', 'search_terms']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', owned);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', owned);
        EXECUTE format('CREATE POLICY tenant ON %I USING (%s) WITH CHECK (%s)', owned, inside, inside);
    END LOOP;
    FOREACH owned IN ARRAY ARRAY['organizations', 'audit_heads', 'closed_periods', 'closing_work', 'runs', 'schedules', 'approvals', 'write_ledger', 'members', 'occurrences',
        'connections', 'listeners', 'catch_ups', 'events', 'own_changes', 'run_files',
        'notices', 'inbox', 'messages', 'notification_routes']
    LOOP
        EXECUTE format('CREATE POLICY all_tenants ON %I TO steward_queue USING (true)', owned);
    END LOOP;
END $$;

CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION steward_append_only();
CREATE TRIGGER runs_turn_of_new BEFORE INSERT ON runs FOR EACH ROW
    WHEN (NEW.mode = 'live' AND NEW.queue <> 'done' AND NEW.turn = 0) EXECUTE FUNCTION steward_take_turn();
CREATE TRIGGER runs_turn_of_promoted BEFORE UPDATE OF queue ON runs FOR EACH ROW
    WHEN (OLD.queue = 'blocked' AND NEW.queue = 'ready' AND NEW.turn = OLD.turn) EXECUTE FUNCTION steward_take_turn();
CREATE TRIGGER steps_append_only BEFORE UPDATE ON steps FOR EACH ROW EXECUTE FUNCTION steward_append_only();

GRANT USAGE ON SCHEMA public TO steward_app, steward_queue;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO steward_app;
DO $$
DECLARE
    served text;
BEGIN
    FOR served IN
        SELECT c.relname FROM pg_class AS c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO steward_app', served);
    END LOOP;
END $$;
REVOKE UPDATE, DELETE ON audit_log FROM steward_app;
REVOKE DELETE ON audit_heads FROM steward_app;

-- The role that sees every organization reads what its functions compare, and no contents.
GRANT SELECT ON schedules, approvals, write_ledger, workers, deferred_rows, dir_orgs TO steward_queue;
GRANT SELECT, UPDATE ON fairness_clock TO steward_queue;
GRANT SELECT (org_id, run_id, is_test, created_at) ON run_files TO steward_queue;
GRANT SELECT (org_id, id, automation_id, mode, status, queue, vt, worker_id, epoch, attempt, wake_at, approval_id, queued_at, started_at,
    expires_at, finished_at, held_name, kind, started_by) ON runs TO steward_queue;
GRANT SELECT (org_id, kind, valid_until) ON closed_periods TO steward_queue;
GRANT UPDATE (queue, worker_id, epoch) ON runs TO steward_queue;
GRANT SELECT (org_id, closed_from) ON organizations TO steward_queue;
GRANT SELECT (org_id, check_at) ON audit_heads TO steward_queue;
GRANT SELECT (org_id, requested_at) ON closing_work TO steward_queue;
GRANT SELECT (org_id, person_id) ON members TO steward_queue;
GRANT SELECT (org_id, automation_id, slot_at, run_at, state) ON occurrences TO steward_queue;
GRANT SELECT (org_id, integration_id, state, check_at) ON connections TO steward_queue;
GRANT SELECT (org_id, applied_at) ON own_changes TO steward_queue;
GRANT SELECT (org_id, id, state, not_before) ON events TO steward_queue;
GRANT SELECT (org_id, integration_id, next_at) ON listeners TO steward_queue;
GRANT SELECT (org_id, integration_id, object_type, next_at) ON catch_ups TO steward_queue;
GRANT SELECT (org_id, id, state, created_at, not_before) ON notices TO steward_queue;
GRANT SELECT (org_id, person_id, id, last_at) ON inbox TO steward_queue;
GRANT SELECT (org_id, id, channel, state, due_at, next_try_at, sent_at) ON messages TO steward_queue;
GRANT SELECT (org_id, id, state) ON notification_routes TO steward_queue;
