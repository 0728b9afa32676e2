/** The fields of an automation and their values as text, for its history and for edit conflicts. */

import type { AutomationRecord, ScheduleRecord } from "../api/schema";
import { scheduleWords } from "./schedule";
import { topicWords } from "./topics";
import { plainName } from "./record_words";
import { AUTOMATION, list, statusOf } from "./words";

const NAMES: Readonly<Record<string, string>> = {
  name: "Name",
  schedule: "Schedule",
  timezone: "Zone",
  integration_id: "Store",
  connections: "Connections",
  trigger: "Starts",
  template_version: "Version of the template",
  bindings: "Connections of steps",
  accounts: "Accounts of steps",
  calls: "Called workflows",
  variables: "Variables of n8n",
  send_mode: "Sending",
  state: "State",
  paused_by: "Paused by",
  paused_reason: "Reason",
  run_at: "Time of the run",
};
const SEND_MODES: Readonly<Record<string, string>> = { ask: "Asks before sending", send: "Sends without asking" };
const LONG = 300;

/** Returns the label of a field: "Schedule"; "Max change percent" for `inputs.max_change_percent`. */
export function fieldName(field: string, labels: Readonly<Record<string, string>> = {}): string {
  const input = /^inputs\.(.+)$/.exec(field)?.[1];
  if (input) return labels[input] ?? plainName(input.replaceAll(".", " "));
  const variable = /^variables\.(.+)$/.exec(field)?.[1];
  return variable ?? NAMES[field] ?? plainName(field);
}

function isSchedule(value: unknown): value is ScheduleRecord {
  return typeof value === "object" && value !== null && "cadence" in value;
}

/** Returns a field's value as text; null if empty. */
export function valueWords(field: string, value: unknown): string | null {
  if (value === null || value === undefined || value === "") return null;
  if (isSchedule(value)) return scheduleWords(value);
  if (field === "trigger") return triggerWords(value);
  if (field === "send_mode") return SEND_MODES[String(value)] ?? String(value);
  if (field === "state") return statusOf(AUTOMATION, String(value)).words;
  if (typeof value === "boolean") return value ? "Yes" : "No";
  if (typeof value === "string" || typeof value === "number") return String(value);
  if (Array.isArray(value) && value.every((item) => typeof item === "string" || typeof item === "number")) {
    return value.length ? list(value.map(String)) : null;
  }
  const json = JSON.stringify(value);
  return json === "[]" || json === "{}" ? null : json.length > LONG ? `${json.slice(0, LONG)}…` : json;
}

function triggerWords(value: unknown): string {
  const { kind, topics = [] } = value as { kind?: string; topics?: string[] };
  return kind === "event" ? topics.map(topicWords).join(", ") : "On a schedule or by hand";
}

/** A field in an edit conflict: the value that this person wants, and the current one. */
export interface StaleRow {
  label: string;
  mine: string | null;
  theirs: string | null;
}

/** The changed fields that an update sends, without its version. */
export type Changes = Readonly<Partial<Record<"name" | "schedule" | "timezone" | "trigger" | "inputs" | "template_version" | "bindings" | "accounts" | "calls" | "send_mode", unknown>>>;

/** Whether two JSON values are equal; the order of object keys does not matter. */
export function same(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    part && typeof part === "object" && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  ) ?? "";
}

type Values = Readonly<Record<string, unknown>>;

/** Returns an automation's values with each input as a field of its own, so that changes to different inputs merge. */
export function valuesOf(automation: Pick<AutomationRecord, "inputs"> & object): Values {
  const values = automation as Values;
  const inputs = Object.entries(automation.inputs).map(([name, value]) => [`inputs.${name}`, value] as const);
  return { ...values, ...Object.fromEntries(inputs) };
}

function spread(changes: Changes): Values {
  const { inputs, ...rest } = changes;
  const parts = Object.entries((inputs ?? {}) as Values).map(([name, value]) => [`inputs.${name}`, value] as const);
  return { ...rest, ...Object.fromEntries(parts) };
}

const WATCHED = ["name", "schedule", "timezone", "trigger", "template_version", "bindings", "accounts", "calls", "send_mode", "state"] as const;

/** Compares this person's changes with the current values, and lists the fields that others changed. */
export function staleRows(before: AutomationRecord, changes: Changes, current: AutomationRecord) {
  const [was, now, wanted] = [valuesOf(before), valuesOf(current), spread(changes)];
  const mine: StaleRow[] = [];
  const theirs: StaleRow[] = [];
  const names = new Set([...WATCHED, ...Object.keys(wanted), ...Object.keys(was), ...Object.keys(now)]);
  for (const name of names) {
    const isInput = name.startsWith("inputs.");
    if (!isInput && !(name in wanted) && !(WATCHED as readonly string[]).includes(name)) continue;
    const changedHere = name in wanted && !same(part(name, wanted[name]), part(name, was[name]));
    const changedThere = !same(part(name, now[name]), part(name, was[name]));
    const theirValue = valueWords(name, now[name]);
    if (changedHere) mine.push({ label: fieldName(name), mine: valueWords(name, wanted[name]), theirs: theirValue });
    else if (changedThere) theirs.push({ label: fieldName(name), mine: null, theirs: theirValue });
  }
  return { mine, theirs };
}

/** Returns the part of a field's value that people change: the service sets the listening state of a trigger. */
function part(name: string, value: unknown): unknown {
  if (name !== "trigger" || !value) return value;
  const { kind, topics } = value as { kind?: string; topics?: string[] };
  return { kind, topics };
}

/** Applies the changes to the current values, input by input, so that other people's changes stay. */
export function rebased(before: AutomationRecord, changes: Changes, current: AutomationRecord): Changes {
  if (!changes.inputs) return changes;
  const [was, wanted] = [before.inputs as Values, changes.inputs as Values];
  const names = new Set([...Object.keys(was), ...Object.keys(wanted)]);
  const inputs: Record<string, unknown> = { ...current.inputs };
  for (const name of names) {
    if (same(was[name], wanted[name])) continue;
    if (name in wanted) inputs[name] = wanted[name];
    else delete inputs[name];
  }
  return { ...changes, inputs };
}
