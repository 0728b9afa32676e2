"""What a shop's answer holds when it is not plain JSON:

PHP notices before it, or a web page in its place.
"""

import html
import re
import unicodedata

from steward.outbound.errors import UnusableResponse, WrongResponder
from steward.outbound.response import Decoded, PlatformResponse, parse_json

# Where JSON may begin after what PHP prints: at the start of a line, or after the end of a tag.
_BEGINNING = re.compile(rb"(?:^|[\n>])[ \t\r]*(?=[\[{])")
_LOOKED_AT = 64 * 1024
_BEGINNINGS = 8
_LONGEST = 2 * 1024 * 1024
_PAGE = re.compile(rb"<!doctype html|<html|<head|<body|<title", re.IGNORECASE)
_TITLE = re.compile(rb"<title[^>]*>(.{0,500}?)</title", re.IGNORECASE | re.DOTALL)
_TITLE_LENGTH = 80


def decoded_of(answer: PlatformResponse) -> Decoded:
    """The JSON of an answer, also after notices. Raises WrongResponder for a web page, else Broken."""
    try:
        return answer.json()
    except UnusableResponse as error:
        found = _after_notices(answer.body)
        if found is not None:
            return found
        page = page_error(answer)
        raise (page or error) from None


def has_notices(answer: PlatformResponse) -> bool:
    """Whether something stands before the JSON of an answer."""
    try:
        answer.json()
    except UnusableResponse:
        return _after_notices(answer.body) is not None
    return False


def page_error(answer: PlatformResponse) -> WrongResponder | None:
    """The error that tells which web page came in the place of data; null when none came."""
    head = answer.body[:_LOOKED_AT]
    if _PAGE.search(head) is None:
        return None
    title = _title(answer, head)
    titled = f" titled “{title}”" if title else ""
    return WrongResponder(
        f"The shop answered with a web page{titled} instead of data: a security plug-in or a CDN may stand in"
        " between."
    )


def _after_notices(body: bytes) -> Decoded:
    """The object or list that ends the body, where text stands before it; null when there is none.

    Few places of a body of a moderate size are tried: each costs as much as reading it once.
    """
    if len(body) > _LONGEST:
        return None
    for number, found in enumerate(_BEGINNING.finditer(body, 0, _LOOKED_AT)):
        if number == _BEGINNINGS:
            break
        try:
            return parse_json(body[found.end() :])
        except UnusableResponse:
            continue
    return None


def _title(answer: PlatformResponse, head: bytes) -> str:
    """The page's title: on one line, without control and direction characters, redacted and cut."""
    found = _TITLE.search(head)
    if found is None:
        return ""
    text = html.unescape(found[1].decode("utf-8", "replace"))
    shown = "".join(" " if unicodedata.category(each)[0] in "CZ" else each for each in text)
    return answer.quote(" ".join(shown.split()))[:_TITLE_LENGTH].strip()
