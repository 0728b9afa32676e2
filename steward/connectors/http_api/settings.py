"""The connection form of an account of an HTTP API: one of several sign-ins, and its hosts."""

import json
import re
from collections.abc import Collection, Mapping

from steward.connectors.base.connector import OwnApp
from steward.connectors.base.settings import BadSettings, ConnectionSettings, unknown_settings
from steward.model.connection import NO_SIGN_IN, Auth
from steward.model.json import JsonObject, JsonValue
from steward.model.limits import MAX_PATH_KEYS
from steward.outbound.address import is_host_name, looks_like_address, origin_of, parsed_origin
from steward.outbound.endpoint import (
    Basic,
    Bearer,
    ClientCredentials,
    Credentials,
    PlacedSecrets,
    UserSignIn,
)
from steward.outbound.errors import CallRefused
from steward.outbound.hosts import entry_of, is_host_entry, listing_of, names_origin, unlisted_words
from steward.telemetry.redact import Secret

MAX_HOSTS = 20
_TEXT, _LONG = 500, 8_000
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_PATH_PREFIX = re.compile(r"/[A-Za-z0-9._~/-]*")
_PATH_WITH_KEYS = re.compile(r"/[A-Za-z0-9._~/*-]*")
_IN_CUSTOM = frozenset(("headers", "qs", "auth", "path", "body"))
_OF_TRANSPORT = frozenset(("host", "content-length", "connection", "transfer-encoding", "content-type"))
# The required fields of each sign-in, the secret last.
SIGN_INS: Mapping[str, tuple[str, ...]] = {
    "bearer": ("token",),
    "header": ("header_name", "header_value"),
    "query": ("query_name", "query_value"),
    "basic": ("username", "password"),
    "path": ("path_prefix", "path_key"),
    "body": ("body_key",),
    "client_credentials": ("client_id", "token_url", "client_secret"),
    "refresh_token": ("person_client_id", "person_token_url", "person_client_secret", "refresh_token"),
    "custom": ("custom",),
    NO_SIGN_IN: ("sign_in",),
}
_SECRET = frozenset(
    (
        *("token", "header_value", "query_value", "password", "path_key", "body_key"),
        *("client_secret", "custom"),
        *("person_client_secret", "refresh_token"),
    )
)
_OPTIONAL = ("scope", "audience", "client_in", "test_url", "account")
_FIELDS: Mapping[str, JsonObject] = {
    "hosts": {"type": "string", "title": "Hosts that may be called", "maxLength": 2000},
    "sign_in": {"type": "string", "title": "Without a sign-in", "const": NO_SIGN_IN},
    "token": {"type": "string", "title": "Token", "maxLength": _LONG, "secret": True},
    "header_name": {"type": "string", "title": "Name of the header", "maxLength": 100},
    "header_value": {"type": "string", "title": "Value of the header", "maxLength": _LONG, "secret": True},
    "query_name": {"type": "string", "title": "Name of the query parameter", "maxLength": 100},
    "query_value": {
        "type": "string",
        "title": "Value of the query parameter",
        "maxLength": _LONG,
        "secret": True,
    },
    "username": {"type": "string", "title": "User name", "maxLength": _TEXT},
    "password": {"type": "string", "title": "Password", "maxLength": _LONG, "secret": True},
    "path_prefix": {"type": "string", "title": "What comes before the key in the path", "maxLength": 200},
    "path_key": {"type": "string", "title": "Key in the path", "maxLength": _LONG, "secret": True},
    "body_key": {"type": "string", "title": "Key in the body", "maxLength": _LONG, "secret": True},
    "person_client_id": {"type": "string", "title": "Client ID of the app", "maxLength": _TEXT},
    "person_client_secret": {
        "type": "string",
        "title": "Client secret of the app",
        "maxLength": _LONG,
        "secret": True,
    },
    "person_token_url": {"type": "string", "title": "Address that refreshes tokens", "maxLength": _TEXT},
    "refresh_token": {"type": "string", "title": "Refresh token", "maxLength": _LONG, "secret": True},
    "client_id": {"type": "string", "title": "Client ID", "maxLength": _TEXT},
    "client_secret": {"type": "string", "title": "Client secret", "maxLength": _LONG, "secret": True},
    "token_url": {"type": "string", "title": "Address that gives tokens", "maxLength": _TEXT},
    "scope": {"type": "string", "title": "Scope", "maxLength": _TEXT},
    "audience": {"type": "string", "title": "Audience", "maxLength": _TEXT},
    "client_in": {
        "type": "string",
        "title": "How the client signs in",
        "enum": ["body", "header"],
        "default": "body",
    },
    "custom": {
        "type": "string",
        "title": "Keys by their place in a request, as JSON",
        "maxLength": _LONG,
        "secret": True,
    },
    "test_url": {"type": "string", "title": "Address to try the key with", "maxLength": 2000},
    "account": {"type": "string", "title": "Which account, if you connect several", "maxLength": 100},
}
SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["hosts"],
    "properties": dict(_FIELDS),
    "oneOf": [{"required": list(names)} for names in SIGN_INS.values()],
}


