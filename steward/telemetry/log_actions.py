"""Lists every action that a log line can have; docs/guides/operators.md says how to respond to each."""

from collections.abc import Mapping
from typing import NamedTuple


class LogAction(NamedTuple):
    """The level of an action's lines, such as `error` or `info or error`, and what the action means."""

    level: str
    meaning: str


ACTIONS: Mapping[str, LogAction] = {
    "approval_mismatch": LogAction("error", "What was to be written differs from what was approved."),
    "audit_broken": LogAction("error", "An entry of an audit log is not as it was written."),
    "audit_head": LogAction("info", "The last entry of an organization's audit log, told regularly."),
    "batch_split": LogAction("warning", "A call for several writes failed, and each was done by itself."),
    "call": LogAction("info", "A call to an account or a mail server ended."),
    "channel_down": LogAction("warning", "A channel of messages cannot be reached as a whole."),
    "channel_up": LogAction("info", "A channel takes messages again."),
    "closed_period_changed": LogAction("info", "A person changed a closed period or stopped all changes."),
    "closed_periods_unreadable": LogAction("error", "A stored closed period cannot be read; writes wait."),
    "connection_not_opened": LogAction("error", "The keys of a connection could not be opened."),
    "database_back": LogAction("warning", "PostgreSQL serves again after a loss."),
    "database_lost": LogAction("warning", "A connection to PostgreSQL was given up or not opened."),
    "disk_full": LogAction("error", "A write found no room on the disk."),
    "disk_recovered": LogAction("warning", "There is room on the disk again."),
    "dispatch_failed": LogAction("error", "A due slot could not be decided; it is tried again."),
    "event_not_matched": LogAction("error", "A store event could not be matched with automations."),
    "event_received": LogAction("debug", "A delivery of a store was taken in or refused."),
    "events_caught_up": LogAction("info", "Missed store events were found by reading the store."),
    "few_descriptors": LogAction("warning", "The process may open few files and takes fewer connections."),
    "file_open_to_others": LogAction("warning", "Other accounts of the machine may open a private file."),
    "foreign_code_calls_not_filtered": LogAction("warning", "Scripts run without a filter of system calls."),
    "foreign_code_not_confined": LogAction("warning", "Scripts have neither a filter nor namespaces."),
    "foreign_code_unavailable": LogAction("warning", "Scripts cannot run on this machine."),
    "lease_lost": LogAction("warning", "This worker was declared dead while it lived."),
    "library": LogAction("warning or error", "A library logged this."),
    "login_failed": LogAction("info", "A login of the API was refused."),
    "long_reader": LogAction("warning", "A transaction has been open in PostgreSQL for a minute."),
    "message_deferred": LogAction("info", "A message is tried again later."),
    "message_refused": LogAction("warning", "A message was refused permanently."),
    "message_sent": LogAction("info", "A message was accepted by its channel."),
    "metrics_not_served": LogAction("warning", "A worker cannot listen for scrapes of its metrics."),
    "notice_deferred": LogAction("error", "A notice could not be handed on; it is tried again."),
    "orphaned_runs_released": LogAction("warning", "Runs that this worker had given up were freed."),
    "out_of_memory": LogAction("error", "A request was answered 503 for want of memory."),
    "partitions_rotated": LogAction("info", "Partitions of history were created and dropped."),
    "periodic_task_failed": LogAction("warning or error", "A whole pass of a periodic task failed."),
    "refresh_token_not_kept": LogAction("warning", "A refreshed sign-in came too late and was dropped."),
    "request_failed": LogAction("error", "A request met a defect and was answered 500."),
    "route_broken": LogAction("warning", "A route of notices is not used any more."),
    "row_deferred": LogAction("error", "A periodic task failed on a row; it is tried again."),
    "run_abandoned": LogAction("warning or error", "A run was left for another try: no database or memory."),
    "run_crashed": LogAction("error", "A defect ended a run."),
    "run_finished": LogAction("info", "A run ended."),
    "run_handed_back": LogAction("info", "A run was left to a worker of another release."),
    "run_held": LogAction("info", "A closed period or a stop holds the writes of a run."),
    "run_interrupted": LogAction("error", "A run ended after three workers were lost with it."),
    "run_lost": LogAction("info", "Another worker has this run now."),
    "run_released": LogAction("info", "A stopping worker gave a run back."),
    "run_task_crashed": LogAction("error", "A defect ended the task of a run outside of its steps."),
    "run_waits_for_approval": LogAction("info", "A run waits for somebody to approve its changes."),
    "runs_recovered": LogAction("warning", "Runs of a dead worker were freed."),
    "sign_in_failed": LogAction("info", "A sign-in of the web app was refused."),
    "slot_missing": LogAction("error", "A slot had no record."),
    "slot_unexpected": LogAction("error", "A record belongs to no slot."),
    "standby_missing": LogAction("warning", "PostgreSQL has no synchronous standby any more."),
    "store_not_read": LogAction("info or error", "A store could not be read for missed events."),
    "store_not_unsubscribed": LogAction("info", "A store kept the subscriptions of a removed connection."),
    "store_read_failed": LogAction("info", "The subscriptions of a store could not be checked."),
    "subscription_check_failed": LogAction("error", "A defect ended the check of a store's subscriptions."),
    "uncaught_error": LogAction("error", "A defect that nothing caught."),
    "undo_refused": LogAction("info", "An undo was refused."),
    "undo_started": LogAction("info", "An undo was started."),
}
