/** The results of an automation's last runs: ticks, one bar of changes a run, and a sentence. */

import type { RunRecord } from "../../api/schema";
import type { Bar, Tick } from "../../lib/charts";
import { dayOf, full, type Zone } from "../../lib/time";
import { count, formatNumber } from "../../lib/words";

export function atOf(run: RunRecord): string {
  return run.started_at ?? run.queued_at;
}

export function ticksOf(runs: readonly RunRecord[]): Tick[] {
  return runs.map((run) => ({ id: run.id, status: run.status, at: atOf(run) }));
}

function changesOf({ status, summary }: RunRecord) {
  const counts = summary?.counts;
  return {
    made: (counts?.applied ?? 0) + (counts?.sent ?? 0),
    waiting: status === "waiting_approval" ? (counts?.proposed ?? 0) : 0,
    alone: (counts?.declined ?? 0) + (counts?.conflicts ?? 0),
    failed: (counts?.failed ?? 0) + (counts?.unknown ?? 0),
  };
}

/** Returns one bar a run, in the given order. */
export function changeBars(runs: readonly RunRecord[], zone: Zone, now: number): Bar[] {
  return runs.map((run) => {
    const { made, waiting, alone, failed } = changesOf(run);
    return {
      key: run.id,
      title: full(atOf(run), zone, now),
      segments: [
        { tone: "good", value: made, words: "made" },
        { tone: "warn", value: waiting, words: "waiting for approval" },
        { tone: "muted", value: alone, words: "left alone" },
        { tone: "bad", value: failed, words: "failed or not known" },
      ],
      to: { page: "run", params: { id: run.id }, query: { tab: "changes" } },
    };
  });
}

/** Summarizes changes: "412 changes made, 9 left alone. Most in one run: 40, on Sat 21 Nov."; or null. */
export function changeWords(runs: readonly RunRecord[], zone: Zone, now: number): string | null {
  const all = runs.map((run) => ({ run, ...changesOf(run) }));
  const sum = (name: "made" | "waiting" | "alone" | "failed") => all.reduce((total, changes) => total + changes[name], 0);
  const [made, waiting, alone, failed] = [sum("made"), sum("waiting"), sum("alone"), sum("failed")];
  if (!(made + waiting + alone + failed)) return null;
  const parts = [
    `${count(made, "change")} made`,
    ...(waiting ? [`${formatNumber(waiting)} waiting for approval`] : []),
    ...(alone ? [`${formatNumber(alone)} left alone`] : []),
    ...(failed ? [`${formatNumber(failed)} failed or not known`] : []),
  ];
  const largest = all.reduce((best, changes) => (changes.made > best.made ? changes : best));
  const peak = largest.made && runs.length > 1 ? ` Most in one run: ${formatNumber(largest.made)}, on ${dayOf(atOf(largest.run), zone, now)}.` : "";
  return `${parts.join(", ")}.${peak}`;
}
