"""Posts messages as cards to Teams and Slack, through the connection of a route."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import msgspec

from steward.clock import Clock
from steward.connections.vault import Vault, open_secrets
from steward.connectors.base.notices import NoticeCard, NoticePoster
from steward.connectors.base.settings import BadSettings, ConnectionSecrets
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.database.accounts import connections
from steward.database.engine.base import Engine, Tx
from steward.database.notifications import routes as rows
from steward.model.connection import ConnectionState
from steward.model.ids import RouteId
from steward.model.notice import NoticeMessage
from steward.model.notification_route import NotificationRoute
from steward.notifications.channel import DeliveryOutcome, DeliveryResult
from steward.notifications.webhook import LONGEST_RETRY_AFTER, outcome_of_error
from steward.outbound.errors import CallError
from steward.security.envelope import CannotOpen

# Builds the chat card of a message.
_CardOf = Callable[[NoticeMessage], NoticeCard]
_NOT_CONNECTED = "The connection of this route is not connected. Reconnect it, or choose another one."


class _RouteUnusable(Exception):
    """Raised if the route cannot be used; the text is the reason shown to its owners."""


@dataclass(frozen=True, slots=True)
class ChatChannel:
    """Posts messages to organizations' chats through connections of one kind."""

    engine: Engine
    clock: Clock
    vault: Vault
    card_of: _CardOf

    async def deliver(self, message: NoticeMessage) -> DeliveryOutcome:
        """Posts one message."""
        try:
            opening = partial(self._opened, message=message)
            route, secrets = await self.engine.read(self.clock.now(), opening, org=message.org)
            return await self._post(message, route, secrets)
        except (_RouteUnusable, BadSettings) as error:
            return DeliveryOutcome(DeliveryResult.REFUSED, error=str(error))
        except CannotOpen:
            words = "The keys of the connection cannot be opened. Reconnect it."
            return DeliveryOutcome(DeliveryResult.REFUSED, error=words)
        except CallError as error:
            return outcome_of_error(error)

    async def _opened(self, tx: Tx, *, message: NoticeMessage) -> tuple[NotificationRoute, ConnectionSecrets]:
        route = await rows.get(tx, message.org, message.route or RouteId(""))
        if route is None or route.integration is None:
            raise _RouteUnusable("The route was deleted.")
        connection = await connections.get(tx, message.org, route.integration)
        if connection is None or connection.state is not ConnectionState.CONNECTED:
            raise _RouteUnusable(_NOT_CONNECTED)
        return route, await open_secrets(tx, self.vault, connection)

    async def _post(
        self, message: NoticeMessage, route: NotificationRoute, secrets: ConnectionSecrets
    ) -> DeliveryOutcome:
        poster = self.vault.connectors[route.channel]
        if not isinstance(poster, NoticePoster):
            raise LookupError(f"{route.channel} takes no notices")
        http = self.vault.outbound.notice_client(
            message.org, secrets.integration_id, poster.endpoint(secrets), poster.notice_path(secrets)
        )
        body = poster.notice_body(self.card_of(message), route.target)
        response = await http.post(msgspec.json.encode(body))
        return _outcome(poster.outcome(response), response.status)


def _outcome(outcome: WriteOutcome, status: int) -> DeliveryOutcome:
    match outcome.state:
        case WriteState.APPLIED:
            return DeliveryOutcome(DeliveryResult.ACCEPTED, status)
        case WriteState.REFUSED:
            return DeliveryOutcome(DeliveryResult.REFUSED, status, outcome.reason)
        case _:
            wait = outcome.wait_s
            pause = None if wait is None else min(timedelta(seconds=wait), LONGEST_RETRY_AFTER)
            return DeliveryOutcome(DeliveryResult.TRY_AGAIN, status, outcome.reason, retry_after=pause)
