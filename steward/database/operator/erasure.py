"""Erases an organization's rows and a person's identity; accounts/ checks who may do that."""

import json
from collections.abc import Mapping
from typing import Final

from steward.database.accounts import failed_sign_ins
from steward.database.engine.base import Tx
from steward.model.ids import OrgId, PersonId

FORMER_MEMBER = "A former member"

# The tables with rows of an organization, and the columns that identify a row; referencing tables come first.
TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "steps": ("run_id", "seq"),
    "step_values": ("run_id", "name", "iteration"),
    "search_terms": ("run_id", "term"),
    "changes": ("run_id", "id"),
    "write_ledger": ("write_key",),
    "run_file_parts": ("run_id", "sha256", "part"),
    "run_files": ("run_id", "sha256"),
    "memory_log": ("run_id", "name", "iteration", "position", "space", "key"),
    "undos": ("run_id",),
    "run_totals": ("automation_id", "starts_at"),
    "runs": ("id",),
    "approvals": ("id",),
    "message_notices": ("message_id", "notice_id"),
    "messages": ("id",),
    "notices": ("id",),
    "inbox": ("person_id", "id"),
    "notification_preferences": ("person_id",),
    "notification_routes": ("id",),
    "automation_watch": ("automation_id",),
    "occurrences": ("automation_id", "slot_at"),
    "automation_history": ("id",),
    "automation_topics": ("integration_id", "topic", "automation_id"),
    "memory": ("automation_id", "space", "key"),
    "static_data": ("automation_id",),
    "plans": ("automation_id", "plan_version"),
    "schedules": ("automation_id",),
    "closed_periods": ("id", "version"),
    "closing_work": ("org_id",),
    "automations": ("id",),
    "imports": ("id",),
    "idempotency_keys": ("kind", "key"),
    "event_bodies": ("event_id",),
    "events": ("id",),
    "last_seen": ("integration_id", "object_type", "object_id"),
    "own_changes": ("integration_id", "object_type", "object_id", "automation_id", "run_id"),
    "catch_ups": ("integration_id", "object_type"),
    "subscriptions": ("integration_id", "topic"),
    "topic_deliveries": ("integration_id", "topic"),
    "listeners": ("integration_id",),
    "connection_secrets": ("integration_id", "field", "version"),
    "connections": ("integration_id",),
    "org_keys": ("key_no",),
    "credentials": ("client_id",),
    "dir_clients": ("client_id",),
    "dir_endpoints": ("endpoint_key_hash",),
    "dir_integrations": ("integration_id",),
    "sign_in_states": ("state_hash",),
    "sessions": ("session_hash",),
    "invitations": ("token_hash",),
    "members": ("person_id",),
    "fairness_orgs": ("org_id",),
}
# Rows that stay: the audit log holds only ids, and the others hold the organization's id.
RETAINED: Final = frozenset({"audit_heads", "audit_log", "dir_orgs", "organizations"})
# Texts that people write about their actions, at most 500 characters.
_TEXTS = (("approvals", "comment"), ("automation_history", "reason"), ("automations", "paused_reason"))
_OF_RUNS = (
    "steps",
    "step_values",
    "search_terms",
    "changes",
    "write_ledger",
    "run_files",
    "memory_log",
    "undos",
)


async def close(tx: Tx, org: OrgId) -> None:
    """Ends all access: sessions, memberships, credentials, event addresses; stops all automations."""
    args = {"org": org, "off": False}
    await tx.execute("UPDATE organizations SET automations_on = :off WHERE org_id = :org", args)
    await tx.execute("UPDATE members SET active = :off WHERE org_id = :org", args)
    await tx.execute(
        "UPDATE credentials SET enabled = :off, epoch = epoch + 1 WHERE org_id = :org AND enabled", args
    )
    for table in ("sessions", "dir_endpoints", "invitations"):
        await tx.execute(f"DELETE FROM {table} WHERE org_id = :org", {"org": org})


async def remove_runs(tx: Tx, org: OrgId, max_runs: int) -> int:
    """Removes up to `max_runs` runs with their data. Returns their number.

    The runs are locked first: a worker that executes one either ends its transaction before, or finds no
    row with its epoch afterwards and drops the run.
    """
    rows = await tx.all(
        "SELECT id FROM runs WHERE org_id = :org ORDER BY id LIMIT :most {for_update}",
        {"org": org, "most": max_runs},
    )
    if not rows:
        return 0
    args: dict[str, object] = {"org": org, "runs": [row["id"] for row in rows]}
    for table in _OF_RUNS:
        await tx.execute(f"DELETE FROM {table} WHERE org_id = :org AND run_id IN (:runs)", args)
    return await tx.execute("DELETE FROM runs WHERE org_id = :org AND id IN (:runs)", args)


async def remove_some(tx: Tx, org: OrgId, table: str, max_rows: int) -> int:
    """Removes up to `max_rows` rows of one of the TABLES. Returns their number."""
    columns = ", ".join(TABLES[table])
    return await tx.execute(
        f"DELETE FROM {table} WHERE org_id = :org AND ({columns}) IN"
        f" (SELECT {columns} FROM {table} WHERE org_id = :org LIMIT :most)",
        {"org": org, "most": max_rows},
    )


