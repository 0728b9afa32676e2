"""Determines which steps may run more than once: in a cycle, after one, or where branches meet."""

import math
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
    found_cycles: list[set[str]] = []
    number: dict[str, float] = {}  # infinite once the component of a name is complete
    lowest: dict[str, float] = {}
    path: list[str] = []
    for start in after:
        work = [] if start in number else [(start, iter(after[start]))]
        while work:
            name, targets = work[-1]
            if name not in number:
                number[name] = lowest[name] = len(number)
                path.append(name)
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[name])
                if lowest[name] == number[name]:
                    component = _pop_component(path, name)
                    number.update(dict.fromkeys(component, math.inf))
                    if _is_cycle(component, after):
                        found_cycles.append(component)
            elif target not in number:
                work.append((target, iter(after.get(target, ()))))
            else:
                lowest[name] = min(lowest[name], number[target])
    return found_cycles


def _pop_component(path: list[str], start: str) -> set[str]:
    index = path.index(start)
    component = set(path[index:])
    del path[index:]
    return component


def _is_cycle(component: set[str], after: Mapping[str, Iterable[str]]) -> bool:
    return len(component) > 1 or any(name in after.get(name, ()) for name in component)
