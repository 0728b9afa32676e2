import { describe, expect, test } from "vitest";
import type { StartFieldRecord } from "../api/schema";
import { faultsOf, isTooLarge, MAX_BYTES, payloadOf, readJson, typedOf } from "./start_values";

function field(name: string, type: StartFieldRecord["type"] = "text", required = false, standard = ""): StartFieldRecord {
  return { name, path: name.split("."), label: name, type, required, options: [], default: standard };
}

describe("the payload of a run by hand", () => {
  const fields = [field("order.number"), field("order.note"), field("count", "number"), field("rows", "json"), field("sizes", "choices")];

  test("is made of what was typed, at the places of its fields", () => {
    const typed = { "order.number": "A-1", "order.note": "", count: "3", rows: "[{\"sku\": 1}]", sizes: ["S"] };
    expect(payloadOf(fields, typed, {})).toEqual({ order: { number: "A-1" }, count: 3, rows: [{ sku: 1 }], sizes: ["S"] });
  });

  test("keeps what the fields do not show, and the kind of a value that was not changed", () => {
    const before = { order: { number: 7, paid: true }, beside: [1] };
    const typed = typedOf(fields, before);
    expect(typed["order.number"]).toBe("7");
    expect(payloadOf(fields, typed, before)).toEqual(before);
    expect(payloadOf(fields, { ...typed, "order.number": "" }, before)).toEqual({ order: { paid: true }, beside: [1] });
  });

  test("leaves a default that was not changed to the service, and has a value where it was removed", () => {
    const withDefault = [field("city", "text", true, "Pune"), field("note", "text", false, "none"), field("count", "number", false, "0")];
    const typed = typedOf(withDefault, {});
    expect(typed).toEqual({ city: "Pune", note: "none", count: "0" });
    expect(faultsOf(withDefault, typed)).toEqual({});
    expect(payloadOf(withDefault, typed, {})).toEqual({});
    expect(payloadOf(withDefault, { ...typed, note: "", count: "" }, {})).toEqual({ note: "", count: null });
    expect(Object.keys(faultsOf(withDefault, { ...typed, city: "" }))).toEqual(["city"]);
  });

  test("takes no name from the prototypes of objects", () => {
    const odd = [field("constructor.name"), field("toString")];
    expect(typedOf(odd, {})).toEqual({ "constructor.name": "", toString: "" });
    expect(payloadOf(odd, { "constructor.name": "a", toString: "" }, {})).toEqual({ constructor: { name: "a" } });
  });

  test("has at most 256 KiB, counted in UTF-8", () => {
    const longest = "ö".repeat((MAX_BYTES - 8) / 2);
    expect(isTooLarge({ a: longest })).toBe(false);
    expect(isTooLarge({ a: `${longest}x` })).toBe(true);
  });
});

test("what is wrong is said at its field", () => {
  const fields = [field("mail", "email", true), field("count", "number"), field("rows", "json"), field("sizes", "choices", true)];
  expect(Object.keys(faultsOf(fields, { mail: "", count: "x", rows: "[", sizes: [] }))).toEqual(["mail", "count", "rows", "sizes"]);
  expect(faultsOf(fields, { mail: "a@b.example", count: "1.5", rows: "", sizes: ["S"] })).toEqual({});
});

test("a text that is no object is refused with the reason", () => {
  expect(readJson("{\"a\": 1}")).toEqual({ payload: { a: 1 } });
  expect(readJson(" ")).toEqual({ payload: {} });
  expect(readJson("[1]")).toHaveProperty("fault");
  expect(readJson("{a}")).toHaveProperty("fault");
});
