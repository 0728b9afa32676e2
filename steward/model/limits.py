"""Limits that several parts of the service share; a part's own limits are defined there."""

# Changes that one run may propose, and that one request may name.
MAX_CHANGES = 5_000
# Bytes of a file that a step reads, creates or passes on.
MAX_FILE_BYTES = 20 * 1024 * 1024
# Keys in one path that an account of an HTTP API may have.
MAX_PATH_KEYS = 5
# Bytes of a run's result as JSON.
MAX_RESULT_BYTES = 64 * 1024
# Failed live runs in a row after which the service pauses their automation.
FAILURES_TO_PAUSE = 5
