"""Runs a template's steps beside fake accounts, for tests of templates.

Shop, sheet and channel are fakes of accounts; the real connectors plan the changes. Every output goes
through JSON between steps, as when another worker continues a run.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from jsonschema import Draft202012Validator

from steward.connectors.base.queries import ProductsQuery, RecordPage
from steward.connectors.base.records import (
    CloudFile,
    FileContent,
    Product,
    SheetRow,
    SheetTable,
    Tag,
    Variant,
)
from steward.connectors.teams.connector import TeamsConnector
from steward.connectors.woocommerce.operations import MAKE_TAG, SET_PRICE, SET_TAGS, SET_VISIBLE
from steward.model.change import Outcome, Proposal
from steward.model.connection import Auth, Connection, ConnectionState
from steward.model.ids import AutomationId, IntegrationId, OrgId, RunId
from steward.model.plan import StepKind
from steward.model.run import Counts, Mode
from steward.outbound.errors import RemoteNotFound
from steward.steps.base import AccountAccess, MemoryWrite, StepContext, StepFailed, StoreAccess, StoreEvent
from steward.templates.base import EndedRun, RunSummary, Template

NOW = datetime(2026, 11, 20, 7, 0, tzinfo=UTC)
SHOP, SHEET, TEAMS = IntegrationId(11), IntegrationId(12), IntegrationId(13)
CHANGES = {op.name: op for op in (SET_PRICE, SET_VISIBLE, SET_TAGS, MAKE_TAG)}


def connection(kind: str, number: IntegrationId, **changed: Any) -> Connection:
    """Returns a connected account of the one organization."""
    new_connection = Connection(
        org=OrgId(1),
        integration_id=number,
        kind=kind,
        is_store=kind in ("shopify", "woocommerce"),
        name={"woocommerce": "Northwind Tea", "spreadsheet": "Buying sheet"}.get(kind, kind.title()),
        domain=None,
        zone="Europe/Berlin",
        currency="EUR",
        state=ConnectionState.CONNECTED,
        auth=Auth.SERVICE_ACCOUNT if kind == "spreadsheet" else Auth.KEY,
        account_label="stock" if kind == "teams" else None,
        facts={"subject": "1AbC"} if kind == "spreadsheet" else {},
        version=1,
        connected_at=NOW,
        last_ok_at=NOW,
        checked_at=NOW,
        last_error=None,
    )
    return replace(new_connection, **changed)


def variant(number: str = "7", sku: str = "TEA-1", **changed: Any) -> Variant:
    """Returns the only variant of a simple product, in stock, at 10.00."""
    product, _, own_value = number.partition("/")
    about: dict[str, Any] = {
        "id": number,
        "product_id": product,
        "product_title": f"Tea {product}",
        "title": own_value and f"size {own_value}",
        "sku": sku,
        "barcode": "",
        "price": "10.00",
        "compare_at": None,
        "currency": "EUR",
        "stock": 12,
        "tracked": True,
        "backorders_allowed": False,
        "stock_target": number,
        "product_type": "variable" if own_value else "simple",
        "status": "publish",
        "visible": True,
        "regular_price": "10.00",
        "url": f"https://shop.example/{product}",
    }
    return Variant(**{**about, **changed})


def product(*variants: Variant, **changed: Any) -> Product:
    """Returns a published product made of `variants`."""
    first = variants[0] if variants else variant(changed.get("id", "7"))
    about: dict[str, Any] = {
        "id": first.product_id,
        "title": first.product_title,
        "handle": "tea",
        "kind": first.product_type,
        "status": "publish",
        "visible": True,
        "visibility": "visible",
        "tags": (),
        "type": None,
        "vendor": None,
        "description": "Long words that no step needs.",
        "images": (),
        "variants": variants,
        "currency": "EUR",
        "stock": None,
        "tracked": False,
        "backorders_allowed": False,
        "url": first.url,
    }
    return Product(**{**about, **changed})


@dataclass
class Shop:
    """Holds products in the order of their ids, read in pages of two, and the tags of the shop."""

    products: list[Product] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)

    def read(self, op: Any, params: Any) -> AsyncIterator[RecordPage[Any]]:
        """Yields pages as a store's reader does."""
        self.reads.append(op.name)
        return {
            "products": self._products,
            "product": self._product,
            "variants": self._variants,
            "tags": self._tags,
        }[op.name](params)

    async def _products(self, query: ProductsQuery) -> AsyncIterator[RecordPage[Product]]:
        products = [
            product
            for product in self.products
            if (product.status == "publish" or not query.published_only)
            and (query.ids is None or product.id in query.ids)
        ]
        for index in range(0, len(products), 2):
            # Each page repeats the last item of the one before, as lists do that change while they are read.
            yield RecordPage(tuple(products[max(index - 1, 0) : index + 2]), next=str(index))
        yield RecordPage(())

    async def _product(self, query: Any) -> AsyncIterator[RecordPage[Product]]:
        products = [product for product in self.products if product.id == query.id]
        if not products:
            raise RemoteNotFound
        yield RecordPage((products[0],))

    async def _variants(self, query: ProductsQuery) -> AsyncIterator[RecordPage[Variant]]:
        async for page in self._products(query):
            yield RecordPage(
                tuple(variant for product in page.items if product.sellable for variant in product.variants)
            )

    async def _tags(self, query: Any) -> AsyncIterator[RecordPage[Tag]]:
        yield RecordPage(tuple(Tag(number, name) for name, number in self.tags.items()))

    def apply(self, proposal: Proposal, only: Sequence[str] = ()) -> Outcome:
        """Applies the parts of a proposal; with `only` it fails at the first part of another operation."""
        for part in proposal.parts:
            if only and part.operation not in only:
                return Outcome.FAILED
            self._apply(part.operation, part.target, part.arguments)
        return Outcome.APPLIED

    def _apply(self, operation: str, target: str, arguments: Any) -> None:
        if operation == "product_tag.create":
            self.tags.setdefault(target, str(100 + len(self.tags)))
            return
        number = target.partition("/")[0]
        index = next(
            position for position, each_product in enumerate(self.products) if each_product.id == number
        )
        product = self.products[index]
        if operation == "product.set_visible":
            seen = arguments["catalog_visibility"]
            self.products[index] = replace(product, visibility=seen, visible=seen != "hidden")
        elif operation == "product.set_tags":
            names = tuple(arguments["tags"])
            ids = tuple((name, self.tags.get(name, "1")) for name in names)
            self.products[index] = replace(product, tags=names, tag_ids=ids)
        else:
            regular, sale = arguments["regular_price"], arguments["sale_price"]
            priced = {
                "price": sale or regular,
                "compare_at": regular if sale else None,
                "regular_price": regular,
                "sale_price": sale,
            }
            changed = [replace(v, **priced) if v.id == target else v for v in product.variants]
            self.products[index] = replace(product, variants=tuple(changed))

    def current_product(self, number: str) -> Product:
        """Returns the product as it is now."""
        return next(product for product in self.products if product.id == number)


