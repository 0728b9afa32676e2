"""Lists of tags, compared without regard to case as the platforms do; planning their change is others'."""

from collections.abc import Collection, Iterable


def fold_tags(tags: Iterable[str]) -> frozenset[str]:
    """Tags as they are compared."""
    return frozenset(tag.strip().casefold() for tag in tags)


def has_any_tag(held: Iterable[str], tags: Iterable[str]) -> bool:
    """Whether one of `tags` is among those held."""
    return bool(fold_tags(held) & fold_tags(tags))


def with_tag(held: Collection[str], tag: str) -> tuple[str, ...]:
    """The whole list with `tag`, sorted; one that is held in other letters stays as it is."""
    return tuple(sorted(held)) if has_any_tag(held, [tag]) else tuple(sorted((*held, tag)))


def without_tags(held: Iterable[str], tags: Iterable[str]) -> tuple[str, ...]:
    """The whole list without `tags`, sorted."""
    off = fold_tags(tags)
    return tuple(sorted(tag for tag in held if tag.strip().casefold() not in off))
