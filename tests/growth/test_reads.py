"""No read of the API costs more with a long history than with a short one: any filter, any page."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from enum import Enum
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any, Literal, cast, get_args, get_origin

from pydantic.fields import FieldInfo

from steward.api.http.operation import ApiCall, Client, Operation
from steward.api.operations import OPERATIONS
from steward.database.engine.base import Engine, ms
from steward.database.engine.migrate import is_sqlite, sqlite_path
from steward.database.runs import transitions
from steward.model.ids import AutomationId, OrgId
from steward.model.instants import wire_time
from steward.model.run import Mode, RunStatus, StartedBy
from steward.runs.tasks.retention import SWEEPS, RetentionRules
from tests.authz.rows import SPELLED
from tests.authz.two_organizations import PREFIX, TwoOrganizations, make_two
from tests.fake_clock import FakeClock
from tests.growth.counting import CountingEngine
from tests.growth.history import OLD_ENTRIES, RARE, History, row_id
from tests.people import Caller

SHORT = 1_000
LONG = int(os.environ.get("STEWARD_TEST_GROWTH", "10000"))
LIMIT = 10
# By how much counts may differ: an index has a page more to descend, and a cycle of rare rows lies elsewhere.
# On PostgreSQL pages count as well: the slots of a short history name runs that are not written yet.
SHARE, SLACK = 1.3, {"sqlite": 1_500, "postgresql": 70}
NOT_READ = {
    "GET /app/connections/sign-in/callback": "answers a platform's redirect",
    f"GET {PREFIX}/destinations": "asks the platform",
}
# What a limit bounds: a run has at most 5,000 changes, a calendar 92 days, and an export 10,000 entries.
BOUNDED = {
    ("/app/audit/export", ""),
    (f"{PREFIX}/runs/{{run_id}}/changes", "outcome"),
    ("/app/runs/{run_id}/partly-made", ""),
    (f"{PREFIX}/approvals/{{approval_id}}", ""),
    (f"{PREFIX}/occurrences", "integration_id"),
}
# Filters that are refused beside an automation.
ALONE = {("/app/runs", "integration_id")}
# Lists of what a history does not make longer.
FIXED = {
    f"GET {PREFIX}",
    "GET /app/closed-periods",
    f"GET {PREFIX}/templates",
    f"GET {PREFIX}/stores",
    f"GET {PREFIX}/connections",
    "GET /app/connections",
    f"GET {PREFIX}/imports",
    "GET /app/people",
    "GET /app/credentials",
}
CALENDAR = f"{PREFIX}/occurrences"
Query = dict[str, str]


def _name(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


def label(operation: Operation, query: Query) -> tuple[str, str]:
    """Returns the operation and what a call narrows it by, in words."""
    filters = sorted(f"{name}={value}" for name, value in query.items() if name not in ("limit", "cursor"))
    return _name(operation), " ".join([*filters, *(["far"] if "cursor" in query else [])])


READS = [
    each_operation
    for each_operation in OPERATIONS
    if each_operation.method == "GET" and _name(each_operation) not in NOT_READ
]


class Reads:
    """The reads of one organization with its history, each as often as it has filters."""

    def __init__(
        self, two: TwoOrganizations, history: History, url: str, callers: Mapping[bool, Caller]
    ) -> None:
        self.two = two
        self.history = history
        self.engine = CountingEngine(
            two.service.context.engine, str(sqlite_path(url)) if is_sqlite(url) else None
        )
        self.callers = callers
        ids, oldest = two.ours, wire_time(history.oldest)
        self._values: dict[str, list[object]] = {
            "automation_id": [ids.automation_id, history.other_automation],
            "integration_id": [ids.integration_id, ids.teams_id],
            "from": [oldest],
            "to": [wire_time(history.instant(RARE))],
            "undo_of": [ids.run_id],
            "seq": [2, 3],
            "after_seq": [1],
            "template_id": [ids.template_id],
            "platform": ["woocommerce"],
            "q": ["grown", "grownl", "grownl grown", "gone", row_id("R", 1)],
            "updated_since": [oldest],
            "kind": ["woocommerce"],
            "state": ["active", "ended"],
            "subdivision": ["BY"],
            "timezone": ["Europe/Berlin"],
            "actor": ["7001", "7002", "7003"],
            "action": ["signed_in", "route_made", "restored"],
            "object_kind": ["person", "notification_route", "connection"],
            "object_id": ["7001", "7002", "7003"],
        }

    @staticmethod
    def is_bounded(operation: Operation, query: Query) -> bool:
        """Whether a limit of the interface bounds what a call reads."""
        return any((operation.path, name) in BOUNDED for name in (*query, ""))

    def queries(self, operation: Operation, rows: int = 0) -> Iterator[Query]:
        """Yields the first page, each value of each filter, that of an automation, and one `rows` far."""
        needed = {key: str(value) for key, value in SPELLED[_name(operation)].needed(self.two.ours).items()}
        if operation.query is None:
            yield needed
            return
        fields = {field.alias or name: field for name, field in operation.query.model_fields.items()}
        first = needed | ({"limit": str(LIMIT)} if "cursor" in fields else {})
        yield first
        if operation.path == CALENDAR:  # looks at what is coming, unless it is told to look back
            first |= {"from": wire_time(self.history.oldest)}
            yield first
        combined = ["automation_id"] if "automation_id" in fields else []
        for name in fields.keys() - {"limit", "cursor"} - needed.keys():
            for value in self._values_of(name, fields[name]):
                yield first | {name: value}
                for other in combined:
                    if other != name and (operation.path, name) not in ALONE:
                        yield first | {name: value, other: str(self._values[other][0])}
        is_short = _name(operation) in FIXED or (operation.path, "") in BOUNDED
        if rows and "cursor" in fields and not is_short:
            yield first | {"cursor": self._cursor(operation, first, rows)}

    def _values_of(self, name: str, field: FieldInfo) -> list[str]:
        for part in _parts(field.annotation):
            if isinstance(part, type) and issubclass(part, Enum):
                return [str(value.value) for value in part]
            if get_origin(part) is Literal:
                return [str(value) for value in get_args(part)]
            if part is bool:
                return ["true", "false"]
        return [str(value) for value in self._values[name]]

    def _cursor(self, operation: Operation, query: Query, rows: int) -> str:
        """Returns the cursor of a page far into a list, as the page before it would have."""
        first, last = RARE + LIMIT, rows - 2 * LIMIT
        oldest, newest = self.history.instant(first), self.history.instant_back(first)
        keys: Mapping[str, list[Any]] = {
            f"{PREFIX}/runs": [wire_time(oldest), row_id("R", first)],
            "/app/runs": [wire_time(oldest), row_id("R", first)],
            f"{PREFIX}/approvals": [wire_time(newest), row_id("A", first)],
            "/app/approvals/decided": [wire_time(self.history.instant_back(last)), row_id("A", last)],
            f"{PREFIX}/runs/{{run_id}}/changes": [2, last],
            CALENDAR: [
                *(ms(newest), ms(newest), self.history.other_automation),
                *(ms(self.history.oldest), ms(newest + timedelta(days=1))),
            ],
            "/app/automations/{automation_id}/history": [row_id("H", first)],
            "/app/audit": [ms(oldest), OLD_ENTRIES + first],
            "/app/inbox": [ms(oldest), row_id("N", first)],
            "/app/notification-routes/{route_id}/deliveries": [ms(oldest), row_id("M", first)],
        }
        assert operation.query is not None
        actor: Any = SimpleNamespace(org=self.two.service.members["owner"].org)
        call = ApiCall(
            operation=operation,
            context=self.two.service.context,
            path=self.path(operation),
            ids={},
            query=operation.query.model_validate(query),
            body=None,
            client_of=lambda: Client("", "", None),
            caller=actor,
        )
        return call.next_cursor(keys[operation.path])

    def path(self, operation: Operation) -> str:
        return operation.path.format_map(vars(self.two.ours)) if "{" in operation.path else operation.path

    async def cost(self, operation: Operation, query: Query) -> int:
        """Returns what one call reads."""
        caller = self.callers[operation.path.startswith("/app")]
        self.engine.take()
        response = await caller.get(self.path(operation), **query)
        assert response.status == 200, (operation.path, query, response.body)
        return self.engine.take()

    async def costs(self, rows: int) -> dict[tuple[str, str], int]:
        """Returns what each call reads, by operation and filters, and retention with nothing due."""
        costs = {}
        for operation in READS:
            for query in self.queries(operation, rows):
                if self.is_bounded(operation, query):
                    continue
                costs[label(operation, query)] = await self.cost(operation, query)
        for table, sweep in SWEEPS.items():
            self.engine.take()
            await sweep(cast("Engine", self.engine), self.two.service.clock.now(), RetentionRules())
            costs["retention", table] = self.engine.take()
        for status in (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING_APPROVAL):
            costs["runs to end", status] = await self._cost_of_ending(status)
        return costs

    async def _cost_of_ending(self, status: RunStatus) -> int:
        """Returns what is read to find the runs of an automation that its pause, change or archiving ends."""
        ids = self.history.ids
        org, automation = OrgId(ids.organization_id), AutomationId(ids.automation_id)
        self.engine.take()
        find = partial(transitions.ids_of, org=org, automation=automation, status=status)
        await self.engine.read(self.two.service.clock.now(), find, org=org)
        return self.engine.take()


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    if get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from _parts(part)


async def check_run_filters(caller: Caller, history: History) -> None:
    """Each filter lists what the whole list has of it, in its order, and its pages join without a gap."""
    until = wire_time(history.instant(RARE + LIMIT))
    old = await _pages(caller, {"to": until, "limit": "200"})
    assert len(old) == RARE + LIMIT
    statuses = [("status", status.value) for status in RunStatus]
    others = [("mode", mode.value) for mode in Mode] + [
        ("started_by", started_by.value) for started_by in StartedBy
    ]
    chosen = [*([item] for item in (*statuses, *others)), *map(list, product(statuses, [("mode", "test")]))]
    for pairs, of in product(chosen, [{}, {"automation_id": history.ids.automation_id}]):
        query: Query = dict(pairs) | of
        expected = [run["id"] for run in old if all(run[name] == value for name, value in query.items())]
        listed = await _pages(caller, {**query, "to": until, "limit": "15"})
        assert [run["id"] for run in listed] == expected, query


async def _pages(caller: Caller, query: Query) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = []
    cursor: Query = {}
    while True:
        response = (await caller.get(f"{PREFIX}/runs", **query, **cursor)).data
        runs += response["runs"]
        if response["next_cursor"] is None:
            return runs
        cursor = {"cursor": response["next_cursor"]}


async def open_reads(engine: Engine, clock: FakeClock, url: str, rows: int) -> Reads:
    """Opens two organizations, of which one will have a history of so many rows within 29 days."""
    two = await make_two(engine, clock)
    service, ids = two.service, two.ours
    listed = (await (await service.token("owner")).get(PREFIX)).data["automations"]
    [other] = [item["id"] for item in listed if item["id"] != ids.automation_id]
    span = timedelta(days=29)
    history = History(
        ids, other, int(service.members["owner"].person.id), clock.now() - span, clock.now(), span / rows
    )
    return Reads(two, history, url, {False: await service.token("owner"), True: await service.web("owner")})


async def test_a_long_history_makes_no_read_dearer(
    engine: Engine, clock: FakeClock, database_url: str
) -> None:
    """Each list, filter and far page, each single record, and retention with nothing due, read no more."""
    reads = await open_reads(engine, clock, database_url, LONG)
    service, history = reads.two.service, reads.history
    service.context = replace(service.context, engine=cast("Engine", reads.engine))
    service.restart()
    await history.write(database_url, range(SHORT))
    await check_run_filters(reads.callers[False], history)
    short = await reads.costs(SHORT)
    await history.write(database_url, range(SHORT, LONG))
    long = await reads.costs(LONG)
    reads.engine.close_own()
    slack = SLACK[engine.dialect]
    dearer = {call: (short[call], cost) for call, cost in long.items() if cost > SHARE * short[call] + slack}
    assert not dearer, "\n".join(f"{call}: {costs}" for call, costs in dearer.items())
    await service.close()
