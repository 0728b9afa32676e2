"""The Telegram connector: calls of the Bot API, whose token is part of every address."""

from collections.abc import Mapping, Sequence

from steward.connectors.base.queries import PathQuery
from steward.connectors.base.service_calls import SendCallOperation
from steward.connectors.base.service_connector import Account, ServiceConnector, SettingField, text_of
from steward.connectors.base.settings import ConnectionSecrets
from steward.outbound.endpoint import Credentials
from steward.outbound.errors import UnusableResponse
from steward.outbound.response import Decoded

_TOKEN = "bot_token"
_FILES = "/file/"  # the beginning of paths of files
_FILE_BYTES = 20 * 1024 * 1024


class TelegramConnector(ServiceConnector):
    """Connects bots of Telegram."""

    id = "telegram"
    title = "Telegram"
    key_field = _TOKEN
    check_path = "/getMe"
    fields = (
        SettingField(
            _TOKEN,
            "Token of the bot",
            "Give the token that BotFather shows: a number, a colon and letters.",
            r"[0-9]{3,20}:[A-Za-z0-9_-]{20,100}",
        ),
    )
    operation = SendCallOperation("telegram.call")

    def address(self, secrets: ConnectionSecrets) -> str:
        """Returns the address of the bot's methods."""
        return f"https://api.telegram.org/bot{secrets.sealed[_TOKEN].reveal()}"

    def url(
        self, secrets: ConnectionSecrets, path: str, query: Mapping[str, str] | Sequence[tuple[str, str]]
    ) -> str:
        """Returns the address of a method, or of a file that was sent to the bot."""
        if not path.startswith(_FILES):
            return super().url(secrets, path, query)
        token = secrets.sealed[_TOKEN].reveal()
        return f"https://api.telegram.org/file/bot{token}/{path.removeprefix(_FILES)}"

    def file_bytes(self, query: PathQuery) -> int:
        """Returns the size limit of a file that bots can fetch; 0 for a method."""
        return _FILE_BYTES if query.path.startswith(_FILES) else 0

    def credentials(self, secrets: ConnectionSecrets) -> Credentials:
        """Returns no credentials: the address contains the token."""
        return None

    def reason(self, body: Mapping[str, Decoded]) -> str:
        """Returns Telegram's reason for a refusal."""
        return text_of(body, "description")

    def account(self, body: Mapping[str, Decoded], secrets: ConnectionSecrets) -> Account:
        """Returns the bot as the account."""
        bot = body.get("result")
        if not isinstance(bot, dict):
            raise UnusableResponse("it names no bot")
        return Account(f"@{text_of(bot, 'username')}", text_of(bot, "id"))


CONNECTOR = TelegramConnector
