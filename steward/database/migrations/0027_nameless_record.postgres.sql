DROP TRIGGER audit_log_kept ON audit_log;
ALTER TABLE audit_log NO FORCE ROW LEVEL SECURITY;
UPDATE audit_log SET detail = jsonb_set(detail::jsonb, '{name}', 'true')::text
WHERE action = 'organization_changed' AND jsonb_typeof(detail::jsonb -> 'name') = 'string';
ALTER TABLE audit_log FORCE ROW LEVEL SECURITY;
CREATE TRIGGER audit_log_kept BEFORE UPDATE OR DELETE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION steward_append_only();
