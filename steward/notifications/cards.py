"""Builds the chat card of a message: a title, lines, and a link to a page."""

from functools import partial

from steward.connectors.base.notices import NoticeCard
from steward.model.notice import MessageKind, NoticeMessage
from steward.notifications.texts import INBOX_PAGE, NoticeIds, page, sentence

_TEST_TITLE = "Test message of Steward"
_TEST_LINE = "The notices that you chose for this route will arrive here."
ROUTES_PAGE = "/organization/notifications"


def _card_of(message: NoticeMessage, *, web_origin: str) -> NoticeCard:
    """Returns the card of a message; equal messages have equal cards."""
    if message.kind is MessageKind.TEST:
        return NoticeCard(_TEST_TITLE, (_TEST_LINE,), f"{web_origin}{ROUTES_PAGE}")
    lines = tuple(_line(message, number) for number in range(len(message.notices)))
    if len(lines) == 1:
        return NoticeCard(lines[0], (), f"{web_origin}{page_of(message)}")
    notice_count = sum(stored.notice.count for stored in message.notices)
    more = f"and {message.count - notice_count:,} more" if message.count > notice_count else ""
    return NoticeCard(f"{message.count:,} notices", lines, f"{web_origin}{INBOX_PAGE}", more=more)


def page_of(message: NoticeMessage) -> str:
    """Returns the path a message links to: the page of its only notice, or the inbox."""
    if len(message.notices) != 1:
        return INBOX_PAGE
    notice = message.notices[0].notice
    ids = NoticeIds(notice.automation, notice.run, notice.approval, notice.integration, notice.route)
    return page(notice.topic, ids, count=notice.count)


def _line(message: NoticeMessage, number: int) -> str:
    notice = message.notices[number].notice
    return sentence(notice.topic, notice.facts, count=notice.count)


def card_maker(web_origin: str) -> "partial[NoticeCard]":
    """Returns `_card_of` with the web origin of this installation."""
    return partial(_card_of, web_origin=web_origin)
