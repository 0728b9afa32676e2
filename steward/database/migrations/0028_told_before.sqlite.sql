UPDATE last_seen SET told = CASE WHEN modified_at IS NULL THEN '{}' ELSE (
    SELECT json_group_object(h.topic, json_array(last_seen.modified_at, NULL)) FROM topics_heard AS h
    WHERE h.org_id = last_seen.org_id AND h.integration_id = last_seen.integration_id
) END
WHERE told = '{{}}';