@dataclass
class Sheet:
    """Holds a spreadsheet of one tab."""

    rows: list[list[Any]] = field(default_factory=list)
    tab: str = "Prices"

    async def read(self, op: Any, params: Any) -> AsyncIterator[RecordPage[Any]]:
        """Yields the tab as a spreadsheet's reader does."""
        if params.tab not in (None, self.tab):
            raise RemoteNotFound
        rows = [tuple(map(_cell, row)) for row in self.rows]
        numbered = tuple(SheetRow(index, cells) for index, cells in enumerate(rows, 1))
        yield RecordPage((SheetTable("1AbC", self.tab, numbered, "Europe/Berlin"),))


@dataclass
class File:
    """Holds a bucket with one file."""

    body: bytes
    at: datetime | None = None

    async def read(self, op: Any, params: Any) -> Any:
        """Yields the file as a bucket's reader does."""
        held = CloudFile("feed.csv", len(self.body), "mark", NOW if self.at is None else self.at)
        yield RecordPage((FileContent(held, self.body),))


def _cell(value: Any) -> Any:
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


@dataclass
class StoredMemory:
    """Holds an automation's memory."""

    kept: dict[tuple[str, str], Any] = field(default_factory=dict)
    others: "dict[str, StoredMemory]" = field(default_factory=dict)

    async def of(self, automation: str, space: str) -> Mapping[str, Any]:
        """Returns the memory of another automation by its id, as the walk of a run does."""
        return await self.others[automation].all(space) if automation in self.others else {}

    async def of_template(self, template_id: str, space: str) -> Mapping[str, Any]:
        """Returns the memory of all automations of a template, as the walk of a run does."""
        return await self.of(template_id, space)

    async def all(self, space: str) -> Mapping[str, Any]:
        """Returns the values of one space of the memory."""
        return {key: value for (of, key), value in self.kept.items() if of == space}

    def write(self, writes: Iterable[MemoryWrite], outcomes: Mapping[int, Outcome]) -> None:
        """Writes the values that are due after these outcomes, in order."""
        for memory_write in writes:
            if not memory_write.is_due(outcomes):
                continue
            assert len(memory_write.key) <= 200
            assert len(json.dumps(memory_write.value)) <= 4096
            if memory_write.value is None:
                self.kept.pop((memory_write.space, memory_write.key), None)
            else:
                self.kept[memory_write.space, memory_write.key] = memory_write.value


