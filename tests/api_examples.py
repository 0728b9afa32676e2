"""Records real calls for the OpenAPI document: `python -m tests.api_examples`, part of `make docs`.

It sends the requests of docs/guides/api-clients.md to the whole service beside the fake platforms. The owner
decides on approvals in the web app, because no token may.
"""

import asyncio
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from steward.api.http.operation import Operation
from steward.api.http.router import Routes
from steward.api.operations import OPERATIONS
from tests.databases import copy_migrated_sqlite
from tests.fake_clock import FakeClock
from tests.people import Caller
from tests.populated_service import PopulatedService
from tests.service import LOGIN
from tests.source import ROOT
from tests.test_docs import PAGE, Example, Reader, examples, opened_as_shown

FILE = ROOT / "steward/api/examples.json"
PREFIX = "/v1/automations"
HIDDEN = "<ACCESS_TOKEN>"
Examples = dict[str, dict[str, Any]]


async def recorded(populated: PopulatedService, owner: Caller) -> Examples:
    """By operation, the first example of the page that succeeded: `path`, `request` or null, and `answer`."""
    routes: Routes[Operation] = Routes(OPERATIONS)
    results: Examples = {}

    def note(method: str, path: str, request: Any, response: Any) -> None:
        row = routes.find(path.partition("?")[0])
        if row is not None and response.get("success") and method in row.methods:
            key = f"{method} {row.methods[method].path}"
            results.setdefault(key, _as_recorded(path, request, response))

    reader = Reader(populated, await populated.service.token("member"))
    for example in examples(PAGE.read_text("utf-8")):
        response = await reader.follow(example)
        if response is not None and example.path == LOGIN and _is_json(example):
            displayed = response.body | {"access_token": HIDDEN}
            displayed["data"] = displayed["data"] | {"access_token": HIDDEN}
            results.setdefault(f"POST {LOGIN}", _as_recorded(LOGIN, json.loads(example.content), displayed))
        elif response is not None:
            sent: Example = reader.translated(example)
            note(sent.method, sent.path, json.loads(sent.content) if _is_json(sent) else None, response.body)
    for decision, body in (
        ("reject", {"version": 1, "comment": "Not this week"}),
        ("approve", {"version": 1}),
    ):
        [waiting] = (await owner.get(f"{PREFIX}/approvals")).data["approvals"]
        path = f"{PREFIX}/approvals/{waiting['id']}/{decision}"
        note("POST", path, body, (await owner.post(path, body)).body)
        await populated.shop.drain()
        if decision == "approve":
            path, body = f"{PREFIX}/runs/{waiting['run_id']}/undo", {"idempotency_key": "undo-of-a-run"}
            note("POST", path, body, (await owner.post(path, body)).body)
        again = {"idempotency_key": f"after-{decision}"}
        await owner.post(f"{PREFIX}/{waiting['automation_id']}/runs", again)
        await populated.shop.drain()
    return dict(sorted(results.items()))


def _as_recorded(path: str, request: Any, response: Any) -> dict[str, Any]:
    return {"path": path, "request": request, "response": response}


def _is_json(sent: Example) -> bool:
    return sent.content.startswith("{")


async def _record(folder: Path) -> Examples:
    url = await asyncio.to_thread(copy_migrated_sqlite, folder, folder / "steward.db")
    populated, owner = await opened_as_shown(url, FakeClock(), folder / "world")
    record = await recorded(populated, owner)
    await populated.close()
    return record


def main() -> None:
    """Writes the file again."""
    with tempfile.TemporaryDirectory(prefix="steward-examples-") as folder:
        record = asyncio.run(_record(Path(folder)))
    text = json.dumps(record, indent=1, ensure_ascii=False)
    # The port of the fake platforms differs each time.
    FILE.write_text(re.sub(r"127\.0\.0\.1:(?!8400)\d+", "127.0.0.1:18401", text) + "\n", "utf-8")


if __name__ == "__main__":
    main()
