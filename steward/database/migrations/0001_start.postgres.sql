-- What PostgreSQL alone has: roles, the clock, row-level security, append-only guards, queue functions.

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'steward_app') THEN
        CREATE ROLE steward_app NOLOGIN NOBYPASSRLS;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'steward_queue') THEN
        CREATE ROLE steward_queue NOLOGIN NOBYPASSRLS;
    END IF;
END $$;

-- The database's clock in milliseconds, or the instant a test has set (engine 2, "Clock").
CREATE FUNCTION steward_now() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        nullif(current_setting('steward.test_now', true), '')::bigint,
        (extract(epoch FROM statement_timestamp()) * 1000)::bigint)
$$;

-- Opens the wall to organisations (a comma separated list) and answers the clock.
CREATE FUNCTION steward_enter(orgs text, only_here boolean, test_now bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM set_config('app.orgs', orgs, only_here);
    IF test_now IS NOT NULL THEN
        PERFORM set_config('steward.test_now', test_now::text, only_here);
    END IF;
    RETURN steward_now();
END $$;

CREATE UNLOGGED TABLE rate_windows (
    kind text NOT NULL CHECK (kind IN ('person', 'org', 'web')),
    org_id bigint NOT NULL,
    key bigint NOT NULL,
    minute bigint NOT NULL,
    used bigint NOT NULL,
    PRIMARY KEY (kind, org_id, key, minute)
);

DO $$
DECLARE
    owned text;
BEGIN
    FOREACH owned IN ARRAY ARRAY['organizations', 'members', 'credentials', 'audit_log', 'idem_keys',
        'connections', 'org_keys', 'connection_secrets', 'automations', 'memory', 'schedules',
        'automation_history', 'occurrences', 'runs', 'run_facts', 'steps', 'step_values', 'changes', 'effects',
        'approvals', 'lanes']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', owned);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', owned);
        EXECUTE format('CREATE POLICY wall ON %I
            USING (org_id = ANY ((SELECT string_to_array(nullif(current_setting(''app.orgs''), ''''), '',''))::bigint[]))
            WITH CHECK (org_id = ANY ((SELECT string_to_array(nullif(current_setting(''app.orgs''), ''''), '',''))::bigint[]))',
            owned);
    END LOOP;
    FOREACH owned IN ARRAY ARRAY['runs', 'schedules', 'approvals', 'effects', 'members']
    LOOP
        EXECUTE format('CREATE POLICY queue ON %I TO steward_queue USING (true)', owned);
    END LOOP;
END $$;

ALTER TABLE runs SET (fillfactor = 70);
ALTER TABLE schedules SET (fillfactor = 70);

CREATE FUNCTION steward_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
CREATE TRIGGER audit_log_kept BEFORE UPDATE OR DELETE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION steward_append_only();
CREATE TRIGGER steps_kept BEFORE UPDATE ON steps FOR EACH ROW EXECUTE FUNCTION steward_append_only();

-- The gate: who calls, and the windows of contract 1.6, in one round trip (engine 2, "Round trips") -----------
-- Both set the wall for the connection, so that the read after them needs no more. `most` 0 counts nothing.

-- Counts a call in a fixed window of one calendar minute; true when it would pass `most`, and then uncounted.
CREATE FUNCTION steward_window(of_kind text, org bigint, of_key bigint, most bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    this_minute bigint := steward_now() / 60000;
    now_used bigint;
BEGIN
    INSERT INTO rate_windows AS w (kind, org_id, key, minute, used) VALUES (of_kind, org, of_key, this_minute, 1)
    ON CONFLICT (kind, org_id, key, minute) DO UPDATE SET used = w.used + 1 WHERE w.used < most
    RETURNING w.used INTO now_used;
    IF now_used = 1 THEN
        DELETE FROM rate_windows AS w
        WHERE w.kind = of_kind AND w.org_id = org AND w.key = of_key AND w.minute < this_minute;
    END IF;
    RETURN now_used IS NULL;
END $$;

CREATE FUNCTION steward_gate_token(org bigint, person bigint, client text, token_epoch bigint,
    most_person bigint, most_org bigint, test_now bigint)
RETURNS TABLE (good boolean, automations_on boolean, over text) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM steward_enter(org::text, false, test_now);
    over := NULL;
    SELECT c.enabled AND c.epoch = token_epoch AND m.active AND m.account_active, o.automations_on
    INTO good, automations_on
    FROM credentials AS c
    JOIN members AS m ON m.org_id = c.org_id AND m.person_id = person
    JOIN organizations AS o ON o.org_id = c.org_id
    WHERE c.org_id = org AND c.client_id = client;
    good := coalesce(good, false);
    automations_on := coalesce(automations_on, false);
    IF good AND automations_on AND most_person > 0 THEN
        IF steward_window('person', org, person, most_person) THEN
            over := 'person';
        ELSIF steward_window('org', org, 0, most_org) THEN
            over := 'org';
            UPDATE rate_windows AS w SET used = w.used - 1
            WHERE w.kind = 'person' AND w.org_id = org AND w.key = person AND w.minute = steward_now() / 60000;
        END IF;
    END IF;
    RETURN NEXT;
END $$;

CREATE FUNCTION steward_gate_session(hash text, needed text[], idle_since bigint, made_since bigint,
    most_web bigint, test_now bigint)
RETURNS TABLE (person_id bigint, email text, username text, first_name text, last_name text, org_id bigint,
    created_at bigint, seen_at bigint, organization_name text, zone text, automations_on boolean, role text,
    over boolean) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    chosen bigint;
BEGIN
    SELECT s.org_id INTO chosen FROM sessions AS s WHERE s.session_hash = hash;
    PERFORM steward_enter(coalesce(chosen::text, ''), false, test_now);
    SELECT s.person_id, p.email, p.username, p.first_name, p.last_name, m.org_id, s.created_at, s.seen_at, o.name,
        o.zone, o.automations_on, m.role, false
    INTO person_id, email, username, first_name, last_name, org_id, created_at, seen_at, organization_name, zone,
        automations_on, role, over
    FROM sessions AS s
    JOIN people AS p ON p.person_id = s.person_id
    LEFT JOIN members AS m ON m.org_id = s.org_id AND m.person_id = s.person_id AND m.active
    LEFT JOIN organizations AS o ON o.org_id = m.org_id
    WHERE s.session_hash = hash AND p.active AND s.seen_at > idle_since AND s.created_at > made_since;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF most_web > 0 AND (needed IS NULL OR (automations_on AND role = ANY (needed))) THEN
        over := steward_window('web', 0, person_id, most_web);
    END IF;
    RETURN NEXT;
END $$;

-- The organisations a person belongs to: ids only, so that the wall can be opened to them.
CREATE FUNCTION queue_person_orgs(person bigint) RETURNS TABLE (org_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT m.org_id FROM members AS m WHERE m.person_id = person ORDER BY m.org_id
$$;

-- Work across organisations: ids only, never contents (safety 5, wall 3) ------------------------------------

CREATE FUNCTION queue_claim(worker bigint, free bigint, full_orgs bigint[])
RETURNS TABLE (org_id bigint, id text, vt bigint, epoch bigint, attempt bigint, plan_version bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    UPDATE runs AS r SET queue = 'leased', worker_id = worker, epoch = r.epoch + 1
    FROM (SELECT c.org_id, c.id FROM runs AS c
          WHERE c.queue = 'ready' AND c.org_id <> ALL (full_orgs)
            AND EXISTS (SELECT 1 FROM workers AS w
                        WHERE w.worker_id = worker AND w.state = 'alive' AND w.lease_until > steward_now())
          ORDER BY c.vt, c.id LIMIT free FOR UPDATE SKIP LOCKED) AS t
    WHERE r.org_id = t.org_id AND r.id = t.id
    RETURNING r.org_id, r.id, r.vt, r.epoch, r.attempt, r.plan_version
$$;

CREATE FUNCTION queue_full(cap bigint) RETURNS TABLE (org_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT r.org_id FROM runs AS r WHERE r.queue = 'leased' GROUP BY r.org_id HAVING count(*) >= cap
$$;

CREATE FUNCTION queue_due(most bigint) RETURNS TABLE (org_id bigint, automation_id text, next_run_at bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT s.org_id, s.automation_id, s.next_run_at FROM schedules AS s
    WHERE s.next_run_at <= steward_now()
      AND NOT EXISTS (SELECT 1 FROM tick_failures AS f
                      WHERE f.tick = 'dispatch' AND f.key = s.automation_id AND f.not_before > steward_now())
    ORDER BY s.next_run_at, s.automation_id LIMIT most
$$;

CREATE FUNCTION queue_next_due() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT min(s.next_run_at) FROM schedules AS s WHERE s.next_run_at IS NOT NULL
$$;

CREATE FUNCTION queue_unaudited(before bigint, until bigint, most bigint)
RETURNS TABLE (org_id bigint, automation_id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT s.org_id, s.automation_id FROM schedules AS s
    WHERE s.audited_until < before AND (s.next_run_at IS NULL OR s.next_run_at > until)
    ORDER BY s.audited_until, s.automation_id LIMIT most
$$;

CREATE FUNCTION queue_schedules(after_org bigint, after_id text, most bigint)
RETURNS TABLE (org_id bigint, automation_id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT s.org_id, s.automation_id FROM schedules AS s
    WHERE (s.org_id, s.automation_id) > (after_org, after_id)
    ORDER BY s.org_id, s.automation_id LIMIT most
$$;

CREATE FUNCTION queue_recover(worker bigint, most bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT r.org_id, r.id FROM runs AS r WHERE r.queue = 'leased' AND r.worker_id = worker ORDER BY r.id LIMIT most
$$;

CREATE FUNCTION queue_wake(most bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT r.org_id, r.id FROM runs AS r WHERE r.queue = 'sleeping' AND r.wake_at <= steward_now()
    ORDER BY r.wake_at LIMIT most
$$;

CREATE FUNCTION queue_expire(most bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT a.org_id, a.id FROM approvals AS a WHERE a.status = 'pending' AND a.expires_at <= steward_now()
    ORDER BY a.expires_at LIMIT most
$$;

CREATE FUNCTION queue_unstarted(before bigint, most bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT r.org_id, r.id FROM runs AS r
    WHERE r.status = 'queued' AND r.started_at IS NULL AND r.queued_at <= before
      AND r.queue IN ('blocked', 'ready')
    ORDER BY r.queued_at LIMIT most
$$;

CREATE FUNCTION queue_settle(most bigint) RETURNS TABLE (org_id bigint, run_id text, effect_key text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT e.org_id, e.run_id, e.effect_key FROM effects AS e
    WHERE e.state IN ('intent', 'unknown') AND e.settle_after <= steward_now()
      AND EXISTS (SELECT 1 FROM runs AS r WHERE r.org_id = e.org_id AND r.id = e.run_id AND r.queue = 'done')
    ORDER BY e.settle_after LIMIT most
$$;

DO $$
DECLARE
    worked text;
BEGIN
    GRANT USAGE ON SCHEMA public TO steward_app, steward_queue;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO steward_app;
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO steward_app;
    REVOKE UPDATE, DELETE ON audit_log FROM steward_app;
    GRANT SELECT, UPDATE ON runs TO steward_queue;
    GRANT SELECT ON schedules, approvals, effects, workers, tick_failures TO steward_queue;
    GRANT SELECT (org_id, person_id) ON members TO steward_queue;
    FOREACH worked IN ARRAY ARRAY['queue_claim(bigint, bigint, bigint[])', 'queue_full(bigint)',
        'queue_due(bigint)', 'queue_next_due()', 'queue_recover(bigint, bigint)', 'queue_wake(bigint)',
        'queue_unaudited(bigint, bigint, bigint)', 'queue_schedules(bigint, text, bigint)',
        'queue_expire(bigint)', 'queue_unstarted(bigint, bigint)', 'queue_settle(bigint)',
        'queue_person_orgs(bigint)']
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO steward_queue', worked);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', worked);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO steward_app', worked);
    END LOOP;
END $$;
