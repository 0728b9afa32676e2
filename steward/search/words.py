"""The terms by which people search: splits texts and queries into words that compare equal."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from steward.model.change import Proposal

_MAX_LENGTH = 64
MAX_TERMS = 32  # of one object
_MAX_QUERY_WORDS = 6

# The beginning of an id that is longer than its month part.
_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{5,25}")

_WORD = re.compile(r"[^\W_]+")
# A run of characters without blanks, less the signs at both ends.
_WHOLE = re.compile(r"[^\W_](?:\S*[^\W_])?")


def _folded(text: str) -> str:
    """Returns the text in NFKC and case-folded, the form in which terms and queries are compared."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    # A mark belongs to the letter before it, although it is not a letter itself.
    return "".join(char for char in folded if not unicodedata.category(char).startswith("M"))


def query_words(text: str) -> list[str]:
    """Returns the word beginnings that a query asks for: split at blanks, without signs at both ends."""
    words = (token[:_MAX_LENGTH] for token in _WHOLE.findall(_folded(text)))
    return list(dict.fromkeys(words))[:_MAX_QUERY_WORDS]


def id_beginning(text: str) -> str | None:
    """Returns the query as the beginning of a public id; None when it cannot be one."""
    beginning = text.strip().upper()
    return beginning if _ID.fullmatch(beginning) else None


def terms(text: str) -> Iterator[str]:
    """Yields the terms of a text: its words, and each sequence that signs join, such as a SKU, as one."""
    for token in _WHOLE.findall(_folded(text)):
        yield token[:_MAX_LENGTH]
        if not token.isalnum():
            for word in _WORD.findall(token):
                yield word[:_MAX_LENGTH]


def terms_of(proposal: Proposal) -> list[str]:
    """Returns the terms of the object that would be changed: of its label and its id at the platform."""
    ref = proposal.object
    object_terms = dict.fromkeys(terms(ref.label))
    if ref.id:
        object_terms.update(dict.fromkeys(terms(ref.id.rsplit("/", 1)[-1])))
    return list(object_terms)[:MAX_TERMS]


def begins_words_of(text: str, words: Sequence[str]) -> bool:
    """Returns whether each of the words begins a term of the text."""
    text_terms = list(terms(text))
    return all(any(term.startswith(word) for term in text_terms) for word in words)
