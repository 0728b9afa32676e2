-- Invitations: a person is a member from the day of the invitation, but joins by accepting it.

-- Found by the hash of a link's token, before the organisation is known.
CREATE TABLE invitations (
    token_hash {text} PRIMARY KEY CHECK (length(token_hash) = 64),
    org_id {int} NOT NULL REFERENCES dir_orgs,
    person_id {int} NOT NULL REFERENCES people,
    created_by {int} NOT NULL REFERENCES people,
    created_at {ms} NOT NULL,
    expires_at {ms} NOT NULL,
    used_at {ms}
) {strict};
CREATE INDEX invitations_by_person ON invitations (org_id, person_id);

-- An account made by an invitation that nobody has accepted yet: whoever accepts one first sets its password.
ALTER TABLE people ADD COLUMN unclaimed {bool} NOT NULL DEFAULT FALSE;

-- A member who has been invited and has never joined; `active` is false until then.
ALTER TABLE members ADD COLUMN invited {bool} NOT NULL DEFAULT FALSE;
