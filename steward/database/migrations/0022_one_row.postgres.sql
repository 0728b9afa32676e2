-- Of the release before none runs beside this: its functions go with the tables they wrote and the rights they had.
DROP FUNCTION steward_runs_succeed(bigint[], text[], bigint[], text[], boolean[], text[], text[], text[]);
DROP FUNCTION steward_run_now(bigint, text, text, text, text, text, bigint, text, bigint, text, bigint, bigint, bigint,
    text, text);
DROP FUNCTION steward_runs_begin(bigint[], text[], bigint[], text[], boolean[], bytea[]);
DROP FUNCTION steward_checkpoints(bigint[], text[], bigint[], bigint[], text[], text[], bigint[], text[], bigint[],
    text[], text, bytea[], text[], text[]);
DROP FUNCTION queue_claim(bigint, bigint, bigint[]);

ALTER TABLE runs NO FORCE ROW LEVEL SECURITY;
ALTER TABLE run_facts NO FORCE ROW LEVEL SECURITY;
ALTER TABLE schedules NO FORCE ROW LEVEL SECURITY;
ALTER TABLE lanes NO FORCE ROW LEVEL SECURITY;
UPDATE runs AS r SET automation_name = f.automation_name, automation_version = f.automation_version,
    template_id = f.template_id, template_version = f.template_version, started_by = f.started_by,
    event_id = f.event_id, event_topic = f.event_topic, event_received_at = f.event_received_at,
    idempotency_key = f.idempotency_key, created_by = f.created_by, created_via = f.created_via,
    api_client_id = f.api_client_id, code = f.code, message = f.message, current_step = f.current_step,
    summary = f.summary, result = f.result
FROM run_facts AS f WHERE f.org_id = r.org_id AND f.run_id = r.id;
UPDATE schedules AS s SET dropped = l.dropped, dropped_at = l.dropped_at
FROM lanes AS l WHERE l.org_id = s.org_id AND l.automation_id = s.automation_id AND l.dropped > 0;
DROP TABLE run_facts;
DROP TABLE lanes;
ALTER TABLE runs FORCE ROW LEVEL SECURITY;
ALTER TABLE schedules FORCE ROW LEVEL SECURITY;
ALTER TABLE runs ALTER COLUMN automation_name DROP DEFAULT, ALTER COLUMN automation_version DROP DEFAULT,
    ALTER COLUMN template_id DROP DEFAULT, ALTER COLUMN template_version DROP DEFAULT,
    ALTER COLUMN started_by DROP DEFAULT;
CREATE UNIQUE INDEX runs_one_an_event ON runs (org_id, automation_id, event_id) WHERE event_id IS NOT NULL;

-- What looks at every organisation's runs needs nothing of what they hold.
REVOKE SELECT, UPDATE ON runs FROM steward_queue;
GRANT SELECT (org_id, id, status, queue, vt, worker_id, epoch, attempt, wake_at, approval_id, queued_at,
    started_at, expires_at, finished_at) ON runs TO steward_queue;
GRANT UPDATE (queue, worker_id, epoch) ON runs TO steward_queue;


-- An automation as `store/automations.py` reads it, as JSON; null when it is not there.
CREATE OR REPLACE FUNCTION steward_automation(of_org bigint, of_id text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT row_to_json(x) FROM (
        SELECT a.org_id, a.id, a.version, a.kind, a.import_id, a.template_id, a.template_version, a.source, a.platform,
            a.integration_id, a.store_label, a.name, a.state, a.paused_by, a.paused_reason, a.inputs, a.schedule,
            a.timezone, a.spread_minutes, a.trigger_json, a.connections, a.bindings, a.send_mode, a.plan_version,
            a.created_at, a.updated_at, a.created_by, a.created_via, a.api_client_id, s.next_run_at, s.last_run_at,
            s.consecutive_failures, s.dropped, s.dropped_at,
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
        WHERE a.org_id = of_org AND a.id = of_id) AS x);
END $$;

