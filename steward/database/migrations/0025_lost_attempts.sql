-- When a run was last lost with its worker: losses that lie more than an hour apart start counting anew.
ALTER TABLE runs ADD COLUMN lost_at {int};
