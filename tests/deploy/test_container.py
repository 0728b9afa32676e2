"""Tests the files of the image and of compose: confined, and naming only what Steward has."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from steward.cli.table import commands
from steward.config import read
from tests.source import ROOT

CONTAINER = ROOT / "deploy/container"
COMPOSE = ROOT / "deploy/compose"
FILES = ("compose.yaml", "compose.sqlite.yaml")
# A container's start calls these to give up root; systemd does so before its filter is set.
OF_THE_START = {"capset", "setgroups", "setuid", "setresuid"}
NAMESPACES = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "pid": 0x20000000}
OF_CHILDREN = {"user": 0x10000000, "net": 0x40000000}


def containerfile() -> dict[str, list[str]]:
    """Returns the instructions of the second stage, each with its values."""
    text = re.sub(r"^#.*\n", "", (CONTAINER / "Containerfile").read_text("utf-8"), flags=re.M)
    last_stage = text.replace("\\\n", " ").rpartition("\nFROM ")[2]
    instructions: dict[str, list[str]] = {}
    for line in last_stage.splitlines()[1:]:
        word, _, value = line.partition(" ")
        instructions.setdefault(word, []).append(value)
    return instructions


def services(name: str) -> dict[str, dict[str, Any]]:
    """Returns the services of a compose file, with shared parts merged in."""
    parsed: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load((COMPOSE / name).read_text("utf-8"))
    return parsed["services"]


def steward_services() -> list[tuple[str, str, dict[str, Any]]]:
    """Returns file, name and content of each service that runs the image."""
    return [
        (file, name, service)
        for file in FILES
        for name, service in services(file).items()
        if "STEWARD_IMAGE" in service["image"]
    ]


def check_call(words: list[str]) -> None:
    """Fails unless the words are a command of Steward with options that it has."""
    (command,) = [command for command in commands(words[0]) if command.name == words[0]]
    names = {name for argument in command.arguments for name in argument.names}
    assert {word for word in words if word.startswith("--")} <= {*names, "--env-file", "--json"}


def test_the_second_stage_runs_no_shell_and_starts_what_steward_has() -> None:
    """Uses user 10001, one volume, and the settings, command and health check of this release."""
    instructions = containerfile()
    assert "RUN" not in instructions
    assert instructions["USER"] == ["10001:10001"]
    assert instructions["VOLUME"] == ["/data"]
    assert json.loads(instructions["ENTRYPOINT"][0]) == ["steward"]
    check_call(json.loads(instructions["CMD"][0]))
    (health,) = instructions["HEALTHCHECK"]
    program, *words = json.loads(health.partition("CMD ")[2])
    assert program == "steward"
    check_call(words)
    variables = dict(re.findall(r"(STEWARD_\w+)=(\S+)", instructions["ENV"][0]))
    settings = read({**variables, "STEWARD_ENV": "demo"})
    assert (settings.listen.port, str(settings.data_dir)) == (8400, "/data")


def test_compose_services_have_narrow_walls() -> None:
    """Makes services read-only, without capabilities and within limits; publishes one port on loopback."""
    for file in FILES:
        published = [port for service in services(file).values() for port in service.get("ports", ())]
        assert published == ["127.0.0.1:8400:8400"]
        for name, service in services(file).items():
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"], name
            assert service["security_opt"] == ["no-new-privileges:true"], name
            assert service["stop_grace_period"] == "90s", name
            assert re.fullmatch(r"\d+[mg]", service["mem_limit"]), name
    whole = yaml.safe_load((COMPOSE / "compose.yaml").read_text("utf-8"))
    assert whole["networks"]["inner"] == {"internal": True}
    assert whole["services"]["postgres"]["networks"] == ["inner"]
    # podman mounts a tmpfs of root on /run of a read-only container, unless the file does.
    assert "/run:size=1m,mode=1777" in whole["services"]["postgres"]["tmpfs"]
    assert whole["services"]["migrate"]["restart"].startswith("on-failure:")
    for name in ("web", "worker"):
        waits_for = whole["services"][name]["depends_on"]["migrate"]
        assert waits_for == {"condition": "service_completed_successfully"}


def test_compose_services_name_what_exists(tmp_path: Path) -> None:
    """Names only commands, settings, secrets, volumes and networks that exist."""
    for name, text in (("database_url", "postgresql://db/steward"), ("master_keys", f"a:{'A' * 43}=")):
        (tmp_path / name).write_text(text)
    for file, name, service in steward_services():
        if words := service.get("command"):
            check_call(words)
        whole = yaml.safe_load((COMPOSE / file).read_text("utf-8"))
        assert set(service.get("secrets", ())) <= set(whole.get("secrets", ())), name
        assert set(service.get("networks", ())) <= set(whole.get("networks", ())), name
        assert {volume.partition(":")[0] for volume in service["volumes"]} <= set(whole["volumes"]), name
        if "environment" in service:
            environ = {
                variable: re.sub(r"\$\{\w+:\?[^}]*\}", "https://auto.example", text)
                .replace("${STEWARD_TRUSTED_PROXIES:-}", "")
                .replace("/run/secrets/", f"{tmp_path}/")
                for variable, text in service["environment"].items()
            }
            assert read(environ).database_url == "postgresql://db/steward"


def test_the_seccomp_profile_allows_no_more_than_the_units() -> None:
    """Allows @system-service without @privileged, and of namespaces only a user's and a network's."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("SKIPPED LOUDLY: systemd-analyze is not here")
    profile = json.loads((CONTAINER / "seccomp.json").read_text("utf-8"))
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    plain, *limited, clone3 = profile["syscalls"]
    allowed = set(plain["names"])
    assert allowed <= (_system_calls("@system-service") - _system_calls("@privileged")) | OF_THE_START
    assert not allowed & {"setns", "mount", "ptrace", "bpf", "keyctl", "io_uring_setup", "userfaultfd"}
    assert {rule["names"][0] for rule in limited} == {"clone", "unshare"}
    for rule in limited:
        (flags,) = rule["args"]
        assert (flags["op"], flags["valueTwo"]) == ("SCMP_CMP_MASKED_EQ", 0)
        assert all(flags["value"] & flag for flag in NAMESPACES.values())
        assert not any(flags["value"] & flag for flag in OF_CHILDREN.values())
    assert (clone3["names"], clone3["action"]) == (["clone3"], "SCMP_ACT_ERRNO")


def _system_calls(group: str) -> set[str]:
    """Returns the system calls of one of systemd's groups, with those of nested groups."""
    listed = subprocess.run(
        ["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    names = [line.strip() for line in listed.splitlines()[1:] if not line.strip().startswith("#")]
    return {
        call for name in names for call in (_system_calls(name) if name.startswith("@") else {name}) if call
    }
