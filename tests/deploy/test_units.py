"""The systemd units: sound, walled in, and naming only what the command line and the settings have."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from steward.cli.command import read_env_file
from steward.cli.table import commands
from steward.config import read

UNITS = Path(__file__).resolve().parents[2] / "deploy/systemd"
SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
PROGRAM = "/opt/steward/bin/steward"
MAX_EXPOSURE = 20  # tenths, of 100

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="SKIPPED LOUDLY: systemd-analyze is not here"
)


def analyze(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """One use of systemd-analyze in a folder."""
    return subprocess.run(
        ["systemd-analyze", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def test_there_are_units_for_every_way_to_run() -> None:
    """SQLite, and web and workers on PostgreSQL; copies of SQLite."""
    assert SERVICES == [
        "steward-backup.service",
        "steward-web.service",
        "steward-worker@.service",
        "steward.service",
    ]


def test_units_are_sound(tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say, of an instance of the template too."""
    for path in UNITS.glob("steward*.*"):
        name = path.name.replace("@.", "@1.")
        # The program is not installed where tests run; verify asks for one that exists.
        (tmp_path / name).write_text(path.read_text().replace(PROGRAM, "/bin/true"))
    names = [path.name for path in tmp_path.glob("*.service")] + ["steward-backup.timer"]
    verified = analyze("verify", *(f"./{name}" for name in names), folder=tmp_path)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", SERVICES)
def test_units_are_walled_in(unit: str) -> None:
    """Exposure as systemd reckons it is 2.0 of 10 at most."""
    judged = analyze(
        "security", "--offline=true", f"--threshold={MAX_EXPOSURE}", "--no-pager", f"./{unit}", folder=UNITS
    )
    assert judged.returncode == 0, judged.stdout[-400:]


@pytest.mark.parametrize("unit", SERVICES)
def test_units_call_commands_that_exist(unit: str) -> None:
    """Each command and option of a unit is one of the command line's."""
    calls = re.findall(rf"{PROGRAM} ([a-z]+)((?: --[a-z-]+)*)", (UNITS / unit).read_text())
    assert calls
    for word, options in calls:
        (command,) = [command for command in commands(word) if command.name == word]
        names = {name for argument in command.arguments for name in argument.names}
        assert set(options.split()) <= {*names, "--env-file"}


def test_units_and_the_sample_name_settings_that_exist(tmp_path: Path) -> None:
    """The environment of the units, with the sample file, is one that Steward starts with."""
    sample = read_env_file(UNITS / "steward.env.example")
    key = tmp_path / "master.keys"
    key.write_text("local:" + "A" * 43 + "=\n")
    for unit in SERVICES:
        lines = re.findall(r"^Environment=(\w+)=(.+)$", (UNITS / unit).read_text(), re.M)
        variables = {name: value.replace("%S", "/var/lib").replace("%i", "1") for name, value in lines}
        assert variables.pop("STEWARD_MASTER_KEYS_FILE") == "%d/master.keys"
        settings = read({**sample, **variables, "STEWARD_MASTER_KEYS_FILE": str(key)})
        assert str(settings.data_dir) == "/var/lib/steward"
