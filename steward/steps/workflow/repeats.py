"""Determines which steps may run more than once: in a cycle, behind one, or where branches meet."""

from collections.abc import Iterable, Mapping

from steward.model.plan import Plan


def repeating_steps(plan: Plan) -> frozenset[str]:
    """Returns the names of the steps that may run more than once."""
    after: dict[str, set[str]] = {}
    into: dict[tuple[str, int], int] = {}
    for edge in plan.edges:
        after.setdefault(edge.source, set()).add(edge.target)
        key = (edge.target, edge.input)
        into[key] = into.get(key, 0) + 1
    repeating = {target for (target, _), count in into.items() if count > 1}
    repeating |= {name for circle in cycles(after) for name in circle}
    queue = list(repeating)
    while queue:
        for target in after.get(queue.pop(), ()):
            if target not in repeating:
                repeating.add(target)
                queue.append(target)
    return frozenset(repeating)


def cycles(after: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """Returns the cycles of a graph: its strongly connected components (Tarjan)."""
    components: list[set[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    for start in after:
        work = [] if start in number else [(start, iter(after[start]))]
        while work:
            name, targets = work[-1]
            if name not in number:
                number[name] = lowest[name] = len(number)
                path.append(name)
                on_path.add(name)
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[name])
                if lowest[name] == number[name]:
                    circle = _pop_cycle(path, name)
                    on_path -= circle
                    if len(circle) > 1 or name in after.get(name, ()):
                        components.append(circle)
            elif target not in number:
                work.append((target, iter(after.get(target, ()))))
            elif target in on_path:
                lowest[name] = min(lowest[name], number[target])
    return components


def _pop_cycle(path: list[str], until: str) -> set[str]:
    index = path.index(until)
    circle = set(path[index:])
    del path[index:]
    return circle
