import { describe, expect, it } from "vitest";
import { address } from "../api/client";
import { hasInvisible, pieces, safeLink } from "./invisible";
import { isField, nameOf, Sequence, step } from "./keys";
import { MAX_ROWS, sorted, windowOf } from "./table";
import { OUTCOME, plainName } from "./record_words";
import { count, list, quoted, RUN, statusOf } from "./words";

describe("what cannot be seen", () => {
  it("is found and named, wherever it stands", () => {
    const text = "a\u202eb\u200bc\u0000\ufeff\u{e0041}";
    const names = pieces(text).filter(({ name }) => name).map(({ name }) => name);
    expect(names).toEqual(["right-to-left override", "zero-width space", "null", "byte order mark", "U+E0041"]);
    expect(pieces(text).map(({ text }) => text).join("")).toBe(text);
  });

  it("leaves text that shows itself alone", () => {
    for (const text of ["Tea, 12 €", "שלום", "👩‍🚀", "<script>alert(1)</script>", ""]) expect(hasInvisible(text)).toBe(false);
    expect(hasInvisible("a\u200db")).toBe(true);
  });

  it("makes links of https alone", () => {
    expect(safeLink("https://shop.example/a?b")).toEqual({ href: "https://shop.example/a?b", host: "shop.example" });
    for (const bad of ["javascript:alert(1)", "http://shop.example", "data:text/html,x", "//x", ""]) expect(safeLink(bad)).toBeNull();
  });
});

describe("words", () => {
  it("has one word for one thing, and abbreviations as people write them", () => {
    expect(statusOf(OUTCOME, "declined").words).toBe("Left out");
    expect(["sku", "product_id", "image_url", "compareAtPrice"].map(plainName)).toEqual(["SKU", "Product ID", "Image URL", "Compare at price"]);
  });

  it("never shows a bare code", () => {
    expect(statusOf(RUN, "waiting_approval").words).toBe("Waiting for approval");
    expect(statusOf(RUN, "brand_new", "It sleeps.").words).toBe("It sleeps.");
    expect(statusOf(RUN, "brand_new").words).not.toContain("brand_new");
  });

  it("counts and lists", () => {
    expect([count(1, "change"), count(3120, "change"), count(2, "entry", "entries")]).toEqual(["1 change", "3,120 changes", "2 entries"]);
    expect([list([]), list(["A"]), list(["A", "B", "C"])]).toEqual(["", "A", "A, B and C"]);
  });

  it("quotes at most five names and counts the others", () => {
    expect(quoted(["A", "B", "C", "D", "E"])).toBe("“A”, “B”, “C”, “D” and “E”");
    expect(quoted(["A", "B", "C", "D", "E", "F", "G"])).toBe("“A”, “B”, “C”, “D”, “E” and 2 more");
  });
});

describe("keys", () => {
  it("are off in fields and in chords of the system", () => {
    expect(isField({ tagName: "INPUT", type: "text" })).toBe(true);
    expect(isField({ tagName: "INPUT", type: "checkbox" })).toBe(false);
    expect(isField({ tagName: "TR" })).toBe(false);
    expect(nameOf({ key: "a", ctrlKey: true, metaKey: false, altKey: false })).toBeNull();
  });

  it("come one after another within a second", () => {
    const typed = new Sequence();
    const firsts = new Set(["g"]);
    expect([typed.next("g", 0, firsts), typed.next("o", 1000, firsts)]).toEqual([null, "g o"]);
    expect([typed.next("g", 0, firsts), typed.next("o", 1001, firsts)]).toEqual([null, "o"]);
    expect([step(0, -1, 3), step(1, 1, 3), step(2, 1, 3), step(0, 1, 0)]).toEqual([0, 2, 2, -1]);
  });
});

describe("tables", () => {
  it("draw at most 80 of many rows", () => {
    for (const top of [0, 1_000, 199_990]) {
      const { from, to } = windowOf(top, 800, 40, 5000);
      expect(to - from).toBeLessThanOrEqual(MAX_ROWS);
      expect(from * 40).toBeLessThanOrEqual(top);
    }
    expect(windowOf(999_999, 800, 40, 5000)).toEqual({ from: 4999, to: 5000 });
  });

  it("sort without losing the order of equal rows, empty ones last", () => {
    const rows = [{ n: 2, id: 1 }, { n: null, id: 2 }, { n: 1, id: 3 }, { n: 2, id: 4 }];
    expect(sorted(rows, ({ n }) => n, false).map(({ id }) => id)).toEqual([3, 1, 4, 2]);
    expect(sorted(rows, ({ n }) => n, true).map(({ id }) => id)).toEqual([1, 4, 3, 2]);
  });
});

describe("addresses of calls", () => {
  it("fill parameters in, join lists, leave out what is absent", () => {
    const url = address("/v1/automations/runs/{run_id}", { run_id: "a/b" }, { status: ["failed", "expired"], q: undefined, limit: 5 });
    expect(url).toBe("/v1/automations/runs/a%2Fb?status=failed%2Cexpired&limit=5");
  });
});
