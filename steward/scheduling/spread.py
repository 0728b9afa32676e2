"""The fixed offset of an automation's slots; `automations/setup.py` computes and stores it."""

from hashlib import sha256


def spread_minutes(automation_id: str, spread_max: int) -> int:
    """Minutes 0 to `spread_max` added to every slot of the automation.

    From the id alone, so that it is the same every day and spread evenly over automations.
    """
    first = sha256(automation_id.encode("ascii")).digest()[:8]
    return int.from_bytes(first, "big") % (spread_max + 1)
