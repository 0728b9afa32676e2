"""`doctor --quick` and `--version`, which run without importing the service."""

import http.client
import json
import sys
from collections.abc import Mapping, Sequence

from steward.cli.env_file import MissingPath, UnreadableEnvFile, merged, without_shared
from steward.version import __version__

TIMEOUT_SECONDS = 5.0
# The default addresses of `serve` and `worker`, and their expected responses.
ADDRESSES = (
    ("STEWARD_LISTEN", "127.0.0.1:8400", "/healthz"),
    ("STEWARD_METRICS_LISTEN", "127.0.0.1:9464", "/metrics"),
)
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


def is_quick(argv: Sequence[str]) -> bool:
    """Returns whether a command line requests the version or the quick check."""
    try:
        words, _ = without_shared(argv)
    except MissingPath:
        return False
    return words[:1] == ["--version"] or (words[:1] == ["doctor"] and "--quick" in words)


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Prints the version, or the response of the process; returns the exit code, 0 if all is well."""
    if "--version" in argv:
        print(json.dumps({"version": __version__}) if "--json" in argv else f"steward {__version__}")
        return 0
    try:
        problem = check(merged(environ, without_shared(argv)[1]))
    except UnreadableEnvFile as error:
        problem = str(error)
    facts = {"ok": problem is None, "message": problem or "The process answers."}
    out = sys.stdout if problem is None or "--json" in argv else sys.stderr
    print(json.dumps(facts) if "--json" in argv else facts["message"], file=out)
    return 0 if problem is None else 1


def check(environ: Mapping[str, str]) -> str | None:
    """Calls the API or, if nothing listens, a worker's metrics. Returns the problem, or None."""
    problem = None
    (api_setting, *_), (metrics_setting, *_) = ADDRESSES
    # Beside an API address of its own, the default metrics address may be that of another installation.
    asks_api_only = bool(environ.get(api_setting)) and not environ.get(metrics_setting)
    for setting, usual, path in ADDRESSES[:1] if asks_api_only else ADDRESSES:
        address = environ.get(setting) or usual
        if address == "off":
            continue
        try:
            status = _status(address, path)
        except ConnectionRefusedError:
            problem = f"Nothing listens on {address} ({setting})."
            continue
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"{address}{path} does not answer: {error or type(error).__name__}."
        return None if status == 200 else f"{address}{path} answers {status}."
    return problem


def _status(address: str, path: str) -> int:
    host, _, port = address.rpartition(":")
    calling = http.client.HTTPConnection(
        _EVERY_ADDRESS.get(host, host).strip("[]"), int(port), timeout=TIMEOUT_SECONDS
    )
    try:
        calling.request("GET", path)
        return calling.getresponse().status
    finally:
        calling.close()
