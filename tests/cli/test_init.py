"""`steward init`: creates what is missing, once, and prints one set-up link."""

import io
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from steward.cli.env_file import read_env_file
from steward.cli.run import run
from tests.cli.test_operator import CommandOutput, Steward, steward
from tests.processes.ports import free_port

__all__ = ["steward"]
OWNER = ("--org", "My Shop", "--timezone", "Europe/Berlin", "--email", "owner@example.com")


def init_in(folder: Path, *words: str, **environ: str) -> CommandOutput:
    """Runs `steward init` with `folder` as the data folder and an otherwise empty environment."""
    return init("--data-dir", str(folder), *words, **environ)


def init(*words: str, **environ: str) -> CommandOutput:
    """Runs `steward init` in an otherwise empty environment."""
    out, err = io.StringIO(), io.StringIO()
    status = run(["init", *words, "--json"], environ, out=out, err=err)
    return CommandOutput(status, out.getvalue(), err.getvalue())


def token_of(output: CommandOutput) -> str:
    """Returns the token of the printed link."""
    url: str = output.facts["setup_url"]
    return url.partition("/invitation#token=")[2]


def test_init_makes_settings_key_schema_organization_and_link(tmp_path: Path) -> None:
    """Writes private files with the given answers, which suffice for the other commands."""
    folder = tmp_path / "data"
    done = init_in(folder, "--yes", *OWNER, "--base-url", "https://auto.example")
    assert done.status == 0, done.out
    settings_file = folder / "steward.env"
    assert read_env_file(settings_file) == {
        "STEWARD_DATA_DIR": str(folder),
        "STEWARD_BASE_URL": "https://auto.example",
        "STEWARD_DATABASE_URL": f"sqlite:///{folder}/steward.db",
        "STEWARD_MASTER_KEYS_FILE": str(folder / "master.keys"),
    }
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir() if file.is_file()}
    assert set(modes.values()) == {0o600}
    assert done.facts["organization"]["name"] == "My Shop"
    assert done.facts["setup_url"].startswith("https://auto.example/invitation#token=")
    assert len(token_of(done)) == 43
    checked = io.StringIO()
    assert run(["migrate", "--check", "--env-file", str(settings_file)], {}, out=checked, err=checked) == 0


def test_a_second_init_changes_nothing_and_again_gives_a_new_link(tmp_path: Path) -> None:
    """Never overwrites files; `--again` prints a new link that replaces the old one."""
    folder = tmp_path / "data"
    first = init_in(folder, "--yes", *OWNER)
    before = {name: (folder / name).read_bytes() for name in ("steward.env", "master.keys")}
    second = init_in(folder, "--yes", *OWNER, "--base-url", "https://other.example")
    assert second.refused == (1, "wrong_state")
    again = init_in(folder, "--again", "--org", "My Shop")
    assert again.status == 0, again.out
    assert again.facts["email"] == "owner@example.com"
    assert token_of(again) != token_of(first)
    assert {name: (folder / name).read_bytes() for name in before} == before
    other = init_in(folder, "--again", "--org", "My Shop", "--email", "other@example.com")
    assert other.facts["email"] == "other@example.com"
    named = init("--again", "--org", "My Shop", "--env-file", f"{folder}/steward.env")
    assert named.facts["settings_file"] == f"{folder}/steward.env"
    assert init_in(tmp_path / "absent", "--again", "--org", "My Shop").refused == (1, "not_found")
    assert not (tmp_path / "absent").exists()


def test_init_uses_a_file_of_settings_in_another_folder(tmp_path: Path) -> None:
    """Writes no settings, makes the master key in the data folder of the file, and says so."""
    file = tmp_path / "conf" / "dev.env"
    file.parent.mkdir()
    content = (
        f"STEWARD_ENV=demo\nSTEWARD_DATA_DIR={tmp_path}/data\n"
        f"STEWARD_DATABASE_URL=sqlite:///{tmp_path}/data/steward.db\n"
    )
    file.write_text(content)
    done = init("--yes", *OWNER, "--env-file", str(file))
    assert done.status == 0, done.out
    assert done.facts["settings_file"] == str(file)
    assert done.facts["master_keys"] == f"{tmp_path}/data/master.keys"
    assert Path(done.facts["master_keys"]).is_file()
    assert file.read_text() == content
    assert [path.name for path in file.parent.iterdir()] == ["dev.env"]


