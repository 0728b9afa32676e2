"""Limits that several parts of the service share; a limit of one part is defined there."""

# Changes that one run proposes, and that one request names.
MAX_CHANGES = 5_000
# Bytes of a file that a step reads, makes or hands on.
MAX_FILE_BYTES = 20 * 1024 * 1024
# Keys in one path that an account of an HTTP API holds.
MAX_PATH_KEYS = 5
# Bytes of a run's result as JSON.
MAX_RESULT_BYTES = 64 * 1024
# Live runs in a row that fail before the service pauses their automation.
FAILURES_TO_PAUSE = 5
