import { expect, test } from "vitest";
import type { ChangeRecord } from "../api/schema";
import { blocksIn, offsetsOf } from "./blocks";
import { filtered, listMoves, NO_FILTER } from "./changes";
import { moveWords, priceMoves } from "./price_moves";

function priced(before: string, after: string): ChangeRecord {
  const field = { field: "price", label: "Price", before, after, kind: "money", currency: "EUR" };
  return { id: `${before} ${after}`, object: { type: "variant", id: "1", label: "Tea", url: null }, fields: [field] } as unknown as ChangeRecord;
}

test("moves of prices in words, and every change in one column", () => {
  const changes = [priced("10", "9.5"), priced("10", "8"), priced("10", "11"), priced("10", "10"), priced("10", "95")];
  const moves = priceMoves(changes)!;
  expect(moveWords(moves)).toBe("2 down, 2 up, 1 unchanged, median 0 %, largest +850 %");
  expect(moves.columns.length).toBeLessThanOrEqual(40);
  for (const { from, to, count } of moves.columns) {
    expect(filtered(changes, { ...NO_FILTER, between: `${from}:${to}` }, new Set())).toHaveLength(count);
  }
  expect(moves.columns.reduce((sum, { count }) => sum + count, 0)).toBe(changes.length);
  expect(priceMoves(changes.slice(0, 1))).toBeNull();
});

test("lists say what leaves and what joins", () => {
  const field = { field: "tags", label: "Tags", before: ["a", "b"], after: ["b", "c"], kind: "tags" } as never;
  expect(listMoves(field)).toEqual({ removed: ["a"], added: ["c"], kept: ["b"] });
});

test("blocks in view, at most 80, at both ends", () => {
  const offsets = offsetsOf(Array.from({ length: 1000 }, (_, index) => (index % 2 ? 40 : 80)));
  expect(blocksIn(offsets, 0, 900)).toEqual({ from: 0, to: 23 });
  const end = blocksIn(offsets, 59_000, 60_000);
  expect(end.to).toBe(1000);
  expect(end.to - end.from).toBeLessThanOrEqual(80);
  expect(blocksIn(offsetsOf([]), 0, 900)).toEqual({ from: 0, to: 0 });
});
