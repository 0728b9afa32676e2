"""`steward demo` touches no folder that holds anything but a demo, least of all an installation."""

import io
from pathlib import Path

import pytest

from steward.cli.run import run
from tests.cli.test_operator import CommandOutput
from tests.processes.ports import free_port

_DEMO_FILES = (".steward-demo", "demo.json")


def demo_in(folder: Path, *words: str) -> CommandOutput:
    """Runs `steward demo` where it is refused before it serves anything."""
    out, err = io.StringIO(), io.StringIO()
    line = ["demo", "--dir", str(folder), "--port", str(free_port(2)), *words, "--json"]
    return CommandOutput(run(line, {}, out=out, err=err), out.getvalue(), err.getvalue())


def files_of(folder: Path) -> dict[str, bytes]:
    """Returns the content of each file in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("words", [(), ("--reset",)])
def test_an_installation_is_kept(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Refuses a folder with a database and master keys, and changes nothing there."""
    folder = tmp_path / "data"
    environ = {
        "STEWARD_ENV": "demo",
        "STEWARD_DATA_DIR": str(folder),
        "STEWARD_DATABASE_URL": f"sqlite:///{folder}/steward.db",
    }
    for line in (["migrate"], ["org", "create", "--name", "My Shop"]):
        assert run(line, environ, out=io.StringIO(), err=io.StringIO()) == 0
    before = files_of(folder)
    assert {"steward.db", "master.keys"} <= set(before)
    done = demo_in(folder, *words)
    assert done.refused == (1, "cannot_serve")
    assert "--dir" in done.facts["error"]["message"]
    assert files_of(folder) == before


@pytest.mark.parametrize("demo_file", _DEMO_FILES)
@pytest.mark.parametrize("name", ["steward.db.before-20260501", "master.keys.bak", "letter.txt"])
def test_a_demo_with_other_files_is_kept(tmp_path: Path, demo_file: str, name: str) -> None:
    """Names the files that are not the demo's and deletes nothing."""
    (tmp_path / demo_file).write_text("{}")
    (tmp_path / name).write_text("dear")
    before = files_of(tmp_path)
    done = demo_in(tmp_path, "--reset")
    assert done.refused == (1, "cannot_serve")
    assert name in done.facts["error"]["message"]
    assert files_of(tmp_path) == before
