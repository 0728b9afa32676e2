"""Composes the mail of a message to a member: subject, plain text and HTML."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from steward.model.json import JsonObject
from steward.model.notice import (
    GROUPS,
    NAME_CHARACTERS,
    MessageKind,
    NoticeGroup,
    NoticeMessage,
    StoredNotice,
    Topic,
)
from steward.notifications import texts
from steward.notifications.texts import NoticeIds
from steward.outbound.mail_message import one_line
from steward.scheduling.words import local_words
from steward.scheduling.zones import zone

MAX_SUBJECT: Final = 120
_ORGANIZATION_IN_SUBJECT: Final = 40
_FOOTER = "You get this mail as a member of {organization}. Change your notifications: {link}"
_BODY = 'style="font-family:sans-serif;max-width:40em;margin:0 auto;padding:1em;color:#222"'
_LINE = 'style="margin:0 0 1em 0"'
_SMALL = 'style="color:#666;font-size:small"'


@dataclass(frozen=True, slots=True)
class MailWords:
    """A mail's subject and both of its bodies."""

    subject: str
    text: str
    html: str


@dataclass(frozen=True, slots=True)
class _Line:
    """A notice in a mail: its sentence and the page it links to."""

    text: str
    link: str


def mail_words(message: NoticeMessage, *, web_origin: str) -> MailWords:
    """Returns the content of a mail; equal messages always yield equal texts.

    Every link leads to a page behind sign-in, and opening it changes nothing.
    """
    organization = one_line(str(message.envelope.get("organization", ""))[:NAME_CHARACTERS])
    lines = [_line(stored, message.envelope, web_origin) for stored in message.notices]
    heading = _heading(message)
    more = message.count - sum(stored.notice.count for stored in message.notices)
    more_line = _Line(f"and {more:,} more", f"{web_origin}{texts.INBOX_PAGE}") if more > 0 else None
    footer = _FOOTER.format(organization=organization, link=f"{web_origin}/account/notifications")
    subject = f"[{organization[:_ORGANIZATION_IN_SUBJECT]}] {heading}"
    return MailWords(
        one_line(subject)[:MAX_SUBJECT],
        _text(heading, lines, more_line, footer),
        _html(heading, lines, more_line, footer),
    )


def _heading(message: NoticeMessage) -> str:
    """Returns a one-line summary of the message, without times."""
    if message.kind is MessageKind.TEST:
        return "This is a test mail: mail from Steward reaches you"
    counts = _counts(message.envelope)
    waiting = counts.get(Topic.APPROVAL_WAITING, 0)
    digest = "Digest: " if message.kind is MessageKind.DIGEST else ""
    if len(message.notices) == 1 and message.count == message.notices[0].notice.count:
        return digest + _sentence(message.notices[0])
    if waiting:
        others = message.count - waiting
        first = "1 approval waits for you" if waiting == 1 else f"{waiting:,} approvals wait for you"
        return f"{digest}{first}, and {others:,} more" if others else digest + first
    if len(counts) == 1 and (sentence := _sentence_of_topic(message)):
        return digest + sentence
    groups = sorted({GROUPS[topic] for topic in counts}, key=list(NoticeGroup).index)
    return f"{digest}{message.count:,} notices about {_and([str(group) for group in groups])}"


def _sentence_of_topic(message: NoticeMessage) -> str | None:
    """Returns one sentence for notices of one topic.

    Returns None if some notices are only counted, because they may be of other automations.
    """
    automations = {stored.notice.automation for stored in message.notices}
    named = sum(stored.notice.count for stored in message.notices)
    if not message.notices or message.count != named:
        return None
    first = message.notices[0].notice
    return texts.sentence(first.topic, first.facts, count=message.count, automations=len(automations))


def _counts(envelope: JsonObject) -> dict[Topic, int]:
    topics = envelope.get("topics")
    if not isinstance(topics, dict):
        return {}
    return {Topic(topic): int(str(count)) for topic, count in topics.items()}


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _sentence(stored: StoredNotice) -> str:
    notice = stored.notice
    return one_line(texts.sentence(notice.topic, notice.facts, count=notice.count))


def _line(stored: StoredNotice, envelope: JsonObject, web_origin: str) -> _Line:
    notice = stored.notice
    ids = NoticeIds(notice.automation, notice.run, notice.approval, notice.integration, notice.route)
    until = ""
    tz = zone(str(envelope.get("zone", "")))
    if notice.topic in (Topic.APPROVAL_WAITING, Topic.APPROVAL_EXPIRING) and tz is not None:
        expires_at = datetime.fromisoformat(str(notice.facts["expires_at"]))
        until = f". It can be decided until {local_words(expires_at, tz)} ({tz.key})"
    link = f"{web_origin}{texts.page(notice.topic, ids, count=notice.count)}"
    return _Line(f"{_sentence(stored)}{until}.", link)


def _text(heading: str, lines: Sequence[_Line], more_line: _Line | None, footer: str) -> str:
    paragraphs = [f"{heading}."] if len(lines) != 1 or more_line else []
    paragraphs += [f"{line.text}\n{line.link}" for line in [*lines, *([more_line] if more_line else [])]]
    return "\n\n".join([*paragraphs, f"-- \n{footer}"]) + "\n"


def _html(heading: str, lines: Sequence[_Line], more_line: _Line | None, footer: str) -> str:
    """Returns a single column with inline styles; all text is escaped and no resources are loaded."""
    paragraphs = (
        [f"<p {_LINE}><strong>{html.escape(heading)}.</strong></p>"] if len(lines) != 1 or more_line else []
    )
    for line in [*lines, *([more_line] if more_line else [])]:
        link = html.escape(line.link)
        paragraphs.append(f'<p {_LINE}>{html.escape(line.text)}<br><a href="{link}">{link}</a></p>')
    paragraphs.append(f"<p {_SMALL}>{html.escape(footer)}</p>")
    return f"<!doctype html><html><body {_BODY}>{''.join(paragraphs)}</body></html>\n"
