"""Judges by its form whether a value is a secret: known prefixes, length and randomness."""

import base64
import binascii
import re
import string
from functools import lru_cache
from typing import Final

import re2

from steward.imports.secrets.names import NameWeight, weight_of, word_set, words_of
from steward.model.removed_secrets import MARKER

# Formats of keys by issuer. If a pattern has a group, the group is the secret.
_BEFORE: Final = r"(?:^|[^A-Za-z0-9])"
_SHAPE_LIST: Final = (
    _BEFORE + r"((?:sk|pk|rk)[-_](?:live|test|proj|ant|or|svcacct|admin|prod)[-_][A-Za-z0-9_-]{12,})",
    _BEFORE + r"(sk-[A-Za-z0-9]{20,})",
    r"(shp(?:at|ca|pa|ss|ua|tka)_[0-9a-zA-Z]{20,})",
    r"(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{22,}|gl(?:pat|ptt|dt|rt|soat)-[A-Za-z0-9_-]{20,})",
    r"(xox[abeoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,})",
    r"(AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{20,}|1//0[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{20,})",
    _BEFORE + r"((?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16})",
    r"(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
    _BEFORE + r"(?:bot)?([0-9]{8,10}:[A-Za-z0-9_-]{35})",
    _BEFORE + r"(c[ks]_[0-9a-f]{40})",
    r"(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})",
    r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{16,})",
    r"discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/([0-9]{10,}/[A-Za-z0-9_-]{20,})",
    r"webhook\.office\.com/(webhookb2/[A-Za-z0-9@/_-]{30,})",
    r"hooks\.zapier\.com/hooks/catch/([0-9]+/[A-Za-z0-9]+)",
    r"hook\.(?:[a-z0-9]+\.)?(?:make|integromat)\.com/([A-Za-z0-9]{20,})",
    r"maker\.ifttt\.com/trigger/[^/\s]{1,80}/(?:json/)?with/key/([A-Za-z0-9_-]{10,})",
    _BEFORE + r"(pat[A-Za-z0-9]{14}\.[0-9a-f]{32,}|pat-[a-z]{2}[0-9]-[0-9a-f-]{30,})",
    _BEFORE + r"((?:npm|hf|gsk|r8|ntn|re|dop_v1|doo_v1|sbp|lin_api|apify_api|figd|secret|whsec|tskey|rzp_live"
    r"|rzp_test|pscale_tkn|pscale_pw|shippo_live|shippo_test|sq0atp|sq0csp|glsa|glc|live|testrpa|pul|key|cal_live|phc|phx|nfp|wpu|app_live)[-_][A-Za-z0-9_=-]{20,})",
    _BEFORE
    + r"((?:sq0atp|sq0csp|pypi|xai|nvapi|tvly|pplx|fc|PMAK|NRAK|NRJS|AGE-SECRET-KEY|hvs|hvb|duffel_live"
    r"|xkeysib|xsmtpsib|lsv2_pt|lsv2_sk|jina|voyage|aio|ops|napi|rnd|dckr_pat|sb_secret)[-_.][A-Za-z0-9_.-]{16,})",
    _BEFORE + r"((?:EAAA|EAAB|EAAC|EAAD|EAAE|EAAF|EAAG|EAAH|EAAI|EAAJ|EAAM)[A-Za-z0-9]{30,})",
    _BEFORE
    + r"((?:SK|key-|dapi)[0-9a-f]{32}|(?:ATATT|ATCTT)3x[A-Za-z0-9_=-]{24,}|(?:EZAK|EZTK)[A-Za-z0-9_-]{24,})",
    _BEFORE + r"([0-9a-f]{32}-us[0-9]{1,2})",
    _BEFORE + r"([MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})",
)
SHAPES: Final = re2.compile("|".join(_SHAPE_LIST))
# `Basic` and `Bearer` before a credential.
SIGN_IN: Final = re2.compile(
    r"(?i)\b(basic|bearer|bot|token|apikey|negotiate)[ \t:]{1,3}([A-Za-z0-9._~+/=-]{8,})"
)
PRIVATE_START: Final = "-----BEGIN "
PRIVATE: Final = re.compile(PRIVATE_START + r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# Prefixes above that ids and words share; they count only if the rest is random.
_COMMON_PREFIX: Final = re.compile(
    r"(?:re|key|live|test|secret|rpa|pul|ops|aio|rnd|fc|jina|voyage|hf|r8|dapi|phc|phx|nfp)[-_.]"
)

# UUIDs, and Twilio's ids of objects; Twilio's keys begin with SK.
_PUBLIC_IDS: Final = re.compile(
    r"(?i:\{?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}?)"
    r"|(?:AC|AP|CA|CH|FW|HX|IS|MG|MM|PN|RE|SM|VA|WS|WW|ZS)[0-9a-f]{32}"
)
_HEX: Final = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_\-+/=.~:%$!@#^&*]+")
_DIGIT_RUNS: Final = re.compile(r"[0-9]+")
_NUMERIC: Final = re.compile(r"[\d\s.,:/+\-T%Z]+")
_WORDS: Final = re.compile(r"[^\W\d_]+(?:[-_'’. ,:;!?…()/\"„“”&]+[^\W\d_]+)*[.!?…:)\"“”]*")
_SCHEME: Final = re.compile(
    r"(?i)(bearer|basic|token|bot|key|apikey|api-key|digest|zoho-oauthtoken|klaviyo-api-key|sso-key|negotiate"
    r"|geniekey|oauth|jwt|aws4-hmac-sha256)[ \t:]+(?=\S)"
)
_PLACES: Final = re.compile(r"(?i)https?://[^\s@?]*(?:\?[^\s@]*)?|/[\w./-]*")
_NO_VALUES: Final = word_set(
    """
    true false null none undefined nan yes no string text number required optional hidden bearer basic
    token password secret key auth default object array boolean integer date unknown empty test todo n/a
    tbd never always invalid valid expired missing header query body apikey oauth oauth2 session cookie
    jwt email username
    """
)
_TEXT_START: Final = (
    *(
        "iVBORw0KGgo",
        "/9j/",
        "R0lGOD",
        "UklGR",
        "JVBERi",
        "UEsDB",
        "PHN2Zy",
        "PD94bWw",
        "Qk0",
        "SUkq",
        "AAAB",
    ),
    *(
        "data:",
        "Z2lkOi8v",
        "T2dnU",
        "AAAA",
        "H4sI",
        "SUQz",
        "PCFET0",
        "PGh0bWw",
        "urn:",
        "gid:",
        "wamid.",
        "AAMk",
    ),
)
_IDS: Final = re.compile(
    r"1[A-Za-z0-9_-]{32}|1[A-Za-z0-9_-]{43}|0[AB][A-Za-z0-9_-]{17,31}|1FAIpQL[A-Za-z0-9_-]+|AKfycb[A-Za-z0-9_-]+"
    r"|2PACX-[A-Za-z0-9_-]+|[a-z]{2,12}_[A-Za-z0-9]+|[A-Za-z]{2,16}_[0-9a-f]+|sha(?:1|256|384|512)-[A-Za-z0-9+/=]+|(?:app|tbl|rec|viw|fld|usr)[A-Za-z0-9]{14}"
)
_DIGESTS: Final = {24: "==", 28: "=", 44: "=", 64: "", 88: "=="}  # of MD5, SHA-1, SHA-256, SHA-384, SHA-512
_SENTENCE: Final = word_set(
    """
    a an the is are was be to of in for and or not with by on at it this that from as your you please
    enter must can
    der die das ein eine ist sind wird und oder nicht mit im in zu von bitte den dem für auf auch
    """
)
_ASKING: Final = word_set(
    """
    your my insert replace enter here put add paste dein deine ihr ihre
    tu su sua seu votre cole pega aqui aquí
    """
)
_CLASSES: Final = tuple(map(frozenset, (string.ascii_lowercase, string.ascii_uppercase, string.digits)))
# Maps each ASCII character to its class; others without a class are left out.
_TO_CLASS: Final = {
    code: "d" if one.isdigit() else "u" if one.isupper() else "l" if one.isalnum() else None
    for code, one in enumerate(map(chr, range(128)))
}
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
_KEY_SIGN: Final = re.compile(r"[!@#$%^&*+=?~]")
_CASE_CHANGE: Final = re.compile(r"[a-z](?=[A-Z])")
_SAME_CLASS: Final = re.compile("l+|u+|d+")
_SHORTEST: Final = 4
_LONGEST: Final = 8192


def is_removed(text: str) -> bool:
    """Returns whether the text contains a marker of a removed secret."""
    return MARKER.search(text) is not None


def scheme_length(value: str) -> int:
    """Returns the length of a credential's scheme (`Bearer `), or 0 without one."""
    hit = _SCHEME.match(value)
    return hit.end() if hit else 0


def is_secret(value: str, weight: NameWeight) -> bool:
    """Returns whether the value of a name with this weight is a secret."""
    if weight is NameWeight.NONE:
        return False
    bare = value.strip()
    if len(bare) < _SHORTEST or is_removed(bare):
        return False
    if weight is NameWeight.WEAK:
        scheme = scheme_length(bare)
        bare = bare[scheme:]
        if scheme and " " not in bare and is_loose_secret(bare):
            return True
        return len(bare) >= 12 and _TOKEN.fullmatch(bare[:_LONGEST]) is not None and _is_opaque(bare)
    return _is_plausible(bare)


def _is_plausible(bare: str) -> bool:
    credential = bare[scheme_length(bare) :]
    if len(credential) < len(bare):
        return len(credential) >= 6 and credential.lower() not in _NO_VALUES
    if bare.lower() in _NO_VALUES or (_PLACES.fullmatch(bare) and not _is_path_like_key(bare)):
        return False
    if " " in bare and _WORDS.fullmatch(bare[:_LONGEST]):
        return _is_phrase(bare)
    return not _is_date(bare)


def _is_phrase(bare: str) -> bool:
    """Returns whether words form a passphrase and not a sentence."""
    words = bare.split()
    return (
        4 <= len(words) <= 12
        and bare.islower()
        and bare.replace(" ", "").isalpha()
        and len(set(words)) > 3
        and (_SENTENCE.isdisjoint(words))
    )


def _is_path_like_key(bare: str) -> bool:
    return bare.startswith("/") and bare.count("/") < 4 and len(bare) >= 20 and _is_opaque(bare)


def _is_date(text: str) -> bool:
    return len(text) >= 8 and _NUMERIC.fullmatch(text) is not None and not text.isdecimal()


def is_name(value: str) -> bool:
    """Returns whether a text is the name of a secret, or a plain word, instead of a secret."""
    return (
        value.replace("_", "").replace("-", "").replace(" ", "").isalpha()
        and weight_of(value) is not NameWeight.NONE
    )


def is_placeholder(value: str) -> bool:
    """Returns whether a text is a placeholder for a secret (`YOUR_API_KEY`)."""
    return not _ASKING.isdisjoint(words_of(value))


def is_loose_secret(value: str) -> bool:
    """Returns whether a word after a name is a secret and not a plain word, a short number or a date."""
    if len(value) < 6 or is_removed(value) or _NUMERIC.fullmatch(value) or value.lower() in _NO_VALUES:
        return len(value) >= 6 and value.isdecimal()
    if "://" in value or value.startswith(("$", "{{", "<", "@")):
        return False
    if value.startswith("/") and not _is_opaque(value):
        return False
    has_digit = _DIGIT.search(value) is not None
    has_letter = _LETTER.search(value) is not None
    has_sign = _KEY_SIGN.search(value, 0, len(value) - 1) is not None
    return has_letter and (has_digit or has_sign or _changes_case(value))


def _changes_case(value: str) -> bool:
    return len(value) >= 16 and value.isascii() and len(_CASE_CHANGE.findall(value)) >= len(value) // 6


def is_random_text(value: str) -> bool:
    """Returns whether a text looks like a secret even without a name."""
    if not 24 <= len(value) <= 400 or is_removed(value) or value.startswith(_TEXT_START):
        return False
    if "/" in value or _classes(value) < 3 or _changes(value) < 0.38:
        return False
    if _DIGESTS.get(len(value)) == value[len(value.rstrip("=")) :]:
        return False
    return not (_IDS.fullmatch(value) or _PUBLIC_IDS.fullmatch(value) or _is_readable(value))


def is_shared_path(segment: str) -> bool:
    """Returns whether a segment of a webhook's path is a key that only its callers know."""
    if len(segment) < 12 or _PUBLIC_IDS.fullmatch(segment) or is_removed(segment):
        return False
    return _is_opaque(segment)


def has_common_prefix(value: str) -> bool:
    """Returns whether a key has a prefix that other values share and a rest that is not random."""
    hit = _COMMON_PREFIX.match(value)
    return hit is not None and not _is_opaque(value[hit.end() :])


def _is_opaque(value: str) -> bool:
    """Returns whether a text looks random: hexadecimal, or with frequent changes of character class."""
    if _PUBLIC_IDS.fullmatch(value) or value.isdecimal() or _is_date(value):
        return False
    if len(value) >= 20 and _HEX.fullmatch(value) and not value.isalpha():
        return True
    is_long = len(value) >= 24
    is_mixed = _classes(value) >= 2 and _changes(value) >= (0.2 if is_long else 0.3)
    return is_mixed and (len(_DIGIT_RUNS.findall(value)) >= 2 or is_long) and not _is_readable(value)


def _classes(value: str) -> int:
    return sum(not letters.isdisjoint(value) for letters in _CLASSES)


def _changes(value: str) -> float:
    """Returns the share of neighboring characters of different classes, from 0 to 1."""
    bare = value[:400].translate(_TO_CLASS)
    if not bare.isascii():
        bare = "".join(
            "d" if character.isdigit() else "u" if character.isupper() else "l"
            for character in bare
            if character.isalnum()
        )
    return (len(_SAME_CLASS.findall(bare)) - 1) / (len(bare) - 1) if len(bare) >= 8 else 0.0


@lru_cache(maxsize=4096)
def _is_readable(value: str) -> bool:
    """Returns whether a text is base64 of readable text."""
    try:
        text = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True).decode(
            "utf-8"
        )
    except (binascii.Error, ValueError):
        return False
    return len(text) > 5 and text.isprintable()


def is_basic(credential: str) -> bool:
    """Returns whether a credential is a user and password in the form of an Authorization header."""
    try:
        return b":" in base64.b64decode(credential + "=" * (-len(credential) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False


def is_bearer(credential: str) -> bool:
    """Returns whether the text after the word `Bearer` is a credential and not a word of a sentence."""
    has_digit = any(character.isdigit() for character in credential)
    is_long = len(credential) >= (10 if has_digit else 24)
    return (
        is_long and not is_removed(credential) and not credential.replace("-", "").replace("_", "").isalpha()
    )