@pytest.mark.parametrize("option", ["--data-dir", "--base-url", "--database-url-file"])
def test_what_a_file_of_settings_gives_is_no_option(tmp_path: Path, option: str) -> None:
    """Refuses options that only new settings take; nothing is made."""
    file = tmp_path / "dev.env"
    file.write_text(f"STEWARD_ENV=demo\nSTEWARD_DATABASE_URL=sqlite:///{tmp_path}/steward.db\n")
    done = init("--yes", *OWNER, "--env-file", str(file), option, f"{tmp_path}/x")
    assert done.refused == (2, "usage")
    assert f"leave out {option}:" in done.facts["error"]["message"]
    assert [path.name for path in tmp_path.iterdir()] == ["dev.env"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--yes", *OWNER[:-2]), "usage"),
        (("--yes", *OWNER[2:]), "usage"),
        (("--again",), "usage"),
        ((), "usage"),
        (("--yes", *OWNER, "--base-url", "http://auto.example"), "settings"),
        (("--yes", *OWNER[:3], "Europe/Nowhere", *OWNER[4:]), "validation_failed"),
        (("--yes", *OWNER[:5], "no address"), "validation_failed"),
    ],
)
def test_a_refused_init_can_be_run_again(tmp_path: Path, words: tuple[str, ...], code: str) -> None:
    """Sets the installation up by a second call after any refused one."""
    folder = tmp_path / "data"
    done = init_in(folder, *words)
    assert done.status in (1, 2)
    assert done.facts["error"]["code"] == code
    assert init_in(folder, "--yes", *OWNER).status == 0


def test_a_database_that_does_not_respond_is_not_kept(tmp_path: Path) -> None:
    """Writes nothing while the database named in the answers cannot be reached."""
    folder, address = tmp_path / "data", tmp_path / "address"
    address.write_text(f"postgresql://steward:x@127.0.0.1:{free_port()}/steward")
    done = init_in(folder, "--yes", *OWNER, "--database-url-file", str(address))
    assert done.refused == (1, "unavailable")
    assert not folder.exists()


@pytest.mark.parametrize("stored_keys", [("master.keys",), ("master.keys", "steward.env")])
def test_init_continues_after_a_kill(tmp_path: Path, stored_keys: tuple[str, ...]) -> None:
    """Uses the files that a killed process left, above all the master key."""
    folder = tmp_path / "data"
    init_in(folder, "--yes", *OWNER)
    before = {name: (folder / name).read_bytes() for name in stored_keys}
    for file in folder.iterdir():
        if file.name not in stored_keys:
            file.unlink()
    done = init_in(folder, "--yes", *OWNER)
    assert done.status == 0, done.out
    assert {name: (folder / name).read_bytes() for name in stored_keys} == before


def test_init_leaves_what_the_environment_sets_to_it(steward: Steward) -> None:
    """Uses a database that the environment names and writes it to no file."""
    done = steward("init", "--yes", *OWNER)
    assert done.status == 0, done.out
    assert "STEWARD_DATABASE_URL" not in Path(done.facts["settings_file"]).read_text()
    assert Path(done.facts["master_keys"]).is_file()
    assert [organization["name"] for organization in steward("org", "list").facts["organizations"]] == [
        "My Shop"
    ]
    again = steward("init", "--again", "--org", "My Shop")
    assert token_of(again) != token_of(done)


def test_an_organization_with_an_owner_gets_no_set_up_link(steward: Steward) -> None:
    """Refuses a set-up link for an organization that has an owner, also a deactivated one."""
    steward("org", "create", "--name", "My Shop")
    nobody = steward("init", "--again", "--org", "My Shop")
    assert nobody.refused == (1, "validation_failed")
    names = ["--first-name", "Olga", "--last-name", "Owner", "--no-password"]
    steward("user", "create", "--email", "o@example.com", *names, "--org", "My Shop", "--role", "owner")
    assert steward("init", "--again", "--org", "My Shop", "--email", "x@example.com").refused == (
        1,
        "wrong_state",
    )
    steward("user", "deactivate", "--user", "o@example.com")
    assert steward("init", "--again", "--org", "My Shop", "--email", "x@example.com").refused == (
        1,
        "wrong_state",
    )


def test_questions_are_asked_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the default for an empty line and repeats a question that has none."""
    ours, theirs = os.openpty()
    folder = tmp_path / "data"
    answers = ["", "sqlite", "", "My Shop", "Europe/Berlin", "owner@example.com", "", ""]
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode())
    with open(theirs, closefd=True) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        done = init_in(folder)
    os.close(ours)
    assert done.status == 0, done.out
    assert json.loads(done.out)["organization"]["name"] == "My Shop"
    assert read_env_file(folder / "steward.env")["STEWARD_BASE_URL"] == "http://127.0.0.1:8400"
