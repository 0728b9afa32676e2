/** The steps of a run as rows; iterations of a loop are collapsed, so that a thousand rows read as one. */

import type { StepRecord } from "../../api/schema";
import { lengthOf } from "../../lib/time";

/** Up to this many rows, a loop is not collapsed. */
const FEW = 3;

export type Item =
  | { kind: "step"; key: number; step: StepRecord }
  | { kind: "loop"; key: number; steps: StepRecord[]; rounds: number; failed: number };

/** Groups neighbouring rows of a loop's iterations; steps stay in order of `seq`. */
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

/** Formats a duration; less than a second is not shown as zero. */
export function spent(ms: number): string {
  return ms < 1000 ? "under 1 s" : lengthOf(ms);
}
