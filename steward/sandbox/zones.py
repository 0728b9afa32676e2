"""Time zone tables for the engine, from the packaged database, read before system calls are filtered."""

import io
import json
import struct
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

_LAST_YEAR: Final = 2100
_HEADER: Final = struct.Struct(">4sc15x6l")


class Zones:
    """All zone files in memory; a zone's table is built when a script first needs it."""

    def __init__(self, folder: Path) -> None:
        names = (folder / "zones").read_text("utf-8").split()
        self._files = {name: (folder / "zoneinfo" / name).read_bytes() for name in names}

    @property
    def names(self) -> list[str]:
        """The names of all zones, as the database spells them."""
        return list(self._files)

    def table(self, name: str) -> str:
        """Returns a zone's JSON: `moments` (ms) of changes, `order` of `kinds` [seconds, name, summer].

        `order` has one entry more than `moments`: the first is the kind before all changes.
        """
        raw = self._files[name]
        moments, order, kinds = _parse_zone_file(raw)
        if b"," not in raw[-64:].rpartition(b"\n")[0].rpartition(b"\n")[2]:
            return _encode(moments, order, kinds)  # the zone has no rule for future years
        zone = ZoneInfo.from_file(io.BytesIO(raw), name)
        start = datetime.fromtimestamp(max(moments[-1] if moments else 0, 0), UTC)
        for moment in _rule_changes(zone, start):
            local = moment.astimezone(zone)
            kind: list[object] = [
                int((local.utcoffset() or timedelta()).total_seconds()),
                local.tzname(),
                int(bool(local.dst())),
            ]
            if kind not in kinds:
                kinds.append(kind)
            moments.append(int(moment.timestamp()))
            order.append(kinds.index(kind))
        return _encode(moments, order, kinds)


def _encode(moments: list[int], order: list[int], kinds: list[list[object]]) -> str:
    table = {"moments": [moment * 1000 for moment in moments], "order": order, "kinds": kinds}
    return json.dumps(table, separators=(",", ":"))


def _parse_zone_file(raw: bytes) -> tuple[list[int], list[int], list[list[object]]]:
    """Returns changes and kinds from a zone file (RFC 8536): its second block, with 64-bit moments."""
    _, _, *counts = _HEADER.unpack_from(raw)
    utc, standard, leap, times, types, signs = counts
    offset = _HEADER.size + times * 5 + types * 6 + signs + leap * 8 + standard + utc
    _, _, *counts = _HEADER.unpack_from(raw, offset)
    _, _, _, times, types, signs = counts
    offset += _HEADER.size
    moments = list(struct.unpack_from(f">{times}q", raw, offset))
    order = list(raw[offset + times * 8 : offset + times * 9])
    offset += times * 9
    names = raw[offset + types * 6 : offset + types * 6 + signs]
    kinds: list[list[object]] = []
    for index in range(types):
        seconds, summer, name = struct.unpack_from(">lBB", raw, offset + index * 6)
        kinds.append([seconds, names[name : names.index(0, name)].decode(), summer])
    first = next((index for index, kind in enumerate(kinds) if not kind[2]), 0)
    return moments, [first, *order], kinds


def _rule_changes(zone: ZoneInfo, start: datetime) -> list[datetime]:
    """Returns the moments after `start` at which the offset changes, assuming at most one in two months."""
    months = [
        datetime(year, month, 1, tzinfo=UTC)
        for year in range(start.year, _LAST_YEAR)
        for month in range(1, 13, 2)
    ]
    months = [start, *months[bisect_right(months, start) :]]
    kinds = [_kind(zone, month) for month in months]
    return [
        _find_change(zone, months[index - 1], months[index])
        for index in range(1, len(months))
        if kinds[index] != kinds[index - 1]
    ]


def _find_change(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    before = _kind(zone, low)
    while high - low > timedelta(seconds=1):
        middle = (low + (high - low) / 2).replace(microsecond=0)
        if _kind(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


def _kind(zone: ZoneInfo, moment: datetime) -> tuple[timedelta | None, str | None]:
    local = moment.astimezone(zone)
    return local.utcoffset(), local.tzname()
