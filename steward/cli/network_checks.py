"""The network checks of `doctor`: the base URL, the trace collector and the mail server."""

import asyncio
import http.client
import ssl
from urllib.parse import urlsplit

from steward.cli.mail import NOT_SET_UP, check_server
from steward.clock import Clock
from steward.config import Settings, SettingsError
from steward.outbound.errors import CallError
from steward.startup import open_traces

NO_MAIL_SERVER = NOT_SET_UP
_TIMEOUT_SECONDS = 5.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class NotReached(Exception):
    """Raised if an address does not respond as expected; the message says what to do."""


async def check_base_url(settings: Settings) -> str:
    """Requests `/healthz` at the base URL. Raises NotReached if the response is not Steward's.

    An address that cannot be reached from here passes with a report, since networks may not allow loops and
    the service may be stopped.
    """
    address = urlsplit(settings.base_url)
    if address.hostname in _LOOPBACK:
        return "The base URL is this machine's own; no proxy is needed."
    hint = ""
    if not settings.trusted_proxies:
        hint = " STEWARD_TRUSTED_PROXIES is empty: all clients share one limit."
    try:
        status, body = await asyncio.to_thread(_get, settings.base_url, "/healthz")
    except ssl.SSLCertVerificationError as error:
        raise NotReached(
            f"The certificate of {settings.base_url} is not accepted: {error.verify_message}."
        ) from error
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        return f"{settings.base_url} cannot be reached from here ({reason}); try it from outside.{hint}"
    if status != 200 or b"ok" not in body:
        raise NotReached(
            f"{settings.base_url}/healthz answers {status}, not as Steward does."
            " Does the proxy lead to STEWARD_LISTEN, and is the service running?"
        )
    return f"{settings.base_url} leads to Steward.{hint}"


async def check_collector(settings: Settings) -> str:
    """Sends an empty request to the trace collector. Raises NotReached."""
    try:
        traces = open_traces(settings)
    except SettingsError as error:
        raise NotReached(" ".join(error.problems)) from error
    if not traces.is_on:
        return "No traces are sent."
    try:
        if not await traces.is_collector_reachable():
            raise NotReached(
                "The collector of STEWARD_TRACES_URL does not accept traces. Is it running,"
                " and is the address that of OTLP over HTTP?"
            )
    finally:
        await traces.close()
    return "The collector of traces answers."


async def check_mail_server(settings: Settings, clock: Clock) -> None:
    """Connects to the mail server and signs in. Raises NotReached."""
    try:
        await check_server(settings, clock)
    except CallError as error:
        raise NotReached(f"The mail server cannot be used: {error.message}") from error


def _get(base_url: str, path: str) -> tuple[int, bytes]:
    address = urlsplit(base_url)
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    calling = kind(address.hostname or "", address.port, timeout=_TIMEOUT_SECONDS)
    try:
        calling.request("GET", path)
        response = calling.getresponse()
        return response.status, response.read(1_000)
    finally:
        calling.close()
