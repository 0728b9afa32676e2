-- Somebody invited who has not accepted has no account's address any more: whether an address has an account is
-- looked up when the invitation is accepted.
UPDATE people SET email_norm = 'invited:' || person_id WHERE unclaimed;
