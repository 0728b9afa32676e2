/** Changes as people read them: lines, values, differences, filters, sorting. Nothing here is sent. */

import type { ChangeRecord, FieldRecord } from "../api/schema";
import { formatNumber } from "./words";

/** The service warns about price changes above this percentage (docs/design/security.md#sessions). */
const LARGE_PERCENT = 20;

/** One line of the table: a field of a change, or a change without fields. */
export interface Line {
  change: ChangeRecord;
  field: FieldRecord | null;
  /** Whether this is the first line of its change, which holds the check box. */
  first: boolean;
}

/** Returns the table's lines, in the order of the changes. */
export function linesOf(changes: readonly ChangeRecord[]): Line[] {
  const lines: Line[] = [];
  for (const change of changes) {
    if (!change.fields.length) lines.push({ change, field: null, first: true });
    change.fields.forEach((field, index) => lines.push({ change, field, first: index === 0 }));
  }
  return lines;
}

/** Formats a value by its kind; null if empty. Long lists are written in full. */
export function valueOf(value: unknown, field: Pick<FieldRecord, "kind" | "currency">): string | null {
  if (value === null || value === undefined || value === "") return null;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) {
    if (!value.length) return null;
    return value.map((item) => (typeof item === "object" ? JSON.stringify(item) : String(item))).join(", ");
  }
  if (typeof value === "object") return JSON.stringify(value);
  const text = String(value);
  return field.kind === "money" && field.currency ? `${text} ${field.currency}` : text;
}

/** Compares the lists before and after a change; null unless both sides are lists. */
export function listMoves(field: FieldRecord): { removed: string[]; added: string[]; kept: string[] } | null {
  const words = (value: unknown) => (value === null || value === "" ? [] : Array.isArray(value) ? value.map((item) => (typeof item === "string" ? item : JSON.stringify(item))) : null);
  const [before, after] = [words(field.before), words(field.after)];
  if (!before || !after || (field.kind !== "tags" && field.kind !== "list")) return null;
  return {
    removed: before.filter((item) => !after.includes(item)),
    added: after.filter((item) => !before.includes(item)),
    kept: before.filter((item) => after.includes(item)),
  };
}

const MAX_SHOWN = 160;
const LEAD = 24;

/** Shortens a text to at maxLength `maxLength` characters, with an ellipsis. */
export function short(text: string, maxLength = MAX_SHOWN): string {
  if (text.length <= maxLength) return text;
  return `${text.slice(0, /[\udc00-\udfff]/.test(text[maxLength]!) ? maxLength - 1 : maxLength)}…`;
}

/** Shortens both values to one line, starting shortly before their first difference. */
export function shortPair(before: string | null, after: string | null): [string | null, string | null] {
  let from = 0;
  if (before && after && Math.max(before.length, after.length) > MAX_SHOWN / 2) {
    while (from < before.length && before[from] === after[from]) from += 1;
    from = from > 2 * LEAD ? from - LEAD : 0;
    // Does not split a surrogate pair.
    while (from > 0 && /[\udc00-\udfff]/.test(before[from] ?? "")) from -= 1;
  }
  const cut = (text: string | null) => {
    if (text === null) return null;
    return `${from ? "…" : ""}${short(text.slice(from))}`;
  };
  return [cut(before), cut(after)];
}

const DECIMAL = /^([+-]?)(\d{1,30})(?:\.(\d{1,20}))?$/;

function decimal(value: unknown): { units: bigint; places: number } | null {
  const match = typeof value === "number" || typeof value === "string" ? DECIMAL.exec(String(value).trim()) : null;
  if (!match) return null;
  const [, sign, whole, rest = ""] = match;
  const units = BigInt(`${whole}${rest}`);
  return { units: sign === "-" ? -units : units, places: rest.length };
}

export interface Difference {
  /** The signed difference without a currency: "+0.50", "−3". */
  words: string;
  /** The signed difference in percent; null if the value before was zero. */
  percent: number | null;
}

const differences = new WeakMap<FieldRecord, Difference | null>();

/** Returns the exact difference of a number or an amount; null for any other field. */
export function differenceOf(field: FieldRecord): Difference | null {
  let difference = differences.get(field);
  if (difference === undefined) differences.set(field, (difference = computeDifference(field)));
  return difference;
}

function computeDifference(field: FieldRecord): Difference | null {
  if (field.kind !== "money" && field.kind !== "number") return null;
  const [before, after] = [decimal(field.before), decimal(field.after)];
  if (!before || !after) return null;
  const places = Math.max(before.places, after.places);
  const scaled = (number: { units: bigint; places: number }) => number.units * 10n ** BigInt(places - number.places);
  const [from, to] = [scaled(before), scaled(after)];
  const by = to - from;
  const size = (by < 0n ? -by : by).toString().padStart(places + 1, "0");
  const text = places ? `${size.slice(0, -places)}.${size.slice(-places)}` : size;
  const percent = from === 0n ? null : (Number(by) / Math.abs(Number(from))) * 100;
  return { words: `${by < 0n ? "−" : by > 0n ? "+" : ""}${text}`, percent };
}

/** Formats a percentage: "+6.3 %", "−25 %", or "+<0.1 %" for less than a tenth. */
export function percentWords(percent: number): string {
  const size = Math.abs(percent);
  if (size === 0) return "0 %";
  const sign = percent < 0 ? "−" : "+";
  if (size < 0.1) return `${sign}<0.1 %`;
  return `${sign}${size < 100 ? Number(size.toFixed(1)) : formatNumber(Math.round(size))} %`;
}

