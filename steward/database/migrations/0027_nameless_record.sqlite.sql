DROP TRIGGER audit_log_kept;
UPDATE audit_log SET detail = json_set(detail, '$.name', json('true'))
WHERE action = 'organization_changed' AND json_type(detail, '$.name') = 'text';
CREATE TRIGGER audit_log_kept BEFORE UPDATE ON audit_log BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
