-- The functions of a run's life, each one call in a transaction of its own: they open the wall themselves, and their
-- plans are made once (`force_generic_plan`). Planning anew, which a list of unknown length invites, was two thirds
-- of what ending a run cost. With the joins and scans of whole tables left out no plan that was made while the
-- tables were small goes bad. Those they take the place of stay for the release before.

-- Opens the wall to the organisations of a batch for this transaction, and answers the clock.
CREATE FUNCTION steward_walls(orgs bigint[], test_now bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN steward_enter((SELECT string_agg(DISTINCT org::text, ',') FROM unnest(orgs) AS org), true, test_now);
END $$;

-- An automation as `store/automations.py` reads it, as JSON; null when it is not there.
CREATE FUNCTION steward_automation(of_org bigint, of_id text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT row_to_json(x) FROM (
        SELECT a.org_id, a.id, a.version, a.kind, a.import_id, a.template_id, a.template_version, a.source, a.platform,
            a.integration_id, a.store_label, a.name, a.state, a.paused_by, a.paused_reason, a.inputs, a.schedule,
            a.timezone, a.spread_minutes, a.trigger_json, a.connections, a.bindings, a.send_mode, a.plan_version,
            a.created_at, a.updated_at, a.created_by, a.created_via, a.api_client_id, s.next_run_at, s.last_run_at,
            s.consecutive_failures, l.dropped, l.dropped_at,
            CASE WHEN a.state = 'active' AND a.trigger_json LIKE '{"kind":"event"%' THEN (
                SELECT max(CASE WHEN c.state <> 'connected'
                                THEN '3' || c.name || ' is not connected. Reconnect it in the web app.'
                                WHEN h.state = 'failed' THEN '2' || coalesce(h.reason, '')
                                WHEN h.state = 'yes' THEN '0' ELSE '1' END)
                FROM automation_topics AS t
                JOIN connections AS c ON c.org_id = t.org_id AND c.integration_id = t.integration_id
                LEFT JOIN topics_heard AS h
                    ON h.org_id = t.org_id AND h.integration_id = t.integration_id AND h.topic = t.topic
                WHERE t.org_id = a.org_id AND t.automation_id = a.id) END AS heard
        FROM automations AS a
        JOIN schedules AS s ON s.org_id = a.org_id AND s.automation_id = a.id
        LEFT JOIN lanes AS l ON l.org_id = a.org_id AND l.automation_id = a.id
        WHERE a.org_id = of_org AND a.id = of_id) AS x);
END $$;

-- What a run by hand is judged by, of several at once: the automation; whether its key was used, or too many runs
-- wait as it looks; and of the first of each organisation the connections that can be used.
CREATE FUNCTION steward_standing(orgs bigint[], automations text[], keys text[], most bigint, test_now bigint)
RETURNS TABLE (n bigint, present bigint, automation text, is_apart boolean, connected bigint[])
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    here bigint := steward_walls(orgs, test_now);
BEGIN
    RETURN QUERY
    SELECT i.n, here, steward_automation(i.org_id, i.automation_id),
        EXISTS (SELECT 1 FROM idem_keys AS k WHERE k.org_id = i.org_id AND k.kind = 'run' AND k.key = i.key)
        OR (SELECT count(*) FROM (SELECT 1 FROM runs AS r WHERE r.org_id = i.org_id
                AND r.automation_id = i.automation_id AND r.status = 'queued' LIMIT most) AS counted) >= most - 1,
        CASE WHEN row_number() OVER (PARTITION BY i.org_id ORDER BY i.n) = 1 THEN ARRAY(
            SELECT c.integration_id FROM connections AS c WHERE c.org_id = i.org_id AND c.state = 'connected') END
    FROM unnest(orgs, automations, keys) WITH ORDINALITY AS i (org_id, automation_id, key, n);
END $$;

-- Run now (engine 4.1), several at once: lanes locked, keys kept, limits looked at, and each run ready or blocked
-- behind its lane's holder; a lane that is free is taken by the first live run of its automation. Raises when a key
-- was used meanwhile or too many wait: then none is made.
CREATE FUNCTION steward_start(orgs bigint[], run_ids text[], automations text[], modes text[], keys text[], shas text[],
    most bigint, names text[], versions bigint[], templates text[], template_versions bigint[], plans bigint[],
    persons bigint[], vias text[], clients text[], test_now bigint)
RETURNS TABLE (n bigint, queued_at bigint) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    present bigint := steward_walls(orgs, test_now);
    clock bigint;
    kept bigint;
    held_orgs bigint[];
    held_automations text[];
    holders text[];
BEGIN
    WITH first AS (
        SELECT i.org_id, i.automation_id, (array_agg(i.run_id ORDER BY i.n) FILTER (WHERE i.mode = 'live'))[1] AS run_id
        FROM unnest(orgs, automations, run_ids, modes) WITH ORDINALITY AS i (org_id, automation_id, run_id, mode, n)
        GROUP BY i.org_id, i.automation_id
    ), locked AS (
        INSERT INTO lanes AS l (org_id, automation_id, holder_run_id, dropped)
        SELECT f.org_id, f.automation_id, f.run_id, 0 FROM first AS f ORDER BY f.org_id, f.automation_id
        ON CONFLICT (org_id, automation_id) DO UPDATE SET holder_run_id = coalesce(l.holder_run_id, excluded.holder_run_id)
        RETURNING l.org_id, l.automation_id, l.holder_run_id
    )
    SELECT array_agg(locked.org_id), array_agg(locked.automation_id), array_agg(locked.holder_run_id)
    INTO held_orgs, held_automations, holders FROM locked;
    INSERT INTO idem_keys (org_id, kind, key, automation_id, object_id, request_sha256, created_at)
    SELECT i.org_id, 'run', i.key, i.automation_id, i.run_id, i.sha, present
    FROM unnest(orgs, keys, automations, run_ids, shas) AS i (org_id, key, automation_id, run_id, sha)
    ORDER BY i.org_id, i.key
    ON CONFLICT (org_id, kind, key) DO NOTHING;
    GET DIAGNOSTICS kept = ROW_COUNT;
    IF kept < array_length(keys, 1) THEN
        RAISE EXCEPTION 'a key was used meanwhile';
    END IF;
    PERFORM 1 FROM unnest(held_orgs, held_automations, holders) AS h (org_id, automation_id, holder)
    WHERE (SELECT count(*) FROM (SELECT 1 FROM runs AS r WHERE r.org_id = h.org_id
               AND r.automation_id = h.automation_id AND r.status = 'queued' LIMIT most) AS counted)
        + (SELECT count(*) FROM runs AS r WHERE r.org_id = h.org_id AND r.id = h.holder
           AND r.status = 'waiting_approval')
        + (SELECT count(*) FROM unnest(orgs, automations) AS i (org_id, automation_id)
           WHERE i.org_id = h.org_id AND i.automation_id = h.automation_id) > most;
    IF FOUND THEN
        RAISE EXCEPTION 'too many runs wait';
    END IF;
    SELECT c.vt INTO clock FROM fair_clock AS c WHERE c.one = 1;
    WITH wanted AS (
        SELECT i.*, i.mode = 'test' OR i.run_id = ANY (holders) AS is_ready
        FROM unnest(orgs, run_ids, automations, modes, plans)
            WITH ORDINALITY AS i (org_id, run_id, automation_id, mode, plan_version, n)
    ), stamped AS (
        INSERT INTO fair_orgs AS f (org_id, last_vt)
        SELECT w.org_id, clock + count(*) FROM wanted AS w WHERE w.is_ready GROUP BY w.org_id ORDER BY w.org_id
        ON CONFLICT (org_id) DO UPDATE SET last_vt = greatest(f.last_vt, clock) + excluded.last_vt - clock
        RETURNING f.org_id, f.last_vt
    ), turns AS (
        SELECT w.*, CASE WHEN w.is_ready THEN (SELECT s.last_vt FROM stamped AS s WHERE s.org_id = w.org_id)
            - row_number() OVER (PARTITION BY w.org_id, w.is_ready ORDER BY w.n DESC) ELSE 0 END AS vt
        FROM wanted AS w
    )
    INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq, plan_version,
        leased_ms, queued_at)
    SELECT t.org_id, t.run_id, t.automation_id, t.mode, 'queued', CASE WHEN t.is_ready THEN 'ready' ELSE 'blocked' END,
        t.vt, 0, 1, 0, t.plan_version, 0, present
    FROM turns AS t ORDER BY t.n;
    INSERT INTO run_facts (org_id, run_id, automation_id, automation_name, automation_version, template_id,
        template_version, started_by, idempotency_key, created_by, created_via, api_client_id)
    SELECT i.org_id, i.run_id, i.automation_id, i.name, i.version, i.template_id, i.template_version, 'hand', i.key,
        i.person, i.via, i.client
    FROM unnest(orgs, run_ids, automations, names, versions, templates, template_versions, keys, persons, vias, clients)
        AS i (org_id, run_id, automation_id, name, version, template_id, template_version, key, person, via, client);
    RETURN QUERY SELECT i.n, present FROM generate_series(1, array_length(run_ids, 1)::bigint) AS i (n);
