"""Tests which names are zones, and where they are read from."""

import zoneinfo
from importlib import metadata

import pytest

from steward.scheduling.zones import local_time, tzdata_version, use_packaged_zones, zone, zone_names
from tests.scheduling.shorthand import at, place


@pytest.mark.parametrize(
    "name", ["Europe/Berlin", "UTC", "Asia/Calcutta", "Etc/GMT+12", "US/Eastern", "EST5EDT"]
)
def test_a_name_of_the_package_is_a_zone_links_included(name: str) -> None:
    """Accepts every name of the package and keeps a link's own name (R14)."""
    timezone = zone(name)
    assert timezone is not None
    assert timezone.key == name


@pytest.mark.parametrize(
    "name",
    ["europe/berlin", "utc", "Factory", "localtime", "posixrules", "", "Europe", "Europe/", "Europe/Berlin ",
     "../UTC", "/etc/localtime", "Europe/../UTC", "CEST", "+01:00", "Mars/Base", "tzdata.zi",
     "Europe/Berlin\0", "x" * 10_000],
)  # fmt: skip
def test_anything_else_is_not_a_zone(name: str) -> None:
    """Refuses other spellings, offsets, paths, and names such as Factory and localtime (R14)."""
    assert zone(name) is None


def test_every_name_can_be_loaded() -> None:
    """Loads each of more than 590 names. See docs/design/schedule.md#zones."""
    names = zone_names()
    assert len(names) > 590
    assert all(place(name).key == name for name in names)


def test_zones_are_read_from_the_package_alone() -> None:
    """Reads zones from the package even when the operating system's copy was used before.

    See docs/design/schedule.md#zones.
    """
    elsewhere = zoneinfo.TZPATH or ("/usr/share/zoneinfo",)
    zoneinfo.reset_tzpath(to=elsewhere)
    before = zone("Europe/Berlin")
    use_packaged_zones()
    assert zoneinfo.TZPATH == ()
    assert zone("Europe/Berlin") is not before
    assert tzdata_version() == metadata.version("tzdata")


def test_a_local_time_is_shown_with_its_offset_in_hours_and_minutes() -> None:
    """Writes the offset in hours and minutes, and cuts its seconds, as Monrovia had until 1972.

    See docs/design/api/calendar.md#preview-a-schedule.
    """
    assert local_time(at("2026-03-08 07:30"), place("America/New_York")) == "2026-03-08T03:30-04:00"
    assert local_time(at("2026-01-10 00:15"), place("Australia/Eucla")) == "2026-01-10T09:00+08:45"
    assert local_time(at("2026-01-10 00:15"), place("UTC")) == "2026-01-10T00:15+00:00"
    assert local_time(at("1971-01-01 12:00"), place("Africa/Monrovia")) == "1971-01-01T11:15-00:44"
