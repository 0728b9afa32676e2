"""Reads several stores for one report: in their order, each by a name of its own (templates 1)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from steward.connectors.base import CallError
from steward.steps.base import AccountAccess, StepContext


def stores_of(at: StepContext) -> list[AccountAccess]:
    """The stores the automation reads, in the order of its `connections`."""
    found = [at.accounts[number] for number in at.reads]
    return [account for account in found if account.connection.is_store]


def labels_of(accounts: Sequence[AccountAccess]) -> list[str]:
    """What each is called in a report: its name, and where two have one name its address or number too."""
    names = [account.connection.name for account in accounts]
    often = Counter(names)
    return [
        name
        if often[name] == 1
        else f"{name} ({account.connection.domain or account.connection.integration_id})"
        for name, account in zip(names, accounts, strict=True)
    ]


@contextmanager
def naming(label: str) -> Iterator[None]:
    """Names the account in the failure of a call: with several, "it" says nothing."""
    try:
        yield
    except CallError as error:
        error.message = f"{label} could not be read. {error.message}"
        raise
