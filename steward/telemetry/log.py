"""Writes one line per event: an action, ids, duration and outcome; redacts secrets."""

import contextlib
import json
import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import Literal

from steward.clock import Clock
from steward.telemetry.redact import REDACTED, SecretRegister, without_credentials
from steward.telemetry.traces import current_run, current_trace, run_span, trace_id_text
from steward.version import __version__

_DENIED = re.compile(r"authorization|cookie|token|secret|key|password|signature", re.IGNORECASE)
_LONGEST = 2_000
_LONGEST_FOREIGN = 20_000  # characters read of a library's text; a line holds at most `_LONGEST`


class LogLevel(IntEnum):
    """The severity of a line: `error` is a bug or a broken promise."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


Process = Literal["api", "worker", "cli"]


@dataclass(frozen=True, slots=True)
class LogOrigin:
    """The process that writes lines: each line names it and, if traced, the trace of its run or request."""

    process: Process
    is_traced: bool = False
    pid: int = field(default_factory=os.getpid)

    def fields(self, run: object) -> dict[str, object]:
        """Returns the fields of a line; `run` is the run it is about, if any."""
        origin: dict[str, object] = {"release": __version__, "process": self.process, "pid": self.pid}
        if self.is_traced:
            about = run or current_run.get()
            trace = current_trace.get() if about is None else run_span(str(about)).trace
            if trace is not None:
                origin["trace"] = trace_id_text(trace)
        return origin


class Log:
    """Writes lines to one sink; created once by app.py and passed down."""

    def __init__(
        self,
        write: Callable[[str], object],
        clock: Clock,
        register: SecretRegister,
        *,
        level: LogLevel = LogLevel.INFO,
        form: Literal["json", "text"] = "json",
        origin: LogOrigin | None = None,
    ) -> None:
        self._write = write
        self._clock = clock
        self.register = register
        self._level = level
        self._form = form
        self._origin = origin

    def debug(self, action: str, /, **fields: object) -> None:
        """Logs a line for debugging."""
        self.line(LogLevel.DEBUG, action, fields)

    def info(self, action: str, /, **fields: object) -> None:
        """Logs an ordinary event."""
        self.line(LogLevel.INFO, action, fields)

    def warning(self, action: str, /, **fields: object) -> None:
        """Logs something that needs attention within days."""
        self.line(LogLevel.WARNING, action, fields)

    def error(self, action: str, /, error: BaseException | None = None, **fields: object) -> None:
        """Logs a bug or a broken promise; `error` adds its traceback, without locals."""
        if error is not None:
            fields = {**fields, "traceback": self.traceback_of(error)}
        self.line(LogLevel.ERROR, action, fields)

    def redacted(self, text: str) -> str:
        """Returns a library's text without live secrets and without anything that looks like a credential.

        Live secrets are replaced first: if a part of one were already replaced, the register would miss the
        rest.
        """
        return without_credentials(self.register.clean(text))

    def traceback_of(self, error: BaseException) -> str:
        """Returns the redacted traceback of an error."""
        return self.redacted("".join(traceback.format_exception(error))[-_LONGEST_FOREIGN:])

    def line(
        self, level: LogLevel, action: str, fields: dict[str, object], *, time: datetime | None = None
    ) -> None:
        """Writes one line of `level`, dated `time` or now."""
        if level < self._level:
            return
        moment = (time or self._clock.now()).astimezone(UTC)
        entry: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": level.name.lower(),
            "action": action,
        }
        if self._origin is not None:
            entry |= self._origin.fields(fields.get("run"))
        for name, value in fields.items():
            entry[name] = REDACTED if _DENIED.search(name) else self._loggable(name, value)
        self._write(self._text(entry) + "\n")

    def _loggable(self, name: str, value: object) -> object:
        """Returns a field's value without secrets, cut to `_LONGEST` characters."""
        if value is None or isinstance(value, bool | int | float):
            return value
        words = self.register.clean(str(value))
        if name == "traceback" and len(words) > _LONGEST:  # the end holds the error and where it was raised
            return "…" + words[1 - _LONGEST :]
        return words[:_LONGEST]

    def _text(self, entry: dict[str, object]) -> str:
        if self._form == "json":
            return json.dumps(entry, ensure_ascii=False)
        head = f"{entry.pop('time')} {entry.pop('level')} {entry.pop('action')}"
        # JSON escapes line breaks in values, so an event stays one line.
        return " ".join([head, *(f"{name}={json.dumps(v, ensure_ascii=False)}" for name, v in entry.items())])


def capture_all_output(log: Log) -> None:
    """Makes `log` the only output of this process for anything unexpected.

    That covers what libraries log, warnings, and uncaught errors of every thread, until the process ends.
    """
    root = logging.getLogger()
    root.handlers[:] = [LibraryLines(log)]
    logging.captureWarnings(True)

    def uncaught(error: BaseException | None, where: str) -> None:
        if error is not None and not isinstance(error, SystemExit | KeyboardInterrupt):
            log.error("uncaught_error", error, where=where)

    sys.excepthook = lambda kind, error, trace: uncaught(error, "process")
    threading.excepthook = lambda args: uncaught(
        args.exc_value, args.thread.name if args.thread else "thread"
    )
    sys.unraisablehook = lambda args: uncaught(args.exc_value, args.err_msg or "finalizer")


class LibraryLines(logging.Handler):
    """Writes what libraries log as our lines; removes credentials from URLs and headers in it."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line with the record's own time. Never raises, as what is logged may be malformed."""
        level = LogLevel.ERROR if record.levelno >= logging.ERROR else LogLevel.WARNING
        with contextlib.suppress(Exception):
            self._write(record, level)

    def _write(self, record: logging.LogRecord, level: LogLevel) -> None:
        try:
            words = record.getMessage()
        except (TypeError, ValueError, LookupError):  # the format does not fit its arguments
            words = str(record.msg)
        fields: dict[str, object] = {
            "logger": record.name,
            "words": self._log.redacted(words[:_LONGEST_FOREIGN]),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["traceback"] = self._log.traceback_of(record.exc_info[1])
        self._log.line(level, "library", fields, time=datetime.fromtimestamp(record.created, UTC))