async def forget_calls(tx: Tx, org: OrgId) -> None:
    """Removes an organization's call counts, which PostgreSQL holds, and the records of failed rows.

    Failures name no organization, so all are removed: whatever still fails is noted again.
    """
    await tx.execute("DELETE FROM deferred_rows")
    if tx.dialect == "postgresql":
        await tx.execute("DELETE FROM rate_windows WHERE org_id = :org", {"org": org})


async def people_of(tx: Tx, org: OrgId) -> list[PersonId]:
    """Returns everyone who is or was a member or was invited to be one."""
    rows = await tx.all("SELECT person_id FROM members WHERE org_id = :org ORDER BY person_id", {"org": org})
    return [PersonId(row["person_id"]) for row in rows]


async def subscriptions_of(tx: Tx, org: OrgId) -> list[tuple[str, str]]:
    """Returns the subscriptions of the stores as (name of the connection, topic)."""
    rows = await tx.all(
        "SELECT c.name, s.topic FROM subscriptions AS s JOIN connections AS c"
        " ON c.org_id = s.org_id AND c.integration_id = s.integration_id"
        " WHERE s.org_id = :org AND s.remote_id IS NOT NULL ORDER BY c.name, s.topic",
        {"org": org},
    )
    return [(row["name"], row["topic"]) for row in rows]


async def end_sign_ins(tx: Tx, person: PersonId, attempts_key: str) -> None:
    """Removes a person's sessions, invitations, and counted sign-in attempts with their address."""
    args = {"person": person, "key": attempts_key}
    await tx.execute(
        "DELETE FROM sign_in_states WHERE session_hash IN"
        " (SELECT session_hash FROM sessions WHERE person_id = :person)",
        args,
    )
    await tx.execute("DELETE FROM sessions WHERE person_id = :person", args)
    await tx.execute("DELETE FROM invitations WHERE person_id = :person", args)
    await tx.execute("DELETE FROM password_resets WHERE person_id = :person", args)
    await tx.execute(
        "DELETE FROM login_attempts WHERE kind IN ('email', 'reset_email') AND key_hash = :key", args
    )
    await failed_sign_ins.forget_person(tx, str(person), attempts_key)


async def anonymize_account(tx: Tx, person: PersonId) -> None:
    """Removes everything from the account that identifies the person, except its id."""
    first, _, last = FORMER_MEMBER.rpartition(" ")
    await tx.execute(
        "UPDATE people SET email = :email, email_norm = :email, username = :name, first_name = :first,"
        " last_name = :last, active = :off, unclaimed = :off, password_hash = NULL,"
        " password_changed_at = NULL WHERE person_id = :person",
        {
            "person": person,
            "email": _address(person),
            "name": FORMER_MEMBER,
            "first": first,
            "last": last,
            "off": False,
        },
    )


async def anonymize_member(
    tx: Tx, org: OrgId, person: PersonId, *, email_norm: str, names: list[str]
) -> None:
    """Ends a membership; removes `names` and the address from it and from texts that members wrote."""
    first, _, last = FORMER_MEMBER.rpartition(" ")
    args: dict[str, object] = {"org": org, "person": person}
    await tx.execute(
        "UPDATE members SET active = :off, account_active = :off, email_norm = :email,"
        " username_norm = :name, first_name = :first, last_name = :last, last_seen_at = NULL"
        " WHERE org_id = :org AND person_id = :person",
        {
            **args,
            "off": False,
            "email": _address(person),
            "name": FORMER_MEMBER.casefold(),
            "first": first,
            "last": last,
        },
    )
    await tx.execute(
        "UPDATE approvals SET session_hash = NULL WHERE org_id = :org AND decided_by = :person", args
    )
    for table in ("inbox", "messages", "notification_preferences"):
        await tx.execute(f"DELETE FROM {table} WHERE org_id = :org AND person_id = :person", args)
    for name in names:
        for table, column in _TEXTS:
            await _replace(tx, org, table, column, name, max_characters=500)
        within_json = json.dumps(name, ensure_ascii=False)[1:-1]
        await _replace(tx, org, "automation_history", "fields", within_json, max_characters=1_000_000)
    await tx.execute(
        "UPDATE connections SET account_label = NULL WHERE org_id = :org AND lower(account_label) = :email",
        {"org": org, "email": email_norm},
    )


async def _replace(tx: Tx, org: OrgId, table: str, column: str, name: str, *, max_characters: int) -> None:
    """Replaces the name in a column by FORMER_MEMBER, cut to the column's maximum length."""
    await tx.execute(
        f"UPDATE {table} SET {column} = substr(replace({column}, :name, :former), 1, :most)"
        f" WHERE org_id = :org AND {column} <> replace({column}, :name, :former)",
        {"org": org, "name": name, "former": FORMER_MEMBER, "most": max_characters},
    )


async def anonymize_organization(tx: Tx, org: OrgId, name: str, name_norm: str) -> None:
    """Replaces the name of an organization, in its own row and in the directory, and resets its time zone."""
    args = {"org": org, "name": name, "norm": name_norm}
    await tx.execute("UPDATE dir_orgs SET name = :name, name_norm = :norm WHERE org_id = :org", args)
    await tx.execute("UPDATE organizations SET name = :name, zone = 'UTC' WHERE org_id = :org", args)


def _address(person: PersonId) -> str:
    """Returns an address that receives no mail and that nobody else can have."""
    return f"former-member-{person}@erased.invalid"
