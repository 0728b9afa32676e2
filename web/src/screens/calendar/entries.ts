/** Turns rows of the calendar into chips: one a run, a strip for many of an automation, one for what does not fit. */

import type { OccurrenceRecord, RunRecord } from "../../api/schema";
import { formOf, type TickForm } from "../../lib/charts";
import { grouped } from "../../lib/grouped";
import { addDays, fromWall, instantOf, toWall, type Fit, type Zone } from "../../lib/time";
import { COMING } from "../../lib/record_words";
import { count, formatNumber, RUN, type Shown, statusOf, type Tone } from "../../lib/words";
import { keyOf } from "./key";
import type { View } from "./range";

/** An entry of the calendar: a slot of a schedule, or a run that a person or an event started. */
export interface CalendarRow extends OccurrenceRecord {
  /** What started it, unless a schedule did. */
  origin?: "hand" | "event";
  test?: boolean;
}

export type Chip =
  | { kind: "run"; id: string; wall: string; row: CalendarRow }
  | { kind: "strip"; id: string; wall: string; rows: readonly CalendarRow[]; day: string }
  /** `alone`: no run is shown beside it, so it includes the time. */
  | { kind: "more"; id: string; wall: string; runs: number; day: string; alone?: boolean };

/** If one automation has more runs on a day, they become one strip. */
const MAX_OF_ONE_AUTOMATION = 3;
/** If a day has more chips, the last one counts the others. */
const MAX_PER_DAY = 8;
/** The maximum number of chips side by side in a week; a phone has room for one. */
const MAX_SIDE_BY_SIDE = 2;
/** The height of a week's chip, in minutes. */
export const CHIP_MIN = 30;
const LAST_START = "23:30";

/** Returns the calendar row of a run that no schedule started. */
export function rowOf(run: RunRecord): CalendarRow {
  return {
    automation_id: run.automation_id, automation_name: `${run.undo_of ? "Undo of " : ""}${run.automation_name}`, automation_version: run.automation_version,
    timezone: "", slot_at: run.queued_at, run_at: run.started_at ?? run.queued_at, state: "queued", reason: null, run_id: run.id, run_status: run.status,
    moved_from: null, version: 0, projected: false, origin: run.started_by === "event" ? "event" : "hand", test: run.mode === "test",
  };
}

/** Returns the time at which a week's chip begins: late runs are drawn in the last half hour of the day. */
export function drawnFrom(wall: string): string {
  return wall.slice(11) > LAST_START ? `${wall.slice(0, 11)}${LAST_START}` : wall;
}

/** Returns the status to show: the run's, once it exists. */
export function statusShown(row: OccurrenceRecord): Shown {
  if (row.state === "queued") return row.run_status ? statusOf(RUN, row.run_status) : COMING.queued!;
  if (row.closed_period) return { ...COMING.by_merchant!, words: `Not run: closed, ${row.closed_period.name}` };
  if (row.state === "skipped") return statusOf(COMING, row.reason ?? "skipped");
  return row.projected ? COMING.projected! : row.moved_from ? COMING.moved! : COMING.pending!;
}

/** Says what started a run that no schedule started: "by hand, a test". */
export function originWords({ origin, test }: CalendarRow): string {
  if (!origin) return "";
  return `${origin === "hand" ? "by hand" : "by an event"}${test ? ", a test" : ""}`;
}

/** Whether it is an ordinary coming run, which needs no text besides its time. */
export function isOrdinary(row: OccurrenceRecord): boolean {
  return row.state === "pending" && !row.projected && !row.moved_from;
}

/** Whether it can still be moved. */
export function isOpen(row: OccurrenceRecord, now: number): boolean {
  return row.state === "pending" && instantOf(row.run_at) > now;
}

