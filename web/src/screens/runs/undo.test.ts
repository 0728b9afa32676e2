import { describe, expect, it } from "vitest";
import type { ChangeRecord } from "../../api/schema";
import { aheadWords, reasonsOf, undoableOf } from "./undo";

function change(id: string, more: Partial<ChangeRecord>): ChangeRecord {
  return { id, reversible: true, undo_words: null, outcome: "applied", ...more } as ChangeRecord;
}

describe("what can be undone of a run", () => {
  const refund = { reversible: false, undo_words: "A refund stays." };
  const changes = [
    change("A", {}),
    change("B", { outcome: "unknown" }),
    change("C", { outcome: "declined" }),
    change("D", refund),
    change("E", { reversible: false }),
    change("F", refund),
    change("G", { ...refund, outcome: "declined" }),
    change("H", { outcome: "failed" }),
    change("I", { outcome: "failed" }),
    change("J", { outcome: "failed", reversible: false }),
  ];
  const partly = new Set(["H", "J"]);

  it("is what was or may have been made, also in part, and has an inverse", () => {
    expect(undoableOf(changes, partly).map(({ id }) => id)).toEqual(["A", "B", "H"]);
  });

  it("is told with the reasons for the rest, the most frequent first", () => {
    expect(reasonsOf(changes, partly)).toEqual([
      ["A refund stays.", 2],
      ["It cannot be undone.", 2],
    ]);
  });
});

describe("the run that an undo waits for", () => {
  it("is told with what it waits for itself, and how many are queued behind it", () => {
    expect(aheadWords({ status: "waiting_approval" }, 0)).toBe("waits for approval and comes first. The undo begins after it.");
    expect(aheadWords({ status: "running", held_by: { name: "Christmas", until: "2026-12-27T00:00:00Z" } }, 0)).toMatch(/^is held until Christmas ends /);
    expect(aheadWords({ status: "running", held_by: { name: "Wrong prices", until: null } }, 0)).toMatch(/^is held while changes are stopped /);
    expect(aheadWords({ status: "queued" }, 2)).toBe("is queued and comes first, then 2 more queued runs. The undo begins after them.");
  });
});
