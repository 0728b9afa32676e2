"""Keeps secrets out of logs and messages: the `Secret` type and the register of live secrets."""

import base64
import copyreg
import hmac
import html
import json
import re
from collections import OrderedDict
from functools import lru_cache
from typing import NoReturn, SupportsIndex
from urllib.parse import quote, quote_plus

_MASK = "***"
REDACTED = "[redacted]"
_SHORTEST = 8
_MAX_SECRETS = 20_000
# Secrets whose forms are kept, since each response of a platform is searched for those of its account.
_KEPT_FORMS = 1_000
_PERCENT = re.compile("%[0-9A-F]{2}")
_MARKUP = re.compile("[<>&'=]")
# Places where library texts hold secrets that are not registered: `user:password@`, query strings, the value
# of an Authorization header, and what follows a name such as `api_key=` or `b'x-token': b'`.
_USER_PART = re.compile(r"(?<=://)[^\s/?#\"'<>]+@")
_QUERY = re.compile(r"\?[^\s?\"'<>=]{1,200}=[^\s\"'<>]*")
_SCHEME = re.compile(r"\b(bearer|basic|digest|token)(\s+)[A-Za-z0-9._~+/=:-]{8,}", re.IGNORECASE)
# A whole Cookie header, whose pairs are separated by semicolons.
_COOKIES = re.compile(
    r"(cookie[\"']?\s{0,3}(?:[:=]|,(?=\s{0,3}b?[\"']))\s{0,3}(?:b?[\"'])?)[^\r\n\"']+", re.IGNORECASE
)
_NAMED = re.compile(
    r"([A-Za-z0-9_-]{0,40}(?:authorization|cookie|token|secret|api[_-]?key|password|passwd|signature)"
    r"[A-Za-z0-9_-]{0,40}[\"']?\s{0,3}(?:[:=]|,(?=\s{0,3}b?[\"']))\s{0,3}"
    r"(?!b?[\"']?\[redacted)(?:b?[\"'])?)[^\s\"',;&)}\]]+",
    re.IGNORECASE,
)


class Secret(str):
    """A decrypted value that shows itself as `***` in text, repr, JSON and pickles.

    It is a `str` with the text `***`, so that code unaware of it writes the mask, not the value.
    """

    __slots__ = ("_value",)
    _value: str

    def __new__(cls, value: str) -> "Secret":
        secret = super().__new__(cls, _MASK)
        secret._value = value
        return secret

    def reveal(self) -> str:
        """Returns the value; only the guarded client and the verifier of store events call it."""
        return self._value

    def __repr__(self) -> str:
        return _MASK

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return False
        return hmac.compare_digest(self._value.encode("utf-8"), other._value.encode("utf-8"))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: object) -> "Secret":
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        return copyreg.__newobj__, (Secret, _MASK)  # type: ignore[attr-defined]

    def __getstate__(self) -> NoReturn:
        raise TypeError("a secret has no state to show")


def without_credentials(text: str) -> str:
    """Returns a library's text without the parts that visibly authenticate a URL or a request."""
    text = _USER_PART.sub(f"{REDACTED}@", text)
    text = _QUERY.sub(f"?{REDACTED}", text)
    text = _COOKIES.sub(rf"\1{REDACTED}", text)
    text = _SCHEME.sub(rf"\1\2{REDACTED}", text)
    return _NAMED.sub(rf"\1{REDACTED}", text)


@lru_cache(maxsize=_KEPT_FORMS)
def forms(value: str) -> frozenset[str]:
    """Returns the forms of a secret in text, kept for the last thousand secrets.

    See docs/decisions/0311-forms-of-secrets-are-kept.md.
    """
    return _made_forms(value)


def _made_forms(value: str) -> frozenset[str]:
    """Returns the forms of a secret: plain, base64 at any offset, URL-, HTML-, JSON-escaped."""
    variants = {quote(value, safe=""), quote(value), quote_plus(value)}
    variants |= {_PERCENT.sub(lambda match: match[0].lower(), variant) for variant in variants}
    for text in {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
        variants |= {text, text.replace("/", "\\/"), _MARKUP.sub(lambda hit: f"\\u{ord(hit[0]):04x}", text)}
    variants |= {value, html.escape(value), html.escape(value, quote=False)}
    raw = value.encode("utf-8")
    for offset in range(3):
        # The first characters mix with the bytes before, the last with those after: both are cut off.
        padded = b"\0" * offset + raw
        whole_groups = padded[: len(padded) // 3 * 3]
        coded = base64.b64encode(whole_groups)[(0, 2, 3)[offset] :].decode("ascii")
        variants |= {coded, coded.replace("+", "-").replace("/", "_")}
    variants.add(base64.b64encode(raw).decode("ascii"))
    variants.add(base64.urlsafe_b64encode(raw).decode("ascii"))
    return frozenset(form for form in variants if len(form) >= _SHORTEST)


class SecretRegister:
    """The live secrets of a process; `clean` replaces each of them by `[redacted]`.

    Secrets are looked up by their last eight characters, so that a line costs the same with one secret or
    ten thousand. The first characters would not do: addresses and keys of one platform share them.
    """

    def __init__(self) -> None:
        self._variants_by_secret: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._by_end: dict[str, list[str]] = {}

    def add(self, *values: str) -> None:
        """Adds secrets, except those under eight characters; forgets the oldest beyond 20,000."""
        for secret in values:
            value = secret.reveal() if isinstance(secret, Secret) else secret
            if len(value) < _SHORTEST:
                continue
            if value in self._variants_by_secret:
                self._variants_by_secret.move_to_end(value)
                continue
            self._variants_by_secret[value] = tuple(_made_forms(value))
            for form in self._variants_by_secret[value]:
                self._by_end.setdefault(form[-_SHORTEST:], []).append(form)
            if len(self._variants_by_secret) > _MAX_SECRETS:
                self._forget(*self._variants_by_secret.popitem(last=False))

    def clean(self, text: str) -> str:
        """Returns `text` with every live secret replaced; overlapping secrets are replaced together."""
        spans = self._spans(text)
        if not spans:
            return text
        parts: list[str] = []
        position = 0
        for start, end in sorted(spans):
            if start >= position and (start > position or not parts):
                parts += [text[position:start], REDACTED]
            position = max(position, end)
        return "".join([*parts, text[position:]])

    def _spans(self, text: str) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        for end in range(_SHORTEST, len(text) + 1):
            for form in self._by_end.get(text[end - _SHORTEST : end], ()):
                start = end - len(form)
                if start >= 0 and text.startswith(form, start):
                    spans.append((start, end))
        return spans

    def _forget(self, value: str, variants: tuple[str, ...]) -> None:
        for form in variants:
            remaining = self._by_end[form[-_SHORTEST:]]
            remaining.remove(form)
            if not remaining:
                del self._by_end[form[-_SHORTEST:]]
