/** Schedules as people choose and read them; the service computes the times. */

import type { ScheduleRecord } from "../api/schema";
import { addDays, clockOf, toWall, type Zone } from "./time";
import { list } from "./words";

export type Cadence = ScheduleRecord["cadence"];

export const CADENCES: readonly { value: Cadence; words: string }[] = [
  { value: "daily", words: "Every day" },
  { value: "weekdays", words: "On some days of the week" },
  { value: "weekly", words: "Every week" },
  { value: "monthly", words: "Every month" },
  { value: "hourly", words: "Every hour" },
  { value: "every_6_hours", words: "Every 6 hours" },
  { value: "once", words: "Once" },
  { value: "manual", words: "Only by hand" },
];

export const WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"] as const;
const MONTHS = [
  "January", "February", "March", "April", "May", "June",
  "July", "August", "September", "October", "November", "December",
] as const;
export type Week = NonNullable<ScheduleRecord["week_of_month"]>;
export const WEEKS: readonly { value: Week; words: string }[] = [
  { value: 1, words: "first" },
  { value: 2, words: "second" },
  { value: 3, words: "third" },
  { value: 4, words: "fourth" },
  { value: -1, words: "last" },
];
const WORKING_DAYS = [1, 2, 3, 4, 5];
const FIRST_TIME = "06:00";
const EMPTY: ScheduleRecord = {
  cadence: "manual", run_at: null, day_of_week: null, day_of_month: null, date: null, days: null, week_of_month: null,
};

/** Whether schedules of this cadence have a time of day. */
export function hasTime(cadence: string): boolean {
  return ["once", "daily", "weekdays", "weekly", "monthly"].includes(cadence);
}

/** Whether "this and later" can move its runs: they have one time a day. */
export function movesLater(cadence: string): boolean {
  return hasTime(cadence);
}

/** Returns the schedule with another cadence; choices that still apply are preserved. */
export function withCadence(schedule: ScheduleRecord, cadence: Cadence, today: string): ScheduleRecord {
  const byWeek = cadence === "monthly" && schedule.week_of_month !== null;
  return {
    ...EMPTY,
    cadence,
    run_at: hasTime(cadence) ? schedule.run_at || FIRST_TIME : null,
    day_of_week: cadence === "weekly" || byWeek ? (schedule.day_of_week ?? 1) : null,
    day_of_month: cadence === "monthly" && !byWeek ? (schedule.day_of_month ?? 1) : null,
    week_of_month: byWeek ? schedule.week_of_month : null,
    date: cadence === "once" ? schedule.date || addDays(today, 1) : null,
    days: cadence === "weekdays" ? (schedule.days ?? WORKING_DAYS) : null,
  };
}

/** Returns a monthly schedule that names its day by number, or by week and weekday. */
export function monthlyBy(schedule: ScheduleRecord, by: "day" | "week"): ScheduleRecord {
  return by === "day"
    ? { ...schedule, day_of_month: schedule.day_of_month ?? 1, week_of_month: null, day_of_week: null }
    : { ...schedule, day_of_month: null, week_of_month: schedule.week_of_month ?? 1, day_of_week: schedule.day_of_week ?? 1 };
}

/** Returns the days of the week with one added or removed, sorted. */
export function toggled(days: readonly number[] | null, day: number): number[] {
  const chosen = days ?? WORKING_DAYS;
  return (chosen.includes(day) ? chosen.filter((option) => option !== day) : [...chosen, day]).sort((a, b) => a - b);
}

/** Describes a schedule as the service does, without the zone: "Every day at 08:00". */
export function scheduleWords(schedule: ScheduleRecord): string {
  const atTime = `at ${schedule.run_at}`;
  switch (schedule.cadence) {
    case "manual":
      return "Only when run by hand";
    case "hourly":
      return "Every hour, on the hour";
    case "every_6_hours":
      return "Every 6 hours, at 00:00, 06:00, 12:00 and 18:00";
    case "daily":
      return `Every day ${atTime}`;
    case "weekdays":
      return `Every ${daysWords(schedule.days ?? WORKING_DAYS)} ${atTime}`;
    case "weekly":
      return `Every ${weekday(schedule.day_of_week)} ${atTime}`;
    case "monthly":
      return `${monthlyWords(schedule)} ${atTime}`;
    case "once":
      return `Once, ${schedule.date ? `on ${dateWords(schedule.date)} ` : ""}${atTime}`;
    default:
      return "On a schedule this page does not know; reload it";
  }
}

