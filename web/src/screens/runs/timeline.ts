/** The steps of a run as drawn: the rounds of a loop folded together, so that a thousand rows read as one. */

import type { StepRecord } from "../../api/schema";
import { lengthOf } from "../../lib/time";

/** So few rows of a loop need no fold. */
const FEW = 3;

export type Item =
  | { kind: "step"; key: number; step: StepRecord }
  | { kind: "loop"; key: number; steps: StepRecord[]; rounds: number; failed: number };

/** Steps stay in order of `seq`; neighbouring rows of rounds become one item. */
export function folded(steps: readonly StepRecord[]): Item[] {
  const items: Item[] = [];
  let loop: StepRecord[] = [];
  const close = () => {
    if (loop.length > FEW) {
      const rounds = new Set(loop.map(({ iteration }) => iteration)).size;
      const failed = loop.filter(({ status }) => status === "failed").length;
      items.push({ kind: "loop", key: loop[0]!.seq, steps: loop, rounds, failed });
    } else for (const step of loop) items.push({ kind: "step", key: step.seq, step });
    loop = [];
  };
  for (const step of steps) {
    if (step.iteration !== null) {
      loop.push(step);
      continue;
    }
    close();
    items.push({ kind: "step", key: step.seq, step });
  }
  close();
  return items;
}

/** How long something took; what took no second is not told as none. */
export function spent(ms: number): string {
  return ms < 1000 ? "under 1 s" : lengthOf(ms);
}
