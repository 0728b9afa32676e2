"""Responses to writes, stored encrypted for the later steps that read them."""

from collections.abc import Sequence
from dataclasses import dataclass

from steward.connections import vault as vaults
from steward.connections.vault import Vault
from steward.connectors.base.writing import WriteOutcome, WriteState
from steward.database.engine.base import Tx
from steward.database.runs import write_ledger
from steward.database.runs.transitions import Lease
from steward.model.change import Change
from steward.model.ids import ChangeId, OrgId
from steward.model.write_response import WriteResponse
from steward.runs.writes.rounds import PartToApply

_RESPONSES_BYTES = 7 * 1024 * 1024  # of one step, which may pass on 8 MiB
# The states of a write whose response a later step may read.
_STATES_WITH_RESPONSE = (WriteState.APPLIED, WriteState.REFUSED, WriteState.UNKNOWN)


@dataclass(slots=True)
class ResponseBudget:
    """The bytes of responses that may still be stored for one step."""

    remaining: int = _RESPONSES_BYTES

    def admit(self, outcome: WriteOutcome) -> WriteResponse | None:
        """Returns the response to store for a write that was made, was refused or has an unknown outcome.

        The body is left out when it exceeds the budget. Of a refusal only what explains it is stored, so that
        the budget is left to successful writes.
        """
        if outcome.state not in _STATES_WITH_RESPONSE:
            return None
        response = outcome.response_maker() if outcome.response_maker is not None else outcome.response
        if response is None:
            return None
        if outcome.state is WriteState.REFUSED:
            response = response.as_refusal()
        size = len(response.to_text())
        if size > self.remaining:
            return response.without_body()
        self.remaining -= size
        return response


async def store_responses(
    tx: Tx,
    vault: Vault,
    org: OrgId,
    pending_parts: Sequence[PartToApply],
    outcomes: Sequence[WriteOutcome],
) -> None:
    """Stores the responses encrypted, each bound to its write."""
    for pending, outcome in zip(pending_parts, outcomes, strict=True):
        if outcome.response is None:
            continue
        key_no, sealed = await vaults.seal_text(
            tx, vault, org, field=_response_field(pending.key), text=outcome.response.to_text()
        )
        await write_ledger.store_response(tx, org, pending.key, key_no=key_no, sealed=sealed)


async def recorded_responses(
    tx: Tx, *, vault: Vault, lease: Lease, items: Sequence[Change]
) -> dict[ChangeId, WriteResponse]:
    """Returns the recorded response of each change that has one: that of its last part with one."""
    responses: dict[ChangeId, WriteResponse] = {}
    for stored_response in await write_ledger.responses_of(
        tx, lease.org, lease.run, [item.id for item in items]
    ):
        text = await vaults.open_text(
            tx,
            vault,
            lease.org,
            field=_response_field(stored_response.key),
            key_no=stored_response.key_no,
            sealed=stored_response.sealed,
        )
        responses[stored_response.change] = WriteResponse.from_text(text)
    return responses


def _response_field(key: str) -> str:
    """Returns the place that an encrypted response is bound to."""
    return f"answer {key}"
