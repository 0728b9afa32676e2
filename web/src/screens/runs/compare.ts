/** Compares two runs of an automation. */

import type { ChangeRecord, RunRecord } from "../../api/schema";
import { COUNTS } from "../../lib/record_words";

export interface CountRow {
  words: string;
  before: number;
  now: number;
}

/** Returns the counts that are not zero in both runs. */
export function countRows(before: RunRecord, now: RunRecord): CountRow[] {
  const of = (run: RunRecord, name: string) => (run.summary?.counts as Record<string, number> | undefined)?.[name] ?? 0;
  return COUNTS.map(([name, words]) => ({ words: words[0]!.toUpperCase() + words.slice(1), before: of(before, name), now: of(now, name) })).filter((row) => row.before || row.now);
}

/** Compares changes by action and object: those that only one of the runs has, and how many both have. */
export function objectsOf(before: readonly ChangeRecord[], now: readonly ChangeRecord[]) {
  const key = ({ action, object }: ChangeRecord) => `${action} ${object.type} ${object.id ?? object.label}`;
  const [keysBefore, keysNow] = [new Set(before.map(key)), new Set(now.map(key))];
  return {
    onlyNow: now.filter((change) => !keysBefore.has(key(change))),
    onlyBefore: before.filter((change) => !keysNow.has(key(change))),
    both: now.filter((change) => keysBefore.has(key(change))).length,
  };
}
