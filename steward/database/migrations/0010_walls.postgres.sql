-- The wall as before, told so that it costs little: the list of organisations is read once a statement and not
-- once a row, and never takes part in choosing an index (`IS TRUE`). With a hundred organisations in one batch
-- both together were a third of the server's time.
DO $$
DECLARE
    walled record;
    inside text := '(org_id = ANY ((SELECT string_to_array(nullif(current_setting(''app.orgs''), ''''), '','')'
        '::bigint[])::bigint[])) IS TRUE';
BEGIN
    FOR walled IN SELECT tablename FROM pg_policies WHERE schemaname = 'public' AND policyname = 'wall'
    LOOP
        EXECUTE format('ALTER POLICY wall ON %I USING (%s) WITH CHECK (%s)', walled.tablename, inside, inside);
    END LOOP;
END $$;
