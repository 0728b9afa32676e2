-- As before, but rows that were put off take no other's place under the limit (engine 16).

CREATE OR REPLACE FUNCTION queue_wake(most bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT r.org_id, r.id FROM runs AS r WHERE r.queue = 'sleeping' AND r.wake_at <= steward_now()
      AND NOT EXISTS (SELECT 1 FROM tick_failures AS f
                      WHERE f.tick = 'wake' AND f.key = r.id AND f.not_before > steward_now())
    ORDER BY r.wake_at LIMIT most
$$;

CREATE OR REPLACE FUNCTION queue_expire(most bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT a.org_id, a.id FROM approvals AS a WHERE a.status = 'pending' AND a.expires_at <= steward_now()
      AND NOT EXISTS (SELECT 1 FROM tick_failures AS f
                      WHERE f.tick = 'expire_approvals' AND f.key = a.id AND f.not_before > steward_now())
    ORDER BY a.expires_at, a.id LIMIT most
$$;

CREATE OR REPLACE FUNCTION queue_unstarted(before bigint, most bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT r.org_id, r.id FROM runs AS r
    WHERE r.status = 'queued' AND r.started_at IS NULL AND r.queued_at <= before
      AND r.queue IN ('blocked', 'ready')
      AND NOT EXISTS (SELECT 1 FROM tick_failures AS f
                      WHERE f.tick = 'queue_limit' AND f.key = r.id AND f.not_before > steward_now())
    ORDER BY r.queued_at LIMIT most
$$;

CREATE OR REPLACE FUNCTION queue_settle(most bigint)
RETURNS TABLE (org_id bigint, run_id text, effect_key text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT e.org_id, e.run_id, e.effect_key FROM effects AS e
    WHERE e.state IN ('intent', 'unknown') AND e.settle_after <= steward_now()
      AND EXISTS (SELECT 1 FROM runs AS r WHERE r.org_id = e.org_id AND r.id = e.run_id AND r.queue = 'done')
      AND NOT EXISTS (SELECT 1 FROM tick_failures AS f
                      WHERE f.tick = 'settle' AND f.key = e.run_id AND f.not_before > steward_now())
    ORDER BY e.settle_after LIMIT most
$$;
