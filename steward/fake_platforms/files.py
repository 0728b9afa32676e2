"""The seeded spreadsheets and the supplier's file, generated to fit the seeded shop."""

from collections.abc import Mapping
from typing import TypeAlias

from steward.fake_platforms.catalogue import priced
from steward.fake_platforms.exchange import Row
from steward.fake_platforms.seed import Keys, dice
from steward.fake_platforms.sheets import FakeSpreadsheet, FakeTab
from steward.fake_platforms.woocommerce.shop import FakeShop

# The written cells of a tab by row and column.
Cells: TypeAlias = Mapping[tuple[int, int], str | float | int]

CHANGED, EQUAL, FILE_ROWS, FILE_UNKNOWN = 10, 8, 40, 2


def _number(price: str) -> float | int:
    value = float(price)
    return int(value) if value == int(value) else value


def _unsold(row: Row) -> bool:
    return bool(row["price"]) and not row["sale_price"] and row["status"] == "publish"


def books(price_cells: Cells, keys: Keys) -> list[FakeSpreadsheet]:
    """Returns `sheet-prices` with these cells and an empty `sheet-log`."""
    prices, log = FakeTab(0, "Prices"), FakeTab(0, "Log")
    prices.cells = dict(price_cells)
    shared = {keys.client_email}
    return [
        FakeSpreadsheet("sheet-prices", "Prices", [prices], set(shared)),
        FakeSpreadsheet("sheet-log", "Log", [log], set(shared)),
    ]


def price_cells(shop: FakeShop, seed: int) -> Cells:
    """Returns the cells of `sheet-prices`: 10 changed prices, 8 equal, one unknown, one empty."""
    chance = dice(seed, "sheet-prices")
    rows = chance.sample([row for row in priced(shop) if _unsold(row)], CHANGED + EQUAL + 1)
    cells: list[list[str | float | int]] = []
    for index, row in enumerate(rows):
        price = row["price"]
        if index < CHANGED:
            share = chance.choice((-0.2, -0.15, -0.1, -0.05, 0.05, 0.1, 0.15, 0.2))
            price = _moved(price, share)
        cells.append([row["sku"], "" if index == CHANGED + EQUAL else _number(price)])
    cells.append(["NOT-IN-SHOP", 9.95])
    chance.shuffle(cells)
    cells.insert(0, ["SKU", "Price"])
    return {
        (down, across): value
        for down, line in enumerate(cells)
        for across, value in enumerate(line)
        if value != ""
    }


def _moved(price: str, share: float) -> str:
    """Returns another price at most 20 % away: rounded towards the old one, never equal to it."""
    old = round(float(price) * 100)
    step = int(old * share) or (1 if share > 0 else -1)
    return f"{(old + step) / 100:.2f}"


def stock_file(shop: FakeShop, seed: int) -> bytes:
    """Returns the supplier's `stock.csv`: 40 rows, 2 of them not in the shop."""
    chance = dice(seed, "stock.csv")
    held = [row for row in priced(shop) if row["manage_stock"] and row["price"]]
    lines = []
    for row in chance.sample(held, FILE_ROWS - FILE_UNKNOWN):
        stock = row["stock_quantity"] if chance.random() < 0.5 else chance.randint(0, 80)
        price = row["regular_price"]
        if chance.random() < 0.3:
            price = _moved(price, chance.choice((-0.1, 0.1)))
        lines.append(f"{row['sku']},{stock},{price},{float(row['regular_price']) * 0.55:.2f}")
    lines += [f"SUPPLIER-ONLY-{n},{chance.randint(1, 80)},12.50,6.90" for n in range(1, FILE_UNKNOWN + 1)]
    chance.shuffle(lines)
    return ("sku,stock,price,cost\n" + "\n".join(lines) + "\n").encode()