END $$;

-- Leases ready runs in fair order (engine 6) and moves the present up to the largest stamp that was taken, unless
-- another is doing so.
CREATE FUNCTION queue_lease(worker bigint, free bigint, full_orgs bigint[], test_now bigint)
RETURNS TABLE (org_id bigint, id text, vt bigint, epoch bigint, attempt bigint, is_fresh boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    latest bigint := 0;
BEGIN
    IF test_now IS NOT NULL THEN
        PERFORM set_config('steward.test_now', test_now::text, true);
    END IF;
    FOR org_id, id, vt, epoch, attempt, is_fresh IN
        UPDATE runs AS r SET queue = 'leased', worker_id = worker, epoch = r.epoch + 1
        FROM (SELECT c.org_id, c.id FROM runs AS c
              WHERE c.queue = 'ready' AND c.org_id <> ALL (full_orgs)
                AND EXISTS (SELECT 1 FROM workers AS w
                            WHERE w.worker_id = worker AND w.state = 'alive' AND w.lease_until > steward_now())
              ORDER BY c.vt, c.id LIMIT free FOR UPDATE SKIP LOCKED) AS t
        WHERE r.org_id = t.org_id AND r.id = t.id
        RETURNING r.org_id, r.id, r.vt, r.epoch, r.attempt, r.started_at IS NULL
    LOOP
        latest := greatest(latest, vt);
        RETURN NEXT;
    END LOOP;
    IF latest > 0 THEN
        UPDATE fair_clock AS c SET vt = latest WHERE c.one IN
            (SELECT o.one FROM fair_clock AS o WHERE o.one = 1 AND o.vt < latest FOR UPDATE SKIP LOCKED);
    END IF;
END $$;

-- Leased runs as `store/runs.py` and `store/run_queue.py` read them, with their automations, the organisation's
-- switch, and of the first of each organisation the connections that can be used.
CREATE FUNCTION steward_leased(orgs bigint[], run_ids text[], test_now bigint)
RETURNS TABLE (n bigint, run text, automation text, is_on boolean, connected bigint[]) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
BEGIN
    PERFORM steward_walls(orgs, test_now);
    RETURN QUERY
    SELECT i.n, (SELECT row_to_json(x)::text FROM (
            SELECT r.org_id, r.id, r.automation_id, r.mode, r.status, r.last_seq, r.plan_version, r.slot_at,
                r.approval_id, r.cancel_at, r.queued_at, r.started_at, r.waiting_since, r.expires_at, r.finished_at,
                f.automation_name, f.automation_version, f.template_id, f.template_version, f.started_by, f.event_id,
                f.event_topic, f.event_received_at, f.idempotency_key, f.created_by, f.created_via, f.api_client_id,
                f.code, f.message, f.current_step, f.summary, f.result, r.queue, r.attempt, r.cancel_code, r.leased_ms
            FROM run_facts AS f WHERE f.org_id = r.org_id AND f.run_id = r.id) AS x),
        steward_automation(r.org_id, r.automation_id), o.automations_on,
        CASE WHEN row_number() OVER (PARTITION BY i.org_id ORDER BY i.n) = 1 THEN ARRAY(
            SELECT c.integration_id FROM connections AS c WHERE c.org_id = i.org_id AND c.state = 'connected') END
    FROM unnest(orgs, run_ids) WITH ORDINALITY AS i (org_id, run_id, n)
    JOIN runs AS r ON r.org_id = i.org_id AND r.id = i.run_id
    JOIN organizations AS o ON o.org_id = i.org_id;
END $$;

-- As `steward_runs_begin` and `steward_checkpoints`, each by itself; the first tells when it was too.
CREATE FUNCTION steward_begin(orgs bigint[], run_ids text[], epochs bigint[], automations text[], live boolean[],
    outputs bytea[], test_now bigint)
RETURNS TABLE (n bigint, present bigint) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    here bigint := steward_walls(orgs, test_now);
BEGIN
    RETURN QUERY SELECT b.n, here FROM steward_runs_begin(orgs, run_ids, epochs, automations, live, outputs) AS b;
END $$;
CREATE FUNCTION steward_checkpoint(orgs bigint[], run_ids text[], epochs bigint[], seqs bigint[], names text[],
    iterations text[], attempts bigint[], statuses text[], changes bigint[], wires text[], mark text,
    outputs bytea[], unknowns text[], states text[], test_now bigint)
RETURNS TABLE (n bigint, cancel_code text) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    PERFORM steward_walls(orgs, test_now);
    RETURN QUERY SELECT c.n, c.cancel_code FROM steward_checkpoints(orgs, run_ids, epochs, seqs, names, iterations,
        attempts, statuses, changes, wires, mark, outputs, unknowns, states) AS c;
END $$;

-- Runs that walked to their end, together with their last step where `seqs` names one: step, value, status, last
-- words, lane, failures in a row, and the next of the automation may go, with a fresh stamp (engine 8). Tells which
-- were still held, and which of them ended: one that somebody wants to stop takes its last step and goes on, and
-- one whose lane is another's is left to the way that knows all cases.
CREATE FUNCTION steward_close(orgs bigint[], run_ids text[], epochs bigint[], automations text[], live boolean[],
    messages text[], summaries text[], results text[], seqs bigint[], names text[], iterations text[],
    attempts bigint[], statuses text[], changes bigint[], wires text[], mark text, outputs bytea[], unknowns text[],
    states text[], test_now bigint)
RETURNS TABLE (n bigint, is_ended boolean, cancel_code text) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    present bigint := steward_walls(orgs, test_now);
    told text := to_char(to_timestamp(0) AT TIME ZONE 'UTC' + present * interval '1 millisecond',
        '"\"finished_at\":\""YYYY-MM-DD"T"HH24:MI:SS.MS"Z\""');
    clock bigint;
    failed_before boolean;
    ours bigint[];
    wishes text[];
    ended bigint[];
    stepped bigint[];
    next_orgs bigint[];
    next_automations text[];
    next_runs text[];
BEGIN
    -- Only one live run of an automation ends at a time: a schedule without failures stays as it is.
    SELECT bool_or(q.failed) INTO failed_before FROM (
        SELECT true AS failed FROM unnest(orgs, automations, live) AS i (org_id, automation_id, live)
        JOIN schedules AS s ON s.org_id = i.org_id AND s.automation_id = i.automation_id
        WHERE i.live AND s.consecutive_failures > 0 ORDER BY s.org_id, s.automation_id FOR UPDATE OF s) AS q;
    PERFORM 1 FROM unnest(orgs, automations, live) AS i (org_id, automation_id, live)
    JOIN lanes AS l ON l.org_id = i.org_id AND l.automation_id = i.automation_id
    WHERE i.live ORDER BY l.org_id, l.automation_id FOR UPDATE OF l;
    WITH held AS (
        SELECT r.org_id, r.id, i.n, i.seq, (i.seq IS NULL OR r.cancel_code IS NULL) AND (NOT i.live
            OR EXISTS (SELECT 1 FROM lanes AS l WHERE l.org_id = i.org_id AND l.automation_id = i.automation_id
                       AND l.holder_run_id = i.run_id)) AS ends
        FROM unnest(orgs, run_ids, epochs, automations, live, seqs)
            WITH ORDINALITY AS i (org_id, run_id, epoch, automation_id, live, seq, n)
        JOIN runs AS r ON r.org_id = i.org_id AND r.id = i.run_id
        WHERE r.epoch = i.epoch AND r.queue = 'leased' AND (i.seq IS NULL OR r.last_seq = i.seq - 1)
        ORDER BY r.id FOR UPDATE OF r
    ), moved AS (
        UPDATE runs AS r SET last_seq = coalesce(held.seq, r.last_seq),
            status = CASE WHEN held.ends THEN 'succeeded' ELSE r.status END,
            queue = CASE WHEN held.ends THEN 'done' ELSE r.queue END,
            worker_id = CASE WHEN held.ends THEN NULL ELSE r.worker_id END,
            finished_at = CASE WHEN held.ends THEN present END,
            expires_at = CASE WHEN held.ends THEN NULL ELSE r.expires_at END
        FROM held WHERE r.org_id = held.org_id AND r.id = held.id AND (held.ends OR held.seq IS NOT NULL)
        RETURNING held.n, held.ends, held.seq, r.cancel_code
    )
    SELECT array_agg(moved.n), array_agg(moved.cancel_code), array_agg(moved.n) FILTER (WHERE moved.ends),
        array_agg(moved.n) FILTER (WHERE moved.seq IS NOT NULL)
    INTO ours, wishes, ended, stepped FROM moved;
    INSERT INTO steps (org_id, run_id, seq, name, iteration, attempt, status, finished_at, changes_total, wire)
    SELECT orgs[o], run_ids[o], seqs[o], names[o], iterations[o], attempts[o], statuses[o], present, changes[o],
        replace(wires[o], mark, told)
    FROM unnest(stepped) AS o;
    INSERT INTO step_values (org_id, run_id, name, iteration, seq, output, unknown_paths, state)
    SELECT orgs[o], run_ids[o], names[o], iterations[o], seqs[o], outputs[o], unknowns[o], states[o]
    FROM unnest(stepped) AS o
    ON CONFLICT (org_id, run_id, name, iteration) DO UPDATE
    SET seq = excluded.seq, output = excluded.output, unknown_paths = excluded.unknown_paths,
        state = excluded.state;
    UPDATE run_facts AS f SET code = NULL, message = i.message, current_step = NULL,
        summary = coalesce(i.summary, f.summary), result = coalesce(i.result, f.result)
    FROM unnest(orgs, run_ids, messages, summaries, results)
        WITH ORDINALITY AS i (org_id, run_id, message, summary, result, n)
    WHERE i.n = ANY (ended) AND f.org_id = i.org_id AND f.run_id = i.run_id;
    SELECT array_agg(i.org_id), array_agg(i.automation_id),
        array_agg((SELECT b.id FROM runs AS b WHERE b.org_id = i.org_id AND b.automation_id = i.automation_id
                   AND b.queue = 'blocked' AND b.status = 'queued' ORDER BY b.queued_at, b.id LIMIT 1))
    INTO next_orgs, next_automations, next_runs
    FROM unnest(orgs, automations, live) WITH ORDINALITY AS i (org_id, automation_id, live, n)
    WHERE i.n = ANY (ended) AND i.live;
    UPDATE lanes AS l SET holder_run_id = i.run_id
    FROM unnest(next_orgs, next_automations, next_runs) AS i (org_id, automation_id, run_id)
    WHERE l.org_id = i.org_id AND l.automation_id = i.automation_id;
    IF array_remove(next_runs, NULL) <> '{}' THEN
        SELECT c.vt INTO clock FROM fair_clock AS c WHERE c.one = 1;
        WITH following AS (
            SELECT i.* FROM unnest(next_orgs, next_runs) AS i (org_id, run_id) WHERE i.run_id IS NOT NULL
        ), stamped AS (
            INSERT INTO fair_orgs AS f (org_id, last_vt)
            SELECT w.org_id, clock + count(*) FROM following AS w GROUP BY w.org_id ORDER BY w.org_id
            ON CONFLICT (org_id) DO UPDATE SET last_vt = greatest(f.last_vt, clock) + excluded.last_vt - clock
            RETURNING f.org_id, f.last_vt
        ), turns AS (
            SELECT w.org_id, w.run_id,
                s.last_vt - row_number() OVER (PARTITION BY w.org_id ORDER BY w.run_id DESC) AS vt
            FROM following AS w JOIN stamped AS s ON s.org_id = w.org_id
        )
        UPDATE runs AS r SET queue = 'ready', vt = t.vt
        FROM turns AS t WHERE r.org_id = t.org_id AND r.id = t.run_id AND r.queue = 'blocked';
    END IF;
    IF failed_before THEN
        UPDATE schedules AS s SET consecutive_failures = 0
        FROM unnest(next_orgs, next_automations) AS i (org_id, automation_id)
        WHERE s.org_id = i.org_id AND s.automation_id = i.automation_id AND s.consecutive_failures > 0;
    END IF;
    RETURN QUERY SELECT ours[o], coalesce(ours[o] = ANY (ended), false), wishes[o]
    FROM generate_subscripts(ours, 1) AS o;
END $$;

-- What each process asks every second: as before, but in one call by itself, whose plan is made once a connection.
CREATE OR REPLACE FUNCTION queue_full(cap bigint) RETURNS TABLE (org_id bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT r.org_id FROM runs AS r WHERE r.queue = 'leased' GROUP BY r.org_id HAVING count(*) >= cap;
END $$;
CREATE FUNCTION queue_due(most bigint, test_now bigint) RETURNS TABLE (org_id bigint, automation_id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    here bigint := coalesce(test_now, steward_now());
BEGIN
    RETURN QUERY SELECT s.org_id, s.automation_id FROM schedules AS s
    WHERE s.next_run_at <= here
      AND NOT EXISTS (SELECT 1 FROM tick_failures AS f
                      WHERE f.tick = 'dispatch' AND f.key = s.automation_id AND f.not_before > here)
    ORDER BY s.next_run_at, s.automation_id LIMIT most;
END $$;
CREATE FUNCTION queue_wake(most bigint, test_now bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    here bigint := coalesce(test_now, steward_now());
BEGIN
    RETURN QUERY SELECT r.org_id, r.id FROM runs AS r WHERE r.queue = 'sleeping' AND r.wake_at <= here
      AND NOT EXISTS (SELECT 1 FROM tick_failures AS f
                      WHERE f.tick = 'wake' AND f.key = r.id AND f.not_before > here)
    ORDER BY r.wake_at LIMIT most;
END $$;
CREATE FUNCTION queue_events(most bigint, test_now bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    here bigint := coalesce(test_now, steward_now());
BEGIN
    RETURN QUERY SELECT e.org_id, e.id FROM events AS e WHERE e.state = 'new' AND e.not_before <= here
    ORDER BY e.not_before, e.id LIMIT most;
END $$;

-- A run's row moves when it is taken, begun and ended, whatever room its page has; its steps' updates find room where
-- the rows before it were. A page kept free for them was a page more to read.
ALTER TABLE runs RESET (fillfactor);

-- Rows with one time are few: they are sorted when they are read, and the index needs no second key for it.
DROP INDEX runs_by_age;
CREATE INDEX runs_by_age ON runs (org_id, queued_at);
DROP INDEX runs_of_automation;
CREATE INDEX runs_of_automation ON runs (org_id, automation_id, queued_at);
DROP INDEX approvals_by_end;
CREATE INDEX approvals_by_end ON approvals (org_id, expires_at);

DO $$
DECLARE
    worked text;
BEGIN
    GRANT SELECT, UPDATE ON fair_clock TO steward_queue;
    FOREACH worked IN ARRAY ARRAY['queue_lease(bigint, bigint, bigint[], bigint)', 'queue_due(bigint, bigint)',
        'queue_wake(bigint, bigint)', 'queue_events(bigint, bigint)']
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO steward_queue', worked);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', worked);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO steward_app', worked);
    END LOOP;
END $$;
