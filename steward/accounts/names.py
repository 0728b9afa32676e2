"""Normal forms by which names, e-mail addresses and organizations are compared."""

import unicodedata


def folded(text: str) -> str:
    """Returns the form that logins compare: NFKC, case-folded and trimmed."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


def folded_name(text: str) -> str:
    """Returns the form in which an organization's name is unique: `folded`, with single spaces."""
    return " ".join(folded(text).split())
