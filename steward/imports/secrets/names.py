"""Judges by its words whether the name of a field, header, parameter or variable implies a secret."""

import re
from enum import IntEnum
from functools import lru_cache
from typing import Final


class NameWeight(IntEnum):
    """What a name implies: nothing, that a random value is a secret, or that any value is one."""

    NONE = 0
    WEAK = 1
    STRONG = 2


def word_set(text: str) -> frozenset[str]:
    """Returns the words of a space-separated text as a set."""
    return frozenset(text.split())


_BORDERS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS: Final = re.compile(r"[\W_]+")
# Lower-case fragments, one of which is in every word below that gives a name weight.
STEM: Final = re.compile(
    r"pass|pwd|pw|psk|kennw|secret|geheim|zugang|token|key|schl|auth|cook|bear|jwt|sig|hmac|cred|sess|sid|salt"
    r"|seed|mnem|pat|sas|dsn|pin|code|licen|webhookid"
)
_MAX_NAME: Final = 80
_STRONG: Final = word_set(
    """
    password passwords passwd passwds passphrase passcode pass pwd pw secret secrets token tokens apikey
    apikeys credential authorization bearer jwt cookie cookies mnemonic passwort kennwort geheimnis
    zugangsdaten xapikey hapikey pat psk sas
    """
)
# Endings that count as words, as in `dbpassword` or `authtoken`.
_STRONG_ENDS: Final = (
    *("password", "passwort", "kennwort", "passwd", "passphrase", "secret", "token", "apikey", "authkey"),
    *("privatekey", "secretkey", "accesskey", "clientkey", "geheimnis"),
)
_WEAK: Final = word_set(
    """
    key keys auth sig signature signatur session sessionid sid salt seed hmac pin code schlüssel
    schluessel dsn license licence webhookid authkey
    """
)
_KEYS: Final = frozenset(("key", "keys", "schlüssel", "schluessel"))
_SIGNATURES: Final = frozenset(("signature", "sig", "hmac"))
_SIGNED: Final = word_set("x amz aws goog hub hmac webhook request api shopify hash secret")
# Words that make a key a secret one.
_SECRET_KEYS: Final = word_set(
    """
    api access private secret signing encryption decryption consumer app application auth authentication
    subscription master service client license licence webhook admin account storage shared hmac ssh rsa
    pgp gpg server deploy functions function write read ingest integration security session sendgrid
    openai mailgun mailchimp stripe resend brevo airtable notion hubspot pinecone serpapi live prod
    production test project klaviyo shopify aws azure google goog gcp firebase maps anthropic mistral
    groq deepl typeform root team user org workspace merchant partner geheimer geheime privater zugangs
    api_ x cryptographic pre sas
    """
)
# Last words of names that describe a secret but do not hold it.
_ABOUT: Final = word_set(
    """
    type types url uri urls name names field fields header headers count limit limits expires expiry
    expiration expired length ttl path paths method methods location endpoint mode label description
    desc hint policy required enabled disabled prefix format algorithm alg version usage cost costs
    column columns placeholder text status page message messages error errors resource budget issuer
    audience scope scopes provider store manager rotation reset strength validity lifetime at date time
    timestamp in used per size rate price prices optional present exists valid template node config
    option options settings setting id ids owner kind source property properties selector pattern regex
    help info title question answer link env var variable ref reference index position order visible
    hidden changed updated created needed missing invalid reason protected domain host policy flow
    request grant duration window mapping
    """
)
# Words that make a token or key a harmless one: of a page of results, a count of AI tokens, a public key.
_PAGES: Final = word_set(
    """
    page next prev previous continuation continue cursor sync delta start pagination paging max min
    total prompt completion input output num count used remaining cached reasoning estimated stop design
    change cancellation public publishable site
    """
)


@lru_cache(maxsize=65_536)
def weight_of(name: str) -> NameWeight:
    """Returns how likely a field or variable with this name holds a secret."""
    if not name or len(name) > _MAX_NAME or not STEM.search(name.lower()):
        return NameWeight.NONE
    words = words_of(name)
    if not words or words[-1] in _ABOUT or not _PAGES.isdisjoint(words):
        return NameWeight.NONE
    if any(word in _STRONG or word.endswith(_STRONG_ENDS) for word in words):
        return NameWeight.STRONG
    if not _KEYS.isdisjoint(words) and not _SECRET_KEYS.isdisjoint(words):
        return NameWeight.STRONG
    if not _SIGNATURES.isdisjoint(words) and not _SIGNED.isdisjoint(words):
        return NameWeight.STRONG
    return NameWeight.NONE if _WEAK.isdisjoint(words) else NameWeight.WEAK


def words_of(name: str) -> list[str]:
    """Splits a name into lower-case words at case changes, dashes, underscores and dots."""
    parted = _SEPARATORS.split(_BORDERS.sub(" ", name))
    return [word for part in parted if (word := part.lower().rstrip("0123456789"))]
