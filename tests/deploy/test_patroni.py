"""Tests the values in deploy/patroni that the guide's promises depend on."""

import configparser
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "deploy/patroni"
GUIDE = (ROOT / "docs/guides/several-machines.md").read_text("utf-8")


def sample(name: str) -> Any:
    """Returns a sample, decoded."""
    return yaml.safe_load((SAMPLES / name).read_text("utf-8"))


def test_the_patroni_configuration_commits_on_two_hosts() -> None:
    """Requires strict synchronous mode, flushed commits and a watchdog for a host that hangs."""
    patroni = sample("patroni.yml")
    dcs = patroni["bootstrap"]["dcs"]
    parameters = dcs["postgresql"]["parameters"]
    assert (dcs["synchronous_mode"], dcs["synchronous_mode_strict"]) == (True, True)
    assert {parameters[name] for name in ("fsync", "full_page_writes", "synchronous_commit")} == {"on"}
    assert dcs["failsafe_mode"] is True
    assert dcs["postgresql"]["remove_data_directory_on_rewind_failure"] is True
    assert patroni["watchdog"]["mode"] == "required"
    assert "data-checksums" in patroni["bootstrap"]["initdb"]


def test_the_leader_keys_times_fit_each_other_and_the_guide() -> None:
    """Keeps `ttl` at 20 s or more, and at least one round and two tries, as the guide says."""
    dcs = sample("patroni.yml")["bootstrap"]["dcs"]
    times = [dcs[name] for name in ("ttl", "loop_wait", "retry_timeout")]
    assert times[0] >= 20
    assert times[0] >= times[1] + 2 * times[2]
    assert f"| `ttl`, `loop_wait`, `retry_timeout` | {times[0]}, {times[1]}, {times[2]} s |" in GUIDE


def test_a_silent_host_is_given_up_before_another_becomes_primary() -> None:
    """Ends a replication connection within `ttl`, and says so in the guide."""
    dcs = sample("patroni.yml")["bootstrap"]["dcs"]
    names = ("wal_sender_timeout", "wal_receiver_timeout")
    seconds = {int(dcs["postgresql"]["parameters"][name].removesuffix("s")) for name in names}
    assert max(seconds) < dcs["ttl"]
    assert f"| `primary_start_timeout` | {dcs['primary_start_timeout']} s |" in GUIDE
    assert f"| `{'`, `'.join(names)}` | {max(seconds)} s |" in GUIDE


def test_a_dead_standby_or_reader_does_not_fill_the_primary() -> None:
    """Limits the log that a slot keeps, and turns standby feedback off."""
    parameters = sample("patroni.yml")["bootstrap"]["dcs"]["postgresql"]["parameters"]
    assert re.fullmatch(r"[0-9]+GB", parameters["max_slot_wal_keep_size"])
    assert parameters["hot_standby_feedback"] == "off"


def test_replication_and_etcd_are_encrypted_with_client_certificates() -> None:
    """Allows no plain connection, and no password of a replicating role."""
    patroni, etcd = sample("patroni.yml"), sample("etcd.yml")
    for role in patroni["postgresql"]["authentication"].values():
        assert role["sslmode"] == "verify-full"
        assert "password" not in role
    assert all(line.startswith(("hostssl", "local")) for line in patroni["postgresql"]["pg_hba"])
    assert patroni["restapi"]["verify_client"] == "required"
    assert patroni["etcd3"]["protocol"] == "https"
    for part in ("client-transport-security", "peer-transport-security"):
        assert etcd[part]["client-cert-auth"] is True
    addresses = [value for name, value in etcd.items() if name.endswith("-urls")]
    assert addresses
    assert all(address.startswith("https://") for address in addresses)


def test_the_backup_is_encrypted_and_the_log_archived_each_minute() -> None:
    """Names the same stanza in pgBackRest's sample and in Patroni's archive command."""
    config = configparser.ConfigParser()
    config.read(SAMPLES / "pgbackrest.conf")
    assert config["global"]["repo1-cipher-type"].startswith("aes-256")
    assert "repo1-cipher-pass" not in config["global"]
    assert config["global"]["repo1-retention-full"] == "14"
    parameters = sample("patroni.yml")["bootstrap"]["dcs"]["postgresql"]["parameters"]
    assert parameters["archive_timeout"] == "60s"
    assert "--stanza=steward" in parameters["archive_command"]
    assert config.has_section("steward")


def test_the_guide_says_which_patroni_and_why_not_debians() -> None:
    """Warns of Debian's package, with which acknowledged writes could be lost."""
    assert "4.1 or newer" in GUIDE
    assert "3.0.2" in GUIDE
    assert "3.0.2" in (SAMPLES / "patroni.yml").read_text("utf-8")


def test_the_restore_drill_touches_nothing_before_it_knows_where_to_restore(tmp_path: Path) -> None:
    """Refuses unknown options, missing values and a folder with files in it; `--help` lists each option."""
    script = SAMPLES / "restore-drill.sh"
    kept = tmp_path / "kept"
    kept.write_text("rows", "utf-8")

    def ended(*words: str) -> tuple[int, str]:
        done = subprocess.run(["sh", script, *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    for words in ([], ["--onto", "x"], ["--into"], ["--into", str(tmp_path)], ["--into", "x", "--base", "y"]):
        code, text = ended(*words)
        assert (code, text.startswith("restore-drill: ")) == (1, True), words
    assert kept.read_text("utf-8") == "rows"
    code, text = ended("--help")
    accepted = re.findall(r"(--[a-z-]+)", script.read_text("utf-8").split("esac")[0].split("case")[1])
    assert code == 0
    assert {option for option in accepted if option not in text} == {"--help"}
    assert set(re.findall(r"(--[a-z-]+)", GUIDE.split("restore-drill.sh --into")[1].split("```")[0])) <= {
        *accepted
    }
