"""Tests the systemd units: valid, confined, and naming only commands and settings that exist."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from steward.cli.env_file import read_env_file
from steward.cli.table import commands
from steward.config import read

UNITS = Path(__file__).resolve().parents[2] / "deploy/systemd"
SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
PROGRAM = "/opt/steward/bin/steward"
MAX_EXPOSURE = 20  # in tenths

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="SKIPPED LOUDLY: systemd-analyze is not here"
)


def analyze(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs systemd-analyze in a folder."""
    return subprocess.run(
        ["systemd-analyze", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def test_there_are_units_for_every_way_to_run() -> None:
    """Has units for SQLite, its backups, and web and workers on PostgreSQL."""
    assert SERVICES == [
        "steward-backup.service",
        "steward-web.service",
        "steward-worker@.service",
        "steward.service",
    ]


def test_units_are_sound(tmp_path: Path) -> None:
    """Passes `systemd-analyze verify` without a message, also for an instance of the template."""
    for path in UNITS.glob("steward*.*"):
        name = path.name.replace("@.", "@1.")
        # The program is not installed where tests run, and verify requires one that exists.
        (tmp_path / name).write_text(path.read_text().replace(PROGRAM, "/bin/true"))
    names = [path.name for path in tmp_path.glob("*.service")] + ["steward-backup.timer"]
    verified = analyze("verify", *(f"./{name}" for name in names), folder=tmp_path)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", SERVICES)
def test_units_are_walled_in(unit: str) -> None:
    """Has an exposure of at most 2.0 of 10, as systemd computes it."""
    judged = analyze(
        "security", "--offline=true", f"--threshold={MAX_EXPOSURE}", "--no-pager", f"./{unit}", folder=UNITS
    )
    assert judged.returncode == 0, judged.stdout[-400:]


@pytest.mark.parametrize("unit", SERVICES)
def test_units_call_commands_that_exist(unit: str) -> None:
    """Calls only commands and options of the command line."""
    calls = re.findall(rf"{PROGRAM} ([a-z]+)((?: --[a-z-]+)*)", (UNITS / unit).read_text())
    assert calls
    for word, options in calls:
        (command,) = [command for command in commands(word) if command.name == word]
        names = {name for argument in command.arguments for name in argument.names}
        assert set(options.split()) <= {*names, "--env-file"}


def test_units_and_the_sample_name_settings_that_exist(tmp_path: Path) -> None:
    """Gives settings that Steward starts with, together with the sample file."""
    sample = read_env_file(UNITS / "steward.env.example")
    key = tmp_path / "master.keys"
    key.write_text("local:" + "A" * 43 + "=\n")
    for unit in SERVICES:
        lines = re.findall(r"^Environment=(\w+)=(.+)$", (UNITS / unit).read_text(), re.M)
        variables = {name: value.replace("%S", "/var/lib").replace("%i", "1") for name, value in lines}
        assert variables.pop("STEWARD_MASTER_KEYS_FILE") == "%d/master.keys"
        settings = read({**sample, **variables, "STEWARD_MASTER_KEYS_FILE": str(key)})
        assert str(settings.data_dir) == "/var/lib/steward"
