"""The interface of a channel, which delivers a message and returns the outcome."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from steward.model.notice import ChannelName, NoticeMessage


class DeliveryResult(StrEnum):
    """The result of a delivery: accepted, permanently refused, or to be retried."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    TRY_AGAIN = "try_again"


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """The outcome of one delivery.

    `status` is the SMTP or HTTP status. `error` says why the message was not accepted, without its address,
    subject or body. `retry_after` is the pause that the receiver asked for. `is_gone`: the receiver no longer
    accepts anything (410). `is_down`: the channel as a whole could not be reached, so this does not count as
    an attempt.
    """

    result: DeliveryResult
    status: int | None = None
    error: str | None = None
    retry_after: timedelta | None = None
    is_gone: bool = False
    is_down: bool = False


class Channel(Protocol):
    """Delivers messages through one medium. A repeated delivery has the same id and content."""

    async def deliver(self, message: NoticeMessage) -> DeliveryOutcome:
        """Delivers one message and returns the outcome; failures of delivery are outcomes, not exceptions."""
        ...


Channels = Mapping[ChannelName, Channel]
