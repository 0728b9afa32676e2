import { describe, expect, it } from "vitest";
import type { FindingRecord, PlanStepRecord } from "../api/schema";
import { layered, portWords, setAside, stateOf, waysOut } from "./plan";

function plan(names: string, ...edges: string[]) {
  const steps = [...names].map(
    (name): PlanStepRecord => ({ name, title: name, kind: "decide", operation: "set", needs: null, supported: true, after: [], target: null }),
  );
  return { steps, edges: edges.map((edge) => ({ from: edge[0]!, port: edge.slice(2) || "out:0", to: edge[1]! })) };
}

const positions = (...args: Parameters<typeof plan>) =>
  Object.fromEntries([...layered(plan(...args))].map(([name, { layer, column }]) => [name, `${layer}.${column}`]));

describe("layers of a plan", () => {
  it("gives a chain one row, and branches places in plan order", () => {
    expect(positions("abc", "ab", "bc")).toEqual({ a: "0.0", b: "1.0", c: "2.0" });
    expect(positions("abcd", "ab", "ac", "bd", "cd")).toEqual({ a: "0.0", b: "1.0", c: "1.1", d: "2.0" });
  });

  it("puts a join behind its longest way", () => {
    expect(positions("abcd", "ad", "ab", "bc", "cd").d).toBe("3.0");
    // Also when the short way comes first in the plan.
    expect(positions("adbc", "ad", "ab", "bc", "cd").d).toBe("3.0");
  });

  it("leaves out the edge that closes a circle, and edges of a step to itself", () => {
    expect(positions("abc", "ab", "bc", "cb")).toEqual({ a: "0.0", b: "1.0", c: "2.0" });
    expect(positions("ab", "aa", "ab")).toEqual({ a: "0.0", b: "1.0" });
    expect(positions("abc", "ab", "bc", "ca")).toEqual({ a: "0.0", b: "1.0", c: "2.0" });
  });

  it("gives steps nothing leads to the first layer, and survives edges to steps that are not there", () => {
    expect(positions("ab", "az")).toEqual({ a: "0.0", b: "0.1" });
  });

  it("lays out the largest plan there may be", () => {
    const names = Array.from({ length: 1000 }, (_, index) => `s${index}`);
    const steps = names.map((name) => ({ ...plan("a").steps[0]!, name }));
    const edges = names.slice(1).map((to, index) => ({ from: names[index]!, port: "out:0", to }));
    expect(layered({ steps, edges }).get("s999")).toEqual({ layer: 999, column: 0 });
  });
});

describe("words of a plan", () => {
  it("names ports", () => {
    expect(["out:0", "out:1", "true", "false", "loop", "done", "error", "case:0", "fallback", "loop_body", "after"].map(portWords)).toEqual([
      null, "output 2", "true", "false", "loop", "done", "error", "case 1", "otherwise", "loop", "done",
    ]);
    expect(waysOut(plan("abc", "abtrue", "acfalse"), "a")).toEqual([{ port: "true", to: "b" }, { port: "false", to: "c" }]);
  });

  it("counts what other connections discard", () => {
    expect(setAside([{ status: "running" }])).toBeNull();
    expect(setAside([{ status: "queued" }, { status: "waiting_approval" }])).toMatch(/^1 run waiting to start and 1 approval will/);
    expect(setAside([{ status: "waiting_approval" }])).toMatch(/^1 approval will/);
  });

  it("tells the worst state of a step", () => {
    const finding = (code: string, level: FindingRecord["level"]): FindingRecord => ({ step: "a", code, level, message: "" });
    const none = new Set<string>();
    expect(stateOf("a", true, [], none)).toBe("fine");
    expect(stateOf("a", true, [], new Set("a"))).toBe("unbound");
    expect(stateOf("a", false, [finding("node_type", "error")], new Set("a"))).toBe("blocked");
    expect(stateOf("a", false, [finding("node_type", "warning"), finding("disabled_step", "note")], none)).toBe("disabled");
    expect(stateOf("b", true, [finding("node_type", "error")], none)).toBe("fine");
  });
});
