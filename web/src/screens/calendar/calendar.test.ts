import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { OccurrenceRecord, RunRecord, ScheduleRecord } from "../../api/schema";
import { huesOf } from "../../lib/hues";
import { atTime, chipsOf, drawnFrom, onDay, rowOf, tallyWords, ticksOf, worstOf } from "./entries";
import { keyOf } from "./key";
import { movedSchedule } from "./later";
import { rangeOf, ends, spanOf, stepped, titleOf } from "./range";

const ZONE = "Europe/Berlin";
function row(run_at: string, over: Partial<OccurrenceRecord> = {}): OccurrenceRecord {
  return {
    automation_id: "A", automation_name: "Prices", automation_version: 1, timezone: ZONE, slot_at: run_at, run_at, state: "pending",
    reason: null, run_id: null, run_status: null, moved_from: null, version: 0, projected: false, ...over,
  };
}
const atHour = (hour: number) => `2026-11-23T${String(hour).padStart(2, "0")}:00:00.000Z`;

describe("days shown", () => {
  it("are whole weeks from Monday", () => {
    expect(spanOf("month", "2026-11-21")).toEqual({ from: "2026-10-26", to: "2026-12-07" });
    expect(spanOf("week", "2026-11-22")).toEqual({ from: "2026-11-16", to: "2026-11-23" });
    expect(stepped("month", "2026-12-31", 1)).toBe("2027-01-01");
    expect(titleOf("week", "2026-12-31")).toBe("28 Dec 2026 to 3 Jan 2027");
  });

  it("end where the service answers no more", () => {
    const now = Date.parse("2026-11-21T12:34:00Z");
    const past = spanOf("month", "2026-10-01");
    expect(rangeOf(past, ZONE, now)!.from).toBe("2026-10-21T13:00:00.000Z");
    expect(ends(past, ZONE, now).before).toMatch("31 days ago");
    expect(ends(spanOf("month", "2026-11-21"), ZONE, now)).toEqual({ before: null, after: null });
    expect(rangeOf(spanOf("month", "2027-11-15"), ZONE, now)!.to).toBe("2027-11-22T12:00:00.000Z");
    expect(rangeOf(spanOf("week", "2028-01-01"), ZONE, now)).toBeNull();
  });

  it("are three on a phone, from the day itself", () => {
    expect(spanOf("week", "2026-11-22", true)).toEqual({ from: "2026-11-22", to: "2026-11-25" });
    expect(stepped("week", "2026-11-22", -1, true)).toBe("2026-11-19");
    expect(titleOf("week", "2026-11-22", true)).toBe("22 Nov to 24 Nov 2026");
  });
});

