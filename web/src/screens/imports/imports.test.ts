import { describe, expect, it } from "vitest";
import type { FindingRecord } from "../../api/schema";
import { blocked, byLevel, counted, foundAndToDo, lackingEverywhere, verdict, whyNot } from "./report";
import { guessed, MAX_BYTES, proposedName, tooLarge } from "./reading";

describe("an export as given", () => {
  const flow = `${"a".repeat(64)}:{"__metadata":{"version":0.1},"root":{"steps":[],"workflow_name":"Tagged"}}`;

  it("is guessed by its shape", () => {
    expect(guessed('{"nodes":[],"connections":{}}')).toBe("workflow_tool");
    expect(guessed(' [{"workflow":{"nodes":[],"connections":{}}}]')).toBe("workflow_tool");
    expect(guessed(flow)).toBe("store_flow");
    expect(guessed(flow.slice(65))).toBe("store_flow");
    for (const other of ["", "{", "[]", "[1,2]", '"text"', '{"a":1}', "null"]) expect(guessed(other)).toBeNull();
  });

  it("proposes its own name, else the file's", () => {
    expect(proposedName('{"name":" Orders ","nodes":[]}', "x.json")).toBe("Orders");
    expect(proposedName('{"name":7,"nodes":[]}', "My flow.v2.json")).toBe("My flow.v2");
    expect(proposedName(flow, null)).toBe("Tagged");
    expect(proposedName("{", null)).toBe("");
    expect(proposedName(`{"name":"${"n".repeat(300)}"}`, null)).toHaveLength(120);
  });

  it("is refused before it is sent when it is too large", () => {
    expect(tooLarge("x".repeat(MAX_BYTES - 1026))).toBeNull();
    expect(tooLarge("x".repeat(MAX_BYTES - 1025))).toContain("at most 2 MB");
    expect(tooLarge('"'.repeat(MAX_BYTES / 2))).toContain("2.0 MB");
  });
});

describe("the report", () => {
  const finding = (step: string | null, level: FindingRecord["level"], code = "parameter"): FindingRecord => ({ step, level, code, message: "" });
  const issues = [finding("A", "error"), finding("A", "error"), finding(null, "error"), finding("B", "warning"), finding("B", "note")];

  it("groups by level and counts steps, not findings", () => {
    expect(byLevel(issues).map(({ level, findings }) => [level, findings.length])).toEqual([["error", 3], ["warning", 1], ["note", 1]]);
    expect(byLevel([])).toEqual([]);
    expect(blocked(issues)).toEqual(["A"]);
    expect(verdict(issues).words).toBe("1 step cannot run");
    expect(verdict([finding(null, "error")]).words).toBe("Cannot run");
    expect(whyNot([finding("B", "warning")])).toBeNull();
    expect(whyNot([..."ABCDEFG"].map((step) => finding(step, "error")))).toContain("Cannot run: A, B, C, D, E and 2 more.");
    expect(verdict([finding("B", "warning")]).words).toBe("Can run");
    expect(verdict([], { runs: 5, steps: 30, start: "Every morning" }).words).toBe("Runs 5 of 30 steps");
    expect(verdict([], { runs: 30, steps: 30, start: null }).words).toBe("Can run");
    expect(verdict([], undefined, "workflow_tool").words).toBe("Can run");
    expect(verdict([], undefined, "store_flow").words).toBe("Can run on a Shopify store");
    expect(verdict([], undefined, "store_flow", true).tone).toBe("good");
    expect(verdict([], undefined, "store_flow", false).tone).toBe("muted");
    expect(verdict([finding("A", "error")], { runs: 5, steps: 30, start: null }).words).toBe("1 step cannot run");
    expect(whyNot([{ ...finding(null, "error"), message: "Nothing follows the start." }])).toBe("Nothing follows the start.");
    expect(counted(issues)).toBe("3 errors, 1 warning");
    expect(counted([])).toBe("");
  });

  it("names what no store of the organization has", () => {
    const [fetch, tag] = [finding("Fetch", "error"), finding("Tag", "error")];
    expect(lackingEverywhere([])).toEqual([]);
    expect(lackingEverywhere([{ missing: [fetch, tag] }])).toEqual([fetch, tag]);
    expect(lackingEverywhere([{ missing: [fetch, tag] }, { missing: [fetch] }])).toEqual([fetch]);
    expect(lackingEverywhere([{ missing: [fetch] }, { missing: [] }])).toEqual([]);
  });

  it("parts what was found from what to do", () => {
    expect(foundAndToDo("It is odd. Replace it. Or not.")).toEqual(["It is odd.", "Replace it. Or not."]);
    expect(foundAndToDo("Version 3.2 is not known.")).toEqual(["Version 3.2 is not known.", ""]);
  });
});
