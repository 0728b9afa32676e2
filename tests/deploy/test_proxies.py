"""Tests the samples of deploy/proxy before a served process: true addresses and unchanged answers.

`make proxies` unpacks Debian's nginx, Caddy and HAProxy and runs this file.
"""

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from steward.api.v1 import runs
from tests.outbound.test_transport import certificate
from tests.processes.ports import free_port
from tests.processes.running import eventually, start

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "deploy" / "proxy"
PROGRAMS = {
    "nginx": ROOT / ".cache/proxies/usr/sbin/nginx",
    "caddy": ROOT / ".cache/proxies/usr/bin/caddy",
    "haproxy": ROOT / ".cache/proxies/usr/sbin/haproxy",
}
LIBRARIES = ROOT / ".cache/proxies/usr/lib" / f"{os.uname().machine}-linux-gnu"  # HAProxy's own
NAME = "localhost"
LOGIN = "/v2/api/automations/login"
LIMIT = 10
LARGEST_BODY = 2 << 20
# Headers that differ between answers, or that name the program that passed them on.
_OF_ONE_RESPONSE = {"date", "server", "via", "x-request-id", "connection", "alt-svc", "transfer-encoding"}
_NGINX = """
daemon off;
user root;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    fastcgi_temp_path {folder}/unused-1;
    uwsgi_temp_path {folder}/unused-2;
    scgi_temp_path {folder}/unused-3;
    include {folder}/steward.conf;
}}
"""


def _nginx(folder: Path, port: int, service_port: int) -> list[str]:
    """Writes nginx.conf with the test's ports and certificate, and returns the command."""
    sample = _filled(SAMPLES / "nginx.conf", "listen 443 ", f"listen 127.0.0.1:{port} ", service_port)
    for ending in ("pem", "key"):
        sample = sample.replace(f"/etc/ssl/auto.example.{ending}", f"{folder}/{NAME}.{ending}")
    (folder / "steward.conf").write_text(sample.replace("auto.example", NAME))
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder))
    return [str(PROGRAMS["nginx"]), "-p", str(folder), "-c", str(folder / "nginx.conf")]


