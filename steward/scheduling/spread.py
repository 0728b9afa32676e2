"""The fixed offset of an automation's slots; `automations/setup.py` computes and stores it."""

from hashlib import sha256


def spread_minutes(automation_id: str, spread_max: int) -> int:
    """Returns the minutes, 0 to `spread_max`, to add to every slot of the automation.

    They depend only on the id, so that they are the same every day and evenly spread over automations.
    """
    first = sha256(automation_id.encode("ascii")).digest()[:8]
    return int.from_bytes(first, "big") % (spread_max + 1)