@dataclass
class StageRun:
    """Holds the outputs, proposals and summary of one run of a template."""

    outputs: dict[str, Any] = field(default_factory=dict)
    proposals: list[Proposal] = field(default_factory=list)
    titles: list[str | None] = field(default_factory=list)
    messages: list[str | None] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    failed: StepFailed | None = None
    summary: RunSummary = field(default_factory=lambda: RunSummary("", {}))

    @property
    def result(self) -> Mapping[str, Any]:
        """Returns the result of the run."""
        return self.summary.result


@dataclass
class Stage:
    """Holds the accounts of one automation, and its memory between runs."""

    template: Template
    inputs: dict[str, Any]
    shop: Any = field(default_factory=Shop)
    sheet: Any = field(default_factory=Sheet)
    store: Connection = field(default_factory=lambda: connection("woocommerce", SHOP))
    changes: Mapping[str, Any] = field(default_factory=lambda: CHANGES)
    memory: StoredMemory = field(default_factory=StoredMemory)
    channel: Any = None
    accounts: Mapping[IntegrationId, AccountAccess] = field(default_factory=dict)
    reads: tuple[IntegrationId, ...] = ()
    now: datetime = NOW
    set_up_at: datetime = NOW

    async def run(
        self,
        *,
        mode: Mode = Mode.LIVE,
        event: StoreEvent | None = None,
        outcome: Outcome | None = None,
        only: Sequence[str] = (),
        approve: bool = True,
    ) -> StageRun:
        """Makes one run.

        `outcome` replaces the outcome of every change; `only` names the operations that succeed.
        """
        checked = self.template.check_inputs(self.inputs)
        assert not checked.errors, checked.errors
        run, outcomes = StageRun(), {}
        for step in self.template.plan.steps:
            context = replace(self._context(checked.inputs, run, mode, event), outcomes=dict(outcomes))
            try:
                produced = await self.template.steps[step.name](context)
            except StepFailed as failed:
                run.failed = failed
                break
            assert not produced.proposals or step.kind in (StepKind.CHANGE, StepKind.SEND)
            run.outputs[step.name] = json.loads(json.dumps(produced.output, allow_nan=False))
            run.proposals += produced.proposals
            run.titles.append(produced.title)
            run.messages.append(produced.message)
            run.counts = run.counts.plus(produced.counts)
            all_outcomes: list[Outcome] = []
            for proposal in produced.proposals:
                if mode is Mode.TEST:
                    all_outcomes.append(Outcome.REFUSED_TEST)
                elif outcome is not None or not approve:
                    all_outcomes.append(outcome or Outcome.PROPOSED)
                elif step.kind is StepKind.SEND:
                    all_outcomes.append(Outcome.APPLIED)
                else:
                    all_outcomes.append(self.shop.apply(proposal, only))
            outcomes[step.name] = all_outcomes
            if mode is Mode.LIVE:
                self.memory.write(produced.memory, dict(enumerate(all_outcomes)))
        ended = EndedRun(mode, checked.inputs, run.outputs, run.counts, outcomes)
        run.summary = self.template.finish(ended)
        assert len(run.summary.text) <= 500
        Draft202012Validator(self.template.facts.result_schema).validate(run.summary.result)
        return run

    def _context(
        self, inputs: Mapping[str, Any], run: StageRun, mode: Mode, event: StoreEvent | None
    ) -> StepContext:
        posting = {"teams.post": TeamsConnector.operation}
        return StepContext(
            org=OrgId(1),
            run_id=RunId("01KAH1B0M4N7P9Q2R5S8T1V3W6"),
            automation_id=AutomationId("01KAGQ3W8ZJ4T6V9X2B5C7D8EF"),
            mode=mode,
            inputs=inputs,
            zone="Europe/Berlin",
            now=self.now,
            day=self.now.date(),
            automation_created_at=self.set_up_at,
            event=event,
            store=StoreAccess(self.store, self.shop, self.changes),
            accounts={
                SHEET: AccountAccess(connection("spreadsheet", SHEET), self.sheet, {}),
                TEAMS: AccountAccess(connection("teams", TEAMS), self.channel, posting),
                **self.accounts,
            },
            outputs=run.outputs,
            memory=self.memory,
            reads=self.reads,
        )


def card_lines(proposal: Proposal) -> list[str]:
    """Returns every line of the one card that a proposal would send, without escapes."""
    [part] = proposal.parts
    arguments: Any = part.arguments
    lines: list[str] = []
    for block in arguments["attachments"][0]["content"]["body"]:
        if block["type"] == "FactSet":
            lines += [f"{fact['title']}: {fact['value']}" for fact in block["facts"]]
        else:
            lines.append(block["text"])
    return [line.replace("\\", "") for line in lines]
