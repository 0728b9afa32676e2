"""The node clearbit: looks up people and companies, through a bound account."""

from steward.steps.n8n.calls.tables import CallForm, get, parameters_of
from steward.steps.n8n.http_service_nodes import HttpServiceNode
from steward.steps.n8n.option_tables import OptionTable

_PERSON = OptionTable(
    "additionalFields",
    "givenName:given_name familyName:family_name ipAddress:ip_address location company"
    " companyDomain:company_domain linkedIn:linkedin twitter facebook",
)
_COMPANY = OptionTable("additionalFields", "companyName:company_name linkedin twitter facebook")
_OPERATIONS = {
    "person.enrich": get(
        "https://person-stream.clearbit.com/v2/people/find", CallForm("email", (_PERSON,)), needed="email"
    ),
    "company.enrich": get(
        "https://company-stream.clearbit.com/v2/companies/find", CallForm("domain", (_COMPANY,)),
        needed="domain",
    ),
    "company.autocomplete": get(
        "https://autocomplete.clearbit.com/v1/companies/suggest", CallForm("name:query"), needed="name"
    ),
}  # fmt: skip
_DEFAULTS = {"company": "enrich", "person": "enrich"}


class ClearbitNode(HttpServiceNode):
    """Supports all operations of the node."""

    types = ("clearbit",)
    service = "Clearbit"
    address = "https://person-stream.clearbit.com"
    credential_types = ("clearbitApi",)
    parameters = parameters_of(_OPERATIONS)
    default_resource = "company"
    default_operations = _DEFAULTS
    operations = _OPERATIONS
