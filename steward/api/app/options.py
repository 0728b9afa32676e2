"""What this installation offers, to anybody."""

import msgspec

from steward.api.http.operation import Access, Answer, ApiCall, Operation
from steward.database.engine.base import Tx


class OptionsAnswer(msgspec.Struct):
    """Whether mail is sent: without it the web app offers no reset of a password by mail."""

    mail: bool


async def get(tx: Tx, call: ApiCall) -> Answer:
    """Answers `GET /app/options`."""
    return OptionsAnswer(call.context.rules.mail)


OPERATIONS = (
    Operation(
        method="GET",
        path="/app/options",
        access=Access.PUBLIC,
        function=get,
        answer=OptionsAnswer,
        summary="Get what this installation offers",
        small=True,
    ),
)
