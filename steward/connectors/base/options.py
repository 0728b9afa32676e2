"""The operator's settings that connectors are built from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SignInClient:
    """The operator's app at a sign-in provider; without id and secret nobody can sign in there."""

    token_url: str
    id: str | None = None
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """The operator's settings of connectors; `bounded` applies `read_s` to writes too (in tests)."""

    private_hosts: frozenset[str]
    read_s: float
    sheets_url: str
    google: SignInClient
    teams_hosts: tuple[str, ...]
    bounded: bool = False
    microsoft: SignInClient = SignInClient("https://login.microsoftonline.com/common/oauth2/v2.0/token")
    shopify_version: str = "2026-10"
    shopify_url: str | None = None
    gmail_url: str = "https://gmail.googleapis.com"
    drive_url: str = "https://www.googleapis.com"
    graph_url: str = "https://graph.microsoft.com"
    own_address: str | None = None  # the address that stores deliver events to
    slack_hosts: tuple[str, ...] = ("hooks.slack.com", "slack.com")