def settings_of(form: JsonObject, private_hosts: Collection[str]) -> ConnectionSettings:
    """Validates the form. Raises BadSettings that names every wrong field."""
    errors = unknown_settings(form, _FIELDS, "This is not a setting of an HTTP API.")
    texts = {name: _text(name, form[name], errors) for name in _FIELDS if form.get(name) not in (None, "")}
    hosts = _hosts(texts.get("hosts", ""), private_hosts, errors)
    sign_in = _sign_in(texts, errors)
    needed = SIGN_INS.get(sign_in, ())
    for name in needed:
        if name not in texts:
            errors.setdefault(name, ["This is needed."])
    _check_values(texts, hosts, private_hosts, errors)
    if errors:
        raise BadSettings(errors)
    names = (*needed, *_OPTIONAL)
    plain = {name: texts[name] for name in names if name in texts and name not in _SECRET}
    plain |= {"hosts": " ".join(hosts), "sign_in": sign_in}
    sealed = {name: Secret(texts[name]) for name in needed if name in _SECRET}
    # Older releases named the hosts of https alone, and without the scheme.
    shared = plain["hosts"].removeprefix("https://")
    parts = [sign_in, shared, *(plain.get(name, "") for name in (*needed, "account"))]
    return ConnectionSettings(plain, sealed, Auth.KEY, subject=" ".join(parts), domain=hosts[0])


def _text(name: str, value: JsonValue, errors: dict[str, list[str]]) -> str:
    longest = int(str(_FIELDS[name]["maxLength"])) if "maxLength" in _FIELDS[name] else 20
    if not isinstance(value, str) or len(value) > longest:
        errors[name] = [f"Give a text of at most {longest} characters."]
        return ""
    text = value.strip()
    if not text.isprintable() and name != "custom":
        errors[name] = ["It contains characters that cannot be sent."]
    return text


def _hosts(text: str, private_hosts: Collection[str], errors: dict[str, list[str]]) -> list[str]:
    """Returns the hosts as the account keeps them (`outbound/hosts.py`)."""
    entries = re.findall(r"[^\s,;]+", text)
    if not entries:
        errors.setdefault("hosts", ["Name the host of the API, such as api.example.com."])
    if len(entries) > MAX_HOSTS:
        errors["hosts"] = [f"Name at most {MAX_HOSTS} hosts."]
    try:
        hosts = list(dict.fromkeys(_permitted_host(entry, private_hosts) for entry in entries))
    except ValueError as error:
        errors["hosts"] = [str(error)]
        return []
    # A public host could redirect to a private one beside it.
    private = next((host for host in hosts if listing_of(host) is not None), None)
    if private is not None and len(hosts) > 1:
        errors["hosts"] = [f"“{private[:80]}” needs an account of its own. Name it without other hosts."]
    return hosts


