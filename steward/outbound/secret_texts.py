"""Names the texts of an account's secrets, which no log line and no error may hold."""

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
    UserSignIn,
)


def secret_texts(credentials: Credentials) -> tuple[str, ...]:
    """Returns the texts that are hidden wherever they occur."""
    match credentials:
        case Basic(user, password):
            return (user.reveal(), password.reveal(), f"{user.reveal()}:{password.reveal()}")
        case Bearer(token):
            return (token.reveal(),)
        case HeaderSecret(_, value):
            return (value.reveal(),)
        case PlacedSecrets(headers, query, path, body, auth):
            placed = (*headers, *query, *(() if path is None else (path,)))
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
