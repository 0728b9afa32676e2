"""Takes credential values out of an export before anything is kept, naming where they were."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

# Names of fields, headers and query parameters whose values are keys.
_NAMED = re.compile(
    r"(?i)\A(?:x[-_])?(?:pass(?:word|wd|phrase)?|pwd|secret|token|auth(?:orization)?|cookie|set[-_]?cookie|"
    r"api[-_]?(?:key|token|secret)|access[-_]?(?:key|token)|refresh[-_]?token|id[-_]?token|bearer|"
    r"client[-_]?secret|private[-_]?key|consumer[-_]?(?:key|secret)|app[-_]?(?:key|secret|password)|"
    r"auth[-_]?(?:key|token)|session[-_]?(?:id|token)|csrf[-_]?token|hmac[-_]?(?:key|secret)|"
    r"webhook[-_]?secret|signing[-_]?secret|shopify[-_]access[-_]token|goog[-_]api[-_]key|subscription[-_]?key|"
    r"apikey|xapikey|key|sig|signature)\Z"
)
_IN_OBJECT = re.compile(r"(?i)\A(?:key|sig|signature|auth|session[-_]?id)\Z")  # too common as fields of data
# Values that are keys by their look, wherever they stand.
_SHAPED = re.compile(
    r"(?:sk|pk|rk)[-_](?:live|test|proj|ant|or)[-_][A-Za-z0-9_-]{16,}|\bsk-[A-Za-z0-9]{20,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"
    r"|\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,}"
    r"|xox[abposr]-[A-Za-z0-9-]{10,}|\bAIza[0-9A-Za-z_-]{35}|\bya29\.[0-9A-Za-z_-]{20,}|\bAKIA[0-9A-Z]{16}\b"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}|\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b"
    r"|\bc[ks]_[0-9a-f]{40}\b|SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|hooks\.slack\.com/services/[A-Za-z0-9/]{20,}|\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}"
    r"|(?i:\bbearer\s+[A-Za-z0-9._~+/=-]{16,})|(?i:\bbasic\s+[A-Za-z0-9+/]{16,}=*)"
)
_ADDRESS = re.compile(r"(?i)https?://[^\s\"'<>{}]+")
# A field of JSON written as text, with expressions in it or within a script.
_WRITTEN = re.compile(
    r'(?P<name>(?P<q>["\'])([\w.-]{1,60})(?P=q))(?P<to>\s*+\]?\s*+(?::|=(?!=))\s*+)'
    r'(?P<v>["\'`])(?P<value>(?:(?!(?P=v))[^\\\n]|\\.)*)(?P=v)'
)
# The same in a script, by a bare name: a field, a variable or a member that is set.
_SET = re.compile(
    r'(?P<name>(?<![\w$"\'`-])([A-Za-z_$][\w$]{1,59}))(?P<to>\s*+(?::|=(?!=))\s*+)'
    r'(?P<v>["\'`])(?P<value>(?:(?!(?P=v))[^\\\n]|\\.)*)(?P=v)'
)
# An expression that is nothing but texts, joined or not, and one as the value of a key in an address.
_TEXT = r"(?:'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\$]|\\.)*`)"
_FIXED = re.compile(r"\{\{\s*+" + _TEXT + r"(?:\s*+\+\s*+" + _TEXT + r")*+\s*+\}\}")
_FIXED_KEY = re.compile(r"([?&]([\w.-]{1,60})=)" + _FIXED.pattern)
# A key among the parameters of an address that has expressions in it, or of a form.
_PARAMETER = re.compile(r"((?:\A|\?|(?<!&)&)([\w.-]{1,60})=)([^\s&#\"'<>{}]{4,})")
_PAIR_NAMES = ("name", "key", "field")
EMPTY = ""


def without_secrets(value: Any) -> tuple[Any, list[str]]:
    """The tree with every credential value replaced by an empty text, and the paths where one was."""
    paths: list[str] = []
    return _clean(value, "", paths), paths


def _clean(value: Any, path: str, paths: list[str]) -> Any:
    if isinstance(value, Mapping):
        cleaned = {}
        for name, member in value.items():
            where = f"{path}.{name}" if path else str(name)
            if _holds_key(value, str(name)) and is_literal(member):
                paths.append(where)
                cleaned[name] = EMPTY
            else:
                cleaned[name] = _clean(member, where, paths)
        return cleaned
    if isinstance(value, list):
        return [_clean(member, f"{path}.{index}", paths) for index, member in enumerate(value)]
    return _text(value, path, paths) if isinstance(value, str) else value


def _holds_key(values: Mapping[str, Any], name: str) -> bool:
    """Whether the member of this name holds a key: by its name, or as the `value` beside a key's name."""
    if is_named(name):
        return True
    if name != "value":
        return False
    pair_name = next((values[member] for member in _PAIR_NAMES if isinstance(values.get(member), str)), None)
    return pair_name is not None and is_named_header(pair_name)


