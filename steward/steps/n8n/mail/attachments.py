"""Attaches the item's files that a step names to a message."""

import re

from steward.outbound.mail_message import MailAttachment
from steward.steps.n8n import item_files
from steward.steps.workflow.step_types import ItemFailed, StepCall, is_expression

# Files are part of the proposal, so that exactly what was approved is sent (docs/design/files.md#formats).
_ATTACHED_BYTES = 1536 * 1024
_MAX_ATTACHMENTS = 50


def names_in(text: str) -> list[str]:
    """Splits a comma-separated list of names; leaves an expression whole."""
    if is_expression(text):
        return [text] if text != "=" else []
    return [name for name in re.split(r"\s*,\s*", text.strip()) if name]


async def attached_files(call: StepCall, index: int, names: list[str]) -> list[MailAttachment]:
    """Returns the item's files in these fields. Raises ItemFailed."""
    if len(names) > _MAX_ATTACHMENTS:
        raise ItemFailed(f"A message has at most {_MAX_ATTACHMENTS} files.")
    files = [item_files.file_of(call.items[index], name) for name in names]
    if sum(file.size for file in files) > _ATTACHED_BYTES:
        raise ItemFailed("The files are larger than 1.5 MiB together, the most that a message carries here.")
    return [
        MailAttachment(file.file_name or name, file.mime_type, await item_files.content_of(call, file))
        for name, file in zip(names, files, strict=True)
    ]
