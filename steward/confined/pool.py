"""Starts, lends, times and kills the processes that run foreign code; one owner each (safety 8)."""


class Children:
    """At most `count` confined processes of this service process."""

    def __init__(self, count: int) -> None:
        self._count = count
