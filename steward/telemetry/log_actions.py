"""Lists every action that a log line can have; docs/guides/operators.md says how to respond to each."""

from collections.abc import Mapping
from typing import NamedTuple


class LogAction(NamedTuple):
    """The level of an action's lines, such as `error` or `info or error`, and what the action means."""

    level: str
    meaning: str


ACTIONS: Mapping[str, LogAction] = {
    "api_process_ended": LogAction(
        "error", "An additional API process ended by itself; it will be restarted."
    ),
    "api_process_not_begun": LogAction(
        "error", "An additional API process could not be started; it will be retried."
    ),
    "approval_mismatch": LogAction(
        "error", "The changes to write differ from the approved ones; none was written."
    ),
    "audit_broken": LogAction("error", "An entry of an audit log was altered or is missing."),
    "audit_head": LogAction(
        "info", "The last entry of an organization's audit log, logged periodically as an anchor."
    ),
    "batch_split": LogAction("warning", "A batch of writes failed, and each write was retried on its own."),
    "call": LogAction("info", "A call to a platform or a mail server ended."),
    "channel_down": LogAction("warning", "A notification channel cannot be reached at all."),
    "channel_up": LogAction("info", "A notification channel works again."),
    "closed_period_changed": LogAction("info", "A person changed a closed period or stopped all changes."),
    "closed_periods_unreadable": LogAction(
        "error", "A stored closed period cannot be interpreted; writes wait."
    ),
    "connection_not_opened": LogAction("error", "The secrets of a connection could not be decrypted."),
    "database_lost": LogAction("warning", "A connection to PostgreSQL was lost or could not be opened."),
    "database_recovered": LogAction("warning", "PostgreSQL is available again."),
    "disk_full": LogAction("error", "A write failed because the disk is full."),
    "disk_recovered": LogAction("warning", "The disk has free space again."),
    "dispatch_failed": LogAction("error", "A due slot could not be decided; it will be retried."),
    "event_not_matched": LogAction(
        "error", "A store event could not be matched with automations; it will be retried."
    ),
    "event_received": LogAction("debug", "A delivery from a store was accepted or refused."),
    "events_caught_up": LogAction(
        "info", "Store events that were not delivered were found by reading the store."
    ),
    "file_open_to_others": LogAction("warning", "Other accounts on this machine can read a private file."),
    "foreign_code_calls_not_filtered": LogAction("warning", "Scripts run without a system-call filter."),
    "foreign_code_not_confined": LogAction(
        "warning", "Scripts run without a system-call filter and without namespaces."
    ),
    "foreign_code_unavailable": LogAction("warning", "Scripts cannot run on this machine."),
    "lease_lost": LogAction("warning", "This worker was declared dead although it is running."),
    "library": LogAction("warning or error", "A line logged by a library."),
    "login_failed": LogAction("info", "An API login was refused."),
    "long_reader": LogAction("warning", "A transaction has been open in PostgreSQL for over a minute."),
    "low_descriptor_limit": LogAction(
        "warning", "The process may open few files, so it accepts fewer connections."
    ),
    "message_deferred": LogAction("info", "A message could not be delivered; it will be retried."),
    "message_refused": LogAction("warning", "A message was refused permanently."),
    "message_sent": LogAction("info", "A message was accepted by its channel."),
    "metrics_not_served": LogAction("warning", "A process does not serve its metrics."),
    "notice_deferred": LogAction(
        "error", "A notice could not be fanned out to its receivers; it will be retried."
    ),
    "orphaned_runs_released": LogAction(
        "warning", "Runs leased to this worker that it was not executing were released."
    ),
    "out_of_memory": LogAction("error", "A request was answered 503 because memory was short."),
    "partitions_rotated": LogAction("info", "Monthly partitions were created or dropped."),
    "periodic_task_failed": LogAction("warning or error", "A pass of a periodic task failed."),
    "refresh_token_not_kept": LogAction(
        "warning", "A refreshed token arrived after its lease had expired and was dropped."
    ),
    "request_failed": LogAction("error", "A request was answered 500 because of a defect."),
    "route_broken": LogAction(
        "warning", "A notification route is no longer used because its deliveries keep failing."
    ),
    "row_deferred": LogAction("error", "A periodic task failed on a row; the row will be retried."),
    "run_abandoned": LogAction(
        "warning or error", "A worker stopped executing a run because the database or memory was unavailable."
    ),
    "run_crashed": LogAction("error", "A run was ended by a defect."),
    "run_finished": LogAction("info", "A run ended."),
    "run_held": LogAction("info", "A closed period or a freeze forbids the writes of a run for now."),
    "run_interrupted": LogAction(
        "error", "A run was ended after three workers were lost while executing it."
    ),
    "run_left_to_other_release": LogAction("info", "A run was released for a worker of another release."),
    "run_lost": LogAction("info", "Another worker owns this run now."),
    "run_released": LogAction("info", "A stopping worker released a run."),
    "run_task_crashed": LogAction(
        "error", "A defect outside of a run's steps ended the task that executed it."
    ),
    "run_waits_for_approval": LogAction("info", "A run is waiting for approval of its changes."),
    "runs_recovered": LogAction("warning", "Runs of a dead worker were requeued."),
    "sign_in_failed": LogAction("info", "A sign-in to the web app was refused."),
    "slot_missing": LogAction("error", "A past slot had no record; the auditor added one."),
    "slot_unexpected": LogAction("error", "A record belongs to no slot of its schedule."),
    "standby_missing": LogAction("warning", "PostgreSQL no longer has a synchronous standby."),
    "store_not_read": LogAction(
        "info or error", "A store could not be read for events that were not delivered."
    ),
    "store_not_unsubscribed": LogAction(
        "info", "The subscriptions of a removed connection could not be deleted at the store."
    ),
    "subscription_check_failed": LogAction("error", "A defect ended the check of a store's subscriptions."),
    "subscriptions_not_checked": LogAction(
        "info", "A store did not answer when its subscriptions were checked."
    ),
    "uncaught_error": LogAction("error", "An exception that no code handled."),
    "undo_refused": LogAction("info", "An undo was refused."),
    "undo_started": LogAction("info", "An undo was started."),
}