/** Groups rows by day in the viewer's zone, days ascending. */
export function byDay(rows: readonly CalendarRow[], zone: Zone): Map<string, CalendarRow[]> {
  return new Map([...grouped(rows, ({ run_at }) => toWall(run_at, zone).slice(0, 10))].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Groups rows by automation, in the order of their first row. */
export function byAutomation(rows: readonly CalendarRow[]): CalendarRow[][] {
  return [...grouped(rows, ({ automation_id }) => automation_id).values()];
}

/** Separates automations with many runs from single runs. `often`: ids of automations that run about every hour. */
export function folded(rows: readonly CalendarRow[], often: ReadonlySet<string>): { many: CalendarRow[][]; single: CalendarRow[] } {
  const many = byAutomation(rows).filter((automationRows) => automationRows.length > (often.has(automationRows[0]!.automation_id) ? 1 : MAX_OF_ONE_AUTOMATION));
  const foldedRows = new Set(many.flat());
  return { many, single: rows.filter((row) => !foldedRows.has(row)) };
}

/** Returns the chips of a month or week; the list renders the rows themselves. */
export function chipsOf(rows: readonly CalendarRow[], zone: Zone, view: View, often: ReadonlySet<string> = new Set(), small = false): Chip[] {
  return [...byDay(rows, zone)].flatMap(([day, of]) => {
    const { many, single } = folded(of, often);
    const strips = many.map((automationRows): Chip => ({ kind: "strip", id: `${automationRows[0]!.automation_id}.${day}`, wall: `${day}T00:00`, rows: automationRows, day }));
    const chips = single.map((row): Chip => ({ kind: "run", id: keyOf(row), wall: toWall(row.run_at, zone), row }));
    return view === "month" ? cut([...strips, ...chips], MAX_PER_DAY, day, `more.${day}`) : [...strips, ...weekDay(day, chips, small ? 1 : MAX_SIDE_BY_SIDE)];
  });
}

/** Limits the chips side by side to `limit`: the last one then stands for several runs. */
function weekDay(day: string, chips: readonly Chip[], limit: number): Chip[] {
  const placed: Chip[] = [];
  for (const chip of [...chips].sort((a, b) => (a.wall < b.wall ? -1 : a.wall > b.wall ? 1 : 0))) {
    const overlapping = placed.filter(({ wall }) => minutesBetween(drawnFrom(wall), drawnFrom(chip.wall)) < CHIP_MIN);
    if (overlapping.length < limit) placed.push(chip);
    else {
      const last = placed.pop()!;
      placed.push({ kind: "more", id: `more.${last.wall}`, wall: last.wall, runs: runsOf(last) + runsOf(chip), day, alone: limit === 1 });
    }
  }
  return placed;
}

function minutesBetween(wall: string, later: string): number {
  return (Date.parse(`${later}Z`) - Date.parse(`${wall}Z`)) / 60_000;
}

function runsOf(chip: Chip): number {
  return chip.kind === "run" ? 1 : chip.kind === "strip" ? chip.rows.length : chip.runs;
}

/** Limits the chips to `limit`: the last one counts the runs that are left out. */
function cut(chips: readonly Chip[], limit: number, day: string, id: string): Chip[] {
  if (chips.length <= limit) return [...chips];
  const hidden = chips.slice(limit - 1);
  return [...chips.slice(0, limit - 1), { kind: "more", id, wall: hidden[0]!.wall, runs: hidden.reduce((sum, chip) => sum + runsOf(chip), 0), day }];
}

/** The order in which the states of several runs decide how they are drawn: what needs a person most comes first. */
const WEIGHT = ["failed", "expired", "waiting_approval", "running", "queued", "succeeded", "cancelled", "refused", "skipped", "pending"];

function stateOf(row: OccurrenceRecord): string {
  return row.state === "queued" ? (row.run_status ?? "queued") : row.state;
}

/** Returns the row that determines how several are drawn. */
export function worstOf(rows: readonly CalendarRow[]): CalendarRow {
  return rows.reduce((worst, row) => (WEIGHT.indexOf(stateOf(row)) < WEIGHT.indexOf(stateOf(worst)) ? row : worst));
}

export interface DrawnTick {
  hour: number;
  form: TickForm;
  /** The colour of a failed or waiting run; null for the automation's colour. */
  tone: Tone | null;
}

/** Returns the shape of a row in a strip. */
export function tickOf(row: CalendarRow): Omit<DrawnTick, "hour"> {
  if (row.state === "pending") return { form: "line", tone: null };
  const { form, tone } = formOf(stateOf(row));
  return { form, tone: tone === "bad" || tone === "warn" ? tone : null };
}

/** Returns a strip's ticks: one for each hour of the viewer's clock with runs. */
export function ticksOf(rows: readonly CalendarRow[], zone: Zone): DrawnTick[] {
  const hours = grouped(rows, ({ run_at }) => Number(toWall(run_at, zone).slice(11, 13)));
  return [...hours].map(([hour, hourRows]) => ({ hour, ...tickOf(worstOf(hourRows)) }));
}

/** Summarizes rows: "24 runs: 1 failed, 9 done, 14 coming"; "24 runs, all coming". */
export function tallyWords(rows: readonly CalendarRow[]): string {
  const states = [...grouped(rows, stateOf)].sort(([a], [b]) => WEIGHT.indexOf(a) - WEIGHT.indexOf(b));
  const words = (state: string) => (RUN[state] ?? COMING[state])?.words.toLowerCase() ?? state;
  if (states.length === 1) return rows.length === 1 ? `1 run, ${words(states[0]![0])}` : `${count(rows.length, "run")}, all ${words(states[0]![0])}`;
  return `${count(rows.length, "run")}: ${states.map(([state, stateRows]) => `${formatNumber(stateRows.length)} ${words(state)}`).join(", ")}`;
}

/** Returns the target of a run dragged by `days`: the same clock time in its automation's zone. */
export function onDay(row: OccurrenceRecord, days: number): { instant: number; fit: Fit; wall: string; zone: Zone } {
  const from = toWall(row.run_at, row.timezone);
  const wall = `${addDays(from, days)}${from.slice(10)}`;
  return { ...fromWall(wall, row.timezone), wall, zone: row.timezone };
}

/** Returns the target of a run dragged by `seconds` of the viewer's clock. */
export function atTime(row: OccurrenceRecord, seconds: number, zone: Zone): { instant: number; fit: Fit; wall: string; zone: Zone } {
  const moved = Date.parse(`${toWall(row.run_at, zone)}Z`) + seconds * 1000;
  const wall = new Date(moved).toISOString().slice(0, 16);
  return { ...fromWall(wall, zone), wall, zone };
}

/** Returns the target of a drop `seconds` later on the viewer's clock; in a month, of a drop on another day. */
export function droppedAt(row: OccurrenceRecord, seconds: number, view: View, zone: Zone) {
  return view === "month" ? onDay(row, Math.round(seconds / 86_400)) : atTime(row, seconds, zone);
}
