"""Lists of tags, compared case-insensitively as the platforms do."""

from collections.abc import Collection, Iterable


def _fold_tags(tags: Iterable[str]) -> frozenset[str]:
    """Returns tags in the form in which they are compared."""
    return frozenset(tag.strip().casefold() for tag in tags)


def has_any_tag(present: Iterable[str], tags: Iterable[str]) -> bool:
    """Returns whether any of `tags` is present."""
    return bool(_fold_tags(present) & _fold_tags(tags))


def with_tag(present: Collection[str], tag: str) -> tuple[str, ...]:
    """Returns the list with `tag`, sorted; a tag already present keeps its spelling."""
    return tuple(sorted(present)) if has_any_tag(present, [tag]) else tuple(sorted((*present, tag)))


def without_tags(present: Iterable[str], tags: Iterable[str]) -> tuple[str, ...]:
    """Returns the list without `tags`, sorted."""
    removed = _fold_tags(tags)
    return tuple(sorted(tag for tag in present if tag.strip().casefold() not in removed))
