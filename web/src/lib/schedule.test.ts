import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { ScheduleRecord } from "../api/schema";
import { CADENCES, fitWords, monthlyBy, noteWords, scheduleWords, toggled, withCadence } from "./schedule";

const EMPTY: ScheduleRecord = {
  cadence: "manual", run_at: null, day_of_week: null, day_of_month: null, date: null, days: null, week_of_month: null,
};
const file = process.env.SCHEDULES;

describe.skipIf(!file)("schedules in words", () => {
  const cases = (file ? JSON.parse(readFileSync(file, "utf8")) : []) as { schedule: ScheduleRecord; words: string }[];
  it("are those of the service", () => {
    expect(cases.length).toBeGreaterThan(50);
    expect(cases.map(({ schedule }) => scheduleWords(schedule))).toEqual(cases.map(({ words }) => words));
  });
});

describe("choosing a cadence", () => {
  it("gives a schedule the service takes, and keeps the time", () => {
    for (const { value } of CADENCES) {
      const schedule = withCadence({ ...EMPTY, cadence: "daily", run_at: "07:45" }, value, "2026-11-21");
      expect(schedule.run_at).toBe(["hourly", "every_6_hours", "manual"].includes(value) ? null : "07:45");
      expect(schedule.date).toBe(value === "once" ? "2026-11-22" : null);
      expect(schedule.days).toEqual(value === "weekdays" ? [1, 2, 3, 4, 5] : null);
    }
  });

  it("names a month by its day or by its week, never by both", () => {
    const monthly = withCadence(EMPTY, "monthly", "2026-11-21");
    const byWeek = monthlyBy(monthly, "week");
    expect([byWeek.day_of_month, byWeek.week_of_month, byWeek.day_of_week]).toEqual([null, 1, 1]);
    expect(monthlyBy(byWeek, "day")).toMatchObject({ day_of_month: 1, week_of_month: null, day_of_week: null });
  });

  it("puts days in their order", () => {
    expect(toggled([5, 1], 3)).toEqual([1, 3, 5]);
    expect(toggled([1, 3], 3)).toEqual([1]);
  });
});

describe("notes", () => {
  const daily: ScheduleRecord = { ...EMPTY, cadence: "daily", run_at: "02:30" };
  it("say what the clock does", () => {
    expect(noteWords("gap", "2027-03-28T01:30:00.000Z", daily, "Europe/Berlin")).toBe(
      "The clock jumps over 02:30 that night; this run starts at 03:30.",
    );
    expect(noteWords("fold", "2027-10-31T00:30:00.000Z", daily, "Europe/Berlin")).toBe("02:30 comes twice that night; it runs at the first.");
    const monthly: ScheduleRecord = { ...EMPTY, cadence: "monthly", run_at: "08:00", day_of_month: 31 };
    expect(noteWords("short_month", "2027-02-28T07:00:00.000Z", monthly, "Europe/Berlin")).toBe("February has no 31st; it runs on the 28th.");
    expect(noteWords(null, "2027-02-28T07:00:00.000Z", daily, "Europe/Berlin")).toBeNull();
  });

  it("name the day when the jump goes over midnight", () => {
    const late: ScheduleRecord = { ...EMPTY, cadence: "weekly", day_of_week: 6, run_at: "23:30" };
    expect(noteWords("gap", "2027-03-28T01:30:00.000Z", late, "America/Nuuk")).toBe(
      "The clock jumps over 23:30 that night; this run starts at 00:30 on Sunday.",
    );
  });

  it("tell what a typed time comes to", () => {
    expect(fitWords("2027-03-28T02:30", Date.parse("2027-03-28T01:30Z"), "gap", "Europe/Berlin")).toBe("02:30 does not exist that night: 03:30");
    expect(fitWords("2027-03-27T02:30", 0, "exact", "Europe/Berlin")).toBeNull();
  });
});
