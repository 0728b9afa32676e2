"""The node hunter: finds and verifies mail addresses, through a bound account."""

from steward.steps.n8n.calls.tables import CallForm, get, parameters_of
from steward.steps.n8n.http_service_nodes import HttpServiceNode

_OPERATIONS = {
    "mail.emailFinder": get(
        "/email-finder", CallForm("domain firstname:first_name lastname:last_name"), "data",
        needed="domain firstname lastname",
    ),
    "mail.emailVerifier": get("/email-verifier", CallForm("email"), "data", needed="email"),
}  # fmt: skip
_DEFAULTS = {"mail": "domainSearch"}


class HunterNode(HttpServiceNode):
    """Supports the finder and the verifier, but not the domain search."""

    types = ("hunter",)
    service = "Hunter"
    address = "https://api.hunter.io/v2"
    credential_types = ("hunterApi",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "mail"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
