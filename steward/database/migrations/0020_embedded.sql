-- What an embedded database writes for a step and for a slot is SQLite's alone: see the file beside this one. For
-- PostgreSQL there is nothing to do, and its driver wants a statement.
SELECT 1;
