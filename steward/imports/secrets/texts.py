"""Finds secrets inside texts: scripts, notes, addresses, headers, connection strings, expressions.

Every search is linear: google-re2 finds candidates, whose surroundings are then examined within limits. See
docs/design/imports-secrets.md.
"""

import re
from collections.abc import Iterator
from typing import Final

import re2

from steward.imports.secrets import values
from steward.imports.secrets.names import STEM, NameWeight, weight_of

Span = tuple[int, int]

_NAME: Final = re.compile(r"[\w$-]{2,}+")
_MAX_NAME: Final = 60
_MAX_TEXT: Final = 10_000
_PRECEDING_WORD: Final = re.compile(r"([A-Za-zÄÖÜäöüß-]{1,20})[ \t]$")
_ABOUT_WORD: Final = re.compile(r"[ \t](?:id|hash)\b", re.IGNORECASE)
# What may separate a name from a quoted text.
_TO_QUOTE: Final = re.compile(
    r"(?P<end>\\{0,7}[\"'`]{0,3}\s{0,20}[\])]?)\s{0,20}"
    r"(?P<to>:=|=>|->|→|\|\||\?\?|[:=](?![=~])|,|\bor\b|\bis\b|\bist\b|\blautet\b)\s{0,40}"
    r"(?:[A-Za-z]{1,20}\s{0,5}=(?![=~])\s{0,20})?"
    r"(?:[\w.$?\[\]'\"]{1,80}\s{0,5}(?:\|\||\?\?|\bor\b)\s{0,20})?"
    r"(?:[rbfuRBFU]{1,2}(?=[\"']))?(?P<quote>\\{0,7}(?:\"\"\"|'''|[\"'`]))"
)
_JOINED: Final = re.compile(r"\s{0,40}[+.]\s{0,40}(?P<quote>[\"'`])")
# What may separate a name from an unquoted text.
_TO_WORD: Final = re.compile(
    r"[\"'`*_]{0,4}(?:\s{0,3}\([^()\n]{0,40}\))?\*{0,3}[ \t]{0,20}"
    r"(?P<to>:=|=>|->|→|[:=|](?![=~|])|\bis(?= )|\bist(?= )|\blautet(?= )|(?=[ \t]))"
    r"\*{0,3}[ \t\"'`]{0,20}(?:\n[ \t]{0,8}(?=\S{12}))?"
    r"(?P<scheme>(?i:bearer|basic|token|bot|apikey|digest)[ \t]{1,3})?"
    r"(?P<value>[^\s\"'`,;<>|&{}()\[\]\\]{4,200}+)"
)
_REST: Final = re.compile(r"[^\s\"'`,;<>|&{}()\[\]\\]*+")  # the remainder of a long value
# A lower-case word after a name, with or without a sign between them, if no quoted text follows.
_PLAIN_WORD: Final = re.compile(
    r"[ \t]{1,20}(?!(?:is|ist|or|lautet)\b)(?:(?:bearer|basic|token|bot|apikey|digest)[ \t]{1,3})?+"
    r"[a-z]{1,40}[.,:!?*_]{0,3}(?=[\s,;])"
)
_PLAIN_VALUE: Final = re.compile(
    r"[:=][ \t]{0,20}(?!(?:bearer|basic|token|bot|apikey|digest)\b)[a-z]{1,40}[.,:!?*_]{0,3}(?=[\s,;])"
    r"(?!\s{0,5}(?:or\b|[=|?]))"
)
_PATH: Final = re.compile(
    r"(?:\$|this\b|process\b|items?\b|json\b|data\b|env\b|config\b|params\b)"
    r"|[A-Za-z_$][A-Za-z_$0-9]*(?:\??\.[A-Za-z_$]+)+\Z"
)
_USER_PART: Final = re2.compile(
    r"(?i)\b[a-z][a-z0-9+.-]{1,20}://([^\s/?#\"'<>@:`{}]{0,200}:)?([^\s/?#\"'<>@`]{1,300})@"
)
_USER_OPTION: Final = re2.compile(
    r"(?:^|[\s'\"])(?:-u|--user|--proxy-user)[ =]['\"]?[^\s:'\"{}]{1,100}:([^\s'\"{}]{4,200})"
)
_PAIR: Final = re2.compile(
    r"\\{0,7}\"(?:name|key|field|header)\\{0,7}\"\s{0,9}:\s{0,9}\\{0,7}\"([^\"\\]{1,60})\\{0,7}\"\s{0,9},\s{0,9}"
    r"\\{0,7}\"value\\{0,7}\"\s{0,9}:\s{0,9}\\{0,7}\"([^\"\\]{4,900})\\{0,7}\""
)
_IDENTIFIED: Final = re2.compile(r"(?i)identified\s{1,9}by\s{1,9}['\"]([^'\"\n]{4,200})['\"]")
_LONG_RUN: Final = re.compile(r"[\w.:/+=-]{16}")
_RUN: Final = re.compile(r"[A-Za-z0-9_\-+/=]{24,400}+")
_EXPRESSION: Final = re.compile(r"\{\{|\$\{|%[A-Z_]+%|\{%")
_COOKIE_LINE: Final = re.compile(r"(?i)(?:set-)?cookie\s{0,3}[:=]\s{0,3}([^\r\n\"'`]{4,4000})")


