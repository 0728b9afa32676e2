-- The wall between organisations hides their rows from migrations too.
ALTER TABLE last_seen NO FORCE ROW LEVEL SECURITY;
ALTER TABLE topics_heard NO FORCE ROW LEVEL SECURITY;
ALTER TABLE last_seen ALTER COLUMN told SET DEFAULT '{}';
UPDATE last_seen SET told = CASE WHEN modified_at IS NULL THEN '{}' ELSE (
    SELECT coalesce(jsonb_object_agg(h.topic, jsonb_build_array(last_seen.modified_at, NULL)), '{}')::text
    FROM topics_heard AS h
    WHERE h.org_id = last_seen.org_id AND h.integration_id = last_seen.integration_id
) END
WHERE told = '{{}}';
ALTER TABLE topics_heard FORCE ROW LEVEL SECURITY;
ALTER TABLE last_seen FORCE ROW LEVEL SECURITY;