def _permitted_host(entry: str, private_hosts: Collection[str]) -> str:
    """Returns the host that an entry names. Raises ValueError with words, also if it may not be called."""
    named = _named_host(entry)
    listing = listing_of(named)
    if listing is not None and listing not in private_hosts:
        raise ValueError(unlisted_words(listing))
    return named


def _named_host(entry: str) -> str:
    """Returns the host that an entry, which may be a whole address, names. Raises ValueError with words."""
    scheme, separator, after_scheme = entry.partition("://")
    host_and_port = (after_scheme if separator else entry).partition("/")[0].lower()
    if not separator and re.fullmatch(r".+:[0-9]+", host_and_port):
        raise ValueError(f"Write http:// or https:// before “{entry[:80]}”, as the program is called.")
    if separator and scheme.lower() not in ("http", "https"):
        raise ValueError(f"“{entry[:80]}” is not called: name a host that is called over https or http.")
    if scheme.lower() != "http" and is_host_entry(host_and_port) and not looks_like_address(host_and_port):
        return host_and_port
    return _origin_entry(f"{scheme.lower()}://{host_and_port}" if separator else "", entry)


def _origin_entry(url: str, entry: str) -> str:
    try:
        origin = parsed_origin(f"{url}/")
    except CallRefused:
        origin = None
    if origin is not None and (looks_like_address(origin.host) or is_host_name(origin.host)):
        return entry_of(origin)
    if origin is not None and origin.host.startswith("*."):
        message = f"“{entry[:80]}” names several hosts, which is possible only for https on port 443."
        raise ValueError(f"{message} Connect an account for each host.")
    message = f"“{entry[:80]}” is not the name of a host, such as api.example.com."
    raise ValueError(f"{message} Of a private host, write the whole address.")


def _sign_in(texts: Mapping[str, str], errors: dict[str, list[str]]) -> str:
    """Returns the one sign-in whose fields are filled in."""
    begun = [name for name, fields in SIGN_INS.items() if any(field in texts for field in fields)]
    if len(begun) == 1:
        return begun[0]
    if not begun:
        errors.setdefault("token", ["Give a token, or choose another sign-in."])
        return "bearer"
    for name in begun:
        errors.setdefault(SIGN_INS[name][-1], ["Give the fields of one sign-in only."])
    return begun[0]


def _check_values(
    texts: Mapping[str, str], hosts: list[str], private_hosts: Collection[str], errors: dict[str, list[str]]
) -> None:
    if "header_name" in texts and not _is_header(texts["header_name"]):
        errors["header_name"] = ["This is not the name of a header that can be sent."]
    if "path_prefix" in texts and not _PATH_PREFIX.fullmatch(texts["path_prefix"]):
        errors["path_prefix"] = ["Give the beginning of the path, such as /bot."]
    for name in ("token_url", "person_token_url", "test_url"):
        if name in texts and not _is_address(texts[name], private_hosts):
            errors[name] = ["Give a complete https address."]
    if "test_url" in texts and not errors.keys() & {"test_url", "hosts"}:
        _check_test_host(texts["test_url"], hosts, errors)
    if texts.get("client_in", "body") not in ("body", "header"):
        errors["client_in"] = ["Choose body or header."]
    if texts.get("sign_in", NO_SIGN_IN) != NO_SIGN_IN:
        errors["sign_in"] = ["Only “none” is named. Another sign-in follows from the fields you give."]
    if "custom" in texts and "custom" not in errors:
        _check_custom(texts["custom"], errors)


def _check_test_host(url: str, hosts: list[str], errors: dict[str, list[str]]) -> None:
    if not names_origin(hosts, parsed_origin(url)):
        errors["test_url"] = ["The address must be on one of the hosts above."]


