/** The shapes of runs in a run strip, and the bars of charts. */

import type { PageName } from "../router.svelte";
import { count, RUN, statusOf, type Tone } from "./words";

/** The fields of a run that a strip shows. */
export interface Tick {
  id: string;
  status: string;
  at: string;
}

/** The shape of a tick: its height and form repeat what its colour says. */
export type TickForm = "whole" | "split" | "open" | "low" | "line" | "dot";

const FORMS: Readonly<Record<string, TickForm>> = {
  succeeded: "whole",
  failed: "split",
  waiting_approval: "open",
  queued: "low",
  running: "low",
};

export function formOf(status: string): { form: TickForm; tone: Tone } {
  return { form: FORMS[status] ?? "dot", tone: RUN[status]?.tone ?? "muted" };
}

/** Summarizes a strip: "Last 30 runs: 28 done, 1 failed, 1 waiting for approval." */
export function stripWords(ticks: readonly Tick[]): string {
  const tally = new Map<string, number>();
  for (const { status } of ticks) tally.set(status, (tally.get(status) ?? 0) + 1);
  const many = ticks.length > 1;
  const parts = [...tally].map(([status, number]) => `${many ? `${number} ` : ""}${statusOf(RUN, status).words.toLowerCase()}`);
  return ticks.length ? `Last ${many ? count(ticks.length, "run") : "run"}: ${parts.join(", ")}.` : "No runs yet.";
}

/** One segment of a stacked bar. */
export interface Segment {
  tone: Tone;
  value: number;
  /** The text after the number: "succeeded". */
  words: string;
}

/** A stacked bar; the first segment is at the bottom. */
export interface Bar {
  key: string;
  /** The full name of the bar: "Sat 21 Nov". */
  title: string;
  /** The label below the bar, where there is room: "21". */
  caption?: string;
  segments: readonly Segment[];
  to?: { page: PageName; params?: Record<string, string>; query?: Record<string, string> };
}

/** Describes a bar: "Sat 21 Nov: 23 succeeded, 1 failed". */
export function barWords({ title, segments }: Bar, none: string): string {
  const parts = segments.filter(({ value }) => value).map(({ value, words }) => `${value.toLocaleString("en-GB")} ${words}`);
  return `${title}: ${parts.join(", ") || none}`;
}

/** Returns the segments' heights from the bottom, for bars up to `maxTotal` in `height` px; nonzero counts stay visible. */
export function stacked(segments: readonly Segment[], maxTotal: number, height: number): { from: number; size: number; tone: Tone }[] {
  const drawn: { from: number; size: number; tone: Tone }[] = [];
  let from = 0;
  for (const { tone, value } of segments) {
    if (!value) continue;
    const size = Math.max(3, (value / Math.max(1, maxTotal)) * (height - 6));
    drawn.push({ from, size, tone });
    from += size + 1;
  }
  return drawn;
}
