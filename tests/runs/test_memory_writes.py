"""Tests what a checkpoint makes an automation remember, against writing one value after the other."""

from functools import partial
from random import Random
from typing import Any

import pytest

from steward.database.automations import memory
from steward.database.runs import memory_log
from steward.model.json import JsonValue
from steward.runs import checkpoint
from steward.steps.base import MemoryWrite
from tests.runs.shop import Shop
from tests.runs.test_checkpoints import claim_runs, new_checkpoint

SPACES = ("prices", "seen")
Key = tuple[str, str]


class PlainMemory:
    """The memory of an automation and what each change replaced, as plain dicts."""

    def __init__(self) -> None:
        """Begins with nothing remembered."""
        self.values: dict[Key, JsonValue] = {}
        self.replaced: dict[tuple[str, int, Key], tuple[JsonValue, JsonValue]] = {}

    def write(self, step: str, write: MemoryWrite) -> None:
        """Writes one value."""
        key = (write.space, write.key)
        before = self.values.get(key)
        if write.is_guarded and before != write.over:
            return
        if write.position is not None:
            first, _ = self.replaced.get((step, write.position, key), (before, None))
            self.replaced[step, write.position, key] = first, write.value
        self.values[key] = write.value


def random_write(random: Random) -> MemoryWrite:
    """Draws a write of few keys and values, so that many meet."""
    values: list[Any] = [None, 1, "sold out", {"price": "12.90"}, ["a", None]]
    position = random.choice([None, *range(4)])
    guard = {"is_guarded": True, "over": random.choice(values)} if random.random() < 0.3 else {}
    name = f"product {random.randrange(12)} 'é'"
    return MemoryWrite(random.choice(SPACES), name, random.choice(values), position, **guard)


@pytest.mark.parametrize("seed", range(2))
async def test_values_written_together_equal_values_written_in_turn(shop: Shop, seed: int) -> None:
    """Leaves the same memory and the same replaced values as one write after the other.

    See docs/design/undo.md.
    """
    random, model = Random(seed), PlainMemory()
    [run], [lease] = await claim_runs(shop, 1)
    for seq, count in enumerate((40, 1, 600), start=1):
        writes = [random_write(random) for _ in range(count)]
        step = "act" if seq > 1 else "look"  # the second and third write the same step's log
        written = new_checkpoint(shop, lease, seq=seq, name=step)._replace(
            automation=run.automation_id, memory=writes
        )
        await checkpoint.commit(shop.engine, shop.clock.now(), written)
        for write in writes:
            model.write(step, write)
    for space in SPACES:
        stored = await shop.read(
            partial(memory.of_space, org=lease.org, automation=run.automation_id, space=space)
        )
        expected = {name: value for (in_space, name), value in model.values.items() if in_space == space}
        assert stored == {name: value for name, value in expected.items() if value is not None}
    log = await shop.read(partial(memory_log.of_run, org=lease.org, run=run.id))
    assert {
        (step, position, (value.space, value.key)): (value.before, value.after)
        for (step, _, position), values in log.items()
        for value in values
    } == model.replaced


async def test_more_values_than_one_statement_takes_are_all_remembered(shop: Shop) -> None:
    """Remembers 600 values of as many keys, and forgets every second of them in the next step.

    See docs/design/undo.md.
    """
    [run], [lease] = await claim_runs(shop, 1)
    for seq, step_size in enumerate((1, 2), start=1):
        writes = [
            MemoryWrite("prices", f"product {number}", number if seq == 1 else None, number)
            for number in range(0, 600, step_size)
        ]
        written = new_checkpoint(shop, lease, seq=seq, name=f"step-{seq}")
        await checkpoint.commit(
            shop.engine, shop.clock.now(), written._replace(automation=run.automation_id, memory=writes)
        )
    stored = await shop.read(
        partial(memory.of_space, org=lease.org, automation=run.automation_id, space="prices")
    )
    assert stored == {f"product {number}": number for number in range(1, 600, 2)}
    log = await shop.read(partial(memory_log.of_run, org=lease.org, run=run.id))
    assert len(log) == 900
