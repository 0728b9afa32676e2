"""Formats dates by luxon patterns, and by moment patterns, which older n8n nodes use."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import groupby
from zoneinfo import ZoneInfo

from steward.steps.workflow.javascript.dates import DAYS, MONTHS, offset_text


class UnknownPattern(Exception):
    """Raised for an unsupported token of a pattern."""

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.token = token


def format_luxon(value: datetime, pattern: str) -> str:
    """Formats the date by a luxon pattern, in English. Raises UnknownPattern."""
    return "".join(part if literal else _luxon_token(value, part) for literal, part in _luxon_parts(pattern))


def unsupported_token(pattern: str) -> str | None:
    """Returns the first unsupported token of a luxon pattern, or None."""
    return next((part for literal, part in _luxon_parts(pattern) if not literal and part in _LONG_ZONE), None)


def _luxon_parts(pattern: str) -> Iterator[tuple[bool, str]]:
    """Yields (is literal, text): runs of one character are tokens, except between single quotes."""
    for number, part in enumerate(pattern.split("'")):
        if number % 2:
            yield True, part or "'"  # two quotes form one; an unclosed quote extends to the end
        else:
            for _, run in groupby(part):
                yield False, "".join(run)


_LONG_ZONE = frozenset(
    ("ZZZZZ", "tttt", "TTTT", "ffff", "FFFF")
)  # the long zone name, which depends on the locale


def _luxon_token(value: datetime, token: str) -> str:
    if token in _LONG_ZONE:
        raise UnknownPattern(token)
    write = _LUXON.get(token)
    return write(value) if write else token


def _hour12(value: datetime) -> int:
    return value.hour % 12 or 12


def _millis(value: datetime) -> int:
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _half(value: datetime) -> str:
    return "AM" if value.hour < 12 else "PM"


def _narrow_offset(value: datetime) -> str:
    """Returns the short form of an offset, such as +2 or +5:30."""
    text = offset_text(value.utcoffset() or timedelta()).replace(":00", "")
    return text[0] + text[1:].removeprefix("0")


_SHORT_ZONES = frozenset(
    ("EST", "EDT", "CST", "CDT", "MST", "MDT", "PST", "PDT", "AKST", "AKDT", "AST", "ADT", "HST", "GMT")
)
_NUMBERED = frozenset(  # zones that have no short name in American English
    ("America/Dawson", "America/Havana", "America/Hermosillo", "America/Mazatlan", "America/Whitehorse")
)


def _zone_name(value: datetime) -> str:
    """Returns the zone's short name in American English: PST, GMT+2."""
    if value.tzinfo is UTC or str(value.tzinfo) in ("UTC", "Etc/UTC", "GMT"):
        return "UTC"
    if isinstance(value.tzinfo, timezone):
        return _fixed(value)
    name, zone = value.tzname() or "", str(value.tzinfo)
    if name in _SHORT_ZONES and not zone.startswith("Asia/") and zone not in _NUMBERED:
        return name
    narrow = _narrow_offset(value)
    return "GMT" if narrow in ("+0", "-0") else f"GMT{narrow}"


def _fixed(value: datetime) -> str:
    narrow = _narrow_offset(value)
    return "UTC" if narrow == "+0" else f"UTC{narrow}"


def _clock(value: datetime, *, seconds: bool) -> str:
    tail = f":{value.second:02d}" if seconds else ""
    blank = (
        " " if isinstance(value.tzinfo, ZoneInfo) else "\u202f"
    )  # luxon puts a narrow space before a fixed offset
    return f"{_hour12(value)}:{value.minute:02d}{tail}{blank}{_half(value)}"


def _day_time(value: datetime) -> str:
    return f"{value.hour:02d}:{value.minute:02d}:{value.second:02d}"


def _numbers(value: datetime) -> str:
    return f"{value.month}/{value.day}/{value.year}"


def _middle(value: datetime) -> str:
    return f"{MONTHS[value.month - 1][:3]} {value.day}, {value.year}"


def _long(value: datetime) -> str:
    return f"{MONTHS[value.month - 1]} {value.day}, {value.year}"