/** Returns the largest difference of a change in percent, signed; null if no field has one. */
export function widest(change: ChangeRecord): number | null {
  let largest: number | null = null;
  for (const field of change.fields) {
    const percent = differenceOf(field)?.percent ?? null;
    if (percent !== null && (largest === null || Math.abs(percent) > Math.abs(largest))) largest = percent;
  }
  return largest;
}

/** Whether one of the service's warnings applies to the change: it cannot be undone, or it moves a price far. */
export function isWarned(change: ChangeRecord): boolean {
  if (!change.reversible) return true;
  return change.fields.some((field) => field.kind === "money" && Math.abs(differenceOf(field)?.percent ?? 0) > LARGE_PERCENT);
}

export type Only = "" | "irreversible" | "warned" | "left" | "back" | "since";

const NONE: ReadonlySet<string> = new Set();

/** Says what undoing its run did with a change; empty if it was not undone. */
export function undoneWords({ id, undone_by }: ChangeRecord, changedSince: ReadonlySet<string>): string {
  return undone_by ? "put back" : changedSince.has(id) ? "changed since, left" : "";
}

export interface Filter {
  action: string;
  field: string;
  outcome: string;
  only: Only;
  /** The minimum percentage, exclusive; text as typed, empty for any. */
  over: string;
  /** The range of price changes in percent, lower bound inclusive: "-10:-5"; empty for any. */
  between: string;
  search: string;
}

export const NO_FILTER: Filter = { action: "", field: "", outcome: "", only: "", over: "", between: "", search: "" };

export function isFiltered(filter: Filter): boolean {
  return Object.values(filter).some(Boolean);
}

/** Returns the changes that match a filter, with all their fields. Filtering does not affect what is approved. */
export function filtered(
  changes: readonly ChangeRecord[], filter: Filter, leftOut: ReadonlySet<string>, changedSince: ReadonlySet<string> = NONE,
): readonly ChangeRecord[] {
  if (!isFiltered(filter)) return changes;
  const search = filter.search.trim().toLocaleLowerCase();
  const over = filter.over.trim() === "" ? null : Number(filter.over);
  const [from = NaN, to = NaN] = filter.between.split(":").map(Number);
  return changes.filter((change) => {
    if (filter.action && change.action !== filter.action) return false;
    if (filter.outcome && change.outcome !== filter.outcome) return false;
    if (filter.field && !change.fields.some(({ field }) => field === filter.field)) return false;
    if (filter.only === "irreversible" && change.reversible) return false;
    if (filter.only === "warned" && !isWarned(change)) return false;
    if (filter.only === "left" && !leftOut.has(change.id)) return false;
    if (filter.only === "back" && !change.undone_by) return false;
    if (filter.only === "since" && (change.undone_by || !changedSince.has(change.id))) return false;
    if (over !== null && !Number.isNaN(over) && !(Math.abs(widest(change) ?? -1) > over)) return false;
    if (filter.between && !isBetween(priceMove(change), from, to)) return false;
    return !search || textOf(change).includes(search);
  });
}

function isBetween(percent: number | null, from: number, to: number): boolean {
  return percent !== null && percent >= from && percent < to;
}

/** Returns the percentage by which a change moves its first price; null if it moves none. */
export function priceMove(change: ChangeRecord): number | null {
  for (const field of change.fields) {
    const percent = field.kind === "money" ? (differenceOf(field)?.percent ?? null) : null;
    if (percent !== null) return percent;
  }
  return null;
}

const texts = new WeakMap<ChangeRecord, string>();

/** Returns the text that the search looks in: object, values before and after, message. */
function textOf(change: ChangeRecord): string {
  let text = texts.get(change);
  if (text === undefined) {
    const values = change.fields.flatMap((field) => [field.label, valueOf(field.before, field), valueOf(field.after, field)]);
    const { label, id } = change.object;
    text = [label, id, ...values, change.message].filter(Boolean).join("\n").toLocaleLowerCase();
    texts.set(change, text);
  }
  return text;
}

export type SortBy = "" | "object" | "difference";

/** Sorts changes for display; "" keeps the order that is hashed. */
export function ordered(changes: readonly ChangeRecord[], by: SortBy, down: boolean): readonly ChangeRecord[] {
  if (!by) return changes;
  const keys = changes.map((change, index) => ({
    change,
    index,
    key: by === "object" ? change.object.label : widest(change),
  }));
  keys.sort((a, b) => {
    if (a.key === b.key) return a.index - b.index;
    // Changes without a difference come last in either direction.
    if (a.key === null) return 1;
    if (b.key === null) return -1;
    const order =
      typeof a.key === "number" && typeof b.key === "number" ? a.key - b.key : COLLATE.compare(String(a.key), String(b.key));
    return (down ? -order : order) || a.index - b.index;
  });
  return keys.map(({ change }) => change);
}

const COLLATE = new Intl.Collator("en", { numeric: true });

/** Counts changes by what `of` returns, such as their action. */
export function countsBy<K extends string>(changes: readonly ChangeRecord[], of: (change: ChangeRecord) => K): Map<K, number> {
  const counts = new Map<K, number>();
  for (const change of changes) counts.set(of(change), (counts.get(of(change)) ?? 0) + 1);
  return counts;
}

/** Returns the fields of the changes as [key, label], in order of first occurrence. */
export function fieldsOf(changes: readonly ChangeRecord[]): [string, string][] {
  const labels = new Map<string, string>();
  for (const change of changes) for (const { field, label } of change.fields) if (!labels.has(field)) labels.set(field, label);
  return [...labels];
}