-- Opens the wall to the organisations of a batch for this transaction, and answers the clock.
CREATE OR REPLACE FUNCTION steward_walls(orgs bigint[], test_now bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    entered text := set_config('app.orgs', array_to_string(orgs, ','), true);
BEGIN
    IF test_now IS NOT NULL THEN
        entered := set_config('steward.test_now', test_now::text, true);
    END IF;
    RETURN steward_now();
END $$;

-- Below, what is looked up for each item of a list is a subquery of its own (LATERAL with a lock or OFFSET, or a
-- scalar one): joined or asked by EXISTS it was planned, while tables were small, as a walk through an
-- organisation's whole history, or through every organisation's keys, and that plan stays until tables are looked at.
-- What is counted is asked for in the order of the one index that is meant, for the same reason.

-- What a run by hand is judged by, of several at once: the automation; whether its key was used, or too many runs
-- wait as it looks; and of the first of each organisation the connections that can be used.
CREATE OR REPLACE FUNCTION steward_standing(orgs bigint[], automations text[], keys text[], most bigint, test_now bigint)
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
        (SELECT true FROM idem_keys AS k WHERE k.org_id = i.org_id AND k.kind = 'run' AND k.key = i.key) IS NOT NULL
        OR (SELECT count(*) FROM (SELECT 1 FROM runs AS r WHERE r.org_id = i.org_id
                AND r.automation_id = i.automation_id AND r.status = 'queued'
                ORDER BY r.queued_at, r.id LIMIT most) AS counted) >= most - 1,
        CASE WHEN row_number() OVER (PARTITION BY i.org_id ORDER BY i.n) = 1 THEN ARRAY(
            SELECT c.integration_id FROM connections AS c WHERE c.org_id = i.org_id AND c.state = 'connected'
            ORDER BY c.integration_id) END
    FROM unnest(orgs, automations, keys) WITH ORDINALITY AS i (org_id, automation_id, key, n);
END $$;

-- Run now (engine 4.1), several at once: schedules locked, keys kept, limits looked at, and each run ready or
-- blocked behind the automation's live run; a lane that is free is taken by the first live run of its automation.
-- Raises when a key was used meanwhile or too many wait: then none is made.
CREATE OR REPLACE FUNCTION steward_start(orgs bigint[], run_ids text[], automations text[], modes text[], keys text[], shas text[],
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
BEGIN
    PERFORM 1 FROM (SELECT DISTINCT i.org_id, i.automation_id FROM unnest(orgs, automations) AS i (org_id, automation_id))
        AS i JOIN schedules AS s ON s.org_id = i.org_id AND s.automation_id = i.automation_id
    ORDER BY s.org_id, s.automation_id FOR UPDATE OF s;
    INSERT INTO idem_keys (org_id, kind, key, automation_id, object_id, request_sha256, created_at)
    SELECT i.org_id, 'run', i.key, i.automation_id, i.run_id, i.sha, present
    FROM unnest(orgs, keys, automations, run_ids, shas) AS i (org_id, key, automation_id, run_id, sha)
    ORDER BY i.org_id, i.key
    ON CONFLICT (org_id, kind, key) DO NOTHING;
    GET DIAGNOSTICS kept = ROW_COUNT;
    IF kept < array_length(keys, 1) THEN
        RAISE EXCEPTION 'a key was used meanwhile';
    END IF;
    PERFORM 1 FROM (SELECT i.org_id, i.automation_id, count(*) AS many
                    FROM unnest(orgs, automations) AS i (org_id, automation_id) GROUP BY 1, 2) AS i
    WHERE (SELECT count(*) FROM (SELECT 1 FROM runs AS r WHERE r.org_id = i.org_id
               AND r.automation_id = i.automation_id AND r.status = 'queued'
               ORDER BY r.queued_at, r.id LIMIT most) AS counted)
        + (SELECT count(*) FROM runs AS r WHERE r.org_id = i.org_id AND r.automation_id = i.automation_id
           AND r.mode = 'live' AND r.queue IN ('ready', 'leased', 'sleeping', 'parked')
           AND r.status = 'waiting_approval')
        + i.many > most;
    IF FOUND THEN
        RAISE EXCEPTION 'too many runs wait';
    END IF;
    SELECT c.vt INTO clock FROM fair_clock AS c WHERE c.one = 1;
    WITH wanted AS (
        SELECT i.*, i.mode = 'test'
            OR (row_number() OVER (PARTITION BY i.org_id, i.automation_id, i.mode ORDER BY i.n) = 1
                AND (SELECT r.id FROM runs AS r
                     WHERE r.org_id = i.org_id AND r.automation_id = i.automation_id AND r.mode = 'live'
                       AND r.queue IN ('ready', 'leased', 'sleeping', 'parked')) IS NULL) AS is_ready
        FROM unnest(orgs, run_ids, automations, modes, plans, names, versions, templates, template_versions, keys,
            persons, vias, clients) WITH ORDINALITY AS i (org_id, run_id, automation_id, mode, plan_version, name,
            version, template_id, template_version, key, person, via, client, n)
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
        leased_ms, queued_at, automation_name, automation_version, template_id, template_version, started_by,
        idempotency_key, created_by, created_via, api_client_id)
    SELECT t.org_id, t.run_id, t.automation_id, t.mode, 'queued', CASE WHEN t.is_ready THEN 'ready' ELSE 'blocked' END,
        t.vt, 0, 1, 0, t.plan_version, 0, present, t.name, t.version, t.template_id, t.template_version, 'hand', t.key,
        t.person, t.via, t.client
    FROM turns AS t ORDER BY t.n;
    RETURN QUERY SELECT i.n, present FROM generate_series(1, array_length(run_ids, 1)::bigint) AS i (n);
END $$;

-- Leased runs as `store/runs.py` and `store/run_queue.py` read them, with their automations, the organisation's
-- switch, and of the first of each organisation the connections that can be used.
CREATE OR REPLACE FUNCTION steward_leased(orgs bigint[], run_ids text[], test_now bigint)
RETURNS TABLE (n bigint, run text, automation text, is_on boolean, connected bigint[]) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    present bigint := steward_walls(orgs, test_now);
BEGIN
    RETURN QUERY
    SELECT i.n, row_to_json(r)::text, steward_automation(r.org_id, r.automation_id),
        (SELECT o.automations_on FROM organizations AS o WHERE o.org_id = i.org_id),
        CASE WHEN row_number() OVER (PARTITION BY i.org_id ORDER BY i.n) = 1 THEN ARRAY(
            SELECT c.integration_id FROM connections AS c WHERE c.org_id = i.org_id AND c.state = 'connected'
            ORDER BY c.integration_id) END
    FROM unnest(orgs, run_ids) WITH ORDINALITY AS i (org_id, run_id, n)
    CROSS JOIN LATERAL (
        SELECT q.org_id, q.id, q.automation_id, q.mode, q.status, q.last_seq, q.plan_version, q.slot_at, q.approval_id,
            q.cancel_at, q.queued_at, q.started_at, q.waiting_since, q.expires_at, q.finished_at, q.automation_name,
            q.automation_version, q.template_id, q.template_version, q.started_by, q.event_id, q.event_topic,
            q.event_received_at, q.idempotency_key, q.created_by, q.created_via, q.api_client_id, q.code, q.message,
            q.current_step, q.summary, q.result, q.queue, q.attempt, q.cancel_code, q.leased_ms
        FROM runs AS q WHERE q.org_id = i.org_id AND q.id = i.run_id OFFSET 0) AS r;
END $$;

-- Runs taken for the first time and judged good: they become running, and their journal gets its first row. Tells
-- which were still held under their lease and queued, and when; the others are left alone.
CREATE OR REPLACE FUNCTION steward_begin(orgs bigint[], run_ids text[], epochs bigint[], automations text[], live boolean[],
    outputs bytea[], test_now bigint)
RETURNS TABLE (n bigint, present bigint) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    here bigint := steward_walls(orgs, test_now);
    held bigint[];
BEGIN
    PERFORM 1 FROM unnest(orgs, automations, live) AS i (org_id, automation_id, live)
    JOIN schedules AS s ON s.org_id = i.org_id AND s.automation_id = i.automation_id
    WHERE i.live ORDER BY s.org_id, s.automation_id FOR UPDATE OF s;
    WITH held AS (
        SELECT r.org_id, r.id, i.n
        FROM (SELECT u.* FROM unnest(orgs, run_ids, epochs) WITH ORDINALITY AS u (org_id, run_id, epoch, n)
              ORDER BY u.run_id) AS i
        CROSS JOIN LATERAL (
            SELECT q.org_id, q.id FROM runs AS q
            WHERE q.org_id = i.org_id AND q.id = i.run_id AND q.epoch = i.epoch AND q.queue = 'leased'
              AND q.status = 'queued' AND q.started_at IS NULL FOR UPDATE) AS r
    ), moved AS (
        UPDATE runs AS r SET status = 'running', started_at = here FROM held
        WHERE r.org_id = held.org_id AND r.id = held.id
        RETURNING held.n
    )
    SELECT array_agg(moved.n) INTO held FROM moved;
    UPDATE schedules AS s SET last_run_at = here
    FROM unnest(orgs, automations, live) WITH ORDINALITY AS i (org_id, automation_id, live, n)
    WHERE i.n = ANY (held) AND i.live AND s.org_id = i.org_id AND s.automation_id = i.automation_id;
    INSERT INTO step_values (org_id, run_id, name, iteration, seq, output, state)
    SELECT orgs[o], run_ids[o], '@start', '', 0, outputs[o], 'done' FROM unnest(held) AS o;
    RETURN QUERY SELECT o, here FROM unnest(held) AS o;
END $$;

-- The checkpoints of several runs, at most one of each. Answers those that were still held under their lease, with a
-- wish to cancel; the others are fenced and left alone. A step's wire text carries its end as a mark, for the clock
-- is this one.
CREATE OR REPLACE FUNCTION steward_checkpoint(orgs bigint[], run_ids text[], epochs bigint[], seqs bigint[], names text[],
    iterations text[], attempts bigint[], statuses text[], changes bigint[], wires text[], mark text,
    outputs bytea[], unknowns text[], states text[], test_now bigint)
RETURNS TABLE (n bigint, cancel_code text) LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    present bigint := steward_walls(orgs, test_now);
    told text := to_char(to_timestamp(0) AT TIME ZONE 'UTC' + present * interval '1 millisecond',
        '"\"finished_at\":\""YYYY-MM-DD"T"HH24:MI:SS.MS"Z\""');
    ours bigint[];
    wishes text[];
BEGIN
    WITH held AS (
        SELECT r.org_id, r.id, i.n, i.seq
        FROM (SELECT u.* FROM unnest(orgs, run_ids, epochs, seqs) WITH ORDINALITY AS u (org_id, run_id, epoch, seq, n)
              ORDER BY u.run_id) AS i
        CROSS JOIN LATERAL (
            SELECT q.org_id, q.id FROM runs AS q
            WHERE q.org_id = i.org_id AND q.id = i.run_id AND q.epoch = i.epoch AND q.queue = 'leased'
              AND q.last_seq = i.seq - 1 FOR UPDATE) AS r
    ), moved AS (
        UPDATE runs AS r SET last_seq = held.seq FROM held
        WHERE r.org_id = held.org_id AND r.id = held.id
        RETURNING held.n, r.cancel_code
    )
    SELECT array_agg(moved.n), array_agg(moved.cancel_code) INTO ours, wishes FROM moved;
    INSERT INTO steps (org_id, run_id, seq, name, iteration, attempt, status, finished_at, changes_total, wire)
    SELECT orgs[o], run_ids[o], seqs[o], names[o], iterations[o], attempts[o], statuses[o], present, changes[o],
        replace(wires[o], mark, told)
    FROM unnest(ours) AS o;
    INSERT INTO step_values (org_id, run_id, name, iteration, seq, output, unknown_paths, state)
    SELECT orgs[o], run_ids[o], names[o], iterations[o], seqs[o], outputs[o], unknowns[o], states[o]
    FROM unnest(ours) AS o
    ON CONFLICT (org_id, run_id, name, iteration) DO UPDATE
    SET seq = excluded.seq, output = excluded.output, unknown_paths = excluded.unknown_paths,
        state = excluded.state;
    RETURN QUERY SELECT o.n, o.cancel_code FROM unnest(ours, wishes) AS o (n, cancel_code);
END $$;

-- Runs that walked to their end, together with their last step where `seqs` names one: step, value, status, last
-- words, failures in a row, and the next of the automation may go, with a fresh stamp (engine 8). Tells which were
-- still held, and which of them ended: one that somebody wants to stop takes its last step and goes on.
CREATE OR REPLACE FUNCTION steward_close(orgs bigint[], run_ids text[], epochs bigint[], automations text[], live boolean[],
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
    SELECT bool_or(q.failures > 0) INTO failed_before FROM (
        SELECT s.consecutive_failures AS failures
        FROM unnest(orgs, automations, live) AS i (org_id, automation_id, live)
        JOIN schedules AS s ON s.org_id = i.org_id AND s.automation_id = i.automation_id
        WHERE i.live ORDER BY s.org_id, s.automation_id FOR UPDATE OF s) AS q;
    WITH held AS (
        SELECT r.org_id, r.id, i.n, i.seq, i.message, i.summary, i.result,
            i.seq IS NULL OR r.cancel_code IS NULL AS ends
        FROM (SELECT u.* FROM unnest(orgs, run_ids, epochs, seqs, messages, summaries, results)
                  WITH ORDINALITY AS u (org_id, run_id, epoch, seq, message, summary, result, n)
              ORDER BY u.run_id) AS i
        CROSS JOIN LATERAL (
            SELECT q.org_id, q.id, q.cancel_code FROM runs AS q
            WHERE q.org_id = i.org_id AND q.id = i.run_id AND q.epoch = i.epoch AND q.queue = 'leased'
              AND (i.seq IS NULL OR q.last_seq = i.seq - 1) FOR UPDATE) AS r
    ), moved AS (
        UPDATE runs AS r SET last_seq = coalesce(held.seq, r.last_seq),
            status = CASE WHEN held.ends THEN 'succeeded' ELSE r.status END,
            queue = CASE WHEN held.ends THEN 'done' ELSE r.queue END,
            worker_id = CASE WHEN held.ends THEN NULL ELSE r.worker_id END,
            finished_at = CASE WHEN held.ends THEN present END,
            expires_at = CASE WHEN held.ends THEN NULL ELSE r.expires_at END,
            code = CASE WHEN held.ends THEN NULL ELSE r.code END,
            message = CASE WHEN held.ends THEN held.message ELSE r.message END,
            current_step = CASE WHEN held.ends THEN NULL ELSE r.current_step END,
            summary = CASE WHEN held.ends THEN coalesce(held.summary, r.summary) ELSE r.summary END,
            result = CASE WHEN held.ends THEN coalesce(held.result, r.result) ELSE r.result END
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
    SELECT array_agg(i.org_id), array_agg(i.automation_id),
        array_agg((SELECT b.id FROM runs AS b WHERE b.org_id = i.org_id AND b.automation_id = i.automation_id
                   AND b.queue = 'blocked' AND b.status = 'queued' ORDER BY b.queued_at, b.id LIMIT 1))
    INTO next_orgs, next_automations, next_runs
    FROM unnest(orgs, automations, live) WITH ORDINALITY AS i (org_id, automation_id, live, n)
    WHERE i.n = ANY (ended) AND i.live;
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

-- Locks the schedules that are still due, those others have locked left out, and answers what is needed to
-- judge their slots. The second statement sees what was committed before the locks were taken.
CREATE OR REPLACE FUNCTION steward_slots_lock(orgs bigint[], ids text[])
RETURNS TABLE (org_id bigint, id text, next_slot_at bigint, slots_after bigint, version bigint, kind text,
    template_id text, template_version bigint, integration_id bigint, name text, state text, inputs text,
    schedule text, timezone text, spread_minutes bigint, connections text, bindings text, plan_version bigint,
    automations_on boolean, holder text, stored boolean) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    locked_orgs bigint[];
    locked_ids text[];
BEGIN
    SELECT array_agg(l.org_id), array_agg(l.automation_id) INTO locked_orgs, locked_ids
    FROM (SELECT s.org_id, s.automation_id FROM unnest(orgs, ids) AS k (org_id, id)
          JOIN schedules AS s ON s.org_id = k.org_id AND s.automation_id = k.id
          WHERE s.next_run_at <= steward_now()
          ORDER BY s.org_id, s.automation_id FOR UPDATE OF s SKIP LOCKED) AS l;
    RETURN QUERY
    SELECT s.org_id, s.automation_id, s.next_slot_at, s.slots_after, a.version, a.kind, a.template_id,
        a.template_version, a.integration_id, a.name, a.state, a.inputs, a.schedule, a.timezone,
        a.spread_minutes, a.connections, a.bindings, a.plan_version, o.automations_on,
        (SELECT r.id FROM runs AS r WHERE r.org_id = k.org_id AND r.automation_id = k.id AND r.mode = 'live'
         AND r.queue IN ('ready', 'leased', 'sleeping', 'parked')),
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

-- Makes a run of each slot whose lane is free, advances its schedule, and tells which those are; the others
-- are left alone. The caller holds the schedules, and gives the slots by rising organisation and automation.
CREATE OR REPLACE FUNCTION steward_slots_start(orgs bigint[], ids text[], run_ids text[], slots bigint[], keys text[],
    nexts bigint[], names text[], versions bigint[], templates text[], template_versions bigint[], plans bigint[])
RETURNS TABLE (n bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    present bigint := steward_now();
    clock bigint;
    held bigint[];
BEGIN
    SELECT c.vt INTO clock FROM fair_clock AS c WHERE c.one = 1;
    WITH wanted AS (
        SELECT i.* FROM unnest(orgs, ids, run_ids, slots, plans, names, versions, templates, template_versions)
            WITH ORDINALITY AS i (org_id, id, run_id, slot_at, plan_version, name, version, template_id,
            template_version, n)
    ), stamped AS (
        INSERT INTO fair_orgs AS f (org_id, last_vt)
        SELECT w.org_id, clock + count(*) FROM wanted AS w GROUP BY w.org_id ORDER BY w.org_id
        ON CONFLICT (org_id) DO UPDATE SET last_vt = greatest(f.last_vt, clock) + excluded.last_vt - clock
        RETURNING f.org_id, f.last_vt
    ), made AS (
        INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq,
            plan_version, slot_at, leased_ms, queued_at, automation_name, automation_version, template_id,
            template_version, started_by)
        SELECT w.org_id, w.run_id, w.id, 'live', 'queued', 'ready',
            s.last_vt - row_number() OVER (PARTITION BY w.org_id ORDER BY w.n DESC), 0, 1, 0,
            w.plan_version, w.slot_at, 0, present, w.name, w.version, w.template_id, w.template_version, 'schedule'
        FROM wanted AS w JOIN stamped AS s ON s.org_id = w.org_id
        ON CONFLICT (org_id, automation_id) WHERE mode = 'live' AND queue IN ('ready', 'leased', 'sleeping', 'parked')
            DO NOTHING
        RETURNING runs.id
    )
    SELECT array_agg(i.n) INTO held FROM unnest(run_ids) WITH ORDINALITY AS i (run_id, n) JOIN made ON made.id = i.run_id;
    INSERT INTO occurrences (org_id, automation_id, slot_at, run_at, local_key, state, run_id, version,
        by_auditor, kept, updated_at)
    SELECT i.org_id, i.id, i.slot_at, i.slot_at, i.key, 'queued', i.run_id, 0, false, false, present
    FROM unnest(orgs, ids, run_ids, slots, keys) WITH ORDINALITY AS i (org_id, id, run_id, slot_at, key, n)
    WHERE i.n = ANY (held);
    UPDATE schedules AS s SET next_run_at = i.next_at, next_slot_at = i.next_at
    FROM unnest(orgs, ids, nexts) WITH ORDINALITY AS i (org_id, id, next_at, n)
    WHERE i.n = ANY (held) AND s.org_id = i.org_id AND s.automation_id = i.id;
    DELETE FROM tick_failures AS f USING unnest(ids) WITH ORDINALITY AS i (id, n)
    WHERE f.tick = 'dispatch' AND f.key = i.id AND i.n = ANY (held);
    RETURN QUERY SELECT unnest(held);
END $$;
