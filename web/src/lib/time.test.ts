import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { addDays, clockOf, elsewhere, fromWall, full, lengthOf, offsetName, relative, toWall, wire } from "./time";

const instant = (text: string) => Date.parse(text);

describe("wall clocks", () => {
  it("turns an exact time into its instant and back", () => {
    const { instant, fit } = fromWall("2026-11-21T06:02", "America/New_York");
    expect([wire(instant), fit]).toEqual(["2026-11-21T11:02:00.000Z", "exact"]);
    expect(toWall(instant, "America/New_York")).toBe("2026-11-21T06:02");
  });

  it("puts a time that does not exist later by the jump, and takes the first of two", () => {
    const gap = fromWall("2026-03-29T02:30", "Europe/Berlin");
    expect([wire(gap.instant), gap.fit]).toEqual(["2026-03-29T01:30:00.000Z", "gap"]);
    const fold = fromWall("2026-10-25T02:30", "Europe/Berlin");
    expect([wire(fold.instant), fold.fit]).toEqual(["2026-10-25T00:30:00.000Z", "fold"]);
  });

  it("knows half hours and the far sides of the day line", () => {
    expect(fromWall("2026-04-05T01:45", "Australia/Lord_Howe").fit).toBe("fold");
    expect(toWall(instant("2026-11-21T12:00:00Z"), "Pacific/Kiritimati")).toBe("2026-11-22T02:00");
    expect(offsetName(instant("2026-11-21T12:00:00Z"), "Asia/Kolkata")).toBe("UTC+05:30");
  });

  // Python computed the expected values (tests/web/test_wall_clock.py).
  const cases = process.env.WALL_CLOCK;
  it.runIf(cases && existsSync(cases))("agrees with Python in every zone on every change day", () => {
    const recorded = JSON.parse(readFileSync(cases!, "utf8")) as [string, string, number, string][];
    const differing = recorded.filter(([zone, wall, instant, fit]) => {
      const converted = fromWall(wall, zone);
      return converted.instant !== instant || converted.fit !== fit;
    });
    expect(recorded.length).toBeGreaterThan(1000);
    expect(differing.slice(0, 10)).toEqual([]);
  });
});

describe("times in words", () => {
  const now = instant("2026-11-21T12:00:00Z");

  it("has the weekday always, the year when it is another", () => {
    expect(full("2026-11-21T05:02:00Z", "Europe/Berlin", now)).toBe("Sat 21 Nov, 06:02");
    expect(full("2027-01-01T05:02:09Z", "UTC", now, { seconds: true })).toBe("Fri 1 Jan 2027, 05:02:09");
    expect(full("2026-09-01T00:00:00Z", "UTC", now)).toBe("Tue 1 Sep, 00:00");
  });

  it("is relative for less than a day", () => {
    expect(relative(now + 3 * 3_600_000, now)).toBe("in 3 h");
    expect(relative(now - 12 * 60_000, now)).toBe("12 min ago");
    expect(relative(now + 20_000, now)).toBe("now");
    expect(relative(now + 24 * 3_600_000 - 1, now)).toBe("in 23 h");
    expect(relative(now + 24 * 3_600_000, now)).toBeNull();
  });

  it("names the automation's zone when its clock differs", () => {
    expect(elsewhere("2026-11-21T13:02:00Z", "America/New_York", "Europe/Berlin")).toBe("08:02 in New York");
    expect(elsewhere("2026-11-21T13:02:00Z", "Europe/Paris", "Europe/Berlin")).toBeNull();
    expect(elsewhere("2026-11-21T23:30:00Z", "Asia/Tokyo", "UTC")).toBe("Sun 22 Nov, 08:30 in Tokyo");
  });

  it("gives lengths in two units at most", () => {
    expect([4_000, 130_000, 120_000, 3_900_000].map(lengthOf)).toEqual(["4 s", "2 min 10 s", "2 min", "1 h 5 min"]);
    expect(clockOf("2026-11-21T00:05:00Z", "UTC")).toBe("00:05");
    expect(addDays("2026-12-31", 1)).toBe("2027-01-01");
  });
});
