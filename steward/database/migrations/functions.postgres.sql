-- The roles and functions of PostgreSQL, each written once. `migrate` applies this file every time, before pending
-- migrations and without checking function bodies, so that both may use each other's new objects. The signature of a
-- released function never changes: its changed form gets a new name beside it (tests/migration_rules.py).
--
-- `queue_…` functions run as the role steward_queue and see every organization: they return ids and numbers only.
-- `steward_…` functions run as their caller, inside the tenant context.
--
-- Rows that are looked up for each item of a list are read by a subquery of their own (LATERAL with a lock or OFFSET, or
-- a scalar one). Joined or read with EXISTS, the generic plan made while tables are small walks through an
-- organization's whole history. For the same reason those functions switch off sequential scans and other joins.
--
-- A leased run is locked by `queue || '' = 'leased'`, which the partial index `runs_leased` does not answer: a plan made
-- while few runs are leased would look for each run among all leased ones and their dead entries. Blocked runs likewise.
--
-- An active run is looked up with the collation of the index `runs_active`, and its organization in a form that is no index
-- condition, so that no other index matches: with many automations the planner estimated reading all runs of one as about
-- equally cheap.

DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'steward_app') THEN
        CREATE ROLE steward_app NOLOGIN NOBYPASSRLS;
    END IF;
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'steward_queue') THEN
        CREATE ROLE steward_queue NOLOGIN NOBYPASSRLS;
    END IF;
END $$;

-- Clock, tenant context and rate limits ----------------------------------------------------------------------

-- The database's clock in milliseconds, or the instant a test has set. Without a search_path of its own, which would
-- keep it from being inlined: it calls functions of pg_catalog alone.
CREATE OR REPLACE FUNCTION steward_now() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        nullif(current_setting('steward.test_now', true), '')::bigint,
        (extract(epoch FROM statement_timestamp()) * 1000)::bigint)
$$;

