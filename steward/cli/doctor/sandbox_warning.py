"""Warns operators, in `doctor` and at start, if foreign code cannot be sandboxed."""

from typing import Final

from steward.config import Settings
from steward.sandbox.pool import SandboxPool
from steward.sandbox.protocol import SandboxStopped
from steward.telemetry.log import Log

ISOLATION_REMEDY: Final = (
    "Run Steward on Linux, and let its container use seccomp or user namespaces, before workflows of"
    " strangers are imported."
)


def missing_isolation(settings: Settings) -> str:
    """Returns a description of how foreign code runs without system call filters and namespaces."""
    missing = "The machine has neither a filter of system calls nor namespaces for foreign code"
    if settings.is_production and not settings.unconfined_scripts:
        return f"{missing}: expressions and scripts of imported workflows are refused."
    return f"{missing}: expressions and scripts of imported workflows run with resource limits only."


async def log_missing_isolation(settings: Settings, sandbox_pool: SandboxPool, log: Log) -> None:
    """Logs a warning for a production service whose machine cannot confine foreign code."""
    if not settings.is_production:
        return
    try:
        isolation = await sandbox_pool.probe_isolation()
    except (
        SandboxStopped,
        OSError,
    ) as error:  # OSError: no temporary folder, or no file descriptor left
        log.warning("foreign_code_unavailable", message=str(error))
        return
    if not isolation.is_confined:
        message = f"{missing_isolation(settings)} {ISOLATION_REMEDY}"
        log.warning("foreign_code_not_confined", message=message)
    elif not isolation.system_calls:
        log.warning("foreign_code_calls_not_filtered", message=ISOLATION_REMEDY)
