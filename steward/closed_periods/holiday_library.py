"""Public holidays from the library `holidays`, an extra that proposes dates and closes nothing.

See docs/design/closed-periods.md#holidays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import ModuleType

from steward.model.refusals import WrongState

NAME = "holidays"
_MISSING = (
    'Public holidays need the extra "holidays" of this installation. Ask its operator, or type the dates.'
)
_ENGLISH = ("en_US", "en_GB")


@dataclass(frozen=True, slots=True)
class HolidayCalendar:
    """The public holidays of a region in a year, and the country's regions in the library, by code."""

    days: Mapping[date, str]
    subdivisions: Mapping[str, str]


def load() -> ModuleType | None:
    """Imports the library, or returns None if the extra is missing. The first import reads files."""
    try:
        import holidays
    except ImportError:
        return None
    return holidays


def version() -> str | None:
    """Returns the version of the library, or None if it is not installed."""
    library = load()
    return None if library is None else str(library.__version__)


def countries() -> list[str]:
    """Returns the ISO 3166 codes of the countries in the library."""
    library = load()
    return [] if library is None else sorted(library.list_supported_countries(include_aliases=False))


def calendar(country: str, subdivision: str | None, year: int) -> HolidayCalendar | None:
    """Returns the public holidays of a year, or None if the library lacks the country or region.

    Names are in English where available. Raises WrongState if the library is not installed.
    """
    library = load()
    if library is None:
        raise WrongState(_MISSING)
    if country not in countries():
        return None
    spoken = library.country_holidays(country)
    names = {code: name for name, code in getattr(spoken, "subdivisions_aliases", {}).items()}
    subdivisions = {code: names.get(code, code) for code in spoken.subdivisions}
    if subdivision is not None and subdivision not in subdivisions:
        return None
    language = next((language for language in _ENGLISH if language in spoken.supported_languages), None)
    listed = library.country_holidays(country, subdiv=subdivision, years=year, language=language)
    days = {day: str(name) for day, name in sorted(listed.items()) if day.year == year}
    return HolidayCalendar(days, subdivisions)
