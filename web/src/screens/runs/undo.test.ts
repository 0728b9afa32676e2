import { describe, expect, it } from "vitest";
import type { ChangeRecord } from "../../api/schema";
import { reasonsOf, undoableOf } from "./undo";

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
  ];

  it("is what was or may have been made and has an inverse", () => {
    expect(undoableOf(changes).map(({ id }) => id)).toEqual(["A", "B"]);
  });

  it("is told with the reasons for the rest, the most frequent first", () => {
    expect(reasonsOf(changes)).toEqual([
      ["A refund stays.", 2],
      ["It cannot be undone.", 1],
    ]);
  });
});
