"""Walks of calls that follow from one another: each goes on with what the responses before have named.

A seed gives the same walk again, whatever the walks before it did. (schemathesis has walks of its own; over a
service that keeps what was done they do not repeat, which hypothesis refuses.)
"""

import os
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from schemathesis.checks import not_a_server_error

from tests.authz.rows import parameters, spelled
from tests.authz.two_organizations import PREFIX, OrganizationIds
from tests.fuzz.served import ServedService, row_of
from tests.fuzz.test_described import CHECKS, OPERATIONS, answered, served

__all__ = ["served"]
WALKS = 5 * int(os.environ.get("FUZZ_EXAMPLES", "8"))
STEPS = 25
RECORDS = {
    "automation": "automation_id",
    "run": "run_id",
    "approval": "approval_id",
    "import": "import_id",
}
# What would end the session, the accounts or the connections that the walks go on with, and what stands apart
# from automations and their runs.
LEFT_OUT = (
    *("session", "password", "connections/", "invitations", "people"),
    *("notification", "unsubscribe", "closed-periods", "freeze", "holidays", "audit", "search"),
)
WALKED = [item for name, item in OPERATIONS.items() if not any(word in name for word in LEFT_OUT)]
CREATE = OPERATIONS[f"POST {PREFIX}"]


@dataclass
class Walk:
    """What a walk knows: the records named last, with the versions they then had."""

    served: ServedService
    chance: Random
    ids: OrganizationIds
    automation_version: int = 1
    version: int = 1  # of the approval
    occurrence_version: int = 0

    def step(self, operation: Any) -> int:
        """One call with what is known, now and then under another version, held to the document."""
        row = row_of(operation.method, operation.path)
        sent: dict[str, Any] = {
            "path_parameters": {name: str(self.ids.one(name)) for name in parameters(row)}
        }
        if row.method == "GET":
            sent["query"] = dict(spelled(row).needed(self.ids))
        else:
            sent |= {"body": self._body(operation), "media_type": "application/json"}
        case = operation.Case(**sent)
        response = answered(self.served, case)
        is_set_up = response.status_code != 503 or response.json()["code"] != "not_configured"
        case.validate_response(
            response, checks=[item for item in CHECKS if is_set_up or item is not not_a_server_error]
        )
        self._learn(response.json().get("data") or {})
        return response.status_code

    def _body(self, operation: Any) -> dict[str, Any]:
        row = row_of(operation.method, operation.path)
        body = dict(spelled(row).body(self.ids))
        known_by_name = {
            "version": self.version if "approval" in row.path else self.automation_version,
            "automation_version": self.automation_version,
            "occurrence_version": self.occurrence_version,
        }
        for name in known_by_name.keys() & body.keys():
            body[name] = known_by_name[name] if self.chance.random() < 0.8 else self.chance.randint(1, 4)
        if "idempotency_key" in body:
            body["idempotency_key"] = f"walk-{self.chance.randint(0, 50)}"
        if "run_at" in body:
            body["run_at"] = f"2026-05-{self.chance.randint(2, 9):02}T{self.chance.randint(0, 23):02}:30:00Z"
        if operation is CREATE:
            body["schedule"] = self.chance.choice(
                [{"cadence": "manual"}, {"cadence": "daily", "run_at": "08:00"}, {"cadence": "hourly"}]
            )
        return body

    def _learn(self, data: dict[str, Any]) -> None:
        for name, parameter in RECORDS.items():
            if isinstance(record := data.get(name), dict):
                self.ids = replace(self.ids, **{parameter: record["id"]})
        if isinstance(automation := data.get("automation"), dict):
            self.automation_version = automation["version"]
        if isinstance(approval := data.get("approval"), dict):
            self.version = approval["version"]
        rows = [*(data.get("occurrences") or []), data.get("occurrence")]
        if coming := [row for row in rows if row and row["automation_id"] == self.ids.automation_id]:
            chosen = self.chance.choice(coming)
            self.ids = replace(self.ids, slot_at=chosen["slot_at"])
            self.occurrence_version = chosen["version"]


def test_calls_that_follow_from_one_another_are_as_described(served: ServedService) -> None:
    """Bars: the stateful phase; create, run, move, skip, pause, archive and back, in any order."""
    statuses: set[tuple[str, int]] = set()
    for seed in range(WALKS):
        chance = Random(seed)
        walk = Walk(served, chance, served.two.ours)
        walk.step(CREATE)
        for _ in range(STEPS):
            operation = chance.choice(WALKED)
            statuses.add((f"{operation.method.upper()} {operation.path}", walk.step(operation)))
    # No account is connected again, and both approvals may end with their runs before they are decided.
    done = {name for name, status in statuses if status in (200, 201)}
    assert len(done) >= len(WALKED) - 5, {f"{item.method.upper()} {item.path}" for item in WALKED} - done
    assert {status for _, status in statuses} >= {200, 201, 409, 422}
