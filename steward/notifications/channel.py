"""What a channel is: it is handed a message and says what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from steward.model.notice import ChannelName, NoticeMessage


class DeliveryResult(StrEnum):
    """What became of a delivery: accepted, refused for good, or to be tried again."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    TRY_AGAIN = "try_again"


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """What became of one delivery.

    `status` is the answer's number (SMTP or HTTP) and `error` says in plain words why it was not accepted,
    without address, subject or body. `retry_after` is what the receiver asked for. `is_gone`: the receiver
    takes nothing any more (410). `is_down`: the channel as a whole could not be reached, so the message lost
    no try.
    """

    result: DeliveryResult
    status: int | None = None
    error: str | None = None
    retry_after: timedelta | None = None
    is_gone: bool = False
    is_down: bool = False


class Channel(Protocol):
    """Delivers messages by one way. A repeated delivery has the same id and the same bytes."""

    async def deliver(self, message: NoticeMessage) -> DeliveryOutcome:
        """Hands one message over and returns what became of it; raises nothing but programming errors."""
        ...


Channels = Mapping[ChannelName, Channel]
