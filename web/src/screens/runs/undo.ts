/** Which changes of a run can be undone. */

import type { ChangeRecord, RunRecord } from "../../api/schema";
import { count } from "../../lib/words";

const WRITTEN: ReadonlySet<string> = new Set(["applied", "unknown"]);

/** Whether a change was made, or may have been. `partly`: ids of failed changes that were partly made. */
function isWritten({ id, outcome }: ChangeRecord, partly: ReadonlySet<string>): boolean {
  return WRITTEN.has(outcome) || partly.has(id);
}

/** Returns the changes that were made, or may have been, and can be put back. */
export function undoableOf(changes: readonly ChangeRecord[], partly: ReadonlySet<string>): ChangeRecord[] {
  return changes.filter((change) => change.reversible && isWritten(change, partly));
}

/** Returns the reasons why changes cannot be put back, each with its number of changes; the most frequent first. */
export function reasonsOf(changes: readonly ChangeRecord[], partly: ReadonlySet<string>): [string, number][] {
  const counts = new Map<string, number>();
  for (const change of changes) {
    if (change.reversible || !isWritten(change, partly)) continue;
    const words = change.undo_words ?? "It cannot be undone.";
    counts.set(words, (counts.get(words) ?? 0) + 1);
  }
  return [...counts].sort(([, one], [, other]) => other - one);
}

/** Describes the run ahead of an undo, to follow "A run"; `behind` more runs are queued before the undo. */
export function aheadWords({ status, held_by }: Pick<RunRecord, "status" | "held_by">, behind: number): string {
  const does =
    status === "waiting_approval"
      ? "waits for approval"
      : held_by
        ? held_by.until
          ? `is held until ${held_by.name} ends`
          : "is held while changes are stopped"
        : status === "running"
          ? "is going on"
          : "is queued";
  const others = behind ? `, then ${count(behind, "more queued run")}` : "";
  return `${does} and comes first${others}. The undo begins after ${behind ? "them" : "it"}.`;
}
