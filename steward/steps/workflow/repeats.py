"""Which steps may run more than once: round a circle, behind one, where branches meet (imports 3.2)."""

from collections.abc import Iterable, Mapping

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
    found |= {name for circle in circles(after) for name in circle}
    open_ = list(found)
    while open_:
        for target in after.get(open_.pop(), ()):
            if target not in found:
                found.add(target)
                open_.append(target)
    return frozenset(found)


def circles(after: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """The circles of a graph: largest sets whose members all lead to each other (Tarjan)."""
    found: list[set[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for start in after:
        work = [] if start in number else [(start, iter(after[start]))]
        while work:
            here, targets = work[-1]
            if here not in number:
                number[here] = lowest[here] = len(number)
                path.append(here)
                on_path.add(here)
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[here])
                if lowest[here] == number[here]:
                    circle = _taken(path, here)
                    on_path -= circle
                    if len(circle) > 1 or here in after.get(here, ()):
                        found.append(circle)
            elif target not in number:
                work.append((target, iter(after.get(target, ()))))
            elif target in on_path:
                lowest[here] = min(lowest[here], number[target])
    return found


def _taken(path: list[str], until: str) -> set[str]:
    place = path.index(until)
    circle = set(path[place:])
    del path[place:]
    return circle
