"""The connectors there are."""

from collections.abc import Mapping
from dataclasses import dataclass

from steward.connectors.base.connector import Connector
from steward.connectors.cloud_s3.connector import CloudS3Connector
from steward.connectors.shopify.connector import Shopify
from steward.connectors.spreadsheet.connector import SpreadsheetConnector
from steward.connectors.teams.connector import TeamsConnector
from steward.connectors.woocommerce.connector import WooCommerceConnector
from steward.model.change import Recovery

ALL: list[type[Connector]] = [
    Shopify,
    WooCommerceConnector,
    SpreadsheetConnector,
    TeamsConnector,
    CloudS3Connector,
]


@dataclass(frozen=True, slots=True)
class Options:
    """The operator's settings connectors are made with; `bounded` lets `read_s` bound writes too (tests)."""

    private_hosts: frozenset[str]
    read_s: float
    sheets_url: str
    token_url: str
    teams_hosts: tuple[str, ...]
    bounded: bool = False
    shopify_version: str = "2026-10"
    shopify_url: str | None = None
    google_client_id: str | None = None
    google_client_secret: str | None = None
    own_address: str | None = None  # where stores deliver events to


def build(options: Options) -> Mapping[str, Connector]:
    """Every connector by its id, made once by app.py.

    Raises ValueError for an operation without a recovery class or under another name than its own.
    """
    made: tuple[Connector, ...] = (
        Shopify(
            version=options.shopify_version,
            url=options.shopify_url,
            read_s=options.read_s,
            bounded=options.bounded,
        ),
        WooCommerceConnector(
            private_hosts=options.private_hosts,
            read_s=options.read_s,
            bounded=options.bounded,
            own_address=options.own_address,
        ),
        SpreadsheetConnector(
            sheets_url=options.sheets_url,
            token_url=options.token_url,
            client=(options.google_client_id, options.google_client_secret),
            read_s=options.read_s,
            bounded=options.bounded,
        ),
        TeamsConnector(
            hosts=options.teams_hosts,
            private_hosts=options.private_hosts,
            read_s=options.read_s,
            bounded=options.bounded,
        ),
        CloudS3Connector(private_hosts=options.private_hosts, read_s=options.read_s, bounded=options.bounded),
    )
    for connector in made:
        for name, op in connector.writes.items():
            if name != op.name or not isinstance(op.recovery, Recovery):
                raise ValueError(f"{connector.facts.id}: {name} does not say how it is recovered")
    return {connector.facts.id: connector for connector in made}
