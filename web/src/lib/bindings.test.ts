import { describe, expect, it } from "vitest";
import { chosenOf, forAll, hasOthers, lackingOf, NOTHING, sent, sentAccounts, sentValues, type ToBind } from "./bindings";

const rows: ToBind[] = [
  { step: "Log", kind: "spreadsheet", target: { spreadsheet_id: "s1", sheet: "A" } },
  { step: "Copy", kind: "spreadsheet", target: null },
  { step: "Tell", kind: "teams", target: null },
];
const ask: ToBind = { step: "Ask", kind: "http_api", target: null, hosts: ["api.example"] };

describe("bindings", () => {
  it("and accounts are sent apart, and read back as one", () => {
    const chosen = { Tell: { ...NOTHING, integration: 9 }, Ask: { ...NOTHING, integration: 4 } };
    const bound = sent([...rows, ask], chosen);
    const accounts = sentAccounts([...rows, ask], chosen);
    expect(Object.keys(bound)).toEqual(["Tell"]);
    expect(accounts).toEqual({ Ask: { integration_id: 4 } });
    expect(sentAccounts([...rows, ask], chosenOf(bound, accounts))).toEqual(accounts);
  });

  it("leave out variables that are empty or no longer read", () => {
    const rows = [{ name: "$env.SHOP" }, { name: "$vars.zone" }];
    expect(sentValues(rows, { "$env.SHOP": "Tea", "$vars.zone": "", "$vars.gone": "x" })).toEqual({ "$env.SHOP": "Tea" });
  });

  it("of an account are used for the steps of the same hosts alone", () => {
    const same: ToBind = { ...ask, step: "Ask again" };
    const other: ToBind = { ...ask, step: "Elsewhere", hosts: ["other.example"] };
    const all = forAll([ask, same, other], { Ask: { ...NOTHING, integration: 4 } }, "Ask");
    expect(Object.keys(all)).toEqual(["Ask", "Ask again"]);
  });

  it("that lack are told of both fields", () => {
    const missing = { step: "Tell", kind: "teams" as const, target: null, why: "no_connection" as const };
    const unbound = { step: "Ask", kind: "http_api", why: "needs_reconnecting" as const };
    const readiness = { ready: false, missing: [], unconfigured: [missing], unbound: [unbound], unset: [] };
    expect(lackingOf(readiness).map(({ step }) => step)).toEqual(["Tell", "Ask"]);
    expect(lackingOf(undefined)).toEqual([]);
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
