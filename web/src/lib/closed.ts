/** Closed periods as text: what they stop, when, and for whom. */

import type { ClosedPeriodRecord, ClosingRecord } from "../api/schema";
import { addDays, clockOf, dayOf, full, instantOf, toWall, type Zone } from "./time";
import { list } from "./words";

const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

type When = Record<string, unknown>;

/** Capitalizes the first letter, for texts that stand alone. */
export function capital(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Returns what a period stops. */
export function stopsWords(stops: string): string {
  return stops === "runs" ? "no runs" : "no changes";
}

/** Describes the rule of a period, in local time of its zone. */
export function whenWords(when: When): string {
  if (when.kind === "freeze") return "until somebody resumes changes";
  if (when.kind === "yearly") return `every year, ${dayWords(String(when.first))} to ${dayWords(String(when.last))}`;
  if (when.kind === "once") return onceWords(String(when.start), String(when.end));
  const days = list((when.days as number[]).map((day) => WEEKDAYS[day - 1]!));
  return when.from ? `every ${days}, ${String(when.from)} until ${String(when.to)}` : `every ${days}, all day`;
}

/** Formats a day, `MM-DD` or `YYYY-MM-DD`, without its year. */
export function dayWords(date: string): string {
  const day = date.slice(-5);
  return `${Number(day.slice(3))} ${MONTHS[Number(day.slice(0, 2)) - 1]}`;
}

const REGIONS = new Intl.DisplayNames("en-GB", { type: "region" });

/** Returns the name of a country. */
export function regionName(code: string): string {
  return REGIONS.of(code) ?? code;
}

/** Formats a local time span; whole days by their dates alone. */
function onceWords(start: string, end: string): string {
  const date = (local: string) => `${dayWords(local.slice(5, 10))} ${local.slice(0, 4)}`;
  if (start.endsWith("T00:00") && end.endsWith("T00:00")) {
    const last = addDays(end.slice(0, 10), -1);
    return last <= start.slice(0, 10) ? date(start) : `${date(start)} to ${date(last)}`;
  }
  return `${date(start)} ${start.slice(11)} until ${date(end)} ${end.slice(11)}`;
}

/** Describes one occurrence of a period: its name, when, and what it stops. */
export function closingWords(closing: ClosingRecord, zone: Zone, now: number): string {
  return `${closing.name} (${stopsWords(closing.stops)}), ${spanWords(closing, zone, now)}`;
}

/** Formats a time span: "Sun 29 Nov, 02:00 to 03:00"; whole days without times. */
function spanWords({ start, end }: ClosingRecord, zone: Zone, now: number): string {
  if (end === null) return `${full(start, zone, now)} until somebody resumes changes`;
  const [first, last] = [toWall(start, zone), toWall(end, zone)];
  if (first.endsWith("T00:00") && last.endsWith("T00:00")) {
    const lastDay = dayOf(instantOf(end) - 1, zone, now);
    return dayOf(start, zone, now) === lastDay ? lastDay : `${dayOf(start, zone, now)} to ${lastDay}`;
  }
  if (first.slice(0, 10) === last.slice(0, 10)) return `${full(start, zone, now)} to ${clockOf(end, zone)}`;
  return `${full(start, zone, now)} until ${full(end, zone, now)}`;
}

/** Returns the next occurrence of each period, and how many more it has. */
export function nextOfEach(closings: readonly ClosingRecord[]): { closing: ClosingRecord; more: number }[] {
  const next = new Map<string, { closing: ClosingRecord; more: number }>();
  for (const closing of closings) {
    const group = next.get(closing.period_id);
    if (group) group.more += 1;
    else next.set(closing.period_id, { closing, more: 0 });
  }
  return [...next.values()];
}

/** Formats a span of local times with offsets; says if the clock changes in between. */
export function localClosing(start: string, end: string | null, now: number): string {
  const words = (local: string) => full(`${local.slice(0, 16)}Z`, "UTC", now);
  if (end === null) return words(start);
  const change = minutesAhead(end) - minutesAhead(start);
  const clock = change ? `; the clock goes ${change > 0 ? "forward" : "back"} in between` : "";
  return `${words(start)} until ${words(end)}${clock}`;
}

function minutesAhead(local: string): number {
  const [hours, minutes] = local.slice(17).split(":").map(Number);
  return (local[16] === "-" ? -1 : 1) * (hours! * 60 + minutes!);
}

const FREEZE = "Changes are stopped";

/** Returns the reason of a freeze in brackets; empty if none was given. */
export function freezeReason(name: string): string {
  return name === FREEZE ? "" : ` (${name})`;
}

/** Whether a period is a freeze, which stops all changes. */
export function isFreeze({ when }: Pick<ClosedPeriodRecord, "when">): boolean {
  return (when as When).kind === "freeze";
}