def secrets_in(text: str, *, holds_ids: bool = False) -> list[Span]:
    """Returns the spans of secrets in a text, in order and without overlaps.

    With `holds_ids`, the field's name implies that runs of random characters are ids or hashes.
    """
    has_long_run = _LONG_RUN.search(text) is not None
    spans = [*_named(text)]
    lower = text.lower() if len(text) < _MAX_TEXT else text
    if has_long_run:
        spans += _shapes(text)
    if "PRIVATE KEY" in text:
        spans += _private_keys(text)
    if has_long_run or "bearer" in lower or "basic" in lower:
        spans += _signed_in(text)
    if "://" in text or "-u" in text or "user" in text:
        spans += _users(text)
    if "value" in text:
        spans += [hit.span(2) for hit in _PAIR.finditer(text) if _is_pair(hit[1], hit[2])]
    if "identified" in lower or "IDENTIFIED" in text:
        spans += [hit.span(1) for hit in _IDENTIFIED.finditer(text)]
    if has_long_run and not holds_ids:
        spans += [hit.span() for hit in _RUN.finditer(text) if _stands_alone(text, *hit.span())]
    return _merged(text, spans)


def _is_pair(name: str, value: str) -> bool:
    return not _EXPRESSION.search(value) and values.is_secret(value, weight_of(name.strip()))


def _shapes(text: str) -> Iterator[Span]:
    for hit in values.SHAPES.finditer(text):
        group = hit.lastindex or 0
        if not values.has_common_prefix(hit[group]):
            yield hit.span(group)


def _private_keys(text: str) -> Iterator[Span]:
    start = 0
    while (start := text.find(values.PRIVATE_START, start)) >= 0:
        hit = values.PRIVATE.match(text, start)
        if hit is None:
            start += len(values.PRIVATE_START)
            continue
        limit = min(len(text), hit.end() + _MAX_TEXT)
        end = text.find("-----END ", hit.end(), limit)
        close = text.find("-----", end + 9, end + 100) if end >= 0 else -1
        passed = close + 5 if close >= 0 else limit
        yield start, passed
        start = passed


def _signed_in(text: str) -> Iterator[Span]:
    for hit in values.SIGN_IN.finditer(text):
        scheme, credential = hit[1].lower(), hit[2].rstrip(".")
        is_credential = values.is_basic(credential) if scheme == "basic" else values.is_bearer(credential)
        if is_credential and (scheme in ("basic", "bearer") or values.is_random_text(credential)):
            yield hit.start(2), hit.start(2) + len(credential)