def _check_custom(text: str, errors: dict[str, list[str]]) -> None:
    try:
        placed(text)
    except ValueError as error:
        errors["custom"] = [str(error)]


def _is_address(url: str, private_hosts: Collection[str]) -> bool:
    try:
        origin_of(url, private_hosts)
    except CallRefused:
        return False
    return True


def _is_header(name: str) -> bool:
    return _HEADER.fullmatch(name) is not None and name.lower() not in _OF_TRANSPORT


def placed(text: str) -> PlacedSecrets:
    """Returns which secrets a custom sign-in puts where in a request. Raises ValueError with a message."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("This is not JSON.") from None
    if not isinstance(fields, dict) or not set(fields) <= _IN_CUSTOM or not any(fields.values()):
        message = 'Give an object with "headers" and "qs", each an object of names and texts,'
        message += (
            ' "auth", an object with "username" and "password", "path", an object with what comes before'
        )
        raise ValueError(f'{message} the key and the key, and "body", a list of texts.')
    headers, query = _pairs(fields, "headers"), _pairs(fields, "qs")
    if any(not _is_header(name) for name, _ in headers):
        raise ValueError("One of the headers has a name that cannot be sent.")
    auth = _basic(fields)
    if auth is not None and any(name.lower() == "authorization" for name, _ in headers):
        raise ValueError("Give either “auth” or the header “Authorization”.")
    return PlacedSecrets(headers, query, path=_path(fields), body=_body(fields), auth=auth)


def _path(fields: Mapping[str, object]) -> tuple[tuple[str, Secret], ...]:
    paths = _pairs(fields, "path")
    if len(paths) > MAX_PATH_KEYS:
        raise ValueError(f"“path” may have at most {MAX_PATH_KEYS} keys.")
    if not all(_PATH_WITH_KEYS.fullmatch(prefix) for prefix, _ in paths):
        message = "“path” must be an object: what comes before a key in the path, such as /bot, and the key."
        raise ValueError(f"{message} Write * for another key before it: /bot*/file/.")
    return paths


def _body(fields: Mapping[str, object]) -> tuple[Secret, ...]:
    keys = fields.get("body", [])
    if not isinstance(keys, list) or not all(map(_is_sendable, keys)):
        raise ValueError("“body” must be a list of texts: the keys in the body, in their order.")
    return tuple(Secret(str(key)) for key in keys)


def _pairs(fields: Mapping[str, object], name: str) -> tuple[tuple[str, Secret], ...]:
    values = fields.get(name, {})
    if not isinstance(values, dict) or not all(map(_is_sendable, values.values())):
        raise ValueError(f"“{name}” must be an object of names and texts.")
    return tuple((key, Secret(str(value))) for key, value in values.items())


def _basic(fields: Mapping[str, object]) -> Basic | None:
    texts = dict(_pairs(fields, "auth"))
    if not texts:
        return None
    if texts.keys() != {"username", "password"} or ":" in texts["username"].reveal():
        raise ValueError("“auth” must have a “username”, without a colon, and a “password”.")
    return Basic(texts["username"], texts["password"])


def _is_sendable(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and str(value).isprintable()


def credentials_of(plain: Mapping[str, str], sealed: Mapping[str, Secret]) -> Credentials:
    """Returns the credentials of the account's requests. Raises BadSettings for an unknown sign-in."""
    match plain.get("sign_in"):
        case "none":
            return None
        case "bearer":
            return Bearer(sealed["token"])
        case "header":
            return PlacedSecrets(headers=((plain["header_name"], sealed["header_value"]),))
        case "query":
            return PlacedSecrets(query=((plain["query_name"], sealed["query_value"]),))
        case "basic":
            return Basic(Secret(plain["username"]), sealed["password"])
        case "path":
            return PlacedSecrets(path=((plain["path_prefix"], sealed["path_key"]),))
        case "body":
            return PlacedSecrets(body=(sealed["body_key"],))
        case "refresh_token":
            return UserSignIn(
                plain["person_client_id"],
                sealed["person_client_secret"],
                sealed["refresh_token"],
                plain["person_token_url"],
                plain.get("client_in") == "header",
            )
        case "custom":
            return placed(sealed["custom"].reveal())
        case "client_credentials":
            return ClientCredentials(
                plain["client_id"],
                sealed["client_secret"],
                plain["token_url"],
                "Authorization",
                tuple((name, plain[name]) for name in ("scope", "audience") if name in plain),
                plain.get("client_in") == "header",
            )
    raise BadSettings({"": ["This sign-in is no longer known. Reconnect the account."]})


