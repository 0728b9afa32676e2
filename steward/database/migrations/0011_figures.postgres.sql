-- Of every organisation, numbers alone (safety 5.3).

CREATE FUNCTION queue_figures() RETURNS TABLE (queue text, many bigint, oldest_at bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT 'ready', count(*), min(queued_at) FROM runs WHERE queue = 'ready'
    UNION ALL SELECT 'leased', count(*), min(queued_at) FROM runs WHERE queue = 'leased'
    UNION ALL SELECT 'sleeping', count(*), min(queued_at) FROM runs WHERE queue = 'sleeping'
    UNION ALL SELECT 'parked', count(*), min(queued_at) FROM runs WHERE queue = 'parked'
    UNION ALL SELECT 'blocked', count(*), min(queued_at) FROM runs
        WHERE status IN ('queued', 'waiting_approval') AND queue = 'blocked'
$$;

CREATE FUNCTION queue_open_effects() RETURNS TABLE (state text, many bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT e.state, count(*) FROM effects AS e WHERE e.state IN ('intent', 'unknown') GROUP BY e.state
$$;

DO $$
DECLARE
    worked text;
BEGIN
    FOREACH worked IN ARRAY ARRAY['queue_figures()', 'queue_open_effects()']
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO steward_queue', worked);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', worked);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO steward_app', worked);
    END LOOP;
END $$;
