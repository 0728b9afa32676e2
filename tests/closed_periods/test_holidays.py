"""Tests public holidays, which a library proposes and a person accepts, and which nobody else moves.

See docs/design/closed-periods.md#holidays.
"""

import sys
from collections.abc import Mapping
from datetime import date, timedelta
from types import MappingProxyType, ModuleType
from typing import Any

import pytest

from tests.people import Caller
from tests.service import Service

HOLIDAYS, ACCEPT, PERIODS = "/app/holidays", "/app/holidays/accept", "/app/closed-periods"
COUNTRIES = f"{HOLIDAYS}/countries"
WHOLE = {"kind": "organization"}


def accepting(*days: str, **changes: Any) -> dict[str, Any]:
    """Returns a valid body that accepts days of Bavaria."""
    scope = {"country": "DE", "subdivision": "BY", "scope": WHOLE, "stops": "runs"}
    return {**scope, "days": list(days), **changes}


def other_version(days: dict[date, str]) -> ModuleType:
    """Returns a module that stands in for another version of the library, with these days in Germany."""

    class Days(dict[date, str]):
        subdivisions = ("BY",)
        subdivisions_aliases: Mapping[str, str] = MappingProxyType({})
        supported_languages = ("en_US",)

    module = ModuleType("holidays")
    module.__dict__.update(
        __version__="9.9",
        list_supported_countries=lambda include_aliases: {"DE": []},
        country_holidays=lambda country, subdiv=None, years=None, language=None: Days(days),
    )
    return module


@pytest.fixture
async def web(service: Service) -> Caller:
    """Provides the owner in the web app, on 1 May 2026."""
    return await service.web("owner")


async def test_days_of_a_region_are_proposed_and_accepted(web: Caller) -> None:
    """Makes a period of the local day for each accepted holiday, with its origin.

    One wrong day refuses all of them.
    """
    assert "DE" in (await web.get(COUNTRIES)).data["countries"]
    listed = await web.get(HOLIDAYS, country="DE", subdivision="BY", year=2026)
    days = {day["date"]: day["name"] for day in listed.data["days"]}
    assert days["2026-11-01"] == "All Saints' Day"
    assert {"code": "BY", "name": "Bayern"} in listed.data["subdivisions"]
    berlin = (await web.get(HOLIDAYS, country="DE", subdivision="BE", year=2026)).data["days"]
    assert "2026-11-01" not in {day["date"] for day in berlin}

    refused = await web.post(ACCEPT, accepting("2026-11-01", "2026-11-02", "2026-01-01"))
    assert (refused.status, set(refused.errors)) == (422, {"days.1", "days.2"})
    assert (await web.get(PERIODS)).data["closed_periods"] == []

    response = await web.post(ACCEPT, accepting("2026-11-01", "2026-12-25"))
    assert response.status == 201, response.body
    first = response.data["closed_periods"][0]
    when = {"kind": "once", "start": "2026-11-01T00:00", "end": "2026-11-02T00:00"}
    assert (first["name"], first["when"]) == ("All Saints' Day", when)
    assert first["origin"] == {
        "library": "holidays",
        "version": listed.data["version"],
        "country": "DE",
        "subdivision": "BY",
        "date": "2026-11-01",
        "holiday": "All Saints' Day",
    }
    again = await web.get(HOLIDAYS, country="DE", subdivision="BY", year=2026)
    accepted = {day["date"] for day in again.data["days"] if day["accepted"]}
    assert accepted == {"2026-11-01", "2026-12-25"}


async def test_another_version_of_the_library_moves_nothing_and_is_named(
    web: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports the differences of a new version without moving periods.

    A person takes a date over or keeps the period, and neither difference is reported again.
    """
    second_response = await web.post(ACCEPT, accepting("2026-11-01", "2026-12-25", "2026-12-26"))
    before = (await web.get(PERIODS)).data
    moved = {date(2026, 11, 3): "All Saints' Day", date(2026, 12, 25): "Christmas Day"}
    monkeypatch.setitem(sys.modules, "holidays", other_version(moved))
    differences = (await web.get(COUNTRIES)).data["differences"]
    saints, second_day = second_response.data["closed_periods"][0], second_response.data["closed_periods"][2]
    assert [(difference["closed_period"]["id"], difference["date"]) for difference in differences] == [
        (saints["id"], "2026-11-03"),
        (second_day["id"], None),
    ]
    assert (await web.get(PERIODS)).data == before

    taken_over = await web.post(f"{PERIODS}/{saints['id']}/holiday", {"version": 1, "take_over": True})
    assert taken_over.data["closed_period"]["when"]["start"] == "2026-11-03T00:00"
    gone = f"{PERIODS}/{second_day['id']}/holiday"
    assert (await web.post(gone, {"version": 1, "take_over": True})).code == "wrong_state"
    response = await web.post(gone, {"version": 1, "take_over": False})
    assert response.data["closed_period"]["when"] == second_day["when"]
    assert (await web.get(COUNTRIES)).data["differences"] == []
    assert (await web.post(gone, {"version": 2, "take_over": False})).code == "wrong_state"


async def test_from_october_on_the_next_year_is_asked_for(web: Caller, service: Service) -> None:
    """Lists used regions without holidays of the next year from October on, until one is accepted."""
    await web.post(ACCEPT, accepting("2026-12-25"))
    missing = "without_next_year"
    assert (await web.get(COUNTRIES)).data[missing] == []
    await service.clock.advance_to(service.clock.now().replace(month=10, day=1))
    web = await service.web("owner")
    data = (await web.get(COUNTRIES)).data
    assert (data["next_year"], data[missing]) == (2027, [{"country": "DE", "subdivision": "BY"}])
    await web.post(ACCEPT, accepting("2027-01-06"))
    assert (await web.get(COUNTRIES)).data[missing] == []


async def test_wrong_fields_are_named_and_sixty_days_are_the_most(
    web: Caller, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names wrong countries, regions, years and days.

    Members may not accept, and at most 60 days are accepted at once.
    """
    for changes, field in (
        ({"country": "XX"}, "country"),
        ({"subdivision": "XX"}, "subdivision"),
        ({"year": 2025}, "year"),
        ({"year": 2032}, "year"),
    ):
        query: dict[str, Any] = {"country": "DE", "year": 2026, **changes}
        assert set((await web.get(HOLIDAYS, **query)).errors) == {field}
    assert (await web.get(HOLIDAYS, country="DE", year=2031)).status == 200
    assert set((await web.post(ACCEPT, accepting())).errors) == {"days"}
    assert set((await web.post(ACCEPT, accepting("yesterday"))).errors) == {"days.0"}
    refused = await (await service.web("member")).post(ACCEPT, accepting("2026-12-25"))
    assert (refused.status, refused.code) == (403, "forbidden")

    days = {date(2026, 6, 1) + timedelta(days=number): f"Day {number}" for number in range(61)}
    monkeypatch.setitem(sys.modules, "holidays", other_version(days))
    texts = [day.isoformat() for day in days]
    assert set((await web.post(ACCEPT, accepting(*texts))).errors) == {"days"}
    assert len((await web.post(ACCEPT, accepting(*texts[:60]))).data["closed_periods"]) == 60

    monkeypatch.setitem(sys.modules, "holidays", None)
    data = (await web.get(COUNTRIES)).data
    assert (data["version"], data["countries"]) == (None, [])
    for response in (
        await web.get(HOLIDAYS, country="DE", year=2026),
        await web.post(ACCEPT, accepting("2026-12-25")),
    ):
        assert (response.status, response.code) == (409, "wrong_state")
        assert "Ask its operator, or type the dates" in response.body["message"]
