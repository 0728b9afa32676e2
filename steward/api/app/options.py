"""The options that this installation offers, readable without a session."""

import msgspec

from steward.api.http.operation import Access, ApiCall, Operation, Response
from steward.api.schema.responses import PositiveInt
from steward.database.accounts import people
from steward.database.engine.base import Tx


class OptionsResponse(msgspec.Struct):
    """Whether mail is sent (without it no password is reset), and whether nobody has an account yet.

    A run can be undone for `undo_days` after its end.
    """

    mail: bool
    setup_needed: bool
    undo_days: PositiveInt


async def get(tx: Tx, call: ApiCall) -> Response:
    """Handles `GET /app/options`."""
    rules = call.context.rules
    return OptionsResponse(rules.mail, not await people.has_accounts(tx), rules.undo_for.days)


OPERATIONS = (
    Operation(
        name="options.get",
        method="GET",
        path="/app/options",
        access=Access.PUBLIC,
        function=get,
        response=OptionsResponse,
        summary="Get what this installation offers",
        small=True,
    ),
)
