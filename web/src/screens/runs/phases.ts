/** How a run spent its time: reading, waiting for a person, writing. */

import type { RunRecord, StepRecord } from "../../api/schema";
import { instantOf } from "../../lib/time";
import { spent } from "./timeline";

export type PhaseKind = "reading" | "waiting" | "writing";

export interface Phase {
  kind: PhaseKind;
  ms: number;
}

export const PHASE_WORDS: Readonly<Record<PhaseKind, string>> = {
  reading: "Reading",
  waiting: "Waiting for a person",
  writing: "Writing",
};

/** Returns the phases in order; an unfinished one lasts until `now`. */
export function phasesOf(run: RunRecord, steps: readonly StepRecord[], now: number): Phase[] {
  if (run.started_at === null) return [];
  const end = run.finished_at === null ? now : instantOf(run.finished_at);
  const phases: Phase[] = [];
  let phaseStart = instantOf(run.started_at);
  let waits = false;
  const addPhase = (kind: PhaseKind, to: number) => {
    const ms = Math.max(0, Math.min(to, end) - phaseStart);
    const last = phases.at(-1);
    if (last?.kind === kind) last.ms += ms;
    else phases.push({ kind, ms });
    phaseStart = Math.max(phaseStart, Math.min(to, end));
  };
  for (const step of steps) {
    // One approval may cover several held steps; the first step that is not held ends the waiting.
    if (waits && step.status !== "held") {
      addPhase("waiting", instantOf(step.started_at));
      waits = false;
    }
    const writes = (step.kind === "change" || step.kind === "send") && step.status !== "held";
    addPhase(writes ? "writing" : "reading", instantOf(step.finished_at));
    waits ||= step.status === "held" && run.mode === "live";
  }
  if (waits) addPhase("waiting", end);
  else if (run.finished_at === null && run.status === "running") addPhase(phases.at(-1)?.kind === "writing" ? "writing" : "reading", end);
  return phases.filter(({ ms }) => ms > 0);
}

/** Formats the durations: "3 s at work, 23 min waiting for a person"; only the total if the run did not wait. */
export function lengthWords(phases: readonly Phase[]): string {
  const sum = (waits: boolean) => phases.reduce((total, { kind, ms }) => total + ((kind === "waiting") === waits ? ms : 0), 0);
  const [work, waiting] = [sum(false), sum(true)];
  return waiting ? `${spent(work)} at work, ${spent(waiting)} waiting for a person` : spent(work);
}
