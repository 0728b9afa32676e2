-- A run is one row: what never changes about it and its last words lay in a table beside, one row and one key
-- more for each run. Who holds an automation's lane is told by its one live run (`runs_one_live`); who looks has
-- locked the automation's schedule. What was dropped is counted there.
ALTER TABLE runs ADD COLUMN automation_name {text} NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN automation_version {int} NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN template_id {text} NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN template_version {int} NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN started_by {text} NOT NULL DEFAULT 'hand' CHECK (started_by IN ('schedule', 'event', 'hand'));
ALTER TABLE runs ADD COLUMN event_id {id};
ALTER TABLE runs ADD COLUMN event_topic {text};
ALTER TABLE runs ADD COLUMN event_received_at {ms};
ALTER TABLE runs ADD COLUMN idempotency_key {text};
ALTER TABLE runs ADD COLUMN created_by {int};
ALTER TABLE runs ADD COLUMN created_via {text};
ALTER TABLE runs ADD COLUMN api_client_id {text};
ALTER TABLE runs ADD COLUMN code {text};
ALTER TABLE runs ADD COLUMN message {text};
ALTER TABLE runs ADD COLUMN current_step {json};
ALTER TABLE runs ADD COLUMN summary {json};
ALTER TABLE runs ADD COLUMN result {json} CHECK (length(result) <= 65536);
ALTER TABLE schedules ADD COLUMN dropped {int} NOT NULL DEFAULT 0 CHECK (dropped >= 0);
ALTER TABLE schedules ADD COLUMN dropped_at {ms};
