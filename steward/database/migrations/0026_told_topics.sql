-- Which topics of an object deliveries and catch-up told, each up to which modified time; and since when a topic
-- is listened to: what was modified before starts no run.
ALTER TABLE last_seen ADD COLUMN told {json} NOT NULL DEFAULT '{{}}';
ALTER TABLE topics_heard ADD COLUMN since {ms};
