/** Closed periods in words: what they stop, when, and for whom. */

import type { ClosedPeriodRecord, ClosingRecord } from "../api/schema";
import { full, type Zone } from "./time";
import { list } from "./words";

const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

type When = Record<string, unknown>;

/** What a period stops. */
export function stopsWords(stops: string): string {
  return stops === "runs" ? "no runs" : "no changes";
}

/** The rule of a period, on the clock of its zone. */
export function whenWords(when: When): string {
  if (when.kind === "freeze") return "until somebody lets changes go on";
  if (when.kind === "yearly") return `every year, ${dayWords(String(when.first))} to ${dayWords(String(when.last))}`;
  if (when.kind === "once") return `${localWords(String(when.start))} until ${localWords(String(when.end))}`;
  const days = list((when.days as number[]).map((day) => WEEKDAYS[day - 1]!));
  return when.from ? `every ${days}, ${String(when.from)} until ${String(when.to)}` : `every ${days}, all day`;
}

/** A day, `MM-DD` or `YYYY-MM-DD`, without its year. */
export function dayWords(date: string): string {
  const day = date.slice(-5);
  return `${Number(day.slice(3))} ${MONTHS[Number(day.slice(0, 2)) - 1]}`;
}

const REGIONS = new Intl.DisplayNames("en-GB", { type: "region" });

/** A country by its name. */
export function regionName(code: string): string {
  return REGIONS.of(code) ?? code;
}

function localWords(local: string): string {
  return `${dayWords(local.slice(5, 10))} ${local.slice(0, 4)} ${local.slice(11)}`;
}

/** One closing in words: its name, when, and what it stops. */
export function closingWords(closing: ClosingRecord, zone: Zone, now: number): string {
  const until = closing.end === null ? "until somebody lets changes go on" : `until ${full(closing.end, zone, now)}`;
  return `${closing.name} (${stopsWords(closing.stops)}), ${full(closing.start, zone, now)} ${until}`;
}

/** A closing on its own clock, from two local times with their offsets; says when the clock changes meanwhile. */
export function localClosing(start: string, end: string | null, now: number): string {
  const words = (local: string) => full(`${local.slice(0, 16)}Z`, "UTC", now);
  if (end === null) return words(start);
  const change = minutesAhead(end) - minutesAhead(start);
  const clock = change ? `; the clock goes ${change > 0 ? "forward" : "back"} meanwhile` : "";
  return `${words(start)} until ${words(end)}${clock}`;
}

function minutesAhead(local: string): number {
  const [hours, minutes] = local.slice(17).split(":").map(Number);
  return (local[16] === "-" ? -1 : 1) * (hours! * 60 + minutes!);
}

const FREEZE = "Changes are stopped";

/** Why changes were stopped, in brackets; empty when no reason was given. */
export function freezeReason(name: string): string {
  return name === FREEZE ? "" : ` (${name})`;
}

/** Whether a period is a stop of all changes. */
export function isFreeze({ when }: Pick<ClosedPeriodRecord, "when">): boolean {
  return (when as When).kind === "freeze";
}
