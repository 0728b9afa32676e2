"""Named places at which crash tests stop the service; without cost when off."""

from collections.abc import Callable

_watch: Callable[[str], None] | None = None


def failpoint(name: str) -> None:
    """Reports to the watcher, if any, that the failpoint `name` was reached; the watcher may raise."""
    if _watch is not None:
        _watch(name)


def watch(watcher: Callable[[str], None] | None) -> None:
    """Sets or removes the watcher; only crash tests call this."""
    global _watch
    _watch = watcher
