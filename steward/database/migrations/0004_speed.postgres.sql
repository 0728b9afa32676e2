-- Due slots of many organisations in two round trips (engine 2, "Round trips"; engine 13).

-- A run's automation belongs to its organisation already; each new run locked that one row a second time.
ALTER TABLE runs DROP CONSTRAINT runs_org_id_fkey;

-- Locks the schedules that are still due, those others have locked left out, and answers what is needed to
-- judge their slots. The second statement sees what was committed before the locks were taken.
CREATE FUNCTION steward_slots_lock(orgs bigint[], ids text[])
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
        a.spread_minutes, a.connections, a.bindings, a.plan_version, o.automations_on, l.holder_run_id,
        EXISTS (SELECT 1 FROM occurrences AS c WHERE c.org_id = s.org_id AND c.automation_id = s.automation_id
                AND c.slot_at >= s.next_slot_at)
        OR EXISTS (SELECT 1 FROM occurrences AS c WHERE c.org_id = s.org_id
                   AND c.automation_id = s.automation_id AND c.state = 'pending')
    FROM unnest(locked_orgs, locked_ids) AS k (org_id, id)
    JOIN schedules AS s ON s.org_id = k.org_id AND s.automation_id = k.id
    JOIN automations AS a ON a.org_id = k.org_id AND a.id = k.id
    JOIN organizations AS o ON o.org_id = k.org_id
    LEFT JOIN lanes AS l ON l.org_id = k.org_id AND l.automation_id = k.id
    ORDER BY k.org_id, k.id;
END $$;

-- Makes a run of each slot whose lane is free, advances its schedule, and tells which those are; the others
-- are left alone. The caller holds the schedules, and gives the slots by rising organisation and automation.
CREATE FUNCTION steward_slots_start(orgs bigint[], ids text[], run_ids text[], slots bigint[], keys text[],
    nexts bigint[], names text[], versions bigint[], templates text[], template_versions bigint[], plans bigint[])
RETURNS TABLE (n bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    present bigint := steward_now();
    clock bigint;
    held bigint[];
BEGIN
    WITH taken AS (
        INSERT INTO lanes AS l (org_id, automation_id, holder_run_id, dropped)
        SELECT i.org_id, i.id, i.run_id, 0 FROM unnest(orgs, ids, run_ids) AS i (org_id, id, run_id)
        ON CONFLICT (org_id, automation_id) DO UPDATE SET holder_run_id = excluded.holder_run_id
        WHERE l.holder_run_id IS NULL
        RETURNING l.holder_run_id
    )
    SELECT array_agg(i.n) INTO held
    FROM unnest(run_ids) WITH ORDINALITY AS i (run_id, n) JOIN taken ON taken.holder_run_id = i.run_id;
    SELECT c.vt INTO clock FROM fair_clock AS c;
    WITH wanted AS (
        SELECT i.* FROM unnest(orgs, ids, run_ids, slots, plans)
            WITH ORDINALITY AS i (org_id, id, run_id, slot_at, plan_version, n)
        WHERE i.n = ANY (held)
    ), stamped AS (
        INSERT INTO fair_orgs AS f (org_id, last_vt)
        SELECT w.org_id, clock + count(*) FROM wanted AS w GROUP BY w.org_id ORDER BY w.org_id
        ON CONFLICT (org_id) DO UPDATE SET last_vt = greatest(f.last_vt, clock) + excluded.last_vt - clock
        RETURNING f.org_id, f.last_vt
    )
    INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq,
        plan_version, slot_at, leased_ms, queued_at)
    SELECT w.org_id, w.run_id, w.id, 'live', 'queued', 'ready',
        s.last_vt - row_number() OVER (PARTITION BY w.org_id ORDER BY w.n DESC), 0, 1, 0,
        w.plan_version, w.slot_at, 0, present
    FROM wanted AS w JOIN stamped AS s ON s.org_id = w.org_id;
    INSERT INTO run_facts (org_id, run_id, automation_id, automation_name, automation_version, template_id,
        template_version, started_by)
    SELECT i.org_id, i.run_id, i.id, i.name, i.version, i.template_id, i.template_version, 'schedule'
    FROM unnest(orgs, ids, run_ids, names, versions, templates, template_versions)
        WITH ORDINALITY AS i (org_id, id, run_id, name, version, template_id, template_version, n)
    WHERE i.n = ANY (held);
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

-- Runs taken for the first time and judged good: they become running, and their journal gets its first row.
-- Tells which were still held under their lease and queued; the others are left alone.
CREATE FUNCTION steward_runs_begin(orgs bigint[], run_ids text[], epochs bigint[], automations text[],
    live boolean[], outputs bytea[])
