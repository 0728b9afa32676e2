"""keys: new master keys and signing keys (contract 7); leaves making them to accounts/ and security/."""

import base64
import secrets

from steward.accounts import keys
from steward.cli.command import Asked, Command, Facts, desk
from steward.model.ids import new_id
from steward.model.instants import wire_time
from steward.security.envelope import KEY_BYTES


async def new(asked: Asked) -> Facts:
    """A new key for STEWARD_MASTER_KEYS; changes nothing."""
    name = f"k{new_id(asked.now())[:10].lower()}"
    key = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode("ascii")
    return {"key": f"{name}:{key}"}


async def rotate_signing(asked: Asked) -> Facts:
    """A new signing key; the older ones verify until their last token has expired."""
    async with desk(asked) as open_desk:
        await open_desk.ring()
        rotated = await open_desk.write(lambda tx: keys.rotate_signing(tx, open_desk.masters))
    return {
        "kid": rotated.kid,
        "retired": list(rotated.retired),
        "retires_at": wire_time(rotated.retires_at),
    }


COMMANDS = [
    Command("keys new", "print a new key for STEWARD_MASTER_KEYS", new),
    Command("keys rotate signing", "make a new key for signing tokens", rotate_signing),
]