def is_named(name: str) -> bool:
    """Whether a field of this name holds a key."""
    return bool(_NAMED.match(name)) and not _IN_OBJECT.match(name)


def is_named_header(name: str) -> bool:
    """The same of a header or a parameter of an address, where fewer names are common."""
    return bool(_NAMED.match(name.strip()))


def is_literal(value: object) -> bool:
    """A value that holds something itself: no expression, not empty, no choice of n8n."""
    if isinstance(value, str):
        return bool(value.strip()) and "{{" not in _FIXED.sub("", value) and len(value) > 3
    return isinstance(value, int) and not isinstance(value, bool) and value > 9999


def _text(text: str, path: str, paths: list[str]) -> str:
    inside = _inside(text)
    cleaned = _SET.sub(_written, _WRITTEN.sub(_written, text)) if inside is None else inside
    cleaned = _FIXED_KEY.sub(lambda hit: hit[1] if _NAMED.match(hit[2]) else hit[0], cleaned)
    cleaned = _SHAPED.sub(EMPTY, cleaned)
    cleaned = _ADDRESS.sub(lambda hit: _address(hit[0]), cleaned)
    is_key = is_named_header if "://" in text else is_named
    cleaned = _PARAMETER.sub(lambda hit: hit[1] if is_key(hit[2]) else hit[0], cleaned)
    if cleaned != text:
        paths.append(path)
    return cleaned


def _inside(text: str) -> str | None:
    """The text of a whole JSON (a body, headers, a called workflow) without its keys; None: no such text."""
    mark = "=" if text.startswith("=") else ""
    bare = text.removeprefix("=")
    if bare.lstrip()[:1] not in ("{", "[") or (mark and "{{" in bare):
        return None
    try:
        cleaned, paths = without_secrets(json.loads(bare))
    except (ValueError, RecursionError):
        return None
    return mark + json.dumps(cleaned) if paths else text


def _written(hit: re.Match[str]) -> str:
    name, value, mark = hit["name"].strip("\"'"), hit["value"], hit["v"]
    if not (is_named(name) and is_literal(value)) or (mark == "`" and "${" in value):
        return hit[0]
    return f"{hit['name']}{hit['to']}{mark}{mark}"


def _address(address: str) -> str:
    """An address without user-info and without the values of key parameters."""
    try:
        parts = urlsplit(address)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return address
    has_user = "@" in parts.netloc
    has_key = any(_NAMED.match(name) and value for name, value in query)
    if not has_user and not has_key:
        return address
    cleaned_query = [(name, EMPTY if _NAMED.match(name) else value) for name, value in query]
    return urlunsplit(
        (
            parts.scheme,
            parts.netloc.rpartition("@")[2],
            parts.path,
            urlencode(cleaned_query, quote_via=quote) if has_key else parts.query,
            parts.fragment,
        )
    )
