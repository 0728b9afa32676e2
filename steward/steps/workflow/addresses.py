"""Checks addresses and headers of workflows' requests, and the secrets that were removed from them."""

import re
from base64 import b64decode
from collections.abc import Iterable
from urllib.parse import urlencode, urlsplit

from steward.model.json import JsonObject
from steward.model.removed_secrets import MARKER
from steward.outbound.address import (
    UrlOrigin,
    is_host_name,
    is_local_name,
    looks_like_address,
    origin_of,
    parsed_origin,
)
from steward.outbound.errors import CallRefused
from steward.steps.workflow.javascript import values as js
from steward.steps.workflow.step_types import ItemFailed, StepProblem, is_expression

ANY_CERTIFICATE = (
    "It would accept any certificate; here certificates are always checked. "
    "Check that its host has a valid one."
)
_KEYS = re.compile(
    r"(?i)(?:authorization|cookie|x-api-key|api[-_]?key|apikey|access[-_]?token|token|x-auth-token|secret|"
    r"password|x-.*-(?:key|token|secret))\Z"
)
# The scheme, host and port of an address, if no expression is in them.
_LITERAL_ORIGIN = re.compile(r"=?\s*([A-Za-z][A-Za-z0-9+.-]*)://([^\s/?#{}]+)(?=[/?#]|\s*\Z)")
# An expression that begins with a text to which the rest is added, and what follows the text.
_LEADING_TEXT = re.compile(
    r"""=\s*\{\{\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)"|`((?:[^`\\$]|\$\{[^{}`]*\})*)`)\s*(?=\+|;?\s*\}\})(.*)""",
    re.DOTALL,
)
_MAX_ADDED = 4_000
# A text, closed or not, a bracket, or the mark of a condition, which may give another text.
_ADDED_PART = re.compile(r"""(['"`])(?:\\.|(?!\1)[^\\])*+(\1)?|[()]|(?<!\?)\?(?![?.])""", re.DOTALL)
_EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
# The user name and password before the `@` of an address.
_USER_PART = re.compile(r"(?<=://)[^\s/?#@]*@")
_REMOVED_PARAMETER = re.compile(rf"(?<=[?&])[^=&#]+=[^=&#]*{MARKER.pattern}[^=&#]*(?:&|(?=#|\Z))")


def https_address(text: str, *, has_account: bool = False, allows_http: bool = False) -> str:
    """Returns the address without its fragment. Raises ItemFailed if it is not absolute https.

    Query parameters whose value was a removed key are left out, as are a removed password and its user. A
    removed key in the path stays marked if the step has an account, which restores it.
    """
    url = text.strip().partition("#")[0]
    if MARKER.search(url):
        url = _REMOVED_PARAMETER.sub("", url).rstrip("?&")
        if has_account and MARKER.search(user_part := user_part_of(url)):
            url = url.replace(user_part, "", 1)
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if MARKER.search(url) and not has_account:
        raise ItemFailed("The address held a key in the file, which was not imported. Remove it there.")
    schemes = ("https", "http") if allows_http else ("https",)
    if parts.scheme not in schemes or not parts.netloc or re.search(r"[\x00-\x1f\x7f]", url):
        raise ItemFailed("The address of this step is not a complete https address.")
    return url


def listed_origin(address: object) -> UrlOrigin | None:
    """Returns the origin of an address that only an account may call, at a host that the operator lists.

    That is a host of a local network, a number in place of a host, or another port than the usual ones.
    Returns None for every other address, and if an expression decides the origin. One that only adds to a
    text with the whole origin does not.
    """
    literal = _LITERAL_ORIGIN.match(leading_text(address)) if isinstance(address, str) else None
    if literal is None:
        return None
    try:
        origin = parsed_origin(f"{literal[1].lower()}://{literal[2].rpartition('@')[2]}/")
    except CallRefused:
        return None
    if looks_like_address(origin.host):
        return origin
    is_usual = (origin.scheme, origin.port) in (("https", 443), ("http", 80))
    return origin if is_host_name(origin.host) and (is_local_name(origin.host) or not is_usual) else None


def leading_text(address: str) -> str:
    """Returns the address, with the text that its expression begins with in place of the expression."""
    leading = _LEADING_TEXT.match(address)
    if leading is None:
        return address
    added = leading[4].partition("}}")[0]
    if len(added) > _MAX_ADDED or _may_replace(added):
        return address
    text = leading[1] or leading[2] or leading[3] or ""
    suffix = leading[4].lstrip(" ;")
    return text + suffix[2:] if suffix.startswith("}}") else f"{text}{{{{ }}}}"


def _may_replace(added: str) -> bool:
    """Returns whether what follows a text in an expression may give another text in its place.

    That is a condition outside of its texts and brackets, or a text or bracket that is not closed.
    """
    depth = 0
    for part in _ADDED_PART.finditer(added):
        if part[1] is not None:
            if part[2] is None:
                return True
        elif part[0] == "?":
            if depth <= 0:
                return True
        else:
            depth += 1 if part[0] == "(" else -1
    return depth != 0


