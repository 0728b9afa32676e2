-- What is kept and for how long (engine 17): an approval outlives its run, so it no longer refers to it.

ALTER TABLE login_attempts ADD COLUMN ends_at {ms} NOT NULL DEFAULT 0;
CREATE INDEX login_attempts_ended ON login_attempts (ends_at);
