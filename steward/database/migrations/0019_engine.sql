-- What waits for approval takes less room: of each run that does, one index less of runs and two of approvals.

DROP INDEX runs_waiting;
CREATE INDEX runs_queued ON runs (org_id, automation_id, queued_at, id) WHERE status = 'queued';
DROP INDEX approvals_ending;
