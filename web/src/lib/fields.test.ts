import { describe, expect, it } from "vitest";
import type { AutomationRecord } from "../api/schema";
import { rebased, same, staleRows, valueWords } from "./fields";

const read = {
  name: "Prices", state: "active", timezone: "Europe/Berlin", inputs: { limit: 5, tag: "a" }, trigger: { kind: "schedule" },
  schedule: { cadence: "daily", run_at: "06:00" }, template_version: 1, bindings: {},
} as unknown as AutomationRecord;
const current = { ...read, name: "Prices of the week", inputs: { limit: 9, tag: "a" } } as AutomationRecord;

describe("two people at once", () => {
  it("shows what is mine beside what is current, and what else was changed", () => {
    const rows = staleRows(read, { inputs: { limit: 5, tag: "b" } }, current);
    expect(rows.mine).toEqual([{ label: "Tag", mine: "b", theirs: "a" }]);
    expect(rows.theirs.map(({ label, theirs }) => [label, theirs])).toEqual([["Name", "Prices of the week"], ["Limit", "9"]]);
  });

  it("keeps what the other changed where I did not", () => {
    expect(rebased(read, { inputs: { limit: 5, tag: "b" } }, current)).toEqual({ inputs: { limit: 9, tag: "b" } });
    expect(rebased(read, { inputs: { limit: 5 } }, current)).toEqual({ inputs: { limit: 9 } });
    expect(rebased(read, { name: "Mine" }, current)).toEqual({ name: "Mine" });
  });

  it("does not take how a trigger listens for a change", () => {
    const event = { ...read, trigger: { kind: "event", topics: ["orders/create"], listening: "not_yet" } } as AutomationRecord;
    const heard = { ...event, trigger: { ...event.trigger, listening: "yes" } } as AutomationRecord;
    expect(staleRows(event, {}, heard)).toEqual({ mine: [], theirs: [] });
  });
});

it("compares without regard to the order of names", () => {
  expect(same({ a: 1, b: [1, { c: 2, d: 3 }] }, { b: [1, { d: 3, c: 2 }], a: 1 })).toBe(true);
  expect(same([1, 2], [2, 1])).toBe(false);
});

it("words values, and long ones only in part", () => {
  expect(valueWords("inputs.on", true)).toBe("Yes");
  expect(valueWords("inputs.tags", ["a", "b"])).toBe("a and b");
  expect(valueWords("inputs.none", [])).toBeNull();
  expect(valueWords("inputs.sheet", { text: "x".repeat(900) })).toHaveLength(301);
});
