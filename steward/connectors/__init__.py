"""The registered connectors: one folder each, whose `connector.py` names its class `CONNECTOR`."""

import importlib
from collections.abc import Mapping

from steward.connectors.base.connector import Connector, Receivable
from steward.connectors.base.options import Options
from steward.model.change import Recovery

_FOLDERS = (
    "shopify",
    "woocommerce",
    "spreadsheet",
    "teams",
    "cloud_s3",
    "slack",
    "telegram",
    "discord",
    "mattermost",
    "twilio",
    "whatsapp",
    "airtable",
    "notion",
    "http_api",
    "smtp",
    "gmail",
    "google_drive",
    "microsoft_outlook",
)

ALL: Mapping[str, type[Connector]] = {
    folder: importlib.import_module(f"{__name__}.{folder}.connector").CONNECTOR for folder in _FOLDERS
}


def kinds_receiving(content: Receivable) -> tuple[str, ...]:
    """Returns the kinds of connection that `content` can be sent to, in the order of the folders."""
    return tuple(kind for kind, connector in ALL.items() if content in connector.capabilities.receives)


def title_of(kind: str) -> str:
    """Returns the platform's name of a kind of connection; the kind itself when no connector has it."""
    return ALL[kind].title if kind in ALL else kind


def build(options: Options) -> Mapping[str, Connector]:
    """Returns every connector by its id.

    Raises ValueError for an operation without a recovery class or an inverse, or under another name.
    """
    connectors = {kind: connector.from_options(options) for kind, connector in ALL.items()}
    for kind, connector in connectors.items():
        for name, operation in connector.writes.items():
            if name != operation.name or not isinstance(operation.recovery, Recovery):
                raise ValueError(f"{kind}: {name} does not say how it is recovered")
            if not callable(getattr(operation, "inverse", None)):
                raise ValueError(f"{kind}: {name} does not say how it is undone")
    return connectors