def _users(text: str) -> Iterator[Span]:
    if "://" in text:
        for hit in _USER_PART.finditer(text):
            password = hit[2]
            is_alone = hit[1] is None
            if _EXPRESSION.search(password) or values.is_removed(password) or password.startswith("$"):
                continue
            if not is_alone or (len(password) >= 8 and values.is_secret(password, NameWeight.WEAK)):
                yield hit.span(2)
    for hit in _USER_OPTION.finditer(text):
        if not values.is_removed(hit[1]):
            yield hit.span(1)


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Returns whether random-looking characters are not part of an address and not too long."""
    if (start and text[start - 1] in ".&?#%@:") or (end < len(text) and text[end] in "@%"):
        return False
    return end - start < 400 and values.is_random_text(text[start:end])


def _names(text: str) -> Iterator[re.Match[str]]:
    """Yields the words of a text that contain a fragment which gives a name weight."""
    lower = text.lower()
    if len(lower) != len(text):
        yield from _NAME.finditer(text)
        return
    passed = 0
    for stem in STEM.finditer(lower):
        start = stem.start()
        if start < passed:
            continue
        while start > passed and ((character := text[start - 1]).isalnum() or character in "_$-"):
            start -= 1
        word = _NAME.match(text, start)
        if word is not None:
            passed = word.end()
            yield word


def _named(text: str) -> Iterator[Span]:
    """Yields the secrets that follow a name with weight."""
    passed = 0
    for hit in _names(text):
        name = hit[0]
        if len(name) > _MAX_NAME or (weight := weight_of(name)) is NameWeight.NONE or hit.start() < passed:
            continue
        left, right = hit.span()
        if _is_before_plain_word(text, left, right) or _ABOUT_WORD.match(text, right):
            continue
        if weight is NameWeight.WEAK:
            weight = _weight(text, left, name)
        spans = _secrets_after(text, left, right, weight)
        yield from spans
        if spans:
            passed = spans[-1][1]


def _is_before_plain_word(text: str, left: int, right: int) -> bool:
    """Returns whether a plain lower-case word follows the name, which then holds no secret."""
    if _PLAIN_WORD.match(text, right):
        return True
    hit = _PLAIN_VALUE.match(text, right)
    if hit is None or text[left:right].lower().endswith("cookie"):
        return False
    return not (hit[0].startswith("=") and _is_parameter(text, left))


def _weight(text: str, left: int, name: str) -> NameWeight:
    """Returns the weight of a name combined with the word before it, as in `API key`."""
    preceding = _PRECEDING_WORD.search(text, max(0, left - 22), left)
    return max(NameWeight.WEAK, weight_of(f"{preceding[1]} {name}")) if preceding else NameWeight.WEAK


def _secrets_after(text: str, left: int, right: int, weight: NameWeight) -> list[Span]:
    """Returns the spans of the secret that follows a name."""
    if weight is NameWeight.NONE:
        return []
    if text[left:right].lower().endswith("cookie") and (line := _COOKIE_LINE.match(text, left)):
        return [] if _EXPRESSION.search(line[1]) or values.is_removed(line[1]) else [line.span(1)]
    quoted = _TO_QUOTE.match(text, right)
    if quoted is not None:
        spans = _quoted(text, quoted, weight)
        if spans is not None:
            return spans
    return _unquoted(text, left, right, weight)


def _quoted(text: str, hit: re.Match[str], weight: NameWeight) -> list[Span] | None:
    """Returns the secret in a quoted text, in parts if joined; None if its quotes are not closed."""
    start, quote = hit.end(), hit["quote"]
    if hit["to"] == "," and not hit["end"].strip("\\ )]"):
        return None
    parts: list[Span] = []
    while True:
        end = _closing(text, start, quote)
        if end is None:
            return [] if parts else None
        parts.append((start, end))
        joined = _JOINED.match(text, end + len(quote))
        if joined is None or len(parts) >= 50:
            break
        start, quote = joined.end(), joined["quote"]
    concatenated = "".join(text[start:end] for start, end in parts)
    if _EXPRESSION.search(concatenated) or values.is_removed(concatenated) or _is_mere_name(concatenated):
        return []
    if hit["to"] == "," and not any(character.isdigit() for character in concatenated):
        return []
    if not values.is_secret(concatenated, weight):
        return []
    return _without_scheme(text, parts)


def _is_mere_name(value: str) -> bool:
    return values.is_name(value) and not values.is_placeholder(value)


def _without_scheme(text: str, parts: list[Span]) -> list[Span]:
    start, end = parts[0]
    scheme = values.scheme_length(text[start:end] + "x")
    first = [(start + scheme, end)] if start + scheme < end else []
    return first + [(start, end) for start, end in parts[1:] if end > start]


def _closing(text: str, start: int, quote: str) -> int | None:
    """Returns the end of a quoted text, or None if it does not end within its line and the limit."""
    limit = min(len(text), start + _MAX_TEXT)
    is_long = len(quote) > 1 and quote[0] != "\\"
    position = start
    while (position := text.find(quote, position, limit)) >= 0:
        slashes = position - len(text[start:position].rstrip("\\")) - start
        if slashes % 2 == 0 or quote[0] == "\\":
            break
        position += 1
    if position < 0 or (quote in "\"'" and not is_long and "\n" in text[start:position]):
        return None
    return position


def _unquoted(text: str, left: int, right: int, weight: NameWeight) -> list[Span]:
    hit = _TO_WORD.match(text, right)
    if hit is None:
        return []
    start, end = hit.start("value"), hit.end("value")
    value = text[start:end].rstrip(".,:!?*_")
    spans = _judged(text, hit, value, left, weight)
    # reads only secrets to their end, so that a long word with many names takes linear time
    rest = _REST.match(text, end) if spans else None
    if rest is None or not rest[0]:
        return spans
    return [(start, start + len(text[start : rest.end()].rstrip(".,:!?*_")))]


def _judged(text: str, hit: re.Match[str], value: str, left: int, weight: NameWeight) -> list[Span]:
    """Returns the span of the unquoted value after the name at `left` if it is a secret."""
    start = hit.start("value")
    end = start + len(value)
    if _EXPRESSION.search(value) or values.is_removed(hit["value"]) or text[end : end + 1] in ("(", "["):
        return []
    is_pair = hit["to"] == "=" and hit.end("to") == hit.start("value")
    if is_pair and _is_parameter(text, left):
        return [(start, end)] if values.is_secret(value, weight) else []
    if "://" in value or _PATH.match(value):
        return []
    if weight is NameWeight.WEAK or not hit["to"]:
        is_enclosed = text[start - 1] in "\"'`" and text[end : end + 1] == text[start - 1]
        if is_enclosed and weight is NameWeight.STRONG and values.is_loose_secret(value):
            return [(start, end)]
        is_behind = bool(hit["to"]) or weight is NameWeight.STRONG
        return [(start, end)] if is_behind and values.is_secret(value, NameWeight.WEAK) else []
    is_one = values.is_loose_secret(value) or (hit["scheme"] is not None and len(value) >= 16)
    return [(start, end)] if is_one else []


def _is_parameter(text: str, left: int) -> bool:
    """Returns whether a name starts a parameter in an address, a form or a connection string."""
    if left == 0 or text[left - 1] in "?&":
        return True
    is_upper = text[left].isupper()
    return is_upper and text[left - 1] in ";\n \"'"


def _merged(text: str, spans: list[Span]) -> list[Span]:
    """Returns the spans in order, with overlapping ones merged and surrounding white space removed."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
