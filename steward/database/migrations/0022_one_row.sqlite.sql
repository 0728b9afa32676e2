UPDATE runs SET (automation_name, automation_version, template_id, template_version, started_by, event_id, event_topic,
        event_received_at, idempotency_key, created_by, created_via, api_client_id, code, message, current_step,
        summary, result)
    = (SELECT f.automation_name, f.automation_version, f.template_id, f.template_version, f.started_by, f.event_id,
           f.event_topic, f.event_received_at, f.idempotency_key, f.created_by, f.created_via, f.api_client_id, f.code,
           f.message, f.current_step, f.summary, f.result
       FROM run_facts AS f WHERE f.org_id = runs.org_id AND f.run_id = runs.id)
    WHERE EXISTS (SELECT 1 FROM run_facts AS f WHERE f.org_id = runs.org_id AND f.run_id = runs.id);
UPDATE schedules SET (dropped, dropped_at) = (SELECT l.dropped, l.dropped_at FROM lanes AS l
        WHERE l.org_id = schedules.org_id AND l.automation_id = schedules.automation_id)
    WHERE EXISTS (SELECT 1 FROM lanes AS l WHERE l.org_id = schedules.org_id
                  AND l.automation_id = schedules.automation_id);
DROP TABLE run_facts;
DROP TABLE lanes;
CREATE UNIQUE INDEX runs_one_an_event ON runs (org_id, automation_id, event_id) WHERE event_id IS NOT NULL;

DELETE FROM sqlite_stat1 WHERE tbl IN ('run_facts', 'lanes');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('runs', 'runs_one_an_event', '100000 10000 1000 1');
