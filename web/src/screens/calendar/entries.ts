/** Rows of the calendar as chips: one a run, one strip for many of an automation, one for what has no room. */

import type { OccurrenceRecord, RunRecord } from "../../api/schema";
import { formOf, type TickForm } from "../../lib/charts";
import { grouped } from "../../lib/grouped";
import { addDays, fromWall, instantOf, toWall, type Fit, type Zone } from "../../lib/time";
import { COMING } from "../../lib/record_words";
import { count, figures, RUN, type Shown, statusOf, type Tone } from "../../lib/words";
import { keyOf } from "./key";
import type { View } from "./range";

/** What stands in the calendar: a slot of a schedule, or a run that a person or an event started. */
export interface CalendarRow extends OccurrenceRecord {
  /** What started it, when that was no schedule. */
  origin?: "hand" | "event";
  test?: boolean;
}

export type Chip =
  | { kind: "run"; id: string; wall: string; row: CalendarRow }
  | { kind: "strip"; id: string; wall: string; rows: readonly CalendarRow[]; day: string }
  /** `alone`: no run is shown beside it, so that it says the time. */
  | { kind: "more"; id: string; wall: string; runs: number; day: string; alone?: boolean };

/** More runs of one automation on one day are one strip. */
const MAX_OF_ONE_AUTOMATION = 3;
/** More chips are one that says how many more. */
const MAX_PER_DAY = 8;
/** So many stand side by side in the week; a phone has the width of one. */
const MAX_SIDE_BY_SIDE = 2;
/** A chip of the week is half an hour tall. */
export const CHIP_MIN = 30;
const LAST_START = "23:30";

/** A run that no schedule started, as a row of the calendar. */
export function rowOf(run: RunRecord): CalendarRow {
  return {
    automation_id: run.automation_id, automation_name: `${run.undo_of ? "Undo of " : ""}${run.automation_name}`, automation_version: run.automation_version,
    timezone: "", slot_at: run.queued_at, run_at: run.started_at ?? run.queued_at, state: "queued", reason: null, run_id: run.id, run_status: run.status,
    moved_from: null, version: 0, projected: false, origin: run.started_by === "event" ? "event" : "hand", test: run.mode === "test",
  };
}

/** Where a chip of the week begins: the day's last half hour has room for it whole. */
export function drawnFrom(wall: string): string {
  return wall.slice(11) > LAST_START ? `${wall.slice(0, 11)}${LAST_START}` : wall;
}

/** How a run stands: its own status once there is one. */
export function shownOf(row: OccurrenceRecord): Shown {
  if (row.state === "queued") return row.run_status ? statusOf(RUN, row.run_status) : COMING.queued!;
  if (row.closed_period) return { ...COMING.by_merchant!, words: `Not run: closed, ${row.closed_period.name}` };
  if (row.state === "skipped") return statusOf(COMING, row.reason ?? "skipped");
  return row.projected ? COMING.projected! : row.moved_from ? COMING.moved! : COMING.pending!;
}

/** "by hand, a test", of a run that no schedule started. */
export function originWords({ origin, test }: CalendarRow): string {
  if (!origin) return "";
  return `${origin === "hand" ? "by hand" : "by an event"}${test ? ", a test" : ""}`;
}

/** Whether its time says all there is to say of it. */
export function isPlain(row: OccurrenceRecord): boolean {
  return row.state === "pending" && !row.projected && !row.moved_from;
}

/** Whether it can still be moved. */
export function isOpen(row: OccurrenceRecord, now: number): boolean {
  return row.state === "pending" && instantOf(row.run_at) > now;
}