RETURNS TABLE (n bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    present bigint := steward_now();
    held bigint[];
BEGIN
    PERFORM 1 FROM unnest(orgs, automations, live) AS i (org_id, automation_id, live)
    JOIN schedules AS s ON s.org_id = i.org_id AND s.automation_id = i.automation_id
    WHERE i.live ORDER BY s.org_id, s.automation_id FOR UPDATE OF s;
    WITH moved AS (
        UPDATE runs AS r SET status = 'running', started_at = present
        FROM unnest(orgs, run_ids, epochs) WITH ORDINALITY AS i (org_id, run_id, epoch, n)
        WHERE r.org_id = i.org_id AND r.id = i.run_id AND r.epoch = i.epoch AND r.queue = 'leased'
          AND r.status = 'queued' AND r.started_at IS NULL
        RETURNING i.n
    )
    SELECT array_agg(moved.n) INTO held FROM moved;
    UPDATE schedules AS s SET last_run_at = present
    FROM unnest(orgs, automations, live) WITH ORDINALITY AS i (org_id, automation_id, live, n)
    WHERE i.n = ANY (held) AND i.live AND s.org_id = i.org_id AND s.automation_id = i.automation_id;
    INSERT INTO step_values (org_id, run_id, name, iteration, seq, output, state)
    SELECT i.org_id, i.run_id, '@start', '', 0, i.output, 'done'
    FROM unnest(orgs, run_ids, outputs) WITH ORDINALITY AS i (org_id, run_id, output, n)
    WHERE i.n = ANY (held);
    RETURN QUERY SELECT unnest(held);
END $$;

-- Runs that walked to their end: status, last words, lane, failures in a row, and the next of the automation may
-- go, with a fresh stamp (engine 8). Tells which of them were still held; the others are left alone.
CREATE FUNCTION steward_runs_succeed(orgs bigint[], run_ids text[], epochs bigint[], automations text[],
    live boolean[], messages text[], summaries text[], results text[])
RETURNS TABLE (n bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    present bigint := steward_now();
    clock bigint;
    plain bigint[];
    ended bigint[];
    next_orgs bigint[];
    next_automations text[];
    next_runs text[];
BEGIN
    PERFORM 1 FROM unnest(orgs, automations) AS i (org_id, automation_id)
    JOIN schedules AS s ON s.org_id = i.org_id AND s.automation_id = i.automation_id
    ORDER BY s.org_id, s.automation_id FOR UPDATE OF s;
    PERFORM 1 FROM unnest(orgs, automations) AS i (org_id, automation_id)
    JOIN lanes AS l ON l.org_id = i.org_id AND l.automation_id = i.automation_id
    ORDER BY l.org_id, l.automation_id FOR UPDATE OF l;
    SELECT array_agg(i.n) INTO plain
    FROM unnest(orgs, run_ids, automations, live) WITH ORDINALITY AS i (org_id, run_id, automation_id, live, n)
    WHERE NOT i.live
        OR EXISTS (SELECT 1 FROM lanes AS l WHERE l.org_id = i.org_id AND l.automation_id = i.automation_id
                   AND l.holder_run_id = i.run_id);
    WITH moved AS (
        UPDATE runs AS r SET status = 'succeeded', queue = 'done', worker_id = NULL, finished_at = present,
            expires_at = NULL
        FROM unnest(orgs, run_ids, epochs) WITH ORDINALITY AS i (org_id, run_id, epoch, n)
        WHERE i.n = ANY (plain) AND r.org_id = i.org_id AND r.id = i.run_id AND r.epoch = i.epoch
          AND r.queue = 'leased'
        RETURNING i.n
    )
    SELECT array_agg(moved.n) INTO ended FROM moved;
    UPDATE run_facts AS f SET code = NULL, message = i.message, current_step = NULL,
        summary = coalesce(i.summary, f.summary), result = coalesce(i.result, f.result)
    FROM unnest(orgs, run_ids, messages, summaries, results)
        WITH ORDINALITY AS i (org_id, run_id, message, summary, result, n)
    WHERE i.n = ANY (ended) AND f.org_id = i.org_id AND f.run_id = i.run_id;
    SELECT array_agg(i.org_id), array_agg(i.automation_id),
        array_agg((SELECT b.id FROM runs AS b WHERE b.org_id = i.org_id AND b.automation_id = i.automation_id
                   AND b.queue = 'blocked' AND b.status IN ('queued', 'waiting_approval')
                   ORDER BY b.queued_at, b.id LIMIT 1))
    INTO next_orgs, next_automations, next_runs
    FROM unnest(orgs, automations, live) WITH ORDINALITY AS i (org_id, automation_id, live, n)
    WHERE i.n = ANY (ended) AND i.live;
    UPDATE lanes AS l SET holder_run_id = i.run_id
    FROM unnest(next_orgs, next_automations, next_runs) AS i (org_id, automation_id, run_id)
    WHERE l.org_id = i.org_id AND l.automation_id = i.automation_id;
    SELECT c.vt INTO clock FROM fair_clock AS c;
    WITH following AS (
        SELECT i.* FROM unnest(next_orgs, next_runs) AS i (org_id, run_id) WHERE i.run_id IS NOT NULL
    ), stamped AS (
        INSERT INTO fair_orgs AS f (org_id, last_vt)
        SELECT w.org_id, clock + count(*) FROM following AS w GROUP BY w.org_id ORDER BY w.org_id
        ON CONFLICT (org_id) DO UPDATE SET last_vt = greatest(f.last_vt, clock) + excluded.last_vt - clock
        RETURNING f.org_id, f.last_vt
    ), turns AS (
        SELECT w.org_id, w.run_id, s.last_vt - row_number() OVER (PARTITION BY w.org_id ORDER BY w.run_id DESC) AS vt
        FROM following AS w JOIN stamped AS s ON s.org_id = w.org_id
    )
    UPDATE runs AS r SET queue = 'ready', vt = t.vt
    FROM turns AS t WHERE r.org_id = t.org_id AND r.id = t.run_id AND r.queue = 'blocked';
    UPDATE schedules AS s SET consecutive_failures = 0
    FROM unnest(next_orgs, next_automations) AS i (org_id, automation_id)
    WHERE s.org_id = i.org_id AND s.automation_id = i.automation_id AND s.consecutive_failures > 0;
    RETURN QUERY SELECT unnest(ended);
END $$;

-- Run now (engine 4.1): lane locked, key kept, limit looked at, and the run made ready or blocked behind the
-- lane's holder. 'made', 'kept' when the key was used before, 'full' when too many wait; then nothing else is
-- written, and the caller undoes the rest.
CREATE FUNCTION steward_run_now(of_org bigint, of_run text, of_automation text, of_mode text, of_key text,
    of_sha text, most bigint, of_name text, of_version bigint, of_template text, of_template_version bigint,
    of_plan bigint, by_person bigint, by_via text, by_client text)
RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    present bigint := steward_now();
    holder text;
    turn bigint := 0;
    is_blocked boolean;
BEGIN
    INSERT INTO lanes AS l (org_id, automation_id, dropped) VALUES (of_org, of_automation, 0)
    ON CONFLICT (org_id, automation_id) DO UPDATE SET dropped = l.dropped
    RETURNING l.holder_run_id INTO holder;
    INSERT INTO idem_keys (org_id, kind, key, automation_id, object_id, request_sha256, created_at)
    VALUES (of_org, 'run', of_key, of_automation, of_run, of_sha, present)
    ON CONFLICT (org_id, kind, key) DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'kept';
    END IF;
    IF (SELECT count(*) FROM (SELECT 1 FROM runs AS r WHERE r.org_id = of_org AND r.automation_id = of_automation
        AND r.status IN ('queued', 'waiting_approval') LIMIT most) AS counted) >= most THEN
        RETURN 'full';
    END IF;
    is_blocked := of_mode = 'live' AND holder IS NOT NULL;
    IF NOT is_blocked THEN
        INSERT INTO fair_orgs AS f (org_id, last_vt) SELECT of_org, c.vt + 1 FROM fair_clock AS c
        ON CONFLICT (org_id) DO UPDATE SET last_vt = greatest(f.last_vt, excluded.last_vt - 1) + 1
        RETURNING f.last_vt - 1 INTO turn;
    END IF;
    INSERT INTO runs (org_id, id, automation_id, mode, status, queue, vt, epoch, attempt, last_seq, plan_version,
        leased_ms, queued_at)
    VALUES (of_org, of_run, of_automation, of_mode, 'queued', CASE WHEN is_blocked THEN 'blocked' ELSE 'ready' END,
        turn, 0, 1, 0, of_plan, 0, present);
    INSERT INTO run_facts (org_id, run_id, automation_id, automation_name, automation_version, template_id,
        template_version, started_by, idempotency_key, created_by, created_via, api_client_id)
    VALUES (of_org, of_run, of_automation, of_name, of_version, of_template, of_template_version, 'hand', of_key,
        by_person, by_via, by_client);
    IF of_mode = 'live' AND NOT is_blocked THEN
        UPDATE lanes AS l SET holder_run_id = of_run WHERE l.org_id = of_org AND l.automation_id = of_automation;
    END IF;
    RETURN 'made';
END $$;