function weekday(day: number | null): string {
  return WEEKDAYS[(day ?? 1) - 1] ?? "";
}

/** Lists days of the week, to follow "every": "day", "Monday to Friday", "Monday and Friday". */
export function daysWords(days: readonly number[]): string {
  const rising = [...days].sort((a, b) => a - b);
  if (rising.length === 7) return "day";
  const [first, last] = [rising[0] ?? 1, rising.at(-1) ?? 1];
  if (last - first === rising.length - 1 && rising.length > 2) return `${weekday(first)} to ${weekday(last)}`;
  return list(rising.map(weekday));
}

function monthlyWords({ day_of_month, day_of_week, week_of_month }: ScheduleRecord): string {
  if (week_of_month !== null) {
    const week = WEEKS.find(({ value }) => value === week_of_month)?.words ?? "";
    return `Every ${week} ${weekday(day_of_week)} of the month`;
  }
  const day = day_of_month ?? 1;
  return `On the ${ordinal(day)} of each month${day > 28 ? " (on its last day when it is shorter)" : ""}`;
}

/** Formats a date: "Thursday 15 January 2026". */
export function dateWords(date: string): string {
  const midnight = new Date(`${date}T00:00Z`);
  if (Number.isNaN(midnight.getTime())) return date;
  return `${weekdayOf(date)} ${midnight.getUTCDate()} ${MONTHS[midnight.getUTCMonth()]} ${midnight.getUTCFullYear()}`;
}

/** Returns the weekday of a date or wall time: "Thursday". */
export function weekdayOf(wall: string): string {
  return WEEKDAYS[(new Date(`${wall.slice(0, 10)}T00:00Z`).getUTCDay() + 6) % 7]!;
}

/** 1st, 2nd, 3rd, 11th, 31st. */
export function ordinal(number: number): string {
  const isTeen = number % 100 >= 11 && number % 100 <= 13;
  return `${number}${isTeen ? "th" : (({ 1: "st", 2: "nd", 3: "rd" } as Record<number, string>)[number % 10] ?? "th")}`;
}

/** Explains why a run of the preview differs from its rule (docs/design/web.md#schedule-editor); or null. */
export function noteWords(note: string | null, slot: string, schedule: ScheduleRecord, zone: Zone): string | null {
  const wall = toWall(slot, zone);
  const clock = wall.slice(11);
  const hour = Number(clock.slice(0, 2));
  // A six-hourly run in a clock change is named by the quarter of the day before its clock time.
  const named = schedule.run_at ?? (note === "gap" ? `${String(hour - (hour % 6)).padStart(2, "0")}:00` : clock);
  switch (note) {
    case null:
      return null;
    case "gap":
      return `The clock jumps over ${named} that night; this run starts at ${clock}${clock < named ? ` on ${weekdayOf(wall)}` : ""}.`;
    case "fold":
      return `${named} comes twice that night; it runs at the first.`;
    case "short_month":
      return `${MONTHS[Number(wall.slice(5, 7)) - 1]} has no ${ordinal(schedule.day_of_month ?? 31)}; it runs on the ${ordinal(Number(wall.slice(8, 10)))}.`;
    default:
      return "The clock or the calendar moves this run.";
  }
}

/** Describes the effect of a clock change on a chosen local time; null on days without one. */
export function fitWords(wall: string, instant: number, fit: "exact" | "gap" | "fold", zone: Zone): string | null {
  const named = wall.slice(11);
  if (fit === "gap") return `${named} does not exist that night: ${clockOf(instant, zone)}`;
  return fit === "fold" ? `${named} comes twice that night: the first is meant` : null;
}
