-- The checkpoints of several runs, at most one of each, in one round trip (engine 2, "Group commit"). Answers
-- those that were still held under their lease, with a wish to cancel; the others are fenced and left alone.
-- The caller has set the wall. A step's wire text carries its end as a mark, for the clock is this one.
CREATE FUNCTION steward_checkpoints(orgs bigint[], run_ids text[], epochs bigint[], seqs bigint[], names text[],
    iterations text[], attempts bigint[], statuses text[], changes bigint[], wires text[], mark text,
    outputs bytea[], unknowns text[], states text[])
RETURNS TABLE (n bigint, cancel_code text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    ended bigint := steward_now();
    told text := to_char(to_timestamp(0) AT TIME ZONE 'UTC' + ended * interval '1 millisecond',
        '"\"finished_at\":\""YYYY-MM-DD"T"HH24:MI:SS.MS"Z\""');
    ours bigint[];
    wishes text[];
BEGIN
    WITH held AS (
        SELECT r.org_id, r.id, i.n, i.seq
        FROM unnest(orgs, run_ids, epochs, seqs) WITH ORDINALITY AS i (org_id, run_id, epoch, seq, n)
        JOIN runs AS r ON r.org_id = i.org_id AND r.id = i.run_id
        WHERE r.epoch = i.epoch AND r.queue = 'leased' AND r.last_seq = i.seq - 1
        ORDER BY r.id FOR UPDATE OF r
    ), moved AS (
        UPDATE runs AS r SET last_seq = held.seq FROM held
        WHERE r.org_id = held.org_id AND r.id = held.id
        RETURNING held.n, r.cancel_code
    )
    SELECT coalesce(array_agg(moved.n), '{}'), coalesce(array_agg(moved.cancel_code), '{}')
    INTO ours, wishes FROM moved;
    INSERT INTO steps (org_id, run_id, seq, name, iteration, attempt, status, finished_at, changes_total, wire)
    SELECT orgs[o], run_ids[o], seqs[o], names[o], iterations[o], attempts[o], statuses[o], ended, changes[o],
        replace(wires[o], mark, told)
    FROM unnest(ours) AS o;
    INSERT INTO step_values (org_id, run_id, name, iteration, seq, output, unknown_paths, state)
    SELECT orgs[o], run_ids[o], names[o], iterations[o], seqs[o], outputs[o], unknowns[o], states[o]
    FROM unnest(ours) AS o
    ON CONFLICT (org_id, run_id, name, iteration) DO UPDATE
    SET seq = excluded.seq, output = excluded.output, unknown_paths = excluded.unknown_paths,
        state = excluded.state;
    RETURN QUERY SELECT * FROM unnest(ours, wishes);
END $$;
