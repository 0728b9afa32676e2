-- PostgreSQL keeps by the month what grows with every run: ranges of the ULID text, which sorts by time. Old
-- months are dropped, not deleted from. `..._rest` takes what falls into no month that was made in time.

ALTER TABLE approvals DROP CONSTRAINT approvals_org_id_run_id_fkey;

-- The least id made at an instant.
CREATE FUNCTION steward_id_floor(instant bigint) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog AS $$
    SELECT string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((instant >> (5 * place)) & 31)::int + 1, 1), ''
                      ORDER BY place DESC) || repeat('0', 16)
    FROM generate_series(0, 9) AS place
$$;

CREATE FUNCTION steward_month_ms(of_month timestamp) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog AS $$
    SELECT (extract(epoch FROM of_month AT TIME ZONE 'UTC') * 1000)::bigint
$$;

CREATE FUNCTION steward_month(instant bigint) RETURNS timestamp
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog AS $$
    SELECT date_trunc('month', to_timestamp(instant / 1000.0) AT TIME ZONE 'UTC')
$$;

-- Shuts a partition: the role that serves reaches it through its table alone, and so through that one's wall.
CREATE FUNCTION steward_wall_partition(partition text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', partition);
    EXECUTE format('ALTER TABLE public.%I FORCE ROW LEVEL SECURITY', partition);
    EXECUTE format('REVOKE ALL ON public.%I FROM PUBLIC, steward_app', partition);
END $$;

-- Makes the months from an instant on for every table that is partitioned by range, and tells how many were
-- missing. A month of which `..._rest` holds rows already is left to it.
CREATE FUNCTION steward_make_months(since bigint, months int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '2s' AS $$
DECLARE
    parent record;
    first_of timestamp;
    made text;
    made_in_all bigint := 0;
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
            first_of := public.steward_month(since) + n * interval '1 month';
            made := parent.relname || to_char(first_of, '_YYYY_MM');
            CONTINUE WHEN to_regclass(format('public.%I', made)) IS NOT NULL;
            EXECUTE format('LOCK TABLE public.%I IN SHARE UPDATE EXCLUSIVE MODE', parent.relname);
            CONTINUE WHEN to_regclass(format('public.%I', made)) IS NOT NULL;
            BEGIN
                EXECUTE format('CREATE TABLE public.%I (LIKE public.%I INCLUDING ALL)', made, parent.relname);
                EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
                    parent.relname, made, public.steward_id_floor(public.steward_month_ms(first_of)),
                    public.steward_id_floor(public.steward_month_ms(first_of + interval '1 month')));
            EXCEPTION WHEN check_violation THEN
                CONTINUE;  -- rows of this month are in the rest
            END;
            PERFORM public.steward_wall_partition(made);
            made_in_all := made_in_all + 1;
        END LOOP;
    END LOOP;
    RETURN made_in_all;
END $$;

-- Drops the months of a table whose ids all lie before `border`, and tells how many. Nothing of the last week
-- goes, whoever asks, and nothing of the audit log at all.
CREATE FUNCTION steward_drop_months(parent text, border text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '2s' AS $$
DECLARE
    old record;
    latest text := public.steward_id_floor(public.steward_now() - 7 * 86400000::bigint);
    dropped bigint := 0;
BEGIN
    IF parent NOT IN ('steps', 'step_values', 'changes', 'event_bodies') THEN
        RAISE EXCEPTION 'the months of % stay', parent;
    END IF;
    FOR old IN
        SELECT c.relname FROM pg_inherits AS i
        JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = to_regclass(format('public.%I', parent))
          AND c.relname ~ (parent || '_[0-9]{4}_[0-9]{2}$')
        ORDER BY c.relname
    LOOP
        CONTINUE WHEN public.steward_id_floor(public.steward_month_ms(
                to_timestamp(right(old.relname, 7), 'YYYY_MM')::timestamp + interval '1 month'))
            > least(border COLLATE "C", latest COLLATE "C");
        EXECUTE format('DROP TABLE public.%I', old.relname);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;

-- The tables of the first release, made anew by the month. Their reference to the run is left out: rows are
-- written under the run's locked row alone, and with it no month could be dropped without shutting `runs`.
DO $$
DECLARE
    parent record;
    oldest bigint := least((SELECT min(queued_at) FROM runs), (SELECT min(at) FROM audit_log), steward_now());
    months int := greatest(1, least(117, (extract(year FROM age(steward_month(steward_now()),
        steward_month(oldest))) * 12 + extract(month FROM age(steward_month(steward_now()),
        steward_month(oldest))))::int)) + 2;
BEGIN
    FOR parent IN
        SELECT * FROM (VALUES ('audit_log', 'id'), ('changes', 'run_id'), ('step_values', 'run_id'),
            ('steps', 'run_id')) AS t (name, key)
    LOOP
        EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', parent.name);
        EXECUTE format('ALTER TABLE %I RENAME TO %I', parent.name, parent.name || '_before');
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE)
            PARTITION BY RANGE (%I)', parent.name, parent.name || '_before', parent.key);
        EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', parent.name || '_rest', parent.name);
        PERFORM steward_wall_partition(parent.name || '_rest');
    END LOOP;
    -- The names of keys and indexes go with the old tables first.
    ALTER TABLE audit_log_before DROP CONSTRAINT audit_log_pkey;
    ALTER TABLE changes_before DROP CONSTRAINT changes_pkey;
    ALTER TABLE changes_before DROP CONSTRAINT changes_org_id_run_id_name_iteration_position_key;
    DROP INDEX changes_in_order;
    ALTER TABLE step_values_before DROP CONSTRAINT step_values_pkey;
    ALTER TABLE steps_before DROP CONSTRAINT steps_pkey;
    ALTER TABLE audit_log ADD PRIMARY KEY (org_id, id);
    ALTER TABLE changes ADD PRIMARY KEY (org_id, run_id, id);
    ALTER TABLE changes ADD UNIQUE (org_id, run_id, name, iteration, position);
    CREATE INDEX changes_in_order ON changes (org_id, run_id, seq, position);
    ALTER TABLE step_values ADD PRIMARY KEY (org_id, run_id, name, iteration);
    ALTER TABLE steps ADD PRIMARY KEY (org_id, run_id, seq);
    PERFORM steward_make_months(oldest, months);
    FOR parent IN
        SELECT * FROM (VALUES ('audit_log'), ('changes'), ('step_values'), ('steps')) AS t (name)
    LOOP
        EXECUTE format('INSERT INTO %I SELECT * FROM %I', parent.name, parent.name || '_before');
        EXECUTE format('DROP TABLE %I', parent.name || '_before');
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', parent.name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', parent.name);
        EXECUTE format('CREATE POLICY wall ON %I
            USING (org_id = ANY ((SELECT string_to_array(nullif(current_setting(''app.orgs''), ''''), '',''))::bigint[]))
            WITH CHECK (org_id = ANY ((SELECT string_to_array(nullif(current_setting(''app.orgs''), ''''), '',''))::bigint[]))',
            parent.name);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO steward_app', parent.name);
    END LOOP;
END $$;
REVOKE UPDATE, DELETE ON audit_log FROM steward_app;
CREATE TRIGGER audit_log_kept BEFORE UPDATE OR DELETE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION steward_append_only();
CREATE TRIGGER steps_kept BEFORE UPDATE ON steps FOR EACH ROW EXECUTE FUNCTION steward_append_only();

REVOKE ALL ON FUNCTION steward_make_months(bigint, int), steward_drop_months(text, text),
    steward_wall_partition(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION steward_make_months(bigint, int), steward_drop_months(text, text) TO steward_app;

-- What has reached its end, of every organisation: ids alone ------------------------------------------------

CREATE FUNCTION queue_retain_runs(border text, before bigint, most bigint)
RETURNS TABLE (org_id bigint, id text) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT o.org_id, r.id FROM dir_orgs AS o
    CROSS JOIN LATERAL (SELECT q.id FROM runs AS q
                        WHERE q.org_id = o.org_id AND q.id < border AND q.finished_at < before
                        ORDER BY q.id LIMIT most) AS r
    ORDER BY o.org_id, r.id LIMIT most
$$;

CREATE FUNCTION queue_retain_slots(before bigint, most bigint)
RETURNS TABLE (org_id bigint, automation_id text, slot_at bigint) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT o.org_id, r.automation_id, r.slot_at FROM dir_orgs AS o
    CROSS JOIN LATERAL (SELECT q.automation_id, q.slot_at FROM occurrences AS q
                        WHERE q.org_id = o.org_id AND q.run_at < before AND q.slot_at < before
                          AND q.state <> 'pending'
                        ORDER BY q.run_at LIMIT most) AS r
    LIMIT most
$$;

-- The oldest run there is, and the oldest that is not finished: no month with its id goes.
CREATE FUNCTION queue_oldest_runs() RETURNS TABLE (any_id text, open_id text) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT (SELECT min(r.id) FROM dir_orgs AS o
            CROSS JOIN LATERAL (SELECT q.id FROM runs AS q WHERE q.org_id = o.org_id
                                ORDER BY q.id LIMIT 1) AS r),
           (SELECT min(r.id) FROM (SELECT q.id FROM runs AS q WHERE q.queue = 'ready'
                                   UNION ALL SELECT q.id FROM runs AS q WHERE q.queue = 'leased'
                                   UNION ALL SELECT q.id FROM runs AS q WHERE q.queue = 'sleeping'
                                   UNION ALL SELECT q.id FROM runs AS q
                                   WHERE q.status IN ('queued', 'waiting_approval')) AS r)
$$;

DO $$
DECLARE
    worked text;
BEGIN
    CREATE POLICY queue ON occurrences TO steward_queue USING (true);
    GRANT SELECT (org_id, automation_id, slot_at, run_at, state) ON occurrences TO steward_queue;
    GRANT SELECT ON dir_orgs TO steward_queue;
    FOREACH worked IN ARRAY ARRAY['queue_retain_runs(text, bigint, bigint)',
        'queue_retain_slots(bigint, bigint)', 'queue_oldest_runs()']
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO steward_queue', worked);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', worked);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO steward_app', worked);
    END LOOP;
END $$;
