"""The operator's settings that connectors are built from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """The operator's settings of connectors; `bounded` lets `read_s` bound writes too (tests)."""

    private_hosts: frozenset[str]
    read_s: float
    sheets_url: str
    token_url: str
    teams_hosts: tuple[str, ...]
    bounded: bool = False
    shopify_version: str = "2026-10"
    shopify_url: str | None = None
    gmail_url: str = "https://gmail.googleapis.com"
    drive_url: str = "https://www.googleapis.com"
    google_client_id: str | None = None
    google_client_secret: str | None = None
    own_address: str | None = None  # where stores deliver events to
    slack_hosts: tuple[str, ...] = ("hooks.slack.com", "slack.com")
