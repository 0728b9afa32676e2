"""The connection form of an account, validated, and its stored values as calls use them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from steward.model.connection import Auth
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject
from steward.telemetry.redact import Secret

# The fact that identifies an account, no matter by which address it is reached.
IDENTITY = "identity"
# Facts of a connection: false when its messages have to name their channel; and false when it only takes
# messages, not the calls of workflow steps.
NAMES_CHANNEL = "names_channel"
TAKES_CALLS = "takes_calls"


class BadSettings(Exception):
    """Unusable settings of the connection form; `errors` maps field names to messages."""

    def __init__(self, errors: Mapping[str, Sequence[str]]) -> None:
        super().__init__("; ".join(f"{name}: {' '.join(words)}" for name, words in errors.items()))
        self.errors = {name: tuple(words) for name, words in errors.items()}


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The validated connection form: plain values, values to encrypt, and the account they identify.

    `sealed` values are encrypted one by one. `subject` is the shop, spreadsheet or channel: reconnecting
    must lead to the same subject, and an organization can connect it only once.
    """

    plain: Mapping[str, str]
    sealed: Mapping[str, Secret]
    auth: Auth
    subject: str
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectionSecrets:
    """The decrypted settings of a connection, and the facts that its checks read."""

    integration_id: IntegrationId
    plain: Mapping[str, str]
    sealed: Mapping[str, Secret]
    currency: str | None = None
    zone: str | None = None
    facts: JsonObject = field(default_factory=dict)


def unknown_settings(values: JsonObject, known: Collection[str], words: str) -> dict[str, list[str]]:
    """Returns the error `words` for each setting the connector does not have."""
    return {name: [words] for name in values.keys() - set(known)}
