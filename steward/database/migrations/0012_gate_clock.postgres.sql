-- As the gate's functions of the first release, but the server's own clock says whether a token or session is in
-- time (engine 2, "Clock"): hosts' clocks decide nothing. Those of the first release stay for one that runs yet.

CREATE FUNCTION steward_gate_bearer(org bigint, person bigint, client text, token_epoch bigint,
    from_s bigint, until_s bigint, most_person bigint, most_org bigint, test_now bigint)
RETURNS TABLE (good boolean, automations_on boolean, over text) LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    present bigint := steward_enter(org::text, false, test_now);
BEGIN
    over := NULL;
    SELECT c.enabled AND c.epoch = token_epoch AND m.active AND m.account_active, o.automations_on
    INTO good, automations_on
    FROM credentials AS c
    JOIN members AS m ON m.org_id = c.org_id AND m.person_id = person
    JOIN organizations AS o ON o.org_id = c.org_id
    WHERE c.org_id = org AND c.client_id = client;
    good := coalesce(good, false) AND present < until_s * 1000 AND from_s * 1000 <= present;
    automations_on := coalesce(automations_on, false);
    IF good AND automations_on AND most_person > 0 THEN
        IF steward_window('person', org, person, most_person) THEN
            over := 'person';
        ELSIF steward_window('org', org, 0, most_org) THEN
            over := 'org';
            UPDATE rate_windows AS w SET used = w.used - 1
            WHERE w.kind = 'person' AND w.org_id = org AND w.key = person AND w.minute = steward_now() / 60000;
        END IF;
    END IF;
    RETURN NEXT;
END $$;

CREATE FUNCTION steward_gate_cookie(hash text, needed text[], idle_ms bigint, life_ms bigint,
    most_web bigint, test_now bigint)
RETURNS TABLE (person_id bigint, email text, username text, first_name text, last_name text, org_id bigint,
    created_at bigint, seen_at bigint, organization_name text, zone text, automations_on boolean, role text,
    over boolean, present bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    chosen bigint;
BEGIN
    SELECT s.org_id INTO chosen FROM sessions AS s WHERE s.session_hash = hash;
    present := steward_enter(coalesce(chosen::text, ''), false, test_now);
    SELECT s.person_id, p.email, p.username, p.first_name, p.last_name, m.org_id, s.created_at, s.seen_at, o.name,
        o.zone, o.automations_on, m.role, false
    INTO person_id, email, username, first_name, last_name, org_id, created_at, seen_at, organization_name, zone,
        automations_on, role, over
    FROM sessions AS s
    JOIN people AS p ON p.person_id = s.person_id
    LEFT JOIN members AS m ON m.org_id = s.org_id AND m.person_id = s.person_id AND m.active
    LEFT JOIN organizations AS o ON o.org_id = m.org_id
    WHERE s.session_hash = hash AND p.active AND s.seen_at > present - idle_ms
        AND s.created_at > present - life_ms;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF most_web > 0 AND (needed IS NULL OR (automations_on AND role = ANY (needed))) THEN
        over := steward_window('web', 0, person_id, most_web);
    END IF;
    RETURN NEXT;
END $$;