-- Sets the tenant context to a comma separated list of organizations and returns the clock.
CREATE OR REPLACE FUNCTION steward_set_tenant(orgs text, only_here boolean, test_now bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public AS $$
BEGIN
    PERFORM set_config('app.orgs', orgs, only_here);
    IF test_now IS NOT NULL THEN
        PERFORM set_config('steward.test_now', test_now::text, only_here);
    END IF;
    RETURN steward_now();
END $$;

-- Sets the tenant context of this transaction to the organizations of a batch and returns the clock.
CREATE OR REPLACE FUNCTION steward_set_tenants(orgs bigint[], test_now bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public AS $$
DECLARE
    setting text := set_config('app.orgs', array_to_string(orgs, ','), true);
BEGIN
    IF test_now IS NOT NULL THEN
        setting := set_config('steward.test_now', test_now::text, true);
    END IF;
    RETURN steward_now();
END $$;

CREATE OR REPLACE FUNCTION steward_append_only() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;

-- Copies the schedule's `turn` to a live run that is queued or promoted by a statement that does not set it. Raises
-- `queued_at` of a blocked run to that of the active run, so that searches for blocked runs can start there. Every caller has locked the schedule's row, which is the
-- queue's lock; it is locked here too, so that `runs_active` refuses a second active run of a caller that has not.
CREATE OR REPLACE FUNCTION steward_take_turn() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public AS $$
BEGIN
    SELECT s.turn INTO STRICT NEW.turn FROM schedules AS s
    WHERE s.org_id = NEW.org_id AND s.automation_id = NEW.automation_id FOR UPDATE;
    IF NEW.queue = 'blocked' THEN
        NEW.queued_at := greatest(NEW.queued_at, (
            SELECT r.queued_at FROM runs AS r
            WHERE (r.org_id = NEW.org_id) IS TRUE AND r.automation_id COLLATE "POSIX" = NEW.automation_id
              AND r.turn = NEW.turn AND r.mode = 'live' AND r.queue IN ('ready', 'leased', 'sleeping', 'parked')));
    END IF;
    RETURN NEW;
END $$;

-- Counts a call in the window of the current calendar minute. Returns true, and counts nothing, if the call would exceed
-- `max_calls`.
CREATE OR REPLACE FUNCTION steward_count_call(of_kind text, org bigint, of_key bigint, max_calls bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public AS $$
DECLARE
    this_minute bigint := steward_now() / 60000;
    now_used bigint;
BEGIN
    INSERT INTO rate_windows AS w (kind, org_id, key, minute, used) VALUES (of_kind, org, of_key, this_minute, 1)
    ON CONFLICT (kind, org_id, key, minute) DO UPDATE SET used = w.used + 1 WHERE w.used < max_calls
    RETURNING w.used INTO now_used;
    IF now_used = 1 THEN
        DELETE FROM rate_windows AS w
        WHERE w.kind = of_kind AND w.org_id = org AND w.key = of_key AND w.minute < this_minute;
    END IF;
    RETURN now_used IS NULL;
END $$;

-- Checks an access token and counts the call, in one round trip. Sets the tenant context for the connection, so that
-- the read after it needs no statement for it. A limit of 0 counts nothing. The server's clock decides about expiry.
CREATE OR REPLACE FUNCTION steward_authenticate_token(org bigint, person bigint, client text, token_epoch bigint,
    from_s bigint, until_s bigint, max_person bigint, max_org bigint, test_now bigint)
RETURNS TABLE (is_valid boolean, automations_on boolean, exceeded_limit text) LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public AS $$
DECLARE
    present bigint := steward_set_tenant(org::text, false, test_now);
BEGIN
    exceeded_limit := NULL;
    SELECT c.enabled AND c.epoch = token_epoch AND m.active AND m.account_active, o.automations_on
    INTO is_valid, automations_on
    FROM credentials AS c
    JOIN members AS m ON m.org_id = c.org_id AND m.person_id = person
    JOIN organizations AS o ON o.org_id = c.org_id
    WHERE c.org_id = org AND c.client_id = client;
    is_valid := coalesce(is_valid, false) AND present < until_s * 1000 AND from_s * 1000 <= present;
    automations_on := coalesce(automations_on, false);
    IF is_valid AND automations_on AND max_person > 0 THEN
        IF steward_count_call('person', org, person, max_person) THEN
            exceeded_limit := 'person';
        ELSIF steward_count_call('org', org, 0, max_org) THEN
            exceeded_limit := 'org';
            UPDATE rate_windows AS w SET used = w.used - 1
            WHERE w.kind = 'person' AND w.org_id = org AND w.key = person AND w.minute = steward_now() / 60000;
        END IF;
    END IF;
    RETURN NEXT;
END $$;

-- Checks a web session and counts the call, in one round trip, as `steward_authenticate_token` does for a token.
CREATE OR REPLACE FUNCTION steward_authenticate_session(hash text, needed text[], idle_ms bigint, life_ms bigint,
    max_web bigint, test_now bigint)
RETURNS TABLE (person_id bigint, email text, username text, first_name text, last_name text, org_id bigint,
    created_at bigint, seen_at bigint, organization_name text, zone text, automations_on boolean, role text,
    is_over_limit boolean, present bigint) LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public AS $$
#variable_conflict use_column
DECLARE
    chosen bigint;
BEGIN
    SELECT s.org_id INTO chosen FROM sessions AS s WHERE s.session_hash = hash;
    present := steward_set_tenant(coalesce(chosen::text, ''), false, test_now);
    SELECT s.person_id, p.email, p.username, p.first_name, p.last_name, m.org_id, s.created_at, s.seen_at, o.name,
        o.zone, o.automations_on, m.role, false
    INTO person_id, email, username, first_name, last_name, org_id, created_at, seen_at, organization_name, zone,
        automations_on, role, is_over_limit
    FROM sessions AS s
    JOIN people AS p ON p.person_id = s.person_id
    LEFT JOIN members AS m ON m.org_id = s.org_id AND m.person_id = s.person_id AND m.active
    LEFT JOIN organizations AS o ON o.org_id = m.org_id
    WHERE s.session_hash = hash AND p.active AND s.seen_at > present - idle_ms
        AND s.created_at > present - life_ms;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF max_web > 0 AND (needed IS NULL OR (automations_on AND role = ANY (needed))) THEN
        is_over_limit := steward_count_call('web', 0, person_id, max_web);
    END IF;
    RETURN NEXT;
END $$;

-- The organizations a person belongs to: ids only, so that the tenant context can be set to them.
CREATE OR REPLACE FUNCTION queue_person_orgs(person bigint) RETURNS TABLE (org_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT m.org_id FROM members AS m WHERE m.person_id = person ORDER BY m.org_id
$$;

-- Partitions by month ----------------------------------------------------------------------------------------

-- The smallest ULID of an instant.
CREATE OR REPLACE FUNCTION steward_id_floor(instant bigint) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog AS $$
    SELECT string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((instant >> (5 * place)) & 31)::int + 1, 1), ''
                      ORDER BY place DESC) || repeat('0', 16)
    FROM generate_series(0, 9) AS place
$$;

CREATE OR REPLACE FUNCTION steward_instant_of_month(of_month timestamp) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog AS $$
    SELECT (extract(epoch FROM of_month AT TIME ZONE 'UTC') * 1000)::bigint
$$;

CREATE OR REPLACE FUNCTION steward_month_start(instant bigint) RETURNS timestamp
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog AS $$
    SELECT date_trunc('month', to_timestamp(instant / 1000.0) AT TIME ZONE 'UTC')
$$;

-- Closes a partition to the serving role, which reaches its rows through the table and its policy alone.
CREATE OR REPLACE FUNCTION steward_protect_partition(partition text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', partition);
    EXECUTE format('ALTER TABLE public.%I FORCE ROW LEVEL SECURITY', partition);
    EXECUTE format('REVOKE ALL ON public.%I FROM PUBLIC, steward_app', partition);
END $$;

-- Creates the partitions of the months from an instant on for every table that is partitioned by range, and returns
-- how many were missing. A month of which the default partition already holds rows stays there.
CREATE OR REPLACE FUNCTION steward_create_partitions(since bigint, months int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '2s' AS $$
DECLARE
    parent record;
    first_of timestamp;
    partition text;
    created bigint := 0;
BEGIN
    IF months NOT BETWEEN 1 AND 120 THEN
        RAISE EXCEPTION 'months is 1 to 120';
    END IF;
    FOR parent IN
        SELECT c.oid, c.relname, a.attname FROM pg_partitioned_table AS p
        JOIN pg_class AS c ON c.oid = p.partrelid AND c.relnamespace = 'public'::regnamespace
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
        WHERE p.partstrat = 'r' ORDER BY c.relname
    LOOP
        FOR n IN 0 .. months - 1 LOOP
            first_of := public.steward_month_start(since) + n * interval '1 month';
            partition := parent.relname || to_char(first_of, '_YYYY_MM');
            CONTINUE WHEN to_regclass(format('public.%I', partition)) IS NOT NULL;
            EXECUTE format('LOCK TABLE public.%I IN SHARE UPDATE EXCLUSIVE MODE', parent.relname);
            CONTINUE WHEN to_regclass(format('public.%I', partition)) IS NOT NULL;
            BEGIN
                EXECUTE format('CREATE TABLE public.%I (LIKE public.%I INCLUDING ALL)', partition, parent.relname);
                EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
                    parent.relname, partition, public.steward_id_floor(public.steward_instant_of_month(first_of)),
                    public.steward_id_floor(public.steward_instant_of_month(first_of + interval '1 month')));
            EXCEPTION WHEN check_violation THEN
                CONTINUE;  -- the default partition holds rows of this month
            END;
            PERFORM public.steward_protect_partition(partition);
            created := created + 1;
        END LOOP;
    END LOOP;
    RETURN created;
END $$;

-- Drops the partitions of a table whose ids all lie before `border` and returns how many. Never drops anything of the
-- last seven days, nor of the audit log.
CREATE OR REPLACE FUNCTION steward_drop_partitions(parent text, border text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '2s' AS $$
DECLARE
    old record;
    latest text := public.steward_id_floor(public.steward_now() - 7 * 86400000::bigint);
    dropped bigint := 0;
BEGIN
    IF parent NOT IN ('steps', 'step_values', 'changes', 'event_bodies') THEN
        RAISE EXCEPTION 'partitions of % are never dropped', parent;
    END IF;
    FOR old IN
        SELECT c.relname FROM pg_inherits AS i
        JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = to_regclass(format('public.%I', parent))
          AND c.relname ~ (parent || '_[0-9]{4}_[0-9]{2}$')
        ORDER BY c.relname
    LOOP
        CONTINUE WHEN public.steward_id_floor(public.steward_instant_of_month(
                to_timestamp(right(old.relname, 7), 'YYYY_MM')::timestamp + interval '1 month'))
            > least(border COLLATE "C", latest COLLATE "C");
        EXECUTE format('DROP TABLE public.%I', old.relname);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;

-- Due rows of all organizations: ids only, never contents ----------------------------------------------------

-- The functions of every poll are one statement with a generic plan: a connection plans them once.
CREATE OR REPLACE FUNCTION queue_due_slots(max_rows bigint, test_now bigint) RETURNS TABLE (org_id bigint, automation_id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := coalesce(test_now, steward_now());
BEGIN
    RETURN QUERY SELECT s.org_id, s.automation_id FROM schedules AS s
    WHERE s.due_at <= now_ms
      AND NOT EXISTS (SELECT 1 FROM deferred_rows AS f
                      WHERE f.task = 'dispatch' AND f.key = s.automation_id AND f.not_before > now_ms)
    ORDER BY s.due_at, s.automation_id LIMIT max_rows;
END $$;

CREATE OR REPLACE FUNCTION queue_next_due() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT min(s.due_at) FROM schedules AS s WHERE s.due_at IS NOT NULL
$$;

CREATE OR REPLACE FUNCTION queue_closed_bounds(before bigint, after_org bigint, max_rows bigint) RETURNS TABLE (org_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT o.org_id FROM organizations AS o WHERE o.closed_from <= before AND o.org_id > after_org
    ORDER BY o.org_id LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_closing_work(max_rows bigint) RETURNS TABLE (org_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT w.org_id FROM closing_work AS w ORDER BY w.requested_at LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_audit_logs_to_check(max_rows bigint, test_now bigint) RETURNS TABLE (org_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT h.org_id FROM audit_heads AS h WHERE h.check_at <= coalesce(test_now, steward_now())
    ORDER BY h.check_at, h.org_id LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_slots_to_audit(before bigint, until bigint, max_rows bigint)
RETURNS TABLE (org_id bigint, automation_id text, audited_until bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT s.org_id, s.automation_id, s.audited_until FROM schedules AS s
    WHERE s.audited_until < before AND (s.due_at IS NULL OR s.due_at > until)
    ORDER BY s.audited_until, s.automation_id LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_schedules(after_org bigint, after_id text, max_rows bigint)
RETURNS TABLE (org_id bigint, automation_id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT s.org_id, s.automation_id FROM schedules AS s
    WHERE (s.org_id, s.automation_id) > (after_org, after_id)
    ORDER BY s.org_id, s.automation_id LIMIT max_rows
$$;

-- Returns the organizations with `cap` or more leased runs. If all workers together have fewer slots than `cap`, returns
-- none without counting, because the index keeps an entry of every run leased since the oldest open transaction began.
CREATE OR REPLACE FUNCTION queue_full_orgs(cap bigint) RETURNS TABLE (org_id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    IF (SELECT coalesce(sum(w.slots), 0) FROM workers AS w WHERE w.state IN ('alive', 'stopping')) < cap THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT r.org_id FROM runs AS r WHERE r.queue = 'leased' GROUP BY r.org_id HAVING count(*) >= cap;
END $$;

-- Claims ready runs in fair order and advances the fairness clock to the largest stamp, unless another worker is doing
-- so. Runs stamped below `first_vt` are left out. `clock` is the fairness clock before this claim advances it.
-- Without sorts, a plan made while few runs are ready reads the index in order instead of every ready run.
CREATE OR REPLACE FUNCTION queue_claim(worker bigint, free bigint, full_orgs bigint[], first_vt bigint, test_now bigint)
RETURNS TABLE (org_id bigint, id text, vt bigint, epoch bigint, attempt bigint, is_fresh boolean, clock bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    latest bigint := 0;
BEGIN
    IF test_now IS NOT NULL THEN
        PERFORM set_config('steward.test_now', test_now::text, true);
    END IF;
    FOR org_id, id, vt, epoch, attempt, is_fresh IN
        WITH t AS MATERIALIZED (  -- as a subquery it might be read, and lock `free` further runs, for every row of r
            SELECT c.org_id, c.id FROM runs AS c
            WHERE c.queue = 'ready' AND c.vt >= first_vt AND c.org_id <> ALL (full_orgs)
              AND EXISTS (SELECT 1 FROM workers AS w
                          WHERE w.worker_id = worker AND w.state = 'alive' AND w.lease_until > steward_now())
            ORDER BY c.vt, c.id LIMIT free FOR UPDATE SKIP LOCKED)
        UPDATE runs AS r SET queue = 'leased', worker_id = worker, epoch = r.epoch + 1
        FROM t WHERE r.org_id = t.org_id AND r.id = t.id
        RETURNING r.org_id, r.id, r.vt, r.epoch, r.attempt, r.started_at IS NULL
    LOOP
        latest := greatest(latest, vt);
        IF clock IS NULL THEN
            SELECT c.vt INTO clock FROM fairness_clock AS c WHERE c.singleton = 1;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF latest > 0 THEN
        UPDATE fairness_clock AS c SET vt = latest WHERE c.singleton IN
            (SELECT o.singleton FROM fairness_clock AS o WHERE o.singleton = 1 AND o.vt < latest FOR UPDATE SKIP LOCKED);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION queue_leased_by(worker bigint, max_rows bigint) RETURNS TABLE (org_id bigint, id text, epoch bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT r.org_id, r.id, r.epoch FROM runs AS r WHERE r.queue = 'leased' AND r.worker_id = worker
    ORDER BY r.id LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_to_wake(max_rows bigint, test_now bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := coalesce(test_now, steward_now());
BEGIN
    RETURN QUERY SELECT r.org_id, r.id FROM runs AS r WHERE r.queue = 'sleeping' AND r.wake_at <= now_ms
      AND NOT EXISTS (SELECT 1 FROM deferred_rows AS f
                      WHERE f.task = 'wake' AND f.key = r.id AND f.not_before > now_ms)
    ORDER BY r.wake_at LIMIT max_rows;
END $$;

-- A run waits for approval exactly as long as its approval is pending, so the runs' own index finds expired ones.
CREATE OR REPLACE FUNCTION queue_expired_approvals(max_rows bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT r.org_id, r.approval_id FROM runs AS r WHERE r.queue = 'parked' AND r.expires_at <= steward_now()
      AND NOT EXISTS (SELECT 1 FROM deferred_rows AS f
                      WHERE f.task = 'expire_approvals' AND f.key = r.approval_id
                        AND f.not_before > steward_now())
    ORDER BY r.expires_at, r.approval_id LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_unstarted(before bigint, max_rows bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT r.org_id, r.id FROM (
        SELECT b.org_id, b.id, b.automation_id, b.queued_at FROM runs AS b
        WHERE b.queue = 'blocked' AND b.started_at IS NULL AND b.queued_at <= before
        UNION ALL SELECT q.org_id, q.id, q.automation_id, q.queued_at FROM runs AS q
        WHERE q.queue = 'ready' AND q.status = 'queued' AND q.started_at IS NULL AND q.queued_at <= before) AS r
    WHERE NOT EXISTS (SELECT 1 FROM schedules AS s WHERE s.org_id = r.org_id AND s.automation_id = r.automation_id
                      AND s.queue_opened_at > before)
      AND NOT EXISTS (SELECT 1 FROM deferred_rows AS f
                      WHERE f.task = 'queue_limit' AND f.key = r.id AND f.not_before > steward_now())
    ORDER BY r.queued_at LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_to_reconcile(max_rows bigint)
RETURNS TABLE (org_id bigint, run_id text, write_key text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT e.org_id, e.run_id, e.write_key FROM write_ledger AS e
    WHERE e.state IN ('intent', 'unknown') AND e.reconcile_after <= steward_now()
      AND EXISTS (SELECT 1 FROM runs AS r WHERE r.org_id = e.org_id AND r.id = e.run_id AND r.queue = 'done')
      AND NOT EXISTS (SELECT 1 FROM deferred_rows AS f
                      WHERE f.task = 'settle' AND f.key = e.run_id AND f.not_before > steward_now())
    ORDER BY e.reconcile_after LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_connection_checks(max_rows bigint) RETURNS TABLE (org_id bigint, integration_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT c.org_id, c.integration_id FROM connections AS c
    WHERE c.state = 'connected' AND c.check_at <= steward_now() ORDER BY c.check_at LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_events(max_rows bigint, test_now bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := coalesce(test_now, steward_now());
BEGIN
    RETURN QUERY SELECT e.org_id, e.id FROM events AS e WHERE e.state = 'new' AND e.not_before <= now_ms
    ORDER BY e.not_before, e.id LIMIT max_rows;
END $$;

CREATE OR REPLACE FUNCTION queue_listeners(max_rows bigint) RETURNS TABLE (org_id bigint, integration_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT l.org_id, l.integration_id FROM listeners AS l WHERE l.next_at <= steward_now()
    ORDER BY l.next_at LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_catch_ups(max_rows bigint)
RETURNS TABLE (org_id bigint, integration_id bigint, object_type text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT c.org_id, c.integration_id, c.object_type FROM catch_ups AS c WHERE c.next_at <= steward_now()
    ORDER BY c.next_at LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_retain_runs(border text, before bigint, max_rows bigint, first_org bigint, last_org bigint)
RETURNS TABLE (org_id bigint, id text) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT o.org_id, r.id FROM dir_orgs AS o
    CROSS JOIN LATERAL (SELECT q.id FROM runs AS q
                        WHERE q.org_id = o.org_id AND q.id < border AND q.finished_at < before
                        ORDER BY q.id LIMIT max_rows) AS r
    WHERE o.org_id BETWEEN first_org AND last_org
    ORDER BY o.org_id, r.id LIMIT max_rows
$$;

-- Runs that finished before an instant, which is another one for test runs, and still have files. A file is stored before
-- its run finishes, so the oldest files are enough.
CREATE OR REPLACE FUNCTION queue_retain_files(before bigint, test_before bigint, max_rows bigint)
RETURNS TABLE (org_id bigint, id text) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT DISTINCT t.org_id, t.run_id FROM (
        (SELECT f.org_id, f.run_id FROM run_files AS f
         CROSS JOIN LATERAL (SELECT q.finished_at FROM runs AS q
                             WHERE q.org_id = f.org_id AND q.id = f.run_id OFFSET 0) AS r
         WHERE f.is_test AND f.created_at < test_before AND r.finished_at < test_before
         ORDER BY f.created_at LIMIT max_rows)
        UNION ALL
        (SELECT f.org_id, f.run_id FROM run_files AS f
         CROSS JOIN LATERAL (SELECT q.finished_at FROM runs AS q
                             WHERE q.org_id = f.org_id AND q.id = f.run_id OFFSET 0) AS r
         WHERE NOT f.is_test AND f.created_at < before AND r.finished_at < before
         ORDER BY f.created_at LIMIT max_rows)) AS t
    LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_retain_slots(before bigint, max_rows bigint, first_org bigint, last_org bigint)
RETURNS TABLE (org_id bigint, automation_id text, slot_at bigint) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT o.org_id, r.automation_id, r.slot_at FROM dir_orgs AS o
    CROSS JOIN LATERAL (SELECT q.automation_id, q.slot_at FROM occurrences AS q
                        WHERE q.org_id = o.org_id AND q.run_at < before AND q.slot_at < before
                          AND q.state <> 'pending'
                        ORDER BY q.run_at LIMIT max_rows) AS r
    WHERE o.org_id BETWEEN first_org AND last_org
    LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_retain_events(border text, max_rows bigint, first_org bigint, last_org bigint)
RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT o.org_id, r.id FROM dir_orgs AS o
    CROSS JOIN LATERAL (SELECT e.id FROM events AS e WHERE e.org_id = o.org_id AND e.id < border
                        ORDER BY e.id LIMIT max_rows) AS r
    WHERE o.org_id BETWEEN first_org AND last_org
    ORDER BY o.org_id, r.id LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_retain_own_changes(made_before bigint) RETURNS TABLE (org_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT DISTINCT c.org_id FROM own_changes AS c WHERE c.applied_at < made_before
$$;

-- Returns, for the organizations first_org to last_org, the smallest run id, and the smallest possible id of one day before
-- their oldest unfinished run queued before `queued_before` was queued, since an id can be older than `queued_at`.
-- Partitions that hold ids from there on are kept.
CREATE OR REPLACE FUNCTION queue_oldest_runs(kinds bigint[], queued_before bigint, first_org bigint, last_org bigint)
RETURNS TABLE (any_id text, open_id text) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT (SELECT min(r.id) FROM dir_orgs AS o
            CROSS JOIN LATERAL (SELECT q.id FROM runs AS q WHERE q.org_id = o.org_id
                                ORDER BY q.id LIMIT 1) AS r
            WHERE o.org_id BETWEEN first_org AND last_org),
           (SELECT steward_id_floor(min(r.queued_at) - 86400000) FROM dir_orgs AS o
            CROSS JOIN unnest(kinds) AS k (kind)
            CROSS JOIN LATERAL (SELECT q.queued_at FROM runs AS q
                                WHERE q.org_id = o.org_id AND q.kind = k.kind AND q.queued_at < queued_before
                                  AND q.started_by > ''
                                ORDER BY q.queued_at LIMIT 1) AS r
            WHERE o.org_id BETWEEN first_org AND last_org)
$$;

-- Gauges over all organizations: numbers only, of at most `cap` rows in the order of their index.
CREATE OR REPLACE FUNCTION queue_gauges(cap bigint) RETURNS TABLE (queue text, many bigint, oldest_at bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT 'ready', count(*), min(c.queued_at) FROM
        (SELECT r.queued_at FROM runs AS r WHERE r.queue = 'ready' ORDER BY r.vt, r.id LIMIT cap) AS c
    UNION ALL SELECT 'leased', count(*), min(c.queued_at) FROM
        (SELECT r.queued_at FROM runs AS r WHERE r.queue = 'leased' ORDER BY r.worker_id LIMIT cap) AS c
    UNION ALL SELECT 'sleeping', count(*), min(c.queued_at) FROM
        (SELECT r.queued_at FROM runs AS r WHERE r.queue = 'sleeping' ORDER BY r.wake_at LIMIT cap) AS c
    UNION ALL SELECT 'parked', count(*), min(c.queued_at) FROM
        (SELECT r.queued_at FROM runs AS r WHERE r.queue = 'parked' ORDER BY r.expires_at LIMIT cap) AS c
    UNION ALL SELECT 'blocked', count(*), min(c.queued_at) FROM
        (SELECT r.queued_at FROM runs AS r WHERE r.queue = 'blocked'
         ORDER BY r.org_id, r.automation_id, r.queued_at, r.id LIMIT cap) AS c
$$;

CREATE OR REPLACE FUNCTION queue_closed_gauges(cap bigint) RETURNS TABLE (held bigint, frozen bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT (SELECT count(c.held_name) FROM
            (SELECT r.held_name FROM runs AS r WHERE r.queue = 'sleeping' ORDER BY r.wake_at LIMIT cap) AS c),
        (SELECT count(DISTINCT c.org_id) FROM
            (SELECT p.org_id FROM closed_periods AS p WHERE p.kind = 'freeze' AND p.valid_until IS NULL
             ORDER BY p.org_id LIMIT cap) AS c)
$$;

CREATE OR REPLACE FUNCTION queue_open_transactions()
RETURNS TABLE (kind text, since bigint, process int, role text, application text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT 'session', (extract(epoch FROM a.xact_start) * 1000)::bigint, a.pid, a.usename::text, a.application_name
    FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
        AND a.xact_start IS NOT NULL
    UNION ALL
    SELECT 'prepared', (extract(epoch FROM p.prepared) * 1000)::bigint, 0, p.owner::text, p.gid
    FROM pg_prepared_xacts AS p WHERE p.database = current_database()
    ORDER BY 2 LIMIT 20
$$;

CREATE OR REPLACE FUNCTION queue_sees_sessions() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
$$;

-- Standbys that stream, by whether commits wait for them, and whether the server is set to wait for any.
CREATE OR REPLACE FUNCTION queue_standbys()
RETURNS TABLE (synchronous bigint, asynchronous bigint, is_waiting boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT count(*) FILTER (WHERE s.sync_state IN ('sync', 'quorum')),
        count(*) FILTER (WHERE s.sync_state NOT IN ('sync', 'quorum')),
        current_setting('synchronous_standby_names') <> ''
    FROM pg_stat_replication AS s WHERE s.state = 'streaming'
$$;

-- Standbys that stream, and replication slots; `rows_since` is the transaction whose dead rows they keep, and those of all
-- later ones. A standby's clock is known by its last reply, which may be ten seconds old.
CREATE OR REPLACE FUNCTION queue_followers()
RETURNS TABLE (kind text, follower text, state text, rows_since bigint, clock_ahead_ms bigint, kept_bytes bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT 'standby', s.application_name, s.sync_state, s.backend_xmin::text::bigint,
        (extract(epoch FROM s.reply_time - clock_timestamp()) * 1000)::bigint, 0
    FROM pg_stat_replication AS s WHERE s.state = 'streaming'
    UNION ALL
    SELECT 'slot', r.slot_name, CASE WHEN r.active THEN 'active' ELSE 'inactive' END, r.xmin::text::bigint, NULL,
        CASE WHEN pg_is_in_recovery() THEN 0 ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), r.restart_lsn)::bigint END
    FROM pg_replication_slots AS r
    ORDER BY 1 DESC, 2 LIMIT 20
$$;

-- Rows in the default partitions, each counted up to `cap`: those of months that were not created in time.
CREATE OR REPLACE FUNCTION queue_default_partition_rows(cap bigint) RETURNS TABLE (parent text, many bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT 'audit_log', count(*) FROM (SELECT 1 FROM audit_log_default LIMIT cap) AS r
    UNION ALL SELECT 'changes', count(*) FROM (SELECT 1 FROM changes_default LIMIT cap) AS r
    UNION ALL SELECT 'event_bodies', count(*) FROM (SELECT 1 FROM event_bodies_default LIMIT cap) AS r
    UNION ALL SELECT 'step_values', count(*) FROM (SELECT 1 FROM step_values_default LIMIT cap) AS r
    UNION ALL SELECT 'steps', count(*) FROM (SELECT 1 FROM steps_default LIMIT cap) AS r
$$;

CREATE OR REPLACE FUNCTION queue_open_writes(cap bigint) RETURNS TABLE (state text, many bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT c.state, count(*) FROM
        (SELECT e.state FROM write_ledger AS e WHERE e.state IN ('intent', 'unknown')
         ORDER BY e.reconcile_after LIMIT cap) AS c GROUP BY c.state
$$;

CREATE OR REPLACE FUNCTION queue_poisoned_events() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT count(*) FROM events AS e WHERE e.state = 'poison'
$$;

-- Notifications ----------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION queue_notices(max_rows bigint, test_now bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := coalesce(test_now, steward_now());
BEGIN
    RETURN QUERY SELECT n.org_id, n.id FROM notices AS n WHERE n.state = 'new' AND n.not_before <= now_ms
    ORDER BY n.not_before, n.id LIMIT max_rows;
END $$;

-- Collected messages to close.
CREATE OR REPLACE FUNCTION queue_messages_to_close(max_rows bigint, test_now bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := coalesce(test_now, steward_now());
BEGIN
    RETURN QUERY SELECT m.org_id, m.id FROM messages AS m WHERE m.state = 'collecting' AND m.next_try_at <= now_ms
      AND NOT EXISTS (SELECT 1 FROM deferred_rows AS f
                      WHERE f.task = 'close_messages' AND f.key = m.id AND f.not_before > now_ms)
    ORDER BY m.next_try_at, m.id LIMIT max_rows;
END $$;

-- Messages of a channel to deliver.
CREATE OR REPLACE FUNCTION queue_messages(of_channel text, max_rows bigint, test_now bigint)
RETURNS TABLE (org_id bigint, id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := coalesce(test_now, steward_now());
BEGIN
    RETURN QUERY SELECT m.org_id, m.id FROM messages AS m
    WHERE m.channel = of_channel AND m.state IN ('due', 'sending') AND m.next_try_at <= now_ms
      AND NOT EXISTS (SELECT 1 FROM deferred_rows AS f
                      WHERE f.task = 'send' AND f.key = m.id AND f.not_before > now_ms)
    ORDER BY m.next_try_at, m.id LIMIT max_rows;
END $$;

-- Returns, in one statement, the wake-up hints of all notification tasks with due rows.
CREATE OR REPLACE FUNCTION queue_notification_hints(channels text[], test_now bigint) RETURNS TABLE (hint text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
    RETURN QUERY SELECT 'notice' WHERE EXISTS (SELECT 1 FROM queue_notices(1, test_now))
    UNION ALL SELECT 'message' WHERE EXISTS (SELECT 1 FROM queue_messages_to_close(1, test_now))
    UNION ALL SELECT 'deliver_' || c.channel FROM unnest(channels) AS c (channel)
    WHERE EXISTS (SELECT 1 FROM queue_messages(c.channel, 1, test_now));
END $$;

-- Returns the approvals whose expiry warning is due.
CREATE OR REPLACE FUNCTION queue_warn(max_rows bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT a.org_id, a.id FROM approvals AS a WHERE a.warn_at <= steward_now()
      AND NOT EXISTS (SELECT 1 FROM deferred_rows AS f
                      WHERE f.task = 'warn' AND f.key = a.id AND f.not_before > steward_now())
    ORDER BY a.warn_at, a.id LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_retain_notices(border text, max_rows bigint, first_org bigint, last_org bigint)
RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT o.org_id, r.id FROM dir_orgs AS o
    CROSS JOIN LATERAL (SELECT n.id FROM notices AS n WHERE n.org_id = o.org_id AND n.id < border
                        ORDER BY n.id LIMIT max_rows) AS r
    WHERE o.org_id BETWEEN first_org AND last_org
    ORDER BY o.org_id, r.id LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_retain_messages(border text, max_rows bigint, first_org bigint, last_org bigint)
RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT o.org_id, r.id FROM dir_orgs AS o
    CROSS JOIN LATERAL (SELECT m.id FROM messages AS m
                        WHERE m.org_id = o.org_id AND m.id < border AND m.next_try_at IS NULL
                        ORDER BY m.id LIMIT max_rows) AS r
    WHERE o.org_id BETWEEN first_org AND last_org
    ORDER BY o.org_id, r.id LIMIT max_rows
$$;

CREATE OR REPLACE FUNCTION queue_retain_inbox(before bigint, max_rows bigint)
RETURNS TABLE (org_id bigint, person_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT i.org_id, i.person_id, i.id FROM inbox AS i WHERE i.last_at < before ORDER BY i.last_at LIMIT max_rows
$$;

-- Gauges of notifications over all organizations: numbers only, of at most `cap` rows each.
CREATE OR REPLACE FUNCTION queue_notice_gauges(cap bigint)
RETURNS TABLE (oldest_new_at bigint, poison bigint, broken_routes bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT (SELECT min(c.created_at) FROM (SELECT n.created_at FROM notices AS n WHERE n.state = 'new'
                ORDER BY n.not_before, n.id LIMIT cap) AS c),
        (SELECT count(*) FROM (SELECT 1 FROM notices AS n WHERE n.state = 'poison' LIMIT cap) AS c),
        (SELECT count(*) FROM (SELECT 1 FROM notification_routes AS r WHERE r.state = 'broken' LIMIT cap) AS c)
$$;

-- The messages of each channel that are due and not delivered.
CREATE OR REPLACE FUNCTION queue_messages_waiting(cap bigint) RETURNS TABLE (channel text, waiting bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT c.channel, (SELECT count(*) FROM
        (SELECT 1 FROM messages AS m WHERE m.channel = c.channel AND m.state IN ('due', 'sending')
         ORDER BY m.next_try_at, m.id LIMIT cap) AS w)
    FROM (VALUES ('email'), ('push'), ('teams'), ('slack'), ('webhook')) AS c (channel)
$$;

-- Returns when the oldest undelivered mail became due, among the `cap` tried next, and when a mail was last accepted; for
-- `steward doctor`.
CREATE OR REPLACE FUNCTION queue_mail_times(cap bigint) RETURNS TABLE (oldest_due_at bigint, last_sent_at bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT (SELECT min(c.due_at) FROM (SELECT m.due_at FROM messages AS m
                WHERE m.channel = 'email' AND m.state IN ('due', 'sending')
                ORDER BY m.next_try_at, m.id LIMIT cap) AS c),
        (SELECT m.sent_at FROM messages AS m WHERE m.channel = 'email' AND m.sent_at IS NOT NULL
         ORDER BY m.sent_at DESC LIMIT 1)
$$;

-- Runs -------------------------------------------------------------------------------------------------------

-- Returns automations with the columns that database/automations/records.py reads, as JSON, in the order of the arguments;
-- null for one that does not exist. One statement reads all, because starting one costs more than reading a row.
CREATE OR REPLACE FUNCTION steward_automations(orgs bigint[], ids text[]) RETURNS text[] LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, public AS $$
BEGIN
    RETURN ARRAY(SELECT (SELECT row_to_json(x)::text FROM (
        SELECT a.org_id, a.id, a.version, a.kind, a.import_id, a.template_id, a.template_version, a.source, a.platform,
            a.integration_id, a.store_label, a.name, a.state, a.paused_by, a.paused_reason, a.inputs, a.schedule,
            a.timezone, a.spread_minutes, a.trigger_json, a.connections, a.bindings, a.send_mode, a.plan_version,
            a.created_at, a.updated_at, a.created_by, a.created_via, a.api_client_id, s.next_run_at, s.last_run_at,
            s.consecutive_failures, s.events_dropped, s.events_dropped_at,
            CASE WHEN a.state = 'active' AND a.trigger_json LIKE '{"kind":"event"%' THEN (
                SELECT max(CASE WHEN c.state <> 'connected'
                                THEN '3' || c.name || ' is not connected. Reconnect it in the web app.'
                                WHEN h.state = 'failed' THEN '2' || coalesce(h.reason, '')
                                WHEN h.state = 'active' THEN '0' ELSE '1' END)
                FROM automation_topics AS t
                JOIN connections AS c ON c.org_id = t.org_id AND c.integration_id = t.integration_id
                LEFT JOIN topic_deliveries AS h
                    ON h.org_id = t.org_id AND h.integration_id = t.integration_id AND h.topic = t.topic
                WHERE t.org_id = a.org_id AND t.automation_id = a.id) END AS delivery
        FROM automations AS a
        JOIN schedules AS s ON s.org_id = a.org_id AND s.automation_id = a.id
        WHERE a.org_id = i.org_id AND a.id = i.id) AS x)
    FROM unnest(orgs, ids) WITH ORDINALITY AS i (org_id, id, n) ORDER BY i.n);
END $$;

-- Returns the schedules' turns, in order.
CREATE OR REPLACE FUNCTION steward_turns(orgs bigint[], automations text[]) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public AS $$
BEGIN
    RETURN ARRAY(
        SELECT (SELECT s.turn FROM schedules AS s WHERE s.org_id = i.org_id AND s.automation_id = i.automation_id)
        FROM unnest(orgs, automations) WITH ORDINALITY AS i (org_id, automation_id, n) ORDER BY i.n);
END $$;

-- Counts for each automation its runs that are queued or wait for approval: blocked ones and tests, up to `max_rows` each,
-- and the active run, which has the schedule's turn. No blocked run was queued before the active one (steward_take_turn).
CREATE OR REPLACE FUNCTION steward_count_waiting(orgs bigint[], automations text[], turns bigint[], max_rows bigint)
RETURNS bigint[] LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public AS $$
BEGIN
    RETURN ARRAY(
        SELECT coalesce(active.status IN ('queued', 'waiting_approval'), false)::int
            + (SELECT count(*) FROM (
                SELECT 1 FROM runs AS r WHERE r.org_id = i.org_id AND r.automation_id = i.automation_id AND r.queue = 'blocked'
                  AND r.queued_at >= coalesce(active.queued_at, 0)
                ORDER BY r.queued_at, r.id LIMIT max_rows) AS blocked)
            + (SELECT count(*) FROM (
                SELECT 1 FROM runs AS r WHERE r.org_id = i.org_id AND r.automation_id = i.automation_id AND r.status = 'queued'
                  AND r.mode = 'test' LIMIT max_rows) AS tests)
        FROM unnest(orgs, automations, turns) WITH ORDINALITY AS i (org_id, automation_id, turn, n) LEFT JOIN LATERAL (
            SELECT r.status, r.queued_at FROM runs AS r
            WHERE (r.org_id = i.org_id) IS TRUE AND r.automation_id COLLATE "POSIX" = i.automation_id AND r.turn = i.turn
              AND r.mode = 'live' AND r.queue IN ('ready', 'leased', 'sleeping', 'parked') OFFSET 0) AS active ON true
        ORDER BY i.n);
END $$;

-- Returns for each start by hand the automation and `needs_slow_path`: the key was used, the limit of waiting runs is near,
-- or a closed period may apply. The first start of each organization also gets its connected connections.
CREATE OR REPLACE FUNCTION steward_start_precheck(orgs bigint[], automations text[], keys text[], max_waiting bigint, test_now bigint)
RETURNS TABLE (n bigint, present bigint, automation text, needs_slow_path boolean, connected bigint[])
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, public AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := steward_set_tenants(orgs, test_now);
    records text[] := steward_automations(orgs, automations);
    waiting bigint[] := steward_count_waiting(orgs, automations, steward_turns(orgs, automations), max_waiting);
BEGIN
    RETURN QUERY
    SELECT i.n, now_ms, i.record,
        (SELECT true FROM idempotency_keys AS k WHERE k.org_id = i.org_id AND k.kind = 'run' AND k.key = i.key) IS NOT NULL
        OR waiting[i.n] >= max_waiting - 1
        OR (SELECT o.closed_from <= now_ms FROM organizations AS o WHERE o.org_id = i.org_id) IS TRUE,
        CASE WHEN row_number() OVER (PARTITION BY i.org_id ORDER BY i.n) = 1 THEN ARRAY(
            SELECT c.integration_id FROM connections AS c WHERE c.org_id = i.org_id AND c.state = 'connected'
            ORDER BY c.integration_id) END
    FROM unnest(orgs, automations, keys, records) WITH ORDINALITY AS i (org_id, automation_id, key, record, n);
END $$;

-- Starts several runs by hand: locks their schedules, stores the idempotency keys, checks the limit, and inserts each run
-- ready or blocked behind the automation's active run. Raises, and starts none, when a key was used concurrently or too
-- many runs wait.
CREATE OR REPLACE FUNCTION steward_start_runs(orgs bigint[], run_ids text[], automations text[], modes text[], keys text[], shas text[],
    max_waiting bigint, names text[], versions bigint[], templates text[], template_versions bigint[], plans bigint[],
    stores bigint[], persons bigint[], vias text[], clients text[], test_now bigint)
RETURNS TABLE (n bigint, queued_at bigint) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, public AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := steward_set_tenants(orgs, test_now);
    clock bigint;
    inserted_keys bigint;
    turns bigint[];
    inserted_ids text[];
    queued_ats bigint[];
    active_since bigint[];
BEGIN
    PERFORM 1 FROM (SELECT DISTINCT u.org_id, u.automation_id FROM unnest(orgs, automations) AS u (org_id, automation_id)) AS i
    JOIN schedules AS s ON s.org_id = i.org_id AND s.automation_id = i.automation_id
    ORDER BY s.org_id, s.automation_id FOR UPDATE OF s;
    INSERT INTO idempotency_keys (org_id, kind, key, automation_id, object_id, request_sha256, created_at)
    SELECT i.org_id, 'run', i.key, i.automation_id, i.run_id, i.sha, now_ms
    FROM unnest(orgs, keys, automations, run_ids, shas) AS i (org_id, key, automation_id, run_id, sha)
    ORDER BY i.org_id, i.key
    ON CONFLICT (org_id, kind, key) DO NOTHING;
    GET DIAGNOSTICS inserted_keys = ROW_COUNT;
    IF inserted_keys < array_length(keys, 1) THEN
        RAISE EXCEPTION 'a key was used concurrently';
    END IF;
    turns := steward_turns(orgs, automations);
    active_since := ARRAY(
        SELECT (SELECT r.queued_at FROM runs AS r
                WHERE (r.org_id = i.org_id) IS TRUE AND r.automation_id COLLATE "POSIX" = i.automation_id
                  AND r.turn = i.turn AND r.mode = 'live' AND r.queue IN ('ready', 'leased', 'sleeping', 'parked'))
        FROM unnest(orgs, automations, turns) WITH ORDINALITY AS i (org_id, automation_id, turn, n) ORDER BY i.n);
    PERFORM 1 FROM unnest(orgs, automations, steward_count_waiting(orgs, automations, turns, max_waiting))
        AS i (org_id, automation_id, waiting)
    GROUP BY i.org_id, i.automation_id, i.waiting HAVING i.waiting + count(*) > max_waiting;
    IF FOUND THEN
        RAISE EXCEPTION 'too many runs wait';
    END IF;
    SELECT c.vt INTO clock FROM fairness_clock AS c WHERE c.singleton = 1;
    WITH new_runs AS (
        SELECT i.*, i.mode = 'test'
            OR (row_number() OVER (PARTITION BY i.org_id, i.automation_id, i.mode ORDER BY i.n) = 1
                AND i.active_since IS NULL) AS is_ready
        FROM unnest(orgs, run_ids, automations, modes, plans, names, versions, templates, template_versions, keys,
            stores, persons, vias, clients, turns, active_since) WITH ORDINALITY AS i (org_id, run_id, automation_id, mode,
            plan_version, name, version, template_id, template_version, key, store, person, via, client, turn,
            active_since, n)
    ), stamped AS (
        INSERT INTO fairness_orgs AS f (org_id, last_vt)
        SELECT w.org_id, clock + count(*) FROM new_runs AS w WHERE w.is_ready GROUP BY w.org_id ORDER BY w.org_id
        ON CONFLICT (org_id) DO UPDATE SET last_vt = greatest(f.last_vt, clock) + excluded.last_vt - clock
        RETURNING f.org_id, f.last_vt
    ), stamped_runs AS (
        SELECT w.*, CASE WHEN w.is_ready THEN (SELECT s.last_vt FROM stamped AS s WHERE s.org_id = w.org_id)
            - row_number() OVER (PARTITION BY w.org_id, w.is_ready ORDER BY w.n DESC) ELSE 0 END AS vt
        FROM new_runs AS w
    ), inserted AS (
        INSERT INTO runs (org_id, id, automation_id, integration_id, mode, status, queue, vt, epoch, attempt, last_seq,
            plan_version, leased_ms, queued_at, automation_name, automation_version, template_id, template_version,
            started_by, idempotency_key, created_by, created_via, api_client_id, turn)
        SELECT t.org_id, t.run_id, t.automation_id, t.store, t.mode, 'queued',
            CASE WHEN t.is_ready THEN 'ready' ELSE 'blocked' END, t.vt, 0, 1, 0, t.plan_version, 0,
            CASE WHEN t.is_ready THEN now_ms ELSE greatest(now_ms, t.active_since) END, t.name, t.version, t.template_id,
            t.template_version, 'hand', t.key, t.person, t.via, t.client, CASE t.mode WHEN 'live' THEN t.turn ELSE 0 END
        FROM stamped_runs AS t ORDER BY t.n
        RETURNING id, queued_at
    )
    SELECT array_agg(inserted.id), array_agg(inserted.queued_at) INTO inserted_ids, queued_ats FROM inserted;
    RETURN QUERY SELECT array_position(run_ids, i.id)::bigint, i.queued_at
    FROM unnest(inserted_ids, queued_ats) AS i (id, queued_at);
END $$;

-- Claimed runs as database/runs/ reads them, with their automations, the organization's switch, and with the first of
-- each organization its usable connections.
CREATE OR REPLACE FUNCTION steward_claimed_runs(orgs bigint[], run_ids text[], test_now bigint)
RETURNS TABLE (n bigint, run text, automation text, is_on boolean, connected bigint[]) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, public AS $$
#variable_conflict use_column
DECLARE
    present bigint := steward_set_tenants(orgs, test_now);
    numbers bigint[];
    records text[];
    owners bigint[];
    automations text[];
BEGIN
    SELECT array_agg(i.n), array_agg(row_to_json(r)::text), array_agg(r.org_id), array_agg(r.automation_id)
    INTO numbers, records, owners, automations
    FROM unnest(orgs, run_ids) WITH ORDINALITY AS i (org_id, run_id, n)
    CROSS JOIN LATERAL (
        SELECT q.org_id, q.id, q.automation_id, q.mode, q.status, q.last_seq, q.plan_version, q.slot_at, q.approval_id,
            q.cancel_at, q.queued_at, q.started_at, q.waiting_since, q.expires_at, q.finished_at, q.automation_name,
            q.automation_version, q.template_id, q.template_version, q.started_by, q.event_id, q.event_topic,
            q.event_received_at, q.idempotency_key, q.created_by, q.created_via, q.api_client_id, q.code, q.message,
            q.current_step, q.summary, q.result, q.undo_of, q.queue, q.attempt, q.cancel_code, q.leased_ms, q.held_name,
            q.held_until
        FROM runs AS q WHERE q.org_id = i.org_id AND q.id = i.run_id OFFSET 0) AS r;
    RETURN QUERY
    SELECT i.n, i.run, i.automation,
        (SELECT o.automations_on AND (o.closed_from IS NULL OR o.closed_from > present)
         FROM organizations AS o WHERE o.org_id = i.org_id),
        CASE WHEN row_number() OVER (PARTITION BY i.org_id ORDER BY i.n) = 1 THEN ARRAY(
            SELECT c.integration_id FROM connections AS c WHERE c.org_id = i.org_id AND c.state = 'connected'
            ORDER BY c.integration_id) END
    FROM unnest(numbers, records, owners, steward_automations(owners, automations)) AS i (n, run, org_id, automation);
END $$;

-- Marks claimed runs as running, with the next turn of their automations, and writes the first row of their journal.
-- Returns those that were still leased and queued; leaves the others as they are.
CREATE OR REPLACE FUNCTION steward_begin_runs(orgs bigint[], run_ids text[], epochs bigint[], automations text[], live boolean[],
    outputs bytea[], test_now bigint)
RETURNS TABLE (n bigint, present bigint) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, public AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := steward_set_tenants(orgs, test_now);
    begun bigint[];
BEGIN
    PERFORM 1 FROM unnest(orgs, automations, live) AS i (org_id, automation_id, live)
    JOIN schedules AS s ON s.org_id = i.org_id AND s.automation_id = i.automation_id
    WHERE i.live ORDER BY s.org_id, s.automation_id FOR UPDATE OF s;
    WITH locked AS (
        SELECT r.org_id, r.id, i.n, i.live
        FROM (SELECT u.* FROM unnest(orgs, run_ids, epochs, live) WITH ORDINALITY AS u (org_id, run_id, epoch, live, n)
              ORDER BY u.run_id) AS i
        CROSS JOIN LATERAL (
            SELECT q.org_id, q.id FROM runs AS q
            WHERE q.org_id = i.org_id AND q.id = i.run_id AND q.epoch = i.epoch AND q.queue || '' = 'leased'
              AND q.status = 'queued' AND q.started_at IS NULL FOR UPDATE) AS r
    ), updated AS (
        UPDATE runs AS r SET status = 'running', started_at = now_ms, turn = r.turn + locked.live::int FROM locked
        WHERE r.org_id = locked.org_id AND r.id = locked.id
        RETURNING locked.n
    )
    SELECT array_agg(updated.n) INTO begun FROM updated;
    UPDATE schedules AS s SET last_run_at = now_ms, turn = s.turn + 1
    FROM unnest(orgs, automations, live) WITH ORDINALITY AS i (org_id, automation_id, live, n)
    WHERE i.n = ANY (begun) AND i.live AND s.org_id = i.org_id AND s.automation_id = i.automation_id;
    INSERT INTO step_values (org_id, run_id, name, iteration, seq, output, state)
    SELECT orgs[o], run_ids[o], '@start', '', 0, outputs[o], 'done' FROM unnest(begun) AS o;
    RETURN QUERY SELECT o, now_ms FROM unnest(begun) AS o;
END $$;

-- Writes the step rows and values at the positions `owned` of the arrays. A step's JSON contains `mark` in place of its end
-- time, which is set here from the database's clock. The caller has locked the runs and set the tenant context.
CREATE OR REPLACE FUNCTION steward_insert_steps(owned bigint[], now_ms bigint, orgs bigint[], run_ids text[], seqs bigint[],
    names text[], iterations text[], attempts bigint[], statuses text[], changes bigint[], wires text[], mark text,
    outputs bytea[], unknowns text[], states text[])
RETURNS void LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public AS $$
DECLARE
    finished_text text := to_char(to_timestamp(0) AT TIME ZONE 'UTC' + now_ms * interval '1 millisecond',
        '"\"finished_at\":\""YYYY-MM-DD"T"HH24:MI:SS.MS"Z\""');
BEGIN
    INSERT INTO steps (org_id, run_id, seq, name, iteration, attempt, status, finished_at, changes_total, wire)
    SELECT orgs[o], run_ids[o], seqs[o], names[o], iterations[o], attempts[o], statuses[o], now_ms, changes[o],
        replace(wires[o], mark, finished_text)
    FROM unnest(owned) AS o;
    INSERT INTO step_values (org_id, run_id, name, iteration, seq, output, unknown_paths, state)
    SELECT orgs[o], run_ids[o], names[o], iterations[o], seqs[o], outputs[o], unknowns[o], states[o]
    FROM unnest(owned) AS o
    ON CONFLICT (org_id, run_id, name, iteration) DO UPDATE
    SET seq = excluded.seq, output = excluded.output, unknown_paths = excluded.unknown_paths,
        state = excluded.state;
END $$;

-- Writes the checkpoints of several runs, at most one each. Returns those still leased, with a requested cancellation;
-- the others are fenced.
CREATE OR REPLACE FUNCTION steward_checkpoint_runs(orgs bigint[], run_ids text[], epochs bigint[], seqs bigint[], names text[],
    iterations text[], attempts bigint[], statuses text[], changes bigint[], wires text[], mark text,
    outputs bytea[], unknowns text[], states text[], test_now bigint)
RETURNS TABLE (n bigint, cancel_code text) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, public AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := steward_set_tenants(orgs, test_now);
    owned bigint[];
    cancel_codes text[];
BEGIN
    WITH locked AS (
        SELECT r.org_id, r.id, i.n, i.seq
        FROM (SELECT u.* FROM unnest(orgs, run_ids, epochs, seqs) WITH ORDINALITY AS u (org_id, run_id, epoch, seq, n)
              ORDER BY u.run_id) AS i
        CROSS JOIN LATERAL (
            SELECT q.org_id, q.id FROM runs AS q
            WHERE q.org_id = i.org_id AND q.id = i.run_id AND q.epoch = i.epoch AND q.queue || '' = 'leased'
              AND q.last_seq = i.seq - 1 FOR UPDATE) AS r
    ), updated AS (
        UPDATE runs AS r SET last_seq = locked.seq FROM locked
        WHERE r.org_id = locked.org_id AND r.id = locked.id
        RETURNING locked.n, r.cancel_code
    )
    SELECT array_agg(updated.n), array_agg(updated.cancel_code) INTO owned, cancel_codes FROM updated;
    PERFORM steward_insert_steps(owned, now_ms, orgs, run_ids, seqs, names, iterations, attempts, statuses, changes,
        wires, mark, outputs, unknowns, states);
    RETURN QUERY SELECT o.n, o.cancel_code FROM unnest(owned, cancel_codes) AS o (n, cancel_code);
END $$;

-- Finishes runs, together with their last step where `seqs` names one: step, output, status, summary, failures in a row,
-- and the next queued run of the automation, which becomes ready with a fresh stamp. Returns those still leased, and
-- which of them ended: a run with a requested cancellation stores its last step and goes on.
CREATE OR REPLACE FUNCTION steward_finish_runs(orgs bigint[], run_ids text[], epochs bigint[], automations text[], live boolean[],
    messages text[], summaries text[], results text[], seqs bigint[], names text[], iterations text[],
    attempts bigint[], statuses text[], changes bigint[], wires text[], mark text, outputs bytea[], unknowns text[],
    states text[], test_now bigint)
RETURNS TABLE (n bigint, is_ended boolean, cancel_code text) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET search_path = pg_catalog, public AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := steward_set_tenants(orgs, test_now);
    clock bigint;
    failed_before boolean;
    owned bigint[];
    cancel_codes text[];
    ended bigint[];
    ended_queued_at bigint[];
    stepped bigint[];
    next_orgs bigint[];
    next_automations text[];
    next_runs text[];
BEGIN
    SELECT bool_or(q.failures > 0) INTO failed_before FROM (
        SELECT s.consecutive_failures AS failures
        FROM unnest(orgs, automations, live) AS i (org_id, automation_id, live)
        JOIN schedules AS s ON s.org_id = i.org_id AND s.automation_id = i.automation_id
        WHERE i.live ORDER BY s.org_id, s.automation_id FOR UPDATE OF s) AS q;
    WITH locked AS (
        SELECT r.org_id, r.id, i.n, i.seq, i.message, i.summary, i.result,
            i.seq IS NULL OR r.cancel_code IS NULL AS ends
        FROM (SELECT u.* FROM unnest(orgs, run_ids, epochs, seqs, messages, summaries, results)
                  WITH ORDINALITY AS u (org_id, run_id, epoch, seq, message, summary, result, n)
              ORDER BY u.run_id) AS i
        CROSS JOIN LATERAL (
            SELECT q.org_id, q.id, q.cancel_code FROM runs AS q
            WHERE q.org_id = i.org_id AND q.id = i.run_id AND q.epoch = i.epoch AND q.queue || '' = 'leased'
              AND (i.seq IS NULL OR q.last_seq = i.seq - 1) FOR UPDATE) AS r
    ), updated AS (
        UPDATE runs AS r SET last_seq = coalesce(locked.seq, r.last_seq),
            status = CASE WHEN locked.ends THEN 'succeeded' ELSE r.status END,
            queue = CASE WHEN locked.ends THEN 'done' ELSE r.queue END,
            worker_id = CASE WHEN locked.ends THEN NULL ELSE r.worker_id END,
            finished_at = CASE WHEN locked.ends THEN now_ms END,
            expires_at = CASE WHEN locked.ends THEN NULL ELSE r.expires_at END,
            code = CASE WHEN locked.ends THEN NULL ELSE r.code END,
            message = CASE WHEN locked.ends THEN locked.message ELSE r.message END,
            current_step = CASE WHEN locked.ends THEN NULL ELSE r.current_step END,
            summary = CASE WHEN locked.ends THEN coalesce(locked.summary, r.summary) ELSE r.summary END,
            result = CASE WHEN locked.ends THEN coalesce(locked.result, r.result) ELSE r.result END
        FROM locked WHERE r.org_id = locked.org_id AND r.id = locked.id AND (locked.ends OR locked.seq IS NOT NULL)
        RETURNING locked.n, locked.ends, locked.seq, r.cancel_code, r.queued_at
    )
    SELECT array_agg(updated.n), array_agg(updated.cancel_code), array_agg(updated.n) FILTER (WHERE updated.ends),
        array_agg(updated.queued_at) FILTER (WHERE updated.ends),
        array_agg(updated.n) FILTER (WHERE updated.seq IS NOT NULL)
    INTO owned, cancel_codes, ended, ended_queued_at, stepped FROM updated;
    PERFORM steward_insert_steps(stepped, now_ms, orgs, run_ids, seqs, names, iterations, attempts, statuses, changes,
        wires, mark, outputs, unknowns, states);
    -- No run is blocked that was queued before the active one, which ended just now.
    SELECT array_agg(orgs[e.n]), array_agg(automations[e.n]),
        array_agg((SELECT b.id FROM runs AS b WHERE b.org_id = orgs[e.n] AND b.automation_id = automations[e.n]
                   AND b.queue = 'blocked' AND b.queued_at >= e.queued_at ORDER BY b.queued_at, b.id LIMIT 1))
    INTO next_orgs, next_automations, next_runs
    FROM unnest(ended, ended_queued_at) AS e (n, queued_at) WHERE live[e.n];
    IF array_remove(next_runs, NULL) <> '{}' THEN
        SELECT c.vt INTO clock FROM fairness_clock AS c WHERE c.singleton = 1;
        WITH following AS (
            SELECT i.* FROM unnest(next_orgs, next_runs, steward_turns(next_orgs, next_automations)) AS i (org_id, run_id, turn)
            WHERE i.run_id IS NOT NULL
        ), stamped AS (
            INSERT INTO fairness_orgs AS f (org_id, last_vt)
            SELECT w.org_id, clock + count(*) FROM following AS w GROUP BY w.org_id ORDER BY w.org_id
            ON CONFLICT (org_id) DO UPDATE SET last_vt = greatest(f.last_vt, clock) + excluded.last_vt - clock
            RETURNING f.org_id, f.last_vt
        ), turns AS (
            SELECT w.org_id, w.run_id, w.turn,
                s.last_vt - row_number() OVER (PARTITION BY w.org_id ORDER BY w.run_id DESC) AS vt
            FROM following AS w JOIN stamped AS s ON s.org_id = w.org_id
        )
        UPDATE runs AS r SET queue = 'ready', vt = t.vt, turn = t.turn
        FROM turns AS t WHERE r.org_id = t.org_id AND r.id = t.run_id AND r.queue || '' = 'blocked';
    END IF;
    IF failed_before THEN
        UPDATE schedules AS s SET consecutive_failures = 0
        FROM unnest(next_orgs, next_automations) AS i (org_id, automation_id)
        WHERE s.org_id = i.org_id AND s.automation_id = i.automation_id AND s.consecutive_failures > 0;
    END IF;
    RETURN QUERY SELECT owned[o], coalesce(owned[o] = ANY (ended), false), cancel_codes[o]
    FROM generate_subscripts(owned, 1) AS o;
END $$;

-- Locks the schedules that are still due, skipping those locked by others, and returns what decides about their slots.
-- The second statement sees what was committed before the locks were taken.
CREATE OR REPLACE FUNCTION steward_lock_slots(orgs bigint[], ids text[])
RETURNS TABLE (org_id bigint, id text, next_slot_at bigint, slots_after bigint, version bigint, kind text,
    template_id text, template_version bigint, integration_id bigint, name text, state text, inputs text,
    schedule text, timezone text, spread_minutes bigint, connections text, bindings text, plan_version bigint,
    automations_on boolean, closed_from bigint, active_run text, has_stored_rows boolean) LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public AS $$
#variable_conflict use_column
DECLARE
    locked_orgs bigint[];
    locked_ids text[];
BEGIN
    SELECT array_agg(l.org_id), array_agg(l.automation_id) INTO locked_orgs, locked_ids
    FROM (SELECT s.org_id, s.automation_id FROM unnest(orgs, ids) AS k (org_id, id)
          JOIN schedules AS s ON s.org_id = k.org_id AND s.automation_id = k.id
          WHERE s.due_at <= steward_now()
          ORDER BY s.org_id, s.automation_id FOR UPDATE OF s SKIP LOCKED) AS l;
    RETURN QUERY
    SELECT s.org_id, s.automation_id, s.next_slot_at, s.slots_after, a.version, a.kind, a.template_id,
        a.template_version, a.integration_id, a.name, a.state, a.inputs, a.schedule, a.timezone,
        a.spread_minutes, a.connections, a.bindings, a.plan_version, o.automations_on, o.closed_from,
        (SELECT r.id FROM runs AS r WHERE (r.org_id = k.org_id) IS TRUE AND r.automation_id COLLATE "POSIX" = k.id
         AND r.turn = s.turn AND r.mode = 'live' AND r.queue IN ('ready', 'leased', 'sleeping', 'parked')),
        EXISTS (SELECT 1 FROM occurrences AS c WHERE c.org_id = s.org_id AND c.automation_id = s.automation_id
                AND c.slot_at >= s.next_slot_at)
        OR EXISTS (SELECT 1 FROM occurrences AS c WHERE c.org_id = s.org_id
                   AND c.automation_id = s.automation_id AND c.state = 'pending')
    FROM unnest(locked_orgs, locked_ids) AS k (org_id, id)
    JOIN schedules AS s ON s.org_id = k.org_id AND s.automation_id = k.id
    JOIN automations AS a ON a.org_id = k.org_id AND a.id = k.id
    JOIN organizations AS o ON o.org_id = k.org_id
    ORDER BY k.org_id, k.id;
END $$;

-- Starts a run for each slot whose automation has no active run, advances its schedule, and returns which those are. The
-- caller holds the schedules' locks and passes the slots by rising organization and automation.
CREATE OR REPLACE FUNCTION steward_start_slots(orgs bigint[], ids text[], run_ids text[], slots bigint[], keys text[],
    nexts bigint[], names text[], versions bigint[], templates text[], template_versions bigint[], plans bigint[],
    stores bigint[])
RETURNS TABLE (n bigint) LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public AS $$
#variable_conflict use_column
DECLARE
    now_ms bigint := steward_now();
    clock bigint;
    started bigint[];
BEGIN
    SELECT c.vt INTO clock FROM fairness_clock AS c WHERE c.singleton = 1;
    WITH slots_to_start AS (
        SELECT i.* FROM unnest(orgs, ids, run_ids, slots, plans, names, versions, templates, template_versions,
            stores) WITH ORDINALITY AS i (org_id, id, run_id, slot_at, plan_version, name, version, template_id,
            template_version, store, n)
    ), stamped AS (
        INSERT INTO fairness_orgs AS f (org_id, last_vt)
        SELECT w.org_id, clock + count(*) FROM slots_to_start AS w GROUP BY w.org_id ORDER BY w.org_id
        ON CONFLICT (org_id) DO UPDATE SET last_vt = greatest(f.last_vt, clock) + excluded.last_vt - clock
        RETURNING f.org_id, f.last_vt
    ), inserted AS (
        INSERT INTO runs (org_id, id, automation_id, integration_id, mode, status, queue, vt, epoch, attempt, last_seq,
            plan_version, slot_at, leased_ms, queued_at, automation_name, automation_version, template_id,
            template_version, started_by)
        SELECT w.org_id, w.run_id, w.id, w.store, 'live', 'queued', 'ready',
            s.last_vt - row_number() OVER (PARTITION BY w.org_id ORDER BY w.n DESC), 0, 1, 0,
            w.plan_version, w.slot_at, 0, now_ms, w.name, w.version, w.template_id, w.template_version, 'schedule'
        FROM slots_to_start AS w JOIN stamped AS s ON s.org_id = w.org_id
        ON CONFLICT (org_id, automation_id, turn) WHERE mode = 'live' AND queue IN ('ready', 'leased', 'sleeping', 'parked')
            DO NOTHING
        RETURNING runs.id
    )
    SELECT array_agg(i.n) INTO started FROM unnest(run_ids) WITH ORDINALITY AS i (run_id, n) JOIN inserted ON inserted.id = i.run_id;
    INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, run_id, version,
        by_auditor, from_edit, updated_at)
    SELECT i.org_id, i.id, i.slot_at, i.slot_at, i.key, 'queued', i.run_id, 0, false, false, now_ms
    FROM unnest(orgs, ids, run_ids, slots, keys) WITH ORDINALITY AS i (org_id, id, run_id, slot_at, key, n)
    WHERE i.n = ANY (started);
    UPDATE schedules AS s SET next_run_at = i.next_at, due_at = i.next_at, next_slot_at = i.next_at
    FROM unnest(orgs, ids, nexts) WITH ORDINALITY AS i (org_id, id, next_at, n)
    WHERE i.n = ANY (started) AND s.org_id = i.org_id AND s.automation_id = i.id;
    DELETE FROM deferred_rows AS f USING unnest(ids) WITH ORDINALITY AS i (id, n)
    WHERE f.task = 'dispatch' AND f.key = i.id AND i.n = ANY (started);
    RETURN QUERY SELECT unnest(started);
END $$;

-- Records slots that a closed period leaves out, and advances their schedules to the slot after each and to the first open
-- one. The caller holds the schedules' locks.
CREATE OR REPLACE FUNCTION steward_skip_closed_slots(orgs bigint[], ids text[], slots bigint[], keys text[], names text[],
    nexts bigint[], opens bigint[])
RETURNS void LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, public AS $$
DECLARE
    now_ms bigint := steward_now();
BEGIN
    INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, reason, closed_name, version,
        by_auditor, from_edit, updated_at)
    SELECT i.org_id, i.id, i.slot_at, i.slot_at, i.key, 'skipped', 'by_merchant', i.name, 0, false, false, now_ms
    FROM unnest(orgs, ids, slots, keys, names) AS i (org_id, id, slot_at, key, name);
    UPDATE schedules AS s SET next_run_at = i.open_at, due_at = i.next_at, next_slot_at = i.next_at
    FROM unnest(orgs, ids, nexts, opens) AS i (org_id, id, next_at, open_at)
    WHERE s.org_id = i.org_id AND s.automation_id = i.id;
    DELETE FROM deferred_rows AS f WHERE f.task = 'dispatch' AND f.key = ANY (ids);
END $$;

-- Rights -----------------------------------------------------------------------------------------------------

-- Lets steward_queue see transactions of other roles and standbys. Without the grant queue_open_transactions() returns no
-- sessions of other roles, queue_standbys() and queue_followers() no standbys, and queue_sees_sessions() returns false.
DO $$
BEGIN
    GRANT pg_read_all_stats TO steward_queue;
EXCEPTION WHEN insufficient_privilege THEN
    NULL;
END $$;

REVOKE ALL ON FUNCTION steward_create_partitions(bigint, int), steward_drop_partitions(text, text),
    steward_protect_partition(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION steward_create_partitions(bigint, int), steward_drop_partitions(text, text) TO steward_app;

DO $$
DECLARE
    queue_function regprocedure;
BEGIN
    FOR queue_function IN
        SELECT p.oid FROM pg_proc AS p
        WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'queue\_%'
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO steward_queue', queue_function);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', queue_function);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO steward_app', queue_function);
    END LOOP;
END $$;
