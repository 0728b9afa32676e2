import { describe, expect, it } from "vitest";
import type { StepRecord } from "../../api/schema";
import { adviceOf } from "./advice";
import { shapesOf, wordsOf } from "./result";
import { folded } from "./timeline";

const step = (seq: number, iteration: number | null = null, status = "succeeded") => ({ seq, iteration, status }) as StepRecord;

describe("the timeline", () => {
  it("folds the rounds of a loop and keeps the order of seq", () => {
    const loop = [1, 2, 3, 4].map((round) => step(round + 1, round, round === 4 ? "failed" : "succeeded"));
    const items = folded([step(1), ...loop, step(6), step(7, 1), step(8)]);
    expect(items.map(({ kind, key }) => `${kind} ${key}`)).toEqual(["step 1", "loop 2", "step 6", "step 7", "step 8"]);
    expect(items[1]).toMatchObject({ rounds: 4, failed: 1 });
  });
});

describe("what to do about a failure", () => {
  it.each([
    ["too_many_changes", null], ["timed_out", null], ["step_failed", "tab_missing"], ["step_failed", "invalid"], ["step_failed", "step_failed"],
  ])("is to change the inputs or steps after %s, %s", (run, step) => {
    expect(adviceOf(run, step).edit).toBe(true);
  });

  it.each([
    ["step_failed", null], ["approval_mismatch", null], ["interrupted", null], ["step_failed", "file_too_old"], ["step_failed", "file_missing"],
    ["step_failed", "file_empty"], ["step_failed", "not_found"], ["step_failed", "unavailable"], ["step_failed", "unauthorized"], [null, null],
  ])("is not to change the inputs or steps after %s, %s", (run, step) => {
    expect(adviceOf(run, step).edit).toBe(false);
  });

  it("is to reconnect an account that refuses its key", () => {
    expect(adviceOf("step_failed", "unauthorized").reconnect).toBe(true);
  });
});

describe("the result", () => {
  it("takes names and order from the schema, and shows what it does not know", () => {
    const schema = { properties: { sold_out: { title: "Sold out" }, products: { items: { properties: { label: {}, stock: {} } } } } };
    const result = { extra: { a: 1 }, products: [{ stock: 0, label: "Tea" }], sold_out: 3, file: "https://x.example/a", none: null };
    expect(shapesOf(result, schema)).toEqual([
      { kind: "number", name: "Sold out", value: 3 },
      { kind: "table", name: "Products", columns: [["label", "Label"], ["stock", "Stock"]], rows: result.products },
      { kind: "tree", name: "Extra", value: { a: 1 } },
      { kind: "link", name: "File", value: "https://x.example/a" },
    ]);
    expect(shapesOf({ urls: ["a", 1], on: true, bad: "javascript:alert(1)" }, null).map(({ kind }) => kind)).toEqual(["list", "text", "text"]);
  });

  it("says a day as a day, alone and in a table", () => {
    expect(shapesOf({ day: "2026-11-19", sku: "2026-13-45" }, null).map((shape) => "value" in shape && shape.value)).toEqual(["Thu 19 Nov 2026", "2026-13-45"]);
    expect(["2026-11-19", "2026-11-19T08:00", true, null].map(wordsOf)).toEqual(["Thu 19 Nov 2026", "2026-11-19T08:00", "yes", ""]);
  });

  it("leaves a code out where the schema declares a message that says it in words", () => {
    const rows = [{ row: 17, code: "number_ambiguous", message: "1,234 can be read in two ways" }];
    const schema = { properties: { refused_rows: { items: { properties: { row: {}, code: {}, message: {} } } } } };
    expect(shapesOf({ refused_rows: rows }, schema)).toMatchObject([{ columns: [["row", "Row"], ["message", "Message"]] }]);
    expect(shapesOf({ vouchers: [{ code: "SAVE10", message: "Thank you" }] }, null)).toMatchObject([
      { columns: [["code", "Code"], ["message", "Message"]] },
    ]);
  });

  it("names what happened to a tag (D17)", () => {
    expect(shapesOf({ tagged: 3, untagged: 2, sku: "A" }, null).map(({ name }) => name)).toEqual(["Tag added", "Tag taken off", "SKU"]);
  });
});