def uncalled_address_problems(
    address: object, *, has_account: bool = False, allows_http: bool = False, takes_account: bool = False
) -> Iterable[StepProblem]:
    """Yields problems for which an address can never be called, unless an expression decides it.

    A wrong scheme is an error. A wrong host or port is an error too, but only a warning with an account,
    since an operator may allow it a private host. With `takes_account`, an account is bound to a step with
    the address of a private host, so that is no problem.
    """
    if not isinstance(address, str) or not address.removeprefix("=").strip():
        message = "It does not say which address it calls, so it would fail. Fill it in and import it again."
        yield StepProblem("warning", "parameter", message)
        return
    if _lacks_scheme(address):
        message = "It calls no complete address, so it would fail. Begin the address with https://."
        yield StepProblem("warning", "parameter", message)
    user_part = user_part_of(address)
    if user_part and not MARKER.search(user_part):
        message = "It signs in with a user name before the “@” of its address, which is not supported."
        yield StepProblem("error", "credential", f"{message} Use a saved Basic Auth credential in n8n.")
    literal = _LITERAL_ORIGIN.match(address)
    if literal is None:
        return
    scheme, host_and_port = literal[1].lower(), literal[2].rpartition("@")[2].lower()
    if scheme != "https" and not (allows_http and scheme == "http"):
        called = "https and http are" if allows_http else "https is"
        message = f"It calls an address that begins with {scheme[:30]}://; only {called} called. Change it."
        yield StepProblem("error", "parameter", message)
        scheme = "https"
    if takes_account and listed_origin(address) is not None:
        return
    host_words = _uncalled_host_words(scheme, host_and_port)
    if host_words:
        message = f"It calls {host_and_port[:100]}{host_words}"
        yield StepProblem("warning" if has_account else "error", "parameter", message)


def _lacks_scheme(address: str) -> bool:
    """Returns whether an address has no scheme, whatever its expressions give."""
    head = address.removeprefix("=")
    if is_expression(address):
        head = head.partition("{{")[0]
        if not re.search(r"[./]", head):
            return False  # an expression may give the scheme
    return "://" not in head and not MARKER.search(address)


def _uncalled_host_words(scheme: str, host_and_port: str) -> str:
    """Returns why a host and port are never called and what to do, or an empty text."""
    host = host_and_port.partition(":")[0].rstrip(".")
    if "[" in host_and_port or looks_like_address(host):
        return "; only hosts with a public name are called. Write the name of its host."
    if is_local_name(host):
        return ", which is reachable only in a private network. Give it a public address."
    if not _may_be_called(f"https://{host}/"):
        return ", which is not a valid host name. Correct the address."
    if not _may_be_called(f"{scheme}://{host_and_port}/"):
        return f"; only the usual port of {scheme} is called. Change the address."
    return ""


def _may_be_called(url: str) -> bool:
    try:
        origin_of(url, (), allows_http=True)
    except CallRefused:
        return False
    return True


def with_query(url: str, query: JsonObject, lists: str = "") -> str:
    """Returns the URL with query parameters added; a list becomes one parameter per element.

    `lists` controls how a list's name is written: `name[]` (brackets), `name[0]` (indices), or unchanged.
    """
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        if isinstance(value, str) and MARKER.search(value):
            continue  # restored by the account
        for index, element in enumerate(value if js.is_list(value) else [value]):
            mark = {"brackets": "[]", "indices": f"[{index}]"}.get(lists, "") if js.is_list(value) else ""
            pairs.append((name + mark, js.json_text(element) if js.is_object(element) else js.text(element)))
    return url + (("&" if urlsplit(url).query else "?") + urlencode(pairs) if pairs else "")


def sendable_headers(headers: JsonObject) -> dict[str, str]:
    """Returns the headers to send, without those the transport sets. Raises ItemFailed."""
    sendable = {}
    for name, value in headers.items():
        text = js.text(value)
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", name) or re.search(r"[\r\n\0]", text):
            raise ItemFailed(f"The header “{name[:60]}” cannot be sent.")
        if name.lower() in ("host", "content-length", "connection", "transfer-encoding"):
            continue
        if MARKER.search(text) or MARKER.search(_basic_pair(text)):
            continue  # restored by the account
        sendable[name.lower()] = text
    return sendable


def _basic_pair(text: str) -> str:
    """Returns the user name and password of a Basic authorization header, or an empty text."""
    scheme, _, encoded = text.partition(" ")
    try:
        return b64decode(encoded).decode("utf-8", "replace") if scheme.lower() == "basic" else ""
    except ValueError:
        return ""


def is_removed_key(name: str, value: object) -> bool:
    """Returns whether a header or query parameter held a key that the import removed."""
    if isinstance(value, str) and MARKER.search(value):
        return True
    return _KEYS.match(name.strip()) is not None and value in ("", None)


def user_part_of(url: str) -> str:
    """Returns the user name and password of a URL with the following `@`, or an empty text."""
    end = url.rfind("}}") + 2  # no expression begins after it, however many `{{` there are
    masked = _EXPRESSION.sub(lambda chunk: "_" * len(chunk[0]), url[:end])
    match = _USER_PART.search(masked + url[end:])
    return url[match.start() : match.end()] if match else ""


def _removed_in_address(url: str) -> list[str]:
    """Returns the query parameters of a URL that held a key that the import removed."""
    pairs = re.finditer(r"[?&]([^=&#]++)(?:=([^&#]*+))?", url)
    return [pair[1] for pair in pairs if pair[2] is not None and is_removed_key(pair[1], pair[2])]


def removed_header_problems(name: str, value: object) -> Iterable[StepProblem]:
    """Yields a problem for a header or query parameter that held a removed secret."""
    if is_removed_key(name, value):
        message = f"It sends a key in “{name[:60]}”, which is not taken from a file. Remove it or the step."
        yield StepProblem("error", "credential", message)


def removed_address_problems(url: str) -> Iterable[StepProblem]:
    """Yields a problem for each place in an address that held a removed secret."""
    if MARKER.search(url.partition("?")[0]):
        message = "Its address holds a key, which is not taken from a file. Remove it or the step."
        yield StepProblem("error", "credential", message)
    for part in _removed_in_address(url):
        message = f"Its address holds a key in “{part[:60]}”, which is not taken from a file. Remove it."
        yield StepProblem("error", "credential", message)
