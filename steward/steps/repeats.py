"""Which steps may run more than once: round a circle, behind one, where branches meet (imports 3.2)."""

from steward.model.plan import Plan


def repeating(plan: Plan) -> frozenset[str]:
    """Names of the steps whose runs need a number; the others run once at most."""
    after: dict[str, set[str]] = {}
    into: dict[tuple[str, int], int] = {}
    for edge in plan.edges:
        after.setdefault(edge.source, set()).add(edge.target)
        key = (edge.target, edge.input)
        into[key] = into.get(key, 0) + 1
    found = {target for (target, _), count in into.items() if count > 1}
    found |= {step.name for step in plan.steps if step.name in _behind(after, step.name)}
    open_ = list(found)
    while open_:
        for target in after.get(open_.pop(), ()):
            if target not in found:
                found.add(target)
                open_.append(target)
    return frozenset(found)


def _behind(after: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    open_ = list(after.get(start, ()))
    while open_:
        here = open_.pop()
        if here not in seen:
            seen.add(here)
            open_ += after.get(here, ())
    return seen
