-- What is given back or freed is told by its lease, so that a run taken again meanwhile stays where it is.
CREATE FUNCTION queue_held(worker bigint, most bigint) RETURNS TABLE (org_id bigint, id text, epoch bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT r.org_id, r.id, r.epoch FROM runs AS r WHERE r.queue = 'leased' AND r.worker_id = worker
    ORDER BY r.id LIMIT most
$$;

-- A run waits for approval exactly as long as its approval is pending; its own index knows when that ends.
CREATE OR REPLACE FUNCTION queue_expire(most bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT r.org_id, r.approval_id FROM runs AS r WHERE r.queue = 'parked' AND r.expires_at <= steward_now()
      AND NOT EXISTS (SELECT 1 FROM tick_failures AS f
                      WHERE f.tick = 'expire_approvals' AND f.key = r.approval_id
                        AND f.not_before > steward_now())
    ORDER BY r.expires_at, r.approval_id LIMIT most
$$;

CREATE OR REPLACE FUNCTION queue_figures() RETURNS TABLE (queue text, many bigint, oldest_at bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT 'ready', count(*), min(queued_at) FROM runs WHERE queue = 'ready'
    UNION ALL SELECT 'leased', count(*), min(queued_at) FROM runs WHERE queue = 'leased'
    UNION ALL SELECT 'sleeping', count(*), min(queued_at) FROM runs WHERE queue = 'sleeping'
    UNION ALL SELECT 'parked', count(*), min(queued_at) FROM runs WHERE queue = 'parked'
    UNION ALL SELECT 'blocked', count(*), min(queued_at) FROM runs
        WHERE status = 'queued' AND queue = 'blocked'
$$;

-- The oldest run there is, and the oldest that is not finished: no month with its id goes.
CREATE OR REPLACE FUNCTION queue_oldest_runs() RETURNS TABLE (any_id text, open_id text) LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
    SELECT (SELECT min(r.id) FROM dir_orgs AS o
            CROSS JOIN LATERAL (SELECT q.id FROM runs AS q WHERE q.org_id = o.org_id
                                ORDER BY q.id LIMIT 1) AS r),
           (SELECT min(r.id) FROM (SELECT q.id FROM runs AS q WHERE q.queue = 'ready'
                                   UNION ALL SELECT q.id FROM runs AS q WHERE q.queue = 'leased'
                                   UNION ALL SELECT q.id FROM runs AS q WHERE q.queue = 'sleeping'
                                   UNION ALL SELECT q.id FROM runs AS q WHERE q.queue = 'parked'
                                   UNION ALL SELECT q.id FROM runs AS q WHERE q.status = 'queued') AS r)
$$;

-- Rows of several runs are locked by rising id, as everywhere else (engine 2, "Lock order").
CREATE OR REPLACE FUNCTION steward_runs_begin(orgs bigint[], run_ids text[], epochs bigint[], automations text[],
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
    WITH held AS (
        SELECT r.org_id, r.id, i.n
        FROM unnest(orgs, run_ids, epochs) WITH ORDINALITY AS i (org_id, run_id, epoch, n)
        JOIN runs AS r ON r.org_id = i.org_id AND r.id = i.run_id
        WHERE r.epoch = i.epoch AND r.queue = 'leased' AND r.status = 'queued' AND r.started_at IS NULL
        ORDER BY r.id FOR UPDATE OF r
    ), moved AS (
        UPDATE runs AS r SET status = 'running', started_at = present FROM held
        WHERE r.org_id = held.org_id AND r.id = held.id
        RETURNING held.n
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

CREATE OR REPLACE FUNCTION steward_runs_succeed(orgs bigint[], run_ids text[], epochs bigint[], automations text[],
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
    WITH held AS (
        SELECT r.org_id, r.id, i.n
        FROM unnest(orgs, run_ids, epochs) WITH ORDINALITY AS i (org_id, run_id, epoch, n)
        JOIN runs AS r ON r.org_id = i.org_id AND r.id = i.run_id
        WHERE i.n = ANY (plain) AND r.epoch = i.epoch AND r.queue = 'leased'
        ORDER BY r.id FOR UPDATE OF r
    ), moved AS (
        UPDATE runs AS r SET status = 'succeeded', queue = 'done', worker_id = NULL, finished_at = present,
            expires_at = NULL
        FROM held WHERE r.org_id = held.org_id AND r.id = held.id
        RETURNING held.n
    )
    SELECT array_agg(moved.n) INTO ended FROM moved;
    UPDATE run_facts AS f SET code = NULL, message = i.message, current_step = NULL,
        summary = coalesce(i.summary, f.summary), result = coalesce(i.result, f.result)
    FROM unnest(orgs, run_ids, messages, summaries, results)
        WITH ORDINALITY AS i (org_id, run_id, message, summary, result, n)
    WHERE i.n = ANY (ended) AND f.org_id = i.org_id AND f.run_id = i.run_id;
    SELECT array_agg(i.org_id), array_agg(i.automation_id),
        array_agg((SELECT b.id FROM runs AS b WHERE b.org_id = i.org_id AND b.automation_id = i.automation_id
                   AND b.queue = 'blocked' AND b.status = 'queued'
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

-- As before; of the runs that wait for approval only the lane's holder can be one of this automation.
CREATE OR REPLACE FUNCTION steward_run_now(of_org bigint, of_run text, of_automation text, of_mode text, of_key text,
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
        AND r.status = 'queued' LIMIT most) AS counted)
        + (SELECT count(*) FROM runs AS r WHERE r.org_id = of_org AND r.id = holder
           AND r.status = 'waiting_approval') >= most THEN
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

-- Each row is in one of the two unique indexes, not in both.
ALTER TABLE approvals DROP CONSTRAINT approvals_org_id_run_id_round_key;
CREATE UNIQUE INDEX approvals_one_a_round ON approvals (org_id, run_id, round) WHERE status <> 'pending';

ALTER FUNCTION queue_held(bigint, bigint) OWNER TO steward_queue;
REVOKE ALL ON FUNCTION queue_held(bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION queue_held(bigint, bigint) TO steward_app;
