-- What PostgreSQL alone needs: the role that serves reads and writes the new table.

GRANT SELECT, INSERT, UPDATE, DELETE ON sign_in_states TO steward_app;

CREATE POLICY queue ON connections TO steward_queue USING (true);
CREATE FUNCTION queue_checks(most bigint) RETURNS TABLE (org_id bigint, integration_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT c.org_id, c.integration_id FROM connections AS c
    WHERE c.state = 'connected' AND c.check_at <= steward_now() ORDER BY c.check_at LIMIT most
$$;
GRANT SELECT (org_id, integration_id, state, check_at) ON connections TO steward_queue;
ALTER FUNCTION queue_checks(bigint) OWNER TO steward_queue;
REVOKE ALL ON FUNCTION queue_checks(bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION queue_checks(bigint) TO steward_app;
