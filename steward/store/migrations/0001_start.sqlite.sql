-- What SQLite alone has: the append-only guards.

CREATE TRIGGER audit_log_kept BEFORE UPDATE ON audit_log BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
CREATE TRIGGER audit_log_stays BEFORE DELETE ON audit_log BEGIN
    SELECT RAISE(ABORT, 'audit_log is append-only');
END;
CREATE TRIGGER steps_kept BEFORE UPDATE ON steps BEGIN
    SELECT RAISE(ABORT, 'steps is append-only');
END;
