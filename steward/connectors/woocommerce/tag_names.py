"""How WordPress keeps the names of tags, and how names are sent so that it keeps them as they are; pure."""

import html
import re

_OCTET = re.compile(r"%[0-9a-fA-F]{2}")
_BLANKS = re.compile(r"[\s\x00-\x1f]+")
# Characters that take four bytes, such as emoji: older databases drop them.
_FOUR_BYTES = re.compile("[\U00010000-\U0010ffff]+")


def kept_name(tag: str) -> str:
    """Returns the name WordPress keeps for a tag: one blank at a time, and nothing like an escaped byte."""
    while _OCTET.search(tag):
        tag = _OCTET.sub("", tag)
    return _BLANKS.sub(" ", tag).strip()


def tag_key(tag: str) -> str:
    """Returns what two names of tags have in common when they are the same tag to a shop."""
    kept = kept_name(tag)
    return (_BLANKS.sub(" ", _FOUR_BYTES.sub("", kept)).strip() or kept).casefold()


def sent_name(tag: str) -> str:
    """Returns a name as it is sent: with entities, for WordPress takes markup out and stores entities."""
    return html.escape(tag, quote=False)
