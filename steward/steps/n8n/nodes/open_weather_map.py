"""The node openWeatherMap: current weather and the five-day forecast, through a bound account."""

from collections.abc import Iterable, Mapping

from steward.model.json import AnyJson
from steward.steps.n8n.calls.tables import parameters_of
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.service_fields import ServiceFields
from steward.steps.n8n.service_nodes import ServiceOperation
from steward.steps.workflow.step_types import ItemFailed, NodeDefinition, StepProblem, is_expression

_LOCATION_FIELDS: Mapping[str, Mapping[str, str]] = {
    "cityName": {"cityName": "q"},
    "cityId": {"cityId": "id"},
    "coordinates": {"latitude": "lat", "longitude": "lon"},
    "zipCode": {"zipCode": "zip"},
}
_LOCATION_KIND = "locationSelection"


def _query(fields: ServiceFields) -> dict[str, AnyJson]:
    names = _LOCATION_FIELDS.get(fields.text(_LOCATION_KIND, "cityName"))
    if names is None:
        raise ItemFailed("This step does not say how it names the place. Choose a way.")
    places = {renamed: fields.text(name) for name, renamed in names.items()}
    if not all(places.values()):
        raise ItemFailed("This step does not say which place it means. Fill it in.")
    units, language = fields.text("format", "metric"), fields.text("language")
    return {**places, "units": units} | ({"lang": language} if language else {})


def _problems(node: NodeDefinition) -> Iterable[StepProblem]:
    location_kind = node.get(_LOCATION_KIND, "cityName")
    if is_expression(location_kind):
        return
    if location_kind not in _LOCATION_FIELDS:
        yield StepProblem(
            "error", "parameter", "How it names the place is not known here. Choose another way."
        )
    elif any(node.get(name) in (None, "", "=") for name in _LOCATION_FIELDS[location_kind]):
        message = (
            "It does not say which place it means, so it would fail. Fill it in in n8n and import it again."
        )
        yield StepProblem("warning", "parameter", message)


_OPERATIONS = {
    "weather.currentWeather": ServiceOperation("GET", "/weather", _query, check=_problems),
    "weather.5DayForecast": ServiceOperation("GET", "/forecast", _query, check=_problems),
}
_DEFAULTS = {"weather": "currentWeather"}


class OpenWeatherMapNode(HttpServiceNode):
    """Supports both operations of the node and every way to name a location."""

    types = ("openWeatherMap",)
    service = "OpenWeatherMap"
    address = "https://api.openweathermap.org/data/2.5"
    credential_types = ("openWeatherMapApi",)
    parameters = parameters_of(
        _OPERATIONS, "format language locationSelection cityName cityId latitude longitude zipCode"
    )
    default_resource = "weather"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