# The fields to fill in before signing in with an app of one's own; `authorize_url` is the sign-in page.
_AUTHORIZE = "authorize_url"
_OF_SIGN_IN = ("person_client_id", "person_client_secret", "person_token_url")
SIGN_IN_SCHEMA: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["hosts", _AUTHORIZE, *_OF_SIGN_IN],
    "properties": {
        "hosts": _FIELDS["hosts"],
        _AUTHORIZE: {"type": "string", "title": "Address where people sign in", "maxLength": 2000},
        "person_token_url": {**_FIELDS["person_token_url"], "title": "Address that gives tokens"},
        "person_client_id": _FIELDS["person_client_id"],
        "person_client_secret": _FIELDS["person_client_secret"],
        "scope": _FIELDS["scope"],
        "client_in": _FIELDS["client_in"],
        "test_url": _FIELDS["test_url"],
        "account": _FIELDS["account"],
    },
}


def own_app_of(form: JsonObject, private_hosts: Collection[str]) -> OwnApp:
    """Returns the app described in the form of a sign-in. Raises BadSettings."""
    address = form.get(_AUTHORIZE)
    errors: dict[str, list[str]] = {}
    if not isinstance(address, str) or len(address) > 2000 or not _is_address(address, private_hosts):
        errors[_AUTHORIZE] = ["Give a complete https address."]
    properties = SIGN_IN_SCHEMA["properties"]
    if isinstance(properties, Mapping):
        errors |= unknown_settings(form, properties, "This is not a setting of a sign-in.")
    try:
        plain, sealed = _signing_in(form, private_hosts)
    except BadSettings as bad_settings:
        raise BadSettings({**bad_settings.errors, **errors}) from None
    if errors:
        raise BadSettings(errors)
    return OwnApp(
        plain["person_client_id"],
        sealed["person_client_secret"],
        str(address),
        plain["person_token_url"],
        plain.get("scope", ""),
        plain.get("client_in") == "header",
    )


def signed_in_settings(
    form: JsonObject, private_hosts: Collection[str], *, access_token: Secret, refresh_token: Secret | None
) -> ConnectionSettings:
    """Returns the settings of an account that a person signed in to. Raises BadSettings."""
    pending = settings_of(_as_keys(form), private_hosts)
    plain = {**pending.plain, _AUTHORIZE: str(form[_AUTHORIZE])}
    secret = pending.sealed["person_client_secret"]
    sealed: dict[str, Secret] = {"person_client_secret": secret}
    if refresh_token is None:
        plain["sign_in"], sealed["token"] = "bearer", access_token
    else:
        sealed["refresh_token"] = refresh_token
    return ConnectionSettings(
        plain, sealed, Auth.USER_SIGN_IN, subject=pending.subject, domain=pending.domain
    )


def _signing_in(
    form: JsonObject, private_hosts: Collection[str]
) -> tuple[Mapping[str, str], Mapping[str, Secret]]:
    pending = settings_of(_as_keys(form), private_hosts)
    return pending.plain, pending.sealed


def _as_keys(form: JsonObject) -> JsonObject:
    """Returns the form with a placeholder for the token that the sign-in will return."""
    names = {"hosts", *_OF_SIGN_IN, *_OPTIONAL}
    return {**{name: value for name, value in form.items() if name in names}, "refresh_token": "pending"}
