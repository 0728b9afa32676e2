-- Sign-in of a person's account: what stands between the click and the way back, for ten minutes, once.

-- Found by the hash of the state, before anything else is known of the caller's way back.
CREATE TABLE sign_in_states (
    state_hash {text} PRIMARY KEY CHECK (length(state_hash) = 64),
    session_hash {text} NOT NULL CHECK (length(session_hash) = 64),
    org_id {int} NOT NULL REFERENCES dir_orgs,
    integration_id {int},
    name {text} NOT NULL,
    key_no {int} NOT NULL,
    verifier_enc {bytes} NOT NULL,
    expires_at {ms} NOT NULL
) {strict};

-- When a connection is next looked at without anybody asking (connectors 10, Health).
ALTER TABLE connections ADD COLUMN check_at {ms} NOT NULL DEFAULT 0;
CREATE INDEX connections_to_check ON connections (check_at) WHERE state = 'connected';
