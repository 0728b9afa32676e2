"""`steward --version`, and what `steward doctor --quick` reports of a process that is not well."""

import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from steward.cli import quick
from steward.config import read
from steward.version import __version__

ABSENT = "127.0.0.1:9"


def test_nothing_of_the_service_is_imported() -> None:
    """Imports nothing of the service, whose command line takes two seconds of CPU to start."""
    script = (
        "import steward.__main__, sys; print(*(name for name in sys.modules if name.startswith('steward')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {
        "steward",
        "steward.__main__",
        "steward.cli",
        "steward.cli.env_file",
        "steward.cli.quick",
        "steward.version",
    }


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["--version", "--json"],
        ["--json", "--version"],
        ["--env-file", "absent.env", "--version", "--json"],
        ["--env-file=absent.env", "--version"],
    ],
)
def test_the_version_is_printed(words: list[str]) -> None:
    """Prints the version, as JSON if asked, and exits with 0."""
    done = subprocess.run(
        [sys.executable, "-m", "steward", *words], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        f'{{"version": "{__version__}"}}\n' if "--json" in words else f"steward {__version__}\n"
    )


def test_the_usual_addresses_are_those_of_the_settings() -> None:
    """Asks the addresses on which `serve` and `worker` listen by default."""
    usual = read({"STEWARD_ENV": "test"})
    listens = [usual.listen, usual.metrics_listen]
    assert [address for _, address, _ in quick.ADDRESSES] == [
        f"{address.host}:{address.port}" for address in listens if address is not None
    ]


def test_only_the_address_that_is_set_is_asked() -> None:
    """Does not ask the usual address of metrics, where another installation may answer."""
    assert quick.check({"STEWARD_LISTEN": ABSENT}) == f"Nothing listens on {ABSENT} (STEWARD_LISTEN)."


@pytest.mark.parametrize(
    "response", [b"HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n", b"", b"what?\r\n\r\n"]
)
def test_an_unhealthy_process_is_reported(response: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """Exits with 1 and a message for any response but 200, also for none."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            calling, _ = listening.accept()
            with calling:
                calling.recv(65_536)
                calling.sendall(response)

        answering = Thread(target=serve)
        answering.start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert quick.main(["doctor", "--quick"], {"STEWARD_LISTEN": address}) == 1
        answering.join()
    assert capsys.readouterr().err.startswith(f"{address}/healthz ")


def test_an_absent_process_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """Reports that nothing listens on the API's or the worker's address."""
    for metrics, words in ((ABSENT, f"Nothing listens on {ABSENT}"), ("off", f"Nothing listens on {ABSENT}")):
        environ = {"STEWARD_LISTEN": ABSENT, "STEWARD_METRICS_LISTEN": metrics}
        assert quick.main(["doctor", "--quick", "--json"], environ) == 1
        assert words in capsys.readouterr().out


def test_the_addresses_of_the_settings_file_are_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reads `--env-file` like every command, and reports a file that cannot be read."""
    file = tmp_path / "steward.env"
    file.write_text(f"STEWARD_LISTEN={ABSENT}\nSTEWARD_METRICS_LISTEN=off\n")
    words = ["--env-file", str(file), "doctor", "--quick"]
    assert quick.is_quick(words)
    assert quick.main(words, {}) == 1
    assert f"Nothing listens on {ABSENT} (STEWARD_LISTEN)" in capsys.readouterr().err
    file.unlink()
    assert quick.main(words, {}) == 1
    assert f"{file} must be a readable text file" in capsys.readouterr().err


def test_every_address_means_this_machine() -> None:
    """Asks loopback when the service listens on all addresses."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
        Thread(target=lambda: listening.accept()[0].close()).start()
        problem = quick.check({"STEWARD_LISTEN": f"0.0.0.0:{port}"})
    assert problem is not None
    assert "Nothing listens" not in problem
