"""Reads responses of a shop that are not plain JSON: PHP notices before the data, or a web page."""

import html
import re
import unicodedata

from steward.outbound.errors import UnusableResponse, WrongResponder
from steward.outbound.response import Decoded, PlatformResponse, parse_json

# Where JSON can begin after PHP's output: at the start of a line, or after the end of a tag.
_BEGINNING = re.compile(rb"(?:^|[\n>])[ \t\r]*(?=[\[{])")
_LOOKED_AT = 64 * 1024
_BEGINNINGS = 8
_LONGEST = 2 * 1024 * 1024
_PAGE = re.compile(rb"<!doctype html|<html|<head|<body|<title", re.IGNORECASE)
_TITLE = re.compile(rb"<title[^>]*>(.{0,500}?)</title", re.IGNORECASE | re.DOTALL)
_TITLE_LENGTH = 80


def decoded_of(response: PlatformResponse) -> Decoded:
    """Returns the JSON of a response, skipping notices before it.

    Raises WrongResponder for a web page, else UnusableResponse.
    """
    try:
        return response.json()
    except UnusableResponse as error:
        decoded = _after_notices(response.body)
        if decoded is not None:
            return decoded
        page = page_error(response)
        raise (page or error) from None


def has_notices(response: PlatformResponse) -> bool:
    """Returns whether a response has text before its JSON."""
    try:
        response.json()
    except UnusableResponse:
        return _after_notices(response.body) is not None
    return False


def page_error(response: PlatformResponse) -> WrongResponder | None:
    """Returns the error that names the web page served instead of data; null when there is none."""
    head = response.body[:_LOOKED_AT]
    if _PAGE.search(head) is None:
        return None
    title = _title(response, head)
    titled = f" titled “{title}”" if title else ""
    return WrongResponder(
        f"The shop answered with a web page{titled} instead of data: a security plug-in or a CDN may be in"
        " between."
    )


def _after_notices(body: bytes) -> Decoded:
    """Returns the object or list at the end of a body, after other text; null when there is none.

    Tries few positions of a moderately sized body: each costs as much as parsing it once.
    """
    if len(body) > _LONGEST:
        return None
    for number, match in enumerate(_BEGINNING.finditer(body, 0, _LOOKED_AT)):
        if number == _BEGINNINGS:
            break
        try:
            return parse_json(body[match.end() :])
        except UnusableResponse:
            continue
    return None


def _title(response: PlatformResponse, head: bytes) -> str:
    """Returns the page's title on one line, without control and direction characters, redacted and cut."""
    match = _TITLE.search(head)
    if match is None:
        return ""
    text = html.unescape(match[1].decode("utf-8", "replace"))
    printable = "".join(
        " " if unicodedata.category(character)[0] in "CZ" else character for character in text
    )
    return response.quote(" ".join(printable.split()))[:_TITLE_LENGTH].strip()
