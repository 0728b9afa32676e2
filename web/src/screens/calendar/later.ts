/** Previews the schedule that "this and later" produces; the service decides. */

import type { ScheduleRecord } from "../../api/schema";
import type { Week } from "../../lib/schedule";
import { addDays } from "../../lib/time";

function weekday(day: string): number {
  return ((new Date(`${day}T00:00Z`).getUTCDay() + 6) % 7) + 1;
}

function lastOf(day: string): number {
  const next = new Date(`${day.slice(0, 7)}-01T00:00Z`);
  next.setUTCMonth(next.getUTCMonth() + 1);
  return new Date(next.getTime() - 1).getUTCDate();
}

/** Whether the rule produces this date; not if its run was moved together with the rule before. */
function ruleProduces(schedule: ScheduleRecord, day: string): boolean {
  const number = Number(day.slice(8));
  switch (schedule.cadence) {
    case "weekdays":
      return (schedule.days ?? [1, 2, 3, 4, 5]).includes(weekday(day));
    case "weekly":
      return schedule.day_of_week === weekday(day);
    case "monthly":
      if (schedule.week_of_month !== null) return schedule.day_of_week === weekday(day);
      return Math.min(schedule.day_of_month ?? 1, lastOf(day)) === number;
    default:
      return true;
  }
}

/** Returns a run's nominal date: that of its slot, or that of its time if it was moved together with the rule. */
export function nominalDay(schedule: ScheduleRecord, slotDay: string, runDay: string): string {
  return ruleProduces(schedule, slotDay) ? slotDay : runDay;
}

/** Returns the schedule after a run of nominal date `from` moves to `wall` ("2026-11-24T09:30", automation's zone). */
export function movedSchedule(schedule: ScheduleRecord, from: string, wall: string): ScheduleRecord {
  const [to, time] = [wall.slice(0, 10), wall.slice(11)];
  const moved = { ...schedule, run_at: time };
  if (schedule.cadence === "once") return { ...moved, date: to };
  if (to === from) return moved;
  switch (schedule.cadence) {
    case "weekdays": {
      const days = (schedule.days ?? [1, 2, 3, 4, 5]).filter((day) => day !== weekday(from));
      return { ...moved, days: [...new Set([...days, weekday(to)])].sort((a, b) => a - b) };
    }
    case "weekly":
      return { ...moved, day_of_week: weekday(to) };
    case "monthly":
      return schedule.week_of_month === null
        ? { ...moved, day_of_month: Number(to.slice(8)) }
        : { ...moved, day_of_week: weekday(to), week_of_month: weekOf(schedule.week_of_month, to) };
    default:
      return moved;
  }
}

function weekOf(before: number, day: string): Week {
  const week = Math.ceil(Number(day.slice(8)) / 7) as 1 | 2 | 3 | 4 | 5;
  const inLast = addDays(day, 7).slice(0, 7) !== day.slice(0, 7);
  return week === 5 || (before === -1 && inLast) ? -1 : week;
}
