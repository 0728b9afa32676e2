-- The wall around what belongs to an organisation, as everywhere.
DO $$
DECLARE
    owned text;
BEGIN
    FOREACH owned IN ARRAY ARRAY['imports', 'plans']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', owned);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', owned);
        EXECUTE format('CREATE POLICY wall ON %I
            USING (org_id = ANY ((SELECT string_to_array(nullif(current_setting(''app.orgs''), ''''), '',''))::bigint[]))
            WITH CHECK (org_id = ANY ((SELECT string_to_array(nullif(current_setting(''app.orgs''), ''''), '',''))::bigint[]))',
            owned);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO steward_app', owned);
    END LOOP;
END $$;
