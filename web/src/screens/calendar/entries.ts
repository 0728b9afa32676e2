/** Rows of the calendar as chips: one a run, one for many of an automation, one for what has no room. */

import type { OccurrenceRecord } from "../../api/schema";
import { addDays, fromWall, instantOf, toWall, type Fit, type Zone } from "../../lib/time";
import { COMING, RUN, type Shown, statusOf } from "../../lib/words";
import type { View } from "./range";

export type Chip =
  | { kind: "run"; id: string; wall: string; row: OccurrenceRecord }
  | { kind: "many"; id: string; wall: string; name: string; runs: number; day: string }
  | { kind: "more"; id: string; wall: string; runs: number; day: string };

/** More runs of one automation on one day are one chip. */
const MOST_OF_ONE = 3;
/** More chips are one that says how many more. */
const MOST_A_DAY = 8;
const MOST_A_SLOT = 2;

/** Names a run in an address. */
export function keyOf({ automation_id, slot_at }: Pick<OccurrenceRecord, "automation_id" | "slot_at">): string {
  return `${automation_id}.${instantOf(slot_at)}`;
}

/** How a coming run stands: its run's status once it has one. */
export function shownOf(row: OccurrenceRecord): Shown {
  if (row.state === "queued") return row.run_status ? statusOf(RUN, row.run_status) : COMING.queued!;
  if (row.closed_period) return { ...COMING.by_merchant!, words: `Not run: closed, ${row.closed_period.name}` };
  if (row.state === "skipped") return statusOf(COMING, row.reason ?? "skipped");
  return row.projected ? COMING.projected! : row.moved_from ? COMING.moved! : COMING.pending!;
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
export function byDay(rows: readonly OccurrenceRecord[], zone: Zone): Map<string, OccurrenceRecord[]> {
  const found = new Map<string, OccurrenceRecord[]>();
  for (const row of rows) {
    const day = toWall(row.run_at, zone).slice(0, 10);
    const rowsOf = found.get(day);
    if (rowsOf) rowsOf.push(row);
    else found.set(day, [row]);
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The chips of a view; the list shows every row and needs none. */
export function chipsOf(rows: readonly OccurrenceRecord[], zone: Zone, view: View): Chip[] {
  const days = byDay(rows, zone);
  return [...days].flatMap(([day, of]) => (view === "month" ? monthDay(day, of, zone) : weekDay(day, of, zone)));
}

function single(row: OccurrenceRecord, zone: Zone): Chip {
  return { kind: "run", id: keyOf(row), wall: toWall(row.run_at, zone), row };
}

function monthDay(day: string, rows: readonly OccurrenceRecord[], zone: Zone): Chip[] {
  const numbers = new Map<string, number>();
  for (const { automation_id } of rows) numbers.set(automation_id, (numbers.get(automation_id) ?? 0) + 1);
  const folded = new Set<string>();
  const chips: Chip[] = [];
  for (const row of rows) {
    const runs = numbers.get(row.automation_id)!;
    if (runs <= MOST_OF_ONE) chips.push(single(row, zone));
    else if (!folded.has(row.automation_id)) {
      folded.add(row.automation_id);
      chips.push({ kind: "many", id: `${row.automation_id}.${day}`, wall: toWall(row.run_at, zone), name: row.automation_name, runs, day });
    }
  }
  return cut(chips, MOST_A_DAY, day, `more.${day}`);
}

function weekDay(day: string, rows: readonly OccurrenceRecord[], zone: Zone): Chip[] {
  const slots = new Map<string, Chip[]>();
  for (const row of rows) {
    const chip = single(row, zone);
    const slot = chip.wall.slice(0, 14) + (chip.wall.slice(14) < "30" ? "00" : "30");
    slots.set(slot, [...(slots.get(slot) ?? []), chip]);
  }
  return [...slots].flatMap(([slot, chips]) => cut(chips, MOST_A_SLOT, day, `more.${slot}`));
}

/** At most so many; the last says how many runs are left out. */
function cut(chips: Chip[], most: number, day: string, id: string): Chip[] {
  if (chips.length <= most) return chips;
  const shown = chips.slice(0, most - 1);
  const rest = chips.slice(most - 1);
  const runs = rest.reduce((sum, chip) => sum + (chip.kind === "run" ? 1 : chip.runs), 0);
  return [...shown, { kind: "more", id, wall: rest[0]!.wall, runs, day }];
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
