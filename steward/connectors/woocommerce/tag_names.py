"""The names of tags as WordPress stores, compares and receives them."""

import html
import re
from collections.abc import Container

_OCTET = re.compile(r"%[0-9a-fA-F]{2}")
_BLANKS = re.compile(r"[\s\x00-\x1f]+")
# Characters that take four bytes, such as emoji: older databases drop them.
_FOUR_BYTES = re.compile("[\U00010000-\U0010ffff]+")


def stored_name(tag: str) -> str:
    """Returns the name that WordPress stores for a tag: single blanks, no escaped bytes."""
    while _OCTET.search(tag):
        tag = _OCTET.sub("", tag)
    return _BLANKS.sub(" ", tag).strip()


def tag_key(tag: str) -> str:
    """Returns the key by which a shop considers two names the same tag."""
    return stored_name(tag).casefold()


def stored_key(tag: str, present: Container[str]) -> str:
    """Returns which of the `present` keys a shop stores `tag` under, else the key of `tag`.

    That is the tag's own key, or what an older database leaves of it. The tag's own key takes precedence:
    if the shop stores all characters, names that differ by an emoji are different tags.
    """
    key, name = tag_key(tag), stored_name(tag)
    shortened = _BLANKS.sub(" ", _FOUR_BYTES.sub("", name)).strip().casefold()
    return shortened if key not in present and shortened in present else key


def sent_name(tag: str) -> str:
    """Returns a name as sent: escaped, because WordPress strips markup and stores entities."""
    return html.escape(tag, quote=False)
