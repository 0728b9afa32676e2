"""How names, e-mail addresses and organisations are compared."""

import unicodedata


def folded(text: str) -> str:
    """Trimmed, NFKC and case-folded: the form logins compare."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).strip()


def folded_name(text: str) -> str:
    """The form in which an organisation's name is unique: as `folded`, inner blanks one."""
    return " ".join(folded(text).split())
