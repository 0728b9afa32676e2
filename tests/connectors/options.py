"""The operator's settings of connectors in tests."""

from dataclasses import replace
from typing import Any

from steward.connectors.base.options import Options, SignInClient

_OPTIONS = Options(
    private_hosts=frozenset(),
    read_s=20.0,
    sheets_url="https://sheets.example",
    google=SignInClient("https://token.example"),
    teams_hosts=(".logic.azure.com",),
)


def connector_options(**changed: Any) -> Options:
    """Returns settings that allow no private host and name hosts that do not exist, with `changed` fields."""
    return replace(_OPTIONS, **changed)
