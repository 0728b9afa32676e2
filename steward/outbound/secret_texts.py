"""Lists the texts of an account's secrets, which no log line, error or response may contain."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from steward.outbound.endpoint import (
    Basic,
    Bearer,
    ClientCredentials,
    Credentials,
    HeaderSecret,
    PlacedSecrets,
    RequestSigner,
    SecretUrl,
    ServiceAccount,
    TokenExchange,
    UserSignIn,
)
from steward.outbound.response import PlatformResponse
from steward.telemetry.redact import REDACTED, forms


def secret_texts(credentials: Credentials) -> tuple[str, ...]:
    """Returns the texts to hide wherever they occur."""
    match credentials:
        case Basic(user, password):
            return (user.reveal(), password.reveal(), f"{user.reveal()}:{password.reveal()}")
        case Bearer(token):
            return (token.reveal(),)
        case HeaderSecret(_, value):
            return (value.reveal(),)
        case PlacedSecrets(headers, query, path, body, auth):
            placed = (*headers, *query, *path)
            texts = tuple(secret.reveal() for secret in (*(secret for _, secret in placed), *body))
            return (*texts, *secret_texts(auth))
        case SecretUrl(url):
            return _secret_url_texts(url.reveal())
        case UserSignIn() as person:
            return (person.refresh_token.reveal(), person.client_secret.reveal())
        case RequestSigner(secret, _):
            return (secret.reveal(),)
        case ClientCredentials() as app:
            return (app.client_secret.reveal(),)
        case ServiceAccount() as account:
            return _private_key_texts(account.private_key.reveal())
        case _:
            return ()


def _secret_url_texts(url: str) -> tuple[str, ...]:
    parts = urlsplit(url)
    # Not every value of the query: some are dates and words that occur in many log lines.
    pairs = [pair.partition("=") for pair in parts.query.split("&")]
    signed = (value for name, _, value in pairs if name == "sig")
    return (url, parts.path, parts.query, *signed)


def _private_key_texts(key: str) -> tuple[str, ...]:
    return (key, *(line for line in key.split("\n") if line and "-----" not in line))


def response_without_secrets(
    response: PlatformResponse,
    credentials: Credentials,
    sent_headers: Mapping[str, str],
    *,
    keeps_location: bool = False,
) -> PlatformResponse:
    """Returns the response with `[redacted]` wherever the platform repeats a secret from the request.

    Texts of eight and more characters are found plain, escaped and in base64, in the body and in headers. A
    user name stays: it is not secret, and ordinary responses contain it. `keeps_location` leaves the target
    of a redirect, for the client that follows it.
    """
    if credentials is None:
        return response
    hidden = {form for text in _sent_texts(credentials, sent_headers) for form in forms(text)}
    ordered = sorted(hidden, key=len, reverse=True)
    body = response.body
    for form in ordered:
        body = body.replace(form.encode("utf-8", "surrogatepass"), REDACTED.encode())
    headers = {
        name: value if keeps_location and name == "location" else _without(value, ordered)
        for name, value in response.headers.items()
    }
    return replace(response, body=body, headers=headers)


def _sent_texts(credentials: Credentials, sent_headers: Mapping[str, str]) -> Collection[str]:
    """Returns the secrets in a request: those of the account, and a token obtained with them."""
    texts = set(secret_texts(credentials)) - _user_names(credentials)
    if isinstance(credentials, TokenExchange):
        texts.update(
            value.rpartition(" ")[2] for value in sent_headers.values() if value.startswith("Bearer ")
        )
    return texts


def _user_names(credentials: Credentials) -> set[str]:
    if isinstance(credentials, PlacedSecrets):
        return _user_names(credentials.auth)
    return {credentials.user.reveal()} if isinstance(credentials, Basic) else set()


def _without(text: str, hidden: Collection[str]) -> str:
    for form in hidden:
        text = text.replace(form, REDACTED)
    return text
