import { describe, expect, it } from "vitest";
import type { ChangeRecord, FieldRecord } from "../api/schema";
import { differenceOf, filtered, isWarned, linesOf, NO_FILTER, ordered, percentWords, shortPair, valueOf, widest } from "./changes";
import { cell, csvOf } from "./csv";

const field = (before: unknown, after: unknown, kind: FieldRecord["kind"] = "money"): FieldRecord => ({
  field: "price", label: "Price", before, after, kind, currency: "EUR",
});

function change(label: string, fields: FieldRecord[], more: Partial<ChangeRecord> = {}): ChangeRecord {
  return {
    id: label.toUpperCase(), seq: 4, object: { type: "product", id: "1", label, url: null }, action: "update", fields,
    reversible: true, undo_words: null, undo_of: null, outcome: "proposed", message: null, applied_at: null, undone_by: null, ...more,
  };
}

const NONE: ReadonlySet<string> = new Set();

describe("differences", () => {
  it("are worked out without rounding", () => {
    expect(differenceOf(field("0.1", "0.3"))?.words).toBe("+0.2");
    expect(differenceOf(field("7.90", "8.4"))).toMatchObject({ words: "+0.50" });
    expect(differenceOf(field("90071992547409921", "90071992547409922"))?.words).toBe("+1");
    expect(differenceOf(field("10", "7.5"))).toEqual({ words: "−2.5", percent: -25 });
    expect(differenceOf(field("-2", "2", "number"))?.percent).toBe(200);
    expect(differenceOf(field("5", "5"))).toEqual({ words: "0", percent: 0 });
  });

  it("are told of numbers alone", () => {
    for (const [before, after] of [[null, "1"], ["", "1"], ["1,5", "2"], ["1e3", "2"], [[1], 2]]) {
      expect(differenceOf(field(before, after))).toBeNull();
    }
    expect(differenceOf(field("1", "2", "text"))).toBeNull();
    expect(differenceOf(field("0", "2"))).toEqual({ words: "+2", percent: null });
  });

  it("are written short", () => {
    expect([6.329, -25, 0.04, 0, 1234.5].map(percentWords)).toEqual(["+6.3 %", "−25 %", "+<0.1 %", "0 %", "+1,235 %"]);
  });
});

describe("values", () => {
  it("say what is there, and nothing where nothing is", () => {
    expect(valueOf("8.40", field(0, 0))).toBe("8.40 EUR");
    expect(valueOf(["tea", { a: 1 }], field(0, 0, "tags"))).toBe('tea, {"a":1}');
    expect([true, false, 0].map((value) => valueOf(value, field(0, 0, "number")))).toEqual(["yes", "no", "0"]);
    for (const empty of [null, "", [], undefined]) expect(valueOf(empty, field(0, 0))).toBeNull();
  });
});

describe("one line of long texts", () => {
  it("shows where they part, not how they begin alike", () => {
    const same = "the same words again and again ".repeat(9);
    const [before, after] = shortPair(`${same}old`, `${same}new`);
    expect([before?.startsWith("…"), before?.endsWith("old"), after?.endsWith("new")]).toEqual([true, true, true]);
    expect(shortPair("short old", "short new")).toEqual(["short old", "short new"]);
    expect(shortPair(null, "x".repeat(500))).toEqual([null, `${"x".repeat(160)}…`]);
    expect(shortPair("😀".repeat(300), "😀".repeat(299) + "x")[1]).toMatch(/^…(😀)+x$/u);
  });
});

describe("filters", () => {
  const expensive = change("Dear", [field("10", "15"), field("a", "b", "text")]);
  const deleted = change("Gone", [], { action: "delete", reversible: false, message: "Stock 0." });
  const same = change("Same", [field("10", "11")]);
  const all = [expensive, deleted, same];
  const ids = (filter: object) => filtered(all, { ...NO_FILTER, ...filter }, new Set(["SAME"])).map(({ id }) => id);

  it("let whole changes through", () => {
    expect(ids({})).toEqual(["DEAR", "GONE", "SAME"]);
    expect(ids({ action: "delete" })).toEqual(["GONE"]);
    expect(ids({ field: "price" })).toEqual(["DEAR", "SAME"]);
    expect(ids({ only: "irreversible" })).toEqual(["GONE"]);
    expect(ids({ only: "warned" })).toEqual(["DEAR", "GONE"]);
    expect(ids({ only: "left" })).toEqual(["SAME"]);
    expect([ids({ over: "10" }), ids({ over: "9.9" }), ids({ over: "x" })]).toEqual([["DEAR"], ["DEAR", "SAME"], ["DEAR", "GONE", "SAME"]]);
    expect([ids({ search: " gOnE " }), ids({ search: "15 eur" }), ids({ search: "stock 0" }), ids({ search: "none" })]).toEqual([
      ["GONE"], ["DEAR"], ["GONE"], [],
    ]);
  });

  it("warn as the service does: above 20 percent, not at it", () => {
    expect(isWarned(change("At", [field("10", "12")]))).toBe(false);
    expect(isWarned(change("Past", [field("10", "12.01")]))).toBe(true);
    expect(widest(change("Two", [field("10", "11"), field("10", "8")]))).toBe(-20);
  });

  it("leave the hashed order alone unless another is asked for", () => {
    expect(ordered(all, "", true)).toBe(all);
    expect(ordered(all, "object", true).map(({ id }) => id)).toEqual(["SAME", "GONE", "DEAR"]);
    expect(ordered(all, "difference", true).map(({ id }) => id)).toEqual(["DEAR", "SAME", "GONE"]);
    expect(ordered(all, "difference", false).map(({ id }) => id)).toEqual(["SAME", "DEAR", "GONE"]);
    expect(linesOf(all).map(({ change: { id }, first }) => `${id}${first ? "!" : ""}`)).toEqual(["DEAR!", "DEAR", "GONE!", "SAME!"]);
  });
});

describe("the file for a spreadsheet", () => {
  it("guards every cell that would be worked out, numbers excepted", () => {
    const bad = ["=1+1", "+SUM(A1)", "-2+3", "@x", "\tx", "\rx", "  =x", "\u00a0=x", "+1 5", "＝1"];
    for (const text of bad) expect(cell(text).replace(/^"/, "")).toBe(cell(text).startsWith('"') ? `'${text}"` : `'${text}`);
    for (const number of ["-2", "+3.50", "-0.1"]) expect(cell(number)).toBe(number);
    expect(cell('a "b", c')).toBe('"a ""b"", c"');
  });

  it("holds every change, whatever is shown", () => {
    const rows = csvOf([change("=Evil", [field("10", "7.5")]), change("Gone", [], { reversible: false })], new Set(["GONE"]), new Set(["=EVIL"])).split("\r\n");
    expect(rows[1]).toBe("'=EVIL,product,'=Evil,1,,update,Price,10,7.5,EUR,-2.5,-25,,,proposed,\"changed since, left\",");
    expect(rows[2]).toBe("GONE,product,Gone,1,,update,,,,,,,yes,yes,proposed,,");
    expect(csvOf([], NONE, NONE).split("\r\n")).toHaveLength(2);
  });
});
