-- What PostgreSQL alone needs: the role that serves reads and writes the new table.

GRANT SELECT, INSERT, UPDATE, DELETE ON invitations TO steward_app;