/** The rows of each day in the viewer's zone, days rising. */
export function byDay(rows: readonly CalendarRow[], zone: Zone): Map<string, CalendarRow[]> {
  return new Map([...grouped(rows, ({ run_at }) => toWall(run_at, zone).slice(0, 10))].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The rows of each automation, in the order of their first. */
export function byAutomation(rows: readonly CalendarRow[]): CalendarRow[][] {
  return [...grouped(rows, ({ automation_id }) => automation_id).values()];
}

/** Those of which there are many in a day, and the others. `often`: automations that run each hour or so. */
export function folded(rows: readonly CalendarRow[], often: ReadonlySet<string>): { many: CalendarRow[][]; single: CalendarRow[] } {
  const many = byAutomation(rows).filter((some) => some.length > (often.has(some[0]!.automation_id) ? 1 : MAX_OF_ONE_AUTOMATION));
  const apart = new Set(many.flat());
  return { many, single: rows.filter((row) => !apart.has(row)) };
}

/** The chips of a view; the list shows every row and needs none. */
export function chipsOf(rows: readonly CalendarRow[], zone: Zone, view: View, often: ReadonlySet<string> = new Set(), small = false): Chip[] {
  return [...byDay(rows, zone)].flatMap(([day, of]) => {
    const { many, single } = folded(of, often);
    const strips = many.map((some): Chip => ({ kind: "strip", id: `${some[0]!.automation_id}.${day}`, wall: `${day}T00:00`, rows: some, day }));
    const chips = single.map((row): Chip => ({ kind: "run", id: keyOf(row), wall: toWall(row.run_at, zone), row }));
    return view === "month" ? cut([...strips, ...chips], MAX_PER_DAY, day, `more.${day}`) : [...strips, ...weekDay(day, chips, small ? 1 : MAX_SIDE_BY_SIDE)];
  });
}

/** Never more than `most` side by side: the last of them takes in what has no room beside it. */
function weekDay(day: string, chips: readonly Chip[], most: number): Chip[] {
  const placed: Chip[] = [];
  for (const chip of [...chips].sort((a, b) => (a.wall < b.wall ? -1 : a.wall > b.wall ? 1 : 0))) {
    const beside = placed.filter(({ wall }) => minutesBetween(drawnFrom(wall), drawnFrom(chip.wall)) < CHIP_MIN);
    if (beside.length < most) placed.push(chip);
    else {
      const last = placed.pop()!;
      placed.push({ kind: "more", id: `more.${last.wall}`, wall: last.wall, runs: runsOf(last) + runsOf(chip), day, alone: most === 1 });
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

/** At most so many; the last says how many runs are left out. */
function cut(chips: readonly Chip[], most: number, day: string, id: string): Chip[] {
  if (chips.length <= most) return [...chips];
  const rest = chips.slice(most - 1);
  return [...chips.slice(0, most - 1), { kind: "more", id, wall: rest[0]!.wall, runs: rest.reduce((sum, chip) => sum + runsOf(chip), 0), day }];
}

/** How runs are drawn together: what asks for a person most comes first. */
const WEIGHT = ["failed", "expired", "waiting_approval", "running", "queued", "succeeded", "cancelled", "refused", "skipped", "pending"];

function stateOf(row: OccurrenceRecord): string {
  return row.state === "queued" ? (row.run_status ?? "queued") : row.state;
}

/** The row that stands for several. */
export function worstOf(rows: readonly CalendarRow[]): CalendarRow {
  return rows.reduce((worst, row) => (WEIGHT.indexOf(stateOf(row)) < WEIGHT.indexOf(stateOf(worst)) ? row : worst));
}

export interface DrawnTick {
  hour: number;
  form: TickForm;
  /** Failures and what waits have the colour of their state, all else that of the automation. */
  tone: Tone | null;
}

/** The form of a row in a strip. */
export function tickOf(row: CalendarRow): Omit<DrawnTick, "hour"> {
  if (row.state === "pending") return { form: "line", tone: null };
  const { form, tone } = formOf(stateOf(row));
  return { form, tone: tone === "bad" || tone === "warn" ? tone : null };
}

/** A strip's ticks: one an hour of the viewer's clock in which something ran or will. */
export function ticksOf(rows: readonly CalendarRow[], zone: Zone): DrawnTick[] {
  const hours = grouped(rows, ({ run_at }) => Number(toWall(run_at, zone).slice(11, 13)));
  return [...hours].map(([hour, some]) => ({ hour, ...tickOf(worstOf(some)) }));
}

/** "24 runs: 1 failed, 9 done, 14 coming"; "24 runs, all coming". */
export function tallyWords(rows: readonly CalendarRow[]): string {
  const states = [...grouped(rows, stateOf)].sort(([a], [b]) => WEIGHT.indexOf(a) - WEIGHT.indexOf(b));
  const words = (state: string) => (RUN[state] ?? COMING[state])?.words.toLowerCase() ?? state;
  if (states.length === 1) return rows.length === 1 ? `1 run, ${words(states[0]![0])}` : `${count(rows.length, "run")}, all ${words(states[0]![0])}`;
  return `${count(rows.length, "run")}: ${states.map(([state, some]) => `${figures(some.length)} ${words(state)}`).join(", ")}`;
}

/** Where a run goes that is dragged to another day: at the same clock time of its automation. */
export function onDay(row: OccurrenceRecord, days: number): { instant: number; fit: Fit; wall: string; zone: Zone } {
  const from = toWall(row.run_at, row.timezone);
  const wall = `${addDays(from, days)}${from.slice(10)}`;
  return { ...fromWall(wall, row.timezone), wall, zone: row.timezone };
}

/** Where a run goes that is dragged to another time of the viewer's clock. */
export function atTime(row: OccurrenceRecord, seconds: number, zone: Zone): { instant: number; fit: Fit; wall: string; zone: Zone } {
  const moved = Date.parse(`${toWall(row.run_at, zone)}Z`) + seconds * 1000;
  const wall = new Date(moved).toISOString().slice(0, 16);
  return { ...fromWall(wall, zone), wall, zone };
}

/** Where a drop by so many seconds of the viewer's clock leads: in a month, to another day. */
export function droppedAt(row: OccurrenceRecord, seconds: number, view: View, zone: Zone) {
  return view === "month" ? onDay(row, Math.round(seconds / 86_400)) : atTime(row, seconds, zone);
}
