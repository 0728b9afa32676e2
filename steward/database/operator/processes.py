"""Rows of API processes without a worker, and the releases of all running processes."""

from steward.database.engine.base import Tx

_RUNNING = (
    "SELECT 'worker' AS kind, name, version FROM workers"
    " WHERE state IN ('alive', 'stopping') AND lease_until >= {now}"
    " UNION ALL SELECT 'API process', name, version FROM api_processes WHERE lease_until >= {now}"
)


async def announce(tx: Tx, name: str, *, version: str, lease_ms: int) -> None:
    """Inserts or extends the row of an API process."""
    await tx.execute(
        "INSERT INTO api_processes (name, version, lease_until) VALUES (:name, :version, {now} + :lease)"
        " ON CONFLICT (name) DO UPDATE SET version = excluded.version, lease_until = excluded.lease_until",
        {"name": name, "version": version, "lease": lease_ms},
    )


async def withdraw(tx: Tx, name: str) -> None:
    """Deletes the row of an API process that is ending."""
    await tx.execute("DELETE FROM api_processes WHERE name = :name", {"name": name})


async def remove_expired(tx: Tx) -> int:
    """Deletes rows that were not extended for a day. Returns their number."""
    return await tx.execute("DELETE FROM api_processes WHERE lease_until < {now} - 86400000")


async def api_releases(tx: Tx) -> list[str]:
    """Returns the release of each running API process without a worker."""
    rows = await tx.all("SELECT version FROM api_processes WHERE lease_until >= {now} ORDER BY version")
    return [row["version"] for row in rows]


async def of_other_releases(tx: Tx, release: str) -> list[str]:
    """Describes each running process of another release: its kind, its host and its release."""
    rows = await tx.all(
        f"SELECT DISTINCT kind, name, version FROM ({_RUNNING}) AS living WHERE version <> :release"
        " ORDER BY kind, name",
        {"release": release},
    )
    return [f"{row['kind']} on {row['name'].partition('|')[0]} ({row['version']})" for row in rows]