def _caddy(folder: Path, port: int, service_port: int) -> list[str]:
    """Writes the Caddyfile with the test's ports and certificate, and returns the command."""
    sample = _filled(
        SAMPLES / "Caddyfile",
        "auto.example {",
        f"https://{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls {folder}/{NAME}.pem {folder}/{NAME}.key",
        service_port,
    )
    sample = sample.replace("{\n\tservers", "{\n\tadmin off\n\tauto_https disable_redirects\n\tservers", 1)
    (folder / "Caddyfile").write_text(sample)
    return [str(PROGRAMS["caddy"]), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


def _haproxy(folder: Path, port: int, service_port: int) -> list[str]:
    """Writes haproxy.cfg with the test's ports and certificate, and returns the command.

    Of its two hosts one serves; the other refuses connections, as one that is being updated does.
    """
    sample = (SAMPLES / "haproxy.cfg").read_text("utf-8")
    for place, instead in (
        ("bind :443 ", f"bind 127.0.0.1:{port} "),
        ("/etc/haproxy/auto.example.pem", f"{folder}/both.pem"),
    ):
        assert sample.count(place) == 1
        sample = sample.replace(place, instead)
    sample = sample.replace("10.0.0.11:8400", f"127.0.0.1:{free_port()}")
    sample = sample.replace("10.0.0.12:8400", f"127.0.0.1:{service_port}")
    parts = [(folder / f"{NAME}.{ending}").read_text() for ending in ("pem", "key")]
    (folder / "both.pem").write_text("".join(parts))
    (folder / "haproxy.cfg").write_text(sample)
    return [str(PROGRAMS["haproxy"]), "-db", "-f", str(folder / "haproxy.cfg")]


def _filled(path: Path, listens: str, instead: str, service_port: int) -> str:
    sample = path.read_text("utf-8")
    assert sample.count(listens) == 1
    assert sample.count("127.0.0.1:8400") == 1
    return sample.replace(listens, instead).replace("127.0.0.1:8400", f"127.0.0.1:{service_port}")


COMMANDS = {"nginx": _nginx, "caddy": _caddy, "haproxy": _haproxy}


@asynccontextmanager
async def proxied(name: str, database_url: str, folder: Path) -> AsyncIterator[tuple[str, str]]:
    """Yields the addresses of a service by itself and behind the proxy."""
    certificate(folder, NAME)
    port = free_port()
    env = {
        "STEWARD_ENV": "test",
        "STEWARD_DATABASE_URL": database_url,
        "STEWARD_DATA_DIR": str(folder),
        "STEWARD_METRICS_LISTEN": "off",
        "STEWARD_BASE_URL": f"https://{NAME}:{port}",
        "STEWARD_TRUSTED_PROXIES": "127.0.0.1/32",
    }
    serving = await start("serve", "--host", "127.0.0.1", "--port", "0", env=env)
    service_port = int(serving.facts["listen"].rpartition(":")[2])
    program = await asyncio.create_subprocess_exec(
        *COMMANDS[name](folder, port, service_port),
        env={**os.environ, "HOME": str(folder), "LD_LIBRARY_PATH": str(LIBRARIES)},
    )

    async def listens() -> bool:
        assert program.returncode is None, f"{name} ended before it listened"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await eventually(listens)
        yield f"http://127.0.0.1:{service_port}", f"https://{NAME}:{port}"
    finally:
        if program.returncode is None:
            program.terminate()
        await program.wait()
        await serving.stop()


def client(address: str, folder: Path, peer: str = "127.0.0.1") -> httpx.AsyncClient:
    """Returns a client at one address of this machine that trusts the test's certificate."""
    trust = ssl.create_default_context(cafile=str(folder / f"{NAME}.pem"))
    transport = httpx.AsyncHTTPTransport(local_address=peer, verify=trust)
    return httpx.AsyncClient(base_url=address, transport=transport, timeout=30)


async def _responses(address: str, folder: Path) -> list[tuple[int, dict[str, str], bytes]]:
    """Returns the responses to calls of every kind, without headers that differ each time."""
    calls = (
        ("GET", "/healthz", b""),
        ("GET", "/readyz", b""),
        ("GET", "/", b""),
        ("GET", "/v1/automations?limit=1", b""),
        ("GET", "/v1/nothing/here%2Fnor%20there", b""),
        ("POST", LOGIN, b"{}"),
        ("POST", "/v1/automations/imports", b" " * (LARGEST_BODY + 1)),
        ("POST", "/v1/store-events/unknown", b" " * (3 << 20)),
    )
    responses = []
    async with client(address, folder) as calling:
        for method, path, body in calls:
            headers = {"Content-Type": "application/json", "Host": NAME, "Accept-Encoding": "identity"}
            response = await calling.request(method, path, content=body or None, headers=headers)
            lasting = {
                header: value for header, value in response.headers.items() if header not in _OF_ONE_RESPONSE
            }
            responses.append((response.status_code, lasting, response.content))
    return responses


@pytest.mark.parametrize("name", list(PROGRAMS))
async def test_a_proxy_passes_true_addresses_and_leaves_responses_unchanged(
    name: str, sqlite_url: str, tmp_path: Path
) -> None:
    """Ignores the address that a client claims, hides `/metrics`, and passes answers on unchanged."""
    if not PROGRAMS[name].exists():
        pytest.skip(f"SKIPPED LOUDLY: {name} is not there; `make proxies` unpacks it on Debian.")
    async with proxied(name, sqlite_url, tmp_path) as (service, proxy):
        async with client(proxy, tmp_path, "127.0.0.9") as stranger:
            statuses = [
                (
                    await stranger.post(
                        LOGIN, json={}, headers={"X-Forwarded-For": f"198.51.101.{number}, 127.0.0.1"}
                    )
                ).status_code
                for number in range(LIMIT + 1)
            ]
            assert statuses == [422] * LIMIT + [429]
            assert (await stranger.get("/metrics")).status_code == 404
        async with client(proxy, tmp_path, "127.0.0.10") as other:
            assert (await other.post(LOGIN, json={})).status_code == 422
        assert await _responses(proxy, tmp_path) == await _responses(service, tmp_path)


@pytest.mark.parametrize(
    ("sample", "limit"),
    [
        ("nginx.conf", r"server \{.*?client_max_body_size (\d+)k;"),
        ("Caddyfile", r"handle \{.*?max_size (\d+)KiB"),
        ("haproxy.cfg", r"req\.body_size gt (\d+) \} !from_store"),
    ],
)
def test_a_proxy_passes_bodies_on_that_steward_takes(sample: str, limit: str) -> None:
    """Every sample has the same limit: the largest body of Steward's API, and 64 KiB more."""
    [number] = re.findall(limit, (SAMPLES / sample).read_text("utf-8"), re.DOTALL)
    largest_body = max(operation.body_limit for operation in runs.OPERATIONS)
    assert int(number) * (1 if sample == "haproxy.cfg" else 1024) == largest_body + (64 << 10)