_LUXON: dict[str, Callable[[datetime], str]] = {
    "S": lambda v: str(v.microsecond // 1000),
    "SSS": lambda v: f"{v.microsecond // 1000:03d}",
    "u": lambda v: f"{v.microsecond // 1000:03d}",
    "uu": lambda v: f"{v.microsecond // 10_000:02d}",
    "uuu": lambda v: str(v.microsecond // 100_000),
    "s": lambda v: str(v.second),
    "ss": lambda v: f"{v.second:02d}",
    "m": lambda v: str(v.minute),
    "mm": lambda v: f"{v.minute:02d}",
    "h": lambda v: str(_hour12(v)),
    "hh": lambda v: f"{_hour12(v):02d}",
    "H": lambda v: str(v.hour),
    "HH": lambda v: f"{v.hour:02d}",
    "Z": _narrow_offset,
    "ZZ": lambda v: offset_text(v.utcoffset() or timedelta()),
    "ZZZ": lambda v: offset_text(v.utcoffset() or timedelta(), colon=False),
    "ZZZZ": _zone_name,
    "z": lambda v: _fixed(v) if isinstance(v.tzinfo, timezone) else str(v.tzinfo),
    "a": _half,
    "d": lambda v: str(v.day),
    "dd": lambda v: f"{v.day:02d}",
    "L": lambda v: str(v.month),
    "LL": lambda v: f"{v.month:02d}",
    "y": lambda v: str(v.year),
    "yy": lambda v: f"{v.year % 100:02d}",
    "yyyy": lambda v: f"{v.year:04d}",
    "yyyyyy": lambda v: f"{v.year:06d}",
    "G": lambda v: "AD",
    "GG": lambda v: "Anno Domini",
    "GGGGG": lambda v: "A",
    "kk": lambda v: f"{v.isocalendar().year % 100:02d}",
    "kkkk": lambda v: f"{v.isocalendar().year:04d}",
    "W": lambda v: str(v.isocalendar().week),
    "WW": lambda v: f"{v.isocalendar().week:02d}",
    "n": lambda v: str(_local_week(v)[1]),
    "nn": lambda v: f"{_local_week(v)[1]:02d}",
    "ii": lambda v: f"{_local_week(v)[0] % 100:02d}",
    "iiii": lambda v: f"{_local_week(v)[0]:04d}",
    "o": lambda v: str(v.timetuple().tm_yday),
    "ooo": lambda v: f"{v.timetuple().tm_yday:03d}",
    "q": lambda v: str((v.month - 1) // 3 + 1),
    "qq": lambda v: f"{(v.month - 1) // 3 + 1:02d}",
    "X": lambda v: str(_millis(v) // 1000),
    "x": lambda v: str(_millis(v)),
    "D": _numbers,
    "DD": _middle,
    "DDD": _long,
    "DDDD": lambda v: f"{DAYS[v.weekday()]}, {_long(v)}",
    "t": lambda v: _clock(v, seconds=False),
    "tt": lambda v: _clock(v, seconds=True),
    "ttt": lambda v: f"{_clock(v, seconds=True)} {_zone_name(v)}",
    "T": lambda v: f"{v.hour:02d}:{v.minute:02d}",
    "TT": _day_time,
    "TTT": lambda v: f"{_day_time(v)} {_zone_name(v)}",
    "f": lambda v: f"{_numbers(v)}, {_clock(v, seconds=False)}",
    "ff": lambda v: f"{_middle(v)}, {_clock(v, seconds=False)}",
    "fff": lambda v: f"{_long(v)} at {_clock(v, seconds=False)} {_zone_name(v)}",
    "F": lambda v: f"{_numbers(v)}, {_clock(v, seconds=True)}",
    "FF": lambda v: f"{_middle(v)}, {_clock(v, seconds=True)}",
    "FFF": lambda v: f"{_long(v)} at {_clock(v, seconds=True)} {_zone_name(v)}",
}
for _letter in "cE":
    _LUXON |= {
        _letter: lambda v: str(v.isoweekday()),
        _letter * 3: lambda v: DAYS[v.weekday()][:3],
        _letter * 4: lambda v: DAYS[v.weekday()],
        _letter * 5: lambda v: DAYS[v.weekday()][0],
    }
_LUXON |= {
    "M": _LUXON["L"],
    "MM": _LUXON["LL"],
    **{sign * 3: lambda v: MONTHS[v.month - 1][:3] for sign in "LM"},
    **{sign * 4: lambda v: MONTHS[v.month - 1] for sign in "LM"},
    **{sign * 5: lambda v: MONTHS[v.month - 1][0] for sign in "LM"},
}


def _local_week(value: datetime) -> tuple[int, int]:
    """Returns the US (year, week): weeks begin on Sunday, week 1 has 1 January."""
    last = value.date() + timedelta(days=6 - value.isoweekday() % 7)
    return last.year, (last.timetuple().tm_yday - 1) // 7 + 1


_MOMENT_TOKEN = re.compile(
    r"\[([^\[\]]*)\]|\\(.)|([Hh]mm(?:ss)?|Mo|M{1,4}|DDDo|Do|D{1,4}|do|d{1,4}|wo|ww?|Wo|WW?|Qo|Q|N{1,5}|Y{4,6}|YY|Y|"
    r"y{1,4}|g{4,5}|gg|G{4,5}|GG|e|E|a|A|hh?|HH?|kk?|mm?|ss?|S{1,9}|x|X|zz?|ZZ?|LTS|LT|L{1,4}|l{1,4})"
)


def format_moment(value: datetime, pattern: str) -> str:
    """Formats the date by a moment pattern, in English. Raises UnknownPattern."""

    def write(match: re.Match[str]) -> str:
        if match[3] is None:
            return match[1] if match[1] is not None else match[2]
        return _moment_token(value, match[3])

    return _MOMENT_TOKEN.sub(write, pattern)


def moment_parts(pattern: str) -> Iterator[tuple[bool, str]]:
    """Yields (is literal, text) for the parts of a moment pattern."""
    position = 0
    for match in _MOMENT_TOKEN.finditer(pattern):
        if match.start() > position:
            yield True, pattern[position : match.start()]
        position = match.end()
        literal = match[1] if match[1] is not None else match[2]
        yield (False, match[3]) if match[3] is not None else (True, literal)
    if position < len(pattern):
        yield True, pattern[position:]


def _moment_token(value: datetime, token: str) -> str:
    if token in _COMPOSED:
        return format_moment(value, _COMPOSED[token])
    if token[0] == "S":
        return f"{value.microsecond // 1000:03d}000000"[: len(token)]
    if token in _MOMENT:
        return _MOMENT[token](value)
    raise UnknownPattern(token)


def _nth(number: int) -> str:
    if 11 <= number % 100 <= 13:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def _moment_zone(value: datetime) -> str:
    if value.tzinfo is UTC:
        return "UTC"
    return value.tzname() or ""


_COMPOSED = {
    "hmm": "h[]mm", "hmmss": "h[]mm[]ss", "Hmm": "H[]mm", "Hmmss": "H[]mm[]ss",
    "LT": "h:mm A", "LTS": "h:mm:ss A", "L": "MM/DD/YYYY", "LL": "MMMM D, YYYY", "LLL": "MMMM D, YYYY h:mm A",
    "LLLL": "dddd, MMMM D, YYYY h:mm A", "l": "M/D/YYYY", "ll": "MMM D, YYYY", "lll": "MMM D, YYYY h:mm A",
    "llll": "ddd, MMM D, YYYY h:mm A",
}  # fmt: skip
_MOMENT: dict[str, Callable[[datetime], str]] = {
    "YYYYYY": lambda v: f"+{v.year:06d}",
    "YYYYY": lambda v: f"{v.year:05d}",
    "YYYY": lambda v: f"{v.year:04d}",
    "YY": _LUXON["yy"],
    "Y": _LUXON["y"],
    **{"y" * count: lambda v, count=count: f"{v.year:0{count}d}" for count in range(1, 5)},  # type: ignore[misc]
    "N": lambda v: "AD",
    "NN": lambda v: "AD",
    "NNN": lambda v: "AD",
    "NNNN": lambda v: "Anno Domini",
    "NNNNN": lambda v: "AD",
    "Q": _LUXON["q"],
    "Qo": lambda v: _nth((v.month - 1) // 3 + 1),
    "M": _LUXON["L"],
    "MM": _LUXON["LL"],
    "MMM": _LUXON["LLL"],
    "MMMM": _LUXON["LLLL"],
    "Mo": lambda v: _nth(v.month),
    "D": _LUXON["d"],
    "DD": _LUXON["dd"],
    "DDD": _LUXON["o"],
    "DDDD": _LUXON["ooo"],
    "Do": lambda v: _nth(v.day),
    "DDDo": lambda v: _nth(v.timetuple().tm_yday),
    "d": lambda v: str(v.isoweekday() % 7),
    "do": lambda v: _nth(v.isoweekday() % 7),
    "dd": lambda v: DAYS[v.weekday()][:2],
    "ddd": _LUXON["ccc"],
    "dddd": _LUXON["cccc"],
    "e": lambda v: str(v.isoweekday() % 7),
    "E": _LUXON["c"],
    "w": _LUXON["n"],
    "ww": _LUXON["nn"],
    "wo": lambda v: _nth(_local_week(v)[1]),
    "W": _LUXON["W"],
    "WW": _LUXON["WW"],
    "Wo": lambda v: _nth(v.isocalendar().week),
    "gg": _LUXON["ii"],
    "gggg": _LUXON["iiii"],
    "GG": _LUXON["kk"],
    "GGGG": _LUXON["kkkk"],
    "H": _LUXON["H"],
    "HH": _LUXON["HH"],
    "h": _LUXON["h"],
    "hh": _LUXON["hh"],
    "k": lambda v: str(v.hour or 24),
    "kk": lambda v: f"{v.hour or 24:02d}",
    "m": _LUXON["m"],
    "mm": _LUXON["mm"],
    "s": _LUXON["s"],
    "ss": _LUXON["ss"],
    "a": lambda v: _half(v).lower(),
    "A": _half,
    "Z": _LUXON["ZZ"],
    "ZZ": _LUXON["ZZZ"],
    "z": _moment_zone,
    "zz": _moment_zone,
    "X": _LUXON["X"],
    "x": _LUXON["x"],
}
