"""The forms of settings: what values they accept, in words, and how the text of one is read."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

T = TypeVar("T")


class Environment(StrEnum):
    """What the service is run for."""

    PRODUCTION = "production"
    DEMO = "demo"
    TEST = "test"


class HostPort(NamedTuple):
    """A host and its port; the host is in lower case and without brackets."""

    host: str
    port: int


class Form(NamedTuple):
    """The accepted values of a setting: their description, and a parser that raises ValueError for others."""

    words: str
    read: Callable[[str], object]
    in_test: "Form | None" = None

    def for_environment(self, environment: Environment) -> "Form":
        """Returns the form in this environment; some lower bounds are lower in tests."""
        return self.in_test if self.in_test and environment is Environment.TEST else self


def whole(lowest: int, highest: int, *, test_floor: int | None = None) -> Form:
    """Returns the form of a whole number; `test_floor` is its lower bound with STEWARD_ENV=test."""
    message = f"a whole number from {lowest} to {highest}"
    if test_floor is not None:
        in_test = whole(test_floor, highest)
        return Form(
            f"{message} (with STEWARD_ENV=test from {test_floor})", whole(lowest, highest).read, in_test
        )

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", text) or not lowest <= int(text) <= highest:
            raise ValueError
        return int(text)

    return Form(message, read)


def choice(*words: str) -> Form:
    """Returns the form of a text that is one of `words`."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return Form(" or ".join(filter(None, [", ".join(words[:-1]), words[-1]])), read)


def _environment(text: str) -> Environment:
    return Environment(text)


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError
    return text == "on"


def _text(text: str) -> str:
    if text != text.strip() or not text or not text.isprintable():
        raise ValueError
    return text


def _address(text: str) -> str:
    """Returns an http or https URL without user, query, fragment and trailing slash."""
    parts = urlsplit(_text(text))
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.port == 0:
        raise ValueError
    if " " in text or "?" in text or "#" in text:
        raise ValueError
    return text.rstrip("/")


def _pathless(text: str) -> str:
    address = _address(text)
    if urlsplit(address).path:
        raise ValueError
    return address


def _host_port(text: str) -> HostPort:
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,5})", text)
    if match is None or not 1 <= int(match[3]) <= 65535:
        raise ValueError
    if match[1]:
        ipaddress.IPv6Address(match[1])
    return HostPort((match[1] or match[2]).lower(), int(match[3]))


def _metrics_listen(text: str) -> HostPort | None:
    return None if text == "off" else _host_port(text)


def _entry(text: str) -> str:
    _host_port(text)
    return text.lower()


def _teams_host(text: str) -> str:
    if re.fullmatch(r"(\.[A-Za-z0-9-]+)+", text):
        return text.lower()
    return _entry(text)


def _slack_host(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", text):
        return text.lower()
    return _teams_host(text)


class MailAddress(NamedTuple):
    """A mail server's address without the sign-in, and the sign-in."""

    url: str
    user: str | None
    password: str | None


def _smtp(text: str) -> MailAddress:
    parts = urlsplit(_text(text))
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname or not parts.port:
        raise ValueError
    if parts.path or parts.query or parts.fragment or (parts.username is None) != (parts.password is None):
        raise ValueError
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return MailAddress(f"{parts.scheme}://{host}:{parts.port}", user, password)


def _sender(text: str) -> str:
    if not re.fullmatch(
        r"(?:[^<>@,;\"\\]{1,100} <[^<>@\s,;\"]+@[^<>@\s,;\"]+>|[^<>@\s,;\"]+@[^<>@\s,;\"]+)", _text(text)
    ):
        raise ValueError
    return text


def _database(text: str) -> str:
    if text.startswith("sqlite:///"):
        if text == "sqlite:///" or "?" in text or "\0" in text:
            raise ValueError
    elif not re.fullmatch(r"postgresql://\S+", text):
        raise ValueError
    elif "," in (hosts := urlsplit(text).netloc.rpartition("@")[2]):
        for host in hosts.split(","):
            _host_port(host if re.search(r":[0-9]+$", host) else f"{host}:5432")
    return text


def _master_key(text: str) -> tuple[str, bytes]:
    name, _, encoded = text.partition(":")
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,40}", name):
        raise ValueError
    try:
        key = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError from error
    if len(key) != 32:
        raise ValueError
    return name, key


def _items(text: str, item: Callable[[str], T]) -> tuple[T, ...]:
    """Returns the items of a comma-separated list; an empty text gives none.

    Raises ValueError for a repeated item.
    """
    items = tuple(item(part.strip()) for part in text.split(",")) if text.strip() else ()
    if len(set(items)) != len(items):
        raise ValueError
    return items


def _list_of(words: str, item: Callable[[str], T]) -> Form:
    return Form(f"a comma separated list of {words}, each once", lambda text: _items(text, item))


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not re.fullmatch(r"[A-Za-z0-9-]+", name) or not value.isprintable():
        raise ValueError
    return name, value


def _share(text: str) -> float:
    if not re.fullmatch(r"0(\.[0-9]{1,6})?|1(\.0{1,6})?", text):
        raise ValueError
    return float(text)


def _master_keys(text: str) -> tuple[tuple[str, bytes], ...]:
    keys = _items(text, _master_key)
    if not keys or len({name for name, _ in keys}) != len(keys):
        raise ValueError
    return keys


def _month(text: str) -> str:
    if not re.fullmatch(r"20[0-9]{2}-(0[1-9]|1[0-2])", text):
        raise ValueError
    return text


ENVIRONMENT = Form("production, demo or test", _environment)
SWITCH = Form("on or off", _switch)
TEXT = Form("a text without blanks around it", _text)
PATH = Form("a path", lambda text: Path(_text(text)))
URL = Form("an http or https URL without user, query and fragment", _address)
BARE_URL = Form("an http or https URL without user, path, query and fragment", _pathless)
LISTEN = Form("host:port, the port from 1 to 65535", _host_port)
METRICS_LISTEN = Form("host:port, the port from 1 to 65535, or off", _metrics_listen)
DATABASE = Form("sqlite:///PATH or postgresql://HOST[,HOST…]/NAME", _database)
MASTER_KEYS = Form("a comma separated list of id:base64 of 32 bytes, each id once", _master_keys)
HOSTS = _list_of("host:port", _entry)
TEAMS_HOSTS = _list_of("host suffixes that begin with a dot, or host:port", _teams_host)
SLACK_HOSTS = _list_of("hosts, host suffixes that begin with a dot, or host:port", _slack_host)
MAIL_SERVER = Form(
    "smtp://USER:PASSWORD@HOST:PORT (STARTTLS) or smtps://…, user and password both or neither", _smtp
)
MAIL_SENDER = Form("an e-mail address, or a name and an address in angle brackets", _sender)
NETWORKS = _list_of("networks such as 10.0.0.0/8", ipaddress.ip_network)
LOG_LEVEL = choice("debug", "info", "warning", "error")
HEADERS = _list_of("name=value", _header)
SHARE = Form("a number from 0 to 1", _share)
MONTH = Form("YYYY-MM", _month)
