-- PostgreSQL keeps bodies by the month and walls off what belongs to an organisation.

DROP TABLE event_bodies;
CREATE TABLE event_bodies (
    org_id bigint NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (org_id, event_id)
) PARTITION BY RANGE (event_id);
CREATE TABLE event_bodies_rest PARTITION OF event_bodies DEFAULT;
SELECT steward_wall_partition('event_bodies_rest');
SELECT steward_make_months(steward_now(), 3);

DO $$
DECLARE
    owned text;
BEGIN
    FOREACH owned IN ARRAY ARRAY['automation_topics', 'listeners', 'subscriptions', 'topics_heard', 'catch_ups',
        'events', 'event_bodies', 'last_seen', 'own_changes']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', owned);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', owned);
        EXECUTE format('CREATE POLICY wall ON %I
            USING (org_id = ANY ((SELECT string_to_array(nullif(current_setting(''app.orgs''), ''''), '',''))::bigint[]))
            WITH CHECK (org_id = ANY ((SELECT string_to_array(nullif(current_setting(''app.orgs''), ''''), '',''))::bigint[]))',
            owned);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO steward_app', owned);
    END LOOP;
    FOREACH owned IN ARRAY ARRAY['listeners', 'catch_ups', 'events', 'own_changes']
    LOOP
        EXECUTE format('CREATE POLICY queue ON %I TO steward_queue USING (true)', owned);
    END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON dir_endpoints TO steward_app;

-- Work across organisations: ids only (safety 5, wall 3).
CREATE FUNCTION queue_events(most bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT e.org_id, e.id FROM events AS e WHERE e.state = 'new' AND e.not_before <= steward_now()
    ORDER BY e.not_before, e.id LIMIT most
$$;

CREATE FUNCTION queue_listeners(most bigint) RETURNS TABLE (org_id bigint, integration_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT l.org_id, l.integration_id FROM listeners AS l WHERE l.next_at <= steward_now()
    ORDER BY l.next_at LIMIT most
$$;

CREATE FUNCTION queue_catch_ups(most bigint)
RETURNS TABLE (org_id bigint, integration_id bigint, object_type text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT c.org_id, c.integration_id, c.object_type FROM catch_ups AS c WHERE c.next_at <= steward_now()
    ORDER BY c.next_at LIMIT most
$$;

-- What has reached its end, and what somebody has to look at.
CREATE FUNCTION queue_retain_events(border text, most bigint) RETURNS TABLE (org_id bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT o.org_id, r.id FROM dir_orgs AS o
    CROSS JOIN LATERAL (SELECT e.id FROM events AS e WHERE e.org_id = o.org_id AND e.id < border
                        ORDER BY e.id LIMIT most) AS r
    ORDER BY o.org_id, r.id LIMIT most
$$;

CREATE FUNCTION queue_retain_own_changes(made_before bigint) RETURNS TABLE (org_id bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT DISTINCT c.org_id FROM own_changes AS c WHERE c.applied_at < made_before
$$;

CREATE FUNCTION queue_poisoned_events() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    SELECT count(*) FROM events AS e WHERE e.state = 'poison'
$$;

DO $$
DECLARE
    worked text;
BEGIN
    GRANT SELECT (org_id, applied_at) ON own_changes TO steward_queue;
    GRANT SELECT (org_id, id, state, not_before) ON events TO steward_queue;
    GRANT SELECT (org_id, integration_id, next_at) ON listeners TO steward_queue;
    GRANT SELECT (org_id, integration_id, object_type, next_at) ON catch_ups TO steward_queue;
    FOREACH worked IN ARRAY ARRAY['queue_events(bigint)', 'queue_listeners(bigint)', 'queue_catch_ups(bigint)',
        'queue_retain_events(text, bigint)', 'queue_retain_own_changes(bigint)', 'queue_poisoned_events()']
    LOOP
        EXECUTE format('ALTER FUNCTION %s OWNER TO steward_queue', worked);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', worked);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO steward_app', worked);
    END LOOP;
END $$;
