"""Spans of organizations: a periodic task processes a limited number of them at a time.

Statements for SQLite join the owned table by `= +o.org_id`: otherwise SQLite would bound that table by the
span too, and read an organization's whole history.
"""

from dataclasses import dataclass

from steward.database.engine.base import Tx

# The number of organizations in one pass.
ORGANIZATIONS = 1_000


@dataclass(frozen=True, slots=True)
class OrgSpan:
    """The organizations of one pass, with numbers from `first` to `last`."""

    first: int
    last: int

    def args(self, **more: object) -> dict[str, object]:
        """Returns the arguments of a statement that reads these organizations."""
        return {"first_org": self.first, "last_org": self.last, **more}


EVERY_ORG = OrgSpan(0, 2**62)


async def next_orgs(tx: Tx, after: int, *, limit: int = ORGANIZATIONS) -> OrgSpan | None:
    """Returns the next organizations after the number `after`; None when there are none."""
    row = await tx.first(
        "SELECT max(o.org_id) AS last FROM"
        " (SELECT org_id FROM dir_orgs WHERE org_id > :after ORDER BY org_id LIMIT :limit) AS o",
        {"after": after, "limit": limit},
    )
    return None if row is None or row["last"] is None else OrgSpan(after + 1, row["last"])
