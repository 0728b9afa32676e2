"""audit: verifies, exports and anchors the audit logs (docs/design/audit.md)."""

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from steward.accounts import audit, audit_check, organizations
from steward.accounts.audit import Export
from steward.accounts.audit_check import Anchor
from steward.cli.command import (
    ORGANIZATION,
    CliArgs,
    Command,
    CommandContext,
    CommandFailed,
    Facts,
    WrongUsage,
    open_context,
    option,
)
from steward.database.accounts import audit_heads
from steward.database.accounts import organizations as organization_rows
from steward.database.accounts.audit_heads import AuditHead
from steward.database.engine.base import Tx
from steward.database.engine.private_files import open_to_write
from steward.model.audit import ChainCheck, Fault
from steward.model.ids import OrgId
from steward.model.instants import wire_time

_ORG = option("--org", metavar="ID|NAME", help="an organization's id or exact name; all when left out")
_WORDS = {
    "altered": "was altered",
    "missing": "is missing",
    "doubled": "occurs twice",
    "order": "is out of order",
    "head": "is not the last entry that the log's head records",
    "anchor": "does not match the anchor",
}


async def verify(args: CliArgs) -> Facts:
    """Verifies each chain from its first entry, or an export; fails with the first wrong entry."""
    anchor = _anchor(args.options.anchor)
    if args.options.file is not None:
        if args.options.org is not None:
            raise WrongUsage("Give --org or --file, not both.")
        return await asyncio.to_thread(_verify_file, Path(args.options.file), anchor)
    if anchor is not None and args.options.org is None:
        raise WrongUsage("Give --org with --anchor: an anchor belongs to one organization.")
    logs = []
    async with open_context(args) as context:
        for org in await _orgs(context, args.options.org):
            entries, fault = await _verify_log(context, org, anchor)
            logs.append({"organization": org, "entries": entries, **_fault(fault)})
    return _result({"logs": logs}, [log for log in logs if "wrong" in log])


async def head(args: CliArgs) -> Facts:
    """Returns the last entry of each log; stored elsewhere, it later shows whether a log was rebuilt."""
    heads = []
    async with open_context(args) as context:
        for org in await _orgs(context, args.options.org):
            end = await context.write(partial(audit_heads.get, org=org), org)
            if end is not None:
                facts = {"organization": org, "seq": end.seq, "hash": end.hash, "at": wire_time(end.at)}
                heads.append({**facts, "anchor": f"{end.seq}:{end.hash}"})
    return {"heads": heads}


async def export(args: CliArgs) -> Facts:
    """Exports a whole log to a new file that only its owner can read; the log records the export."""
    options, target = args.options, Path(args.options.to)
    if await asyncio.to_thread(target.exists):
        raise CommandFailed("exists", f"{target} exists already. Name another file.")
    async with open_context(args) as context:
        [org] = await _orgs(context, options.org)
        last = await context.write(partial(audit.record_export, org=org, actor=None), org)
        making = Export(org, options.format, 1, last)
        with open_to_write(target) as out:
            out.write(making.opening())
            while not making.is_done:
                out.writelines(await context.engine.read(args.now(), making.batch, org=org))
            out.write(await context.engine.read(args.now(), making.closing, org=org))
    return {"file": str(target), "organization": org, "entries": last}


async def _verify_log(context: CommandContext, org: OrgId, anchor: Anchor | None) -> tuple[int, Fault | None]:
    """Reads a chain in batches, each in its own transaction; the service may write in the meantime."""
    check = ChainCheck()

    async def batch(tx: Tx) -> tuple[AuditHead | None, Fault | None, bool]:
        end = await audit_heads.get(tx, org)
        if end is None:
            return None, Fault(1, "head"), True
        limit = audit_check.OPERATOR_BATCH
        fault, is_at_end = await audit_check.check_batch(tx, org, check, end, limit=limit)
        return end, fault, is_at_end

    async def anchored(tx: Tx) -> bool:
        assert anchor is not None
        return await audit.is_anchored(tx, org, seq=anchor.seq, entry_hash=anchor.hash)

    is_at_end = False
    while not is_at_end:
        _, fault, is_at_end = await context.engine.read(context.args.now(), batch, org=org)
        if fault is not None:
            return check.seq, fault
    if anchor is not None and not await context.engine.read(context.args.now(), anchored, org=org):
        return check.seq, Fault(anchor.seq, "anchor")
    return check.seq, None


def _verify_file(file: Path, anchor: Anchor | None) -> Facts:
    try:
        with file.open(encoding="utf-8") as lines:
            entries, fault = audit_check.check_export(_not_empty(lines), anchor)
    except ValueError as error:
        raise CommandFailed("not_an_export", f"{file} is not an NDJSON export: {error}.") from error
    facts = {"file": str(file), "last": entries, **_fault(fault)}
    return _result(facts, [facts] if fault else [])


def _not_empty(lines: Iterable[str]) -> Iterable[str]:
    return (line for line in lines if line.strip())


def _result(facts: Facts, broken: list[dict[str, object]]) -> Facts:
    if broken:
        named = " ".join(str(log["words"]) for log in broken)
        raise CommandFailed("audit_broken", named, facts)
    return facts


def _fault(fault: Fault | None) -> dict[str, object]:
    if fault is None:
        return {}
    return {"wrong": fault.seq, "how": fault.how, "words": f"Entry {fault.seq} {_WORDS[fault.how]}."}


def _anchor(text: str | None) -> Anchor | None:
    if text is None:
        return None
    seq, _, entry_hash = text.partition(":")
    if not seq.isdigit() or len(entry_hash) != 64:
        raise WrongUsage("Give --anchor as SEQ:HASH, as `steward audit head` prints it.")
    return Anchor(int(seq), entry_hash)


async def _orgs(context: CommandContext, name: str | None) -> list[OrgId]:
    if name is None:
        return await context.write(organization_rows.every)
    return [await context.write(partial(organizations.resolve, id_or_name=name))]


COMMANDS = [
    Command(
        "audit verify",
        verify,
        (
            _ORG,
            option("--file", metavar="EXPORT", help="check an NDJSON export instead of the database"),
            option("--anchor", metavar="SEQ:HASH", help="an end of the log that was kept elsewhere"),
        ),
    ),
    Command(
        "audit export",
        export,
        (
            ORGANIZATION,
            option("--to", required=True, metavar="FILE", help="where to write"),
            option("--format", choices=("ndjson", "csv"), default="ndjson", help="ndjson can be verified"),
        ),
    ),
    Command("audit head", head, (_ORG,)),
]
