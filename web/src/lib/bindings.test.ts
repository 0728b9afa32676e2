import { describe, expect, it } from "vitest";
import type { UnconfiguredRecord } from "../api/schema";
import { chosenOf, forAll, hasOthers, NOTHING, sent, toBind } from "./bindings";

const missing: UnconfiguredRecord[] = [
  { step: "Read", kind: "store", target: null, why: "needs_reconnecting" },
  { step: "Log", kind: "spreadsheet", target: { spreadsheet_id: "s1", sheet: "A" }, why: "no_connection" },
  { step: "Copy", kind: "spreadsheet", target: null, why: "no_connection" },
  { step: "Tell", kind: "teams", target: null, why: "no_connection" },
];
const rows = toBind(missing);

describe("bindings", () => {
  it("are of steps that need a connection of their own", () => {
    expect(rows.map(({ step }) => step)).toEqual(["Log", "Copy", "Tell"]);
  });

  it("are sent with an open target as null, and not without a connection", () => {
    const chosen = {
      Log: { integration: 7, spreadsheet: "s2" },
      Copy: { integration: 7, spreadsheet: null },
      Tell: { integration: 9, spreadsheet: "left over" },
      Gone: { integration: 1, spreadsheet: null },
    };
    expect(sent(rows, chosen)).toEqual({
      Log: { integration_id: 7, kind: "spreadsheet", target: { spreadsheet_id: "s2", sheet: null } },
      Copy: { integration_id: 7, kind: "spreadsheet", target: null },
      Tell: { integration_id: 9, kind: "teams", target: null },
    });
    expect(sent(rows, { Log: NOTHING })).toEqual({});
  });

  it("are read back as they were sent, a tab chosen elsewhere included", () => {
    const bound = {
      Log: { integration_id: 7, kind: "spreadsheet", target: { spreadsheet_id: "s2", sheet: "A" } },
      Copy: { integration_id: 7, kind: "spreadsheet", target: null },
    };
    expect(sent(rows, chosenOf(bound))).toEqual(bound);
  });

  it("of one step are used for all of its kind that have none", () => {
    const chosen = { Log: { integration: 7, spreadsheet: "s2" } };
    expect(hasOthers(rows, chosen, "Log")).toBe(true);
    const all = forAll(rows, chosen, "Log");
    expect(all).toEqual({ ...chosen, Copy: { ...NOTHING, integration: 7 } });
    expect(hasOthers(rows, all, "Log")).toBe(false);
    expect(hasOthers(rows, chosen, "Tell")).toBe(false);
    expect(forAll(rows, chosen, "Tell")).toEqual(chosen);
  });
});
