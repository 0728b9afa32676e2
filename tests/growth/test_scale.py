"""Tests `make scale`: it measures a real database, and the operators' guide keeps the form that it prints."""

import re

import pytest

from bench import scale
from bench.scale import Decade
from tests.source import ROOT

GUIDE = (ROOT / "docs/guides/operators.md").read_text("utf-8")


def guide_section() -> str:
    """Returns the guide's section on what growth costs."""
    return GUIDE.partition("\n## What growth costs\n")[2].partition("\n## ")[0]


async def test_a_decade_is_measured_on_a_real_database(postgresql_url: str) -> None:
    """Measures 1,000 schedules: each figure is of work that was done."""
    decade = await scale.measure(postgresql_url, 1_000)
    assert decade.count == 1_000
    assert 500 < decade.bytes_each < 5_000
    assert all(of(decade) > 0 for _, of, _ in scale.ROWS)


@pytest.mark.parametrize(("most", "last"), [(1_000, 1_000), (9_999, 1_000), (10_000, 10_000)])
def test_decades_end_at_the_most(most: int, last: int) -> None:
    """Begins at 1,000 schedules and ends at the last tenfold that is not over the most."""
    assert scale.counts(most)[0] == 1_000
    assert scale.counts(most)[-1] == last


def test_bars_are_relative_to_the_largest_of_their_figure() -> None:
    """Draws the largest value of a figure at full width, half of it at half, and the smallest as one mark."""
    decades = [Decade(1_000, 2.0, 10, 1, 1, 1, 1), Decade(10_000, 1.0, 0.001, 1, 1, 1, 1)]
    bars = [len(re.findall("█", line)) for line in scale.drawing(decades).splitlines() if "█" in line]
    assert bars[:4] == [scale.BAR, scale.BAR // 2, scale.BAR, 1]
    assert "| Schedules | 1,000 | 10,000 |" in scale.table(decades)


def test_the_guide_has_the_figures_that_are_measured() -> None:
    """Has a row and bars of each figure for the same decades, and bars of the widths that its values give."""
    section = guide_section()
    rows = re.findall(r"^\| ([^|]+) \| (.+) \|$", section, re.M)
    [(_, header), *figures] = [(name, cells) for name, cells in rows if name != "-"]
    columns = [[float(cell.replace(",", "")) for cell in cells.split(" | ")] for _, cells in figures]
    assert [name for name, _ in figures] == [name for name, _, _ in scale.ROWS]
    for (name, _), values in zip(figures, columns, strict=True):
        drawn = section.partition("```text\n")[2].partition(f"{name}\n")[2].splitlines()[: len(values)]
        assert [line.split()[0] for line in drawn] == header.split(" | ")
        for value, line in zip(values, drawn, strict=True):
            assert float(line.split()[2].replace(",", "")) == value
            # Drawn before the value was rounded for print.
            assert abs(line.count("█") - value / max(values) * scale.BAR) <= scale.BAR / 8, line
