/** The days that each view of the calendar shows, and its limits (docs/design/web.md#calendar). */

import { addDays, startOfDay, wire, type Zone } from "../../lib/time";

export type View = "month" | "week" | "list";
export const VIEWS: readonly { view: View; words: string }[] = [
  { view: "month", words: "Month" },
  { view: "week", words: "Week" },
  { view: "list", words: "List" },
];
/** The number of days in the list. */
const LIST_DAYS = 14;
/** The number of days in a week on a phone, beginning with the chosen day. */
const FEW_DAYS = 3;
const DAY = 86_400_000;
export const PAST_DAYS = 31;
export const AHEAD_DAYS = 366;
const MONTHS = [
  "January", "February", "March", "April", "May", "June",
  "July", "August", "September", "October", "November", "December",
] as const;

/** From the first day (inclusive) to the last (exclusive). */
export interface Span {
  from: string;
  to: string;
}

/** Returns the weekday; 0 is Monday. */
function weekdayAt(day: string): number {
  return (new Date(`${day}T00:00Z`).getUTCDay() + 6) % 7;
}

function monday(day: string): string {
  return addDays(day, -weekdayAt(day));
}

function monthFrom(day: string, by = 0): string {
  const first = new Date(`${day.slice(0, 7)}-01T00:00Z`);
  first.setUTCMonth(first.getUTCMonth() + by);
  return first.toISOString().slice(0, 10);
}

/** Returns the days that a view shows around a day; a month in whole weeks. `small`: on a phone. */
export function spanOf(view: View, day: string, small = false): Span {
  if (view === "list") return { from: day, to: addDays(day, LIST_DAYS) };
  if (view === "week" && small) return { from: day, to: addDays(day, FEW_DAYS) };
  if (view === "week") return { from: monday(day), to: addDays(monday(day), 7) };
  const last = addDays(monthFrom(day, 1), -1);
  return { from: monday(monthFrom(day)), to: addDays(monday(last), 7) };
}

/** Returns a day of the previous or next view. */
export function stepped(view: View, day: string, by: number, small = false): string {
  if (view === "month") return monthFrom(day, by);
  return addDays(day, by * (view === "list" ? LIST_DAYS : small ? FEW_DAYS : 7));
}

function short(day: string, year: boolean): string {
  const [years, months, days] = day.split("-").map(Number) as [number, number, number];
  return `${days} ${MONTHS[months - 1]!.slice(0, 3)}${year ? ` ${years}` : ""}`;
}

/** Names the days shown: "November 2026", "16 Nov to 22 Nov 2026". */
export function titleOf(view: View, day: string, small = false): string {
  if (view === "month") return `${MONTHS[Number(day.slice(5, 7)) - 1]} ${day.slice(0, 4)}`;
  const { from, to } = spanOf(view, day, small);
  const last = addDays(to, -1);
  return `${short(from, from.slice(0, 4) !== last.slice(0, 4))} to ${short(last, true)}`;
}

const HOUR = 3_600_000;

/**
 * Returns the range to request: the days shown and one more on each side, within the service's limits. The current
 * time is rounded to the hour, so that the request stays the same for an hour.
 */
export function rangeOf(span: Span, zone: Zone, now: number): { from: string; to: string } | null {
  const hour = Math.floor(now / HOUR) * HOUR;
  const from = Math.max(startOfDay(addDays(span.from, -1), zone), hour + HOUR - PAST_DAYS * DAY);
  const to = Math.min(startOfDay(addDays(span.to, 1), zone), hour + AHEAD_DAYS * DAY);
  return from < to ? { from: wire(from), to: wire(to) } : null;
}

/** Says why the previous or next view is not available; null if it is. */
export function ends(span: Span, zone: Zone, now: number) {
  return {
    before: startOfDay(span.from, zone) <= now - PAST_DAYS * DAY ? `Runs are shown from ${PAST_DAYS} days ago on.` : null,
    after: startOfDay(span.to, zone) >= now + AHEAD_DAYS * DAY ? `Runs are planned for ${AHEAD_DAYS} days.` : null,
  };
}