describe("chips", () => {
  it("fold more than three runs of an automation on a day", () => {
    const three = [1, 2, 3].map((hour) => row(atHour(hour)));
    expect(chipsOf(three, ZONE, "month").map(({ kind }) => kind)).toEqual(["run", "run", "run"]);
    for (const view of ["month", "week"] as const) {
      const [strip, ...rest] = chipsOf([...three, row(atHour(4))], ZONE, view);
      expect([strip!.kind, strip!.id, rest]).toEqual(["strip", "A.2026-11-23", []]);
      // One that runs each hour is a strip on its last day too, where few runs are left.
      expect(chipsOf(three, ZONE, view, new Set(["A"])).map(({ kind }) => kind)).toEqual(["strip"]);
    }
  });

  it("have room at the end of a day, where they count as beside each other", () => {
    expect(["2026-11-23T23:57", "2026-11-23T23:30", "2026-11-23T00:05"].map(drawnFrom)).toEqual([
      "2026-11-23T23:30", "2026-11-23T23:30", "2026-11-23T00:05",
    ]);
    const late = ["22:05", "22:10", "22:57"].map((time, index) => row(`2026-11-23T${time}:00.000Z`, { automation_id: `A${index}` }));
    expect(chipsOf(late, ZONE, "week").map(({ kind, wall }) => [kind, wall.slice(11)])).toEqual([["run", "23:05"], ["more", "23:10"]]);
  });

  it("sum a day up by what asks for a person most", () => {
    const ended = (hour: number, run_status: OccurrenceRecord["run_status"]) => row(atHour(hour), { state: "queued", run_id: `R${hour}`, run_status });
    const rows = [ended(5, "succeeded"), ended(6, "failed"), row(atHour(6)), row(atHour(22))];
    expect(tallyWords(rows)).toBe("4 runs: 1 failed, 1 done, 2 coming");
    expect(worstOf(rows).run_id).toBe("R6");
    // 22:00 in London is 23:00 in Berlin: one tick an hour of the viewer's clock.
    expect(ticksOf(rows, ZONE)).toEqual([
      { hour: 6, form: "whole", tone: null },
      { hour: 7, form: "split", tone: "bad" },
      { hour: 23, form: "line", tone: null },
    ]);
  });

  it("name a run that no schedule started by its own id", () => {
    const run = { id: "R", automation_id: "A", automation_name: "Prices", queued_at: atHour(8), started_at: atHour(9), status: "succeeded", started_by: "hand", mode: "test", undo_of: "Q" };
    const row = rowOf(run as RunRecord);
    expect([keyOf(row), row.run_at, row.automation_name, row.origin, row.test]).toEqual(["R", atHour(9), "Undo of Prices", "hand", true]);
  });

  it("say how many have no room", () => {
    const rows = Array.from({ length: 9 }, (_, number) => row(atHour(8), { automation_id: `A${number}` }));
    expect(chipsOf(rows.slice(0, 8), ZONE, "month")).toHaveLength(8);
    expect(chipsOf(rows, ZONE, "month").at(-1)).toMatchObject({ kind: "more", runs: 2 });
    expect(chipsOf(rows, ZONE, "week").map((chip) => (chip.kind === "run" ? 1 : chip.kind === "more" ? chip.runs : 0))).toEqual([1, 8]);
    const close = ["05:39", "05:51", "06:00", "06:10", "06:30"].map((clock) => row(`2026-11-23T${clock}:00Z`, { automation_id: clock }));
    const runsBeside = (small: boolean) => chipsOf(close, ZONE, "week", new Set(), small).map((chip) => [chip.wall.slice(11), chip.kind === "more" ? chip.runs : 1]);
    // In Berlin an hour later. Never three side by side; on a phone never two.
    expect(runsBeside(false)).toEqual([["06:39", 1], ["06:51", 2], ["07:10", 1], ["07:30", 1]]);
    expect(runsBeside(true)).toEqual([["06:39", 3], ["07:10", 2]]);
  });
});

describe("colours", () => {
  it("are eight, each once where there are no more automations", () => {
    const ids = Array.from({ length: 8 }, (_, number) => `01M84D46B${number}`);
    const hues = huesOf(ids);
    expect(new Set(hues.values()).size).toBe(8);
    // A younger automation takes nobody's colour.
    expect(ids.map((id) => huesOf([...ids, "01M9"]).get(id))).toEqual(ids.map((id) => hues.get(id)));
  });
});

describe("dragging", () => {
  it("to another day keeps the automation's clock over a change of it", () => {
    const sydney = row("2027-04-02T15:30:00.000Z", { timezone: "Australia/Sydney" });
    const { instant, fit } = onDay(sydney, 1);
    expect([new Date(instant).toISOString(), fit]).toEqual(["2027-04-03T15:30:00.000Z", "fold"]);
    expect(new Date(onDay(sydney, 2).instant).toISOString()).toBe("2027-04-04T16:30:00.000Z");
  });

  it("to another time follows the viewer's clock into a gap", () => {
    const { instant, fit } = atTime(row("2027-03-28T00:30:00.000Z"), 3600, ZONE);
    expect([new Date(instant).toISOString(), fit]).toEqual(["2027-03-28T01:30:00.000Z", "gap"]);
  });
});

interface Case {
  id: string;
  schedule: ScheduleRecord;
  day: string;
  wall: string;
  after: ScheduleRecord;
}
const file = process.env.MOVES;
describe.skipIf(!file)("this and later", () => {
  const cases = (file ? JSON.parse(readFileSync(file, "utf8")) : []) as Case[];
  it("says the schedule the service makes of it", () => {
    expect(cases.length).toBeGreaterThan(5);
    expect(cases.map(({ id, schedule, day, wall }) => [id, movedSchedule(schedule, day, wall)])).toEqual(cases.map(({ id, after }) => [id, after]));
  });
});
