"""The part of the platform's search language that the connector speaks; anything else fails loudly."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

_TERM = re.compile(
    r"""\s*(?:(?P<open>\()|(?P<close>\))|(?P<word>AND|OR|NOT)\b|
    (?P<name>[a-z_]+):(?P<sign>>=|<=|>|<)?(?:'(?P<quoted>(?:[^'\\]|\\.)*)'|(?P<bare>[^\s()']+)))""",
    re.VERBOSE,
)
Row = dict[str, Any]
Test = Callable[[Row], bool]


class BadSearch(ValueError):
    """A search this fake does not understand."""


def matching(query: str | None, fields: dict[str, Callable[[Row], Any]]) -> Test:
    """A test of rows for a search; `fields` gives the value of each name that may be searched for."""
    if query is None or not query.strip():
        return lambda row: True
    tokens, position = [], 0
    while position < len(query.rstrip()):
        term_match = _TERM.match(query, position)
        if term_match is None:
            raise BadSearch(query[position:])
        tokens.append(term_match)
        position = term_match.end()
    test, rest = _either(tokens, fields)
    if rest:
        raise BadSearch(query)
    return test


def _either(tokens: list[re.Match[str]], fields: dict[str, Callable[[Row], Any]]) -> tuple[Test, Any]:
    tests = []
    while True:
        test, tokens = _both(tokens, fields)
        tests.append(test)
        if not tokens or tokens[0]["word"] != "OR":
            return (lambda row: any(matches(row) for matches in tests)), tokens
        tokens = tokens[1:]


def _both(tokens: list[re.Match[str]], fields: dict[str, Callable[[Row], Any]]) -> tuple[Test, Any]:
    tests = []
    while tokens and tokens[0]["close"] is None and tokens[0]["word"] != "OR":
        if tokens[0]["word"] == "AND":
            tokens = tokens[1:]
        elif tokens[0]["open"] is not None:
            test, tokens = _either(tokens[1:], fields)
            if not tokens or tokens[0]["close"] is None:
                raise BadSearch("a bracket is open")
            tests.append(test)
            tokens = tokens[1:]
        elif tokens[0]["word"] == "NOT" and len(tokens) > 1:
            tests.append(_not(_term(tokens[1], fields)))
            tokens = tokens[2:]
        else:
            tests.append(_term(tokens[0], fields))
            tokens = tokens[1:]
    return (lambda row: all(matches(row) for matches in tests)), tokens


def _not(test: Test) -> Test:
    return lambda row: not test(row)


def _term(token: re.Match[str], fields: dict[str, Callable[[Row], Any]]) -> Test:
    name, sign = token["name"], token["sign"]
    if name not in fields:
        raise BadSearch(f"{name} is not searched for here")
    value = fields[name]
    text = re.sub(r"\\(.)", r"\1", token["quoted"]) if token["quoted"] is not None else token["bare"]
    if sign:
        moment = datetime.fromisoformat(text)
        ahead = sign.startswith(">")

        def compared(row: Row) -> bool:
            held = datetime.fromisoformat(value(row))
            return (held > moment if ahead else held < moment) or ("=" in sign and held == moment)

        return compared
    accepted = {
        part.strip().casefold() for part in (text.split(",") if token["bare"] is not None else [text])
    }
    return lambda row: bool(accepted & {str(entry).casefold() for entry in _listed(value(row))})


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple | set) else [value]
