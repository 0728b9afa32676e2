"""Configures the connectors from the settings, for the service and for operator commands."""

from collections.abc import Mapping

from steward import connectors
from steward.config import Settings
from steward.connectors.base.connector import AnyWriteOperation
from steward.connectors.base.options import Options, SignInClient


def operations(settings: Settings) -> dict[str, Mapping[str, AnyWriteOperation]]:
    """Returns the write operations of each kind of connection, for checking a restored backup."""
    return {
        kind: connector.writes for kind, connector in connectors.build(connector_options(settings)).items()
    }


def connector_options(settings: Settings) -> Options:
    """Returns the options of every connector."""
    return Options(
        private_hosts=frozenset(settings.allow_private_hosts),
        read_s=float(settings.outbound_timeout_seconds),
        sheets_url=settings.google_sheets_url,
        gmail_url=settings.google_gmail_url,
        drive_url=settings.google_drive_url,
        graph_url=settings.microsoft_graph_url,
        google=SignInClient(
            settings.google_token_url, settings.google_client_id, settings.google_client_secret
        ),
        microsoft=SignInClient(
            settings.microsoft_token_url, settings.microsoft_client_id, settings.microsoft_client_secret
        ),
        teams_hosts=settings.teams_hosts,
        slack_hosts=settings.slack_hosts,
        bounded=settings.is_test,
        shopify_version=settings.shopify_api_version,
        shopify_url=settings.shopify_url,
        own_address=settings.base_url,
    )
