/** The values of a manual start: typed fields, their payload, and their problems. */

import type { StartFieldRecord } from "../api/schema";

export type Payload = Readonly<Record<string, unknown>>;
/** The content of each field by its name: its text, or the ticked options. */
export type Typed = Record<string, string | string[]>;
export type Faults = Record<string, string[]>;

export const MAX_BYTES = 256 * 1024;
export const TOO_LARGE = "A payload has at most 256 KiB. Send less.";

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function valueAt(payload: Payload, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, key) => (isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined), payload);
}

function withValue(payload: Payload, path: readonly string[], value: unknown): Payload {
  const [key, ...rest] = path;
  if (key === undefined) return payload;
  const inner = Object.hasOwn(payload, key) ? payload[key] : undefined;
  if (value === undefined && (rest.length ? !isObject(inner) : inner === undefined)) return payload;
  const next = rest.length ? withValue(isObject(inner) ? inner : {}, rest, value) : value;
  const others = Object.entries(payload).filter(([name]) => name !== key);
  if (next === undefined || (value === undefined && isObject(next) && !Object.keys(next).length)) return Object.fromEntries(others);
  return Object.fromEntries([...others, [key, next]]);
}

function textOf(field: StartFieldRecord, value: unknown): string | string[] {
  if (field.type === "choices") return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
  if (value === undefined) return field.default;
  if (value === null) return "";
  return typeof value === "string" && field.type !== "json" ? value : JSON.stringify(value);
}

/** Returns the field contents that show a payload. */
export function typedOf(fields: readonly StartFieldRecord[], payload: Payload): Typed {
  return Object.fromEntries(fields.map((field) => [field.name, textOf(field, valueAt(payload, field.path))]));
}

/**
 * Returns the value of a field's content: undefined if empty, an empty value if a default was removed. Throws
 * SyntaxError for invalid JSON.
 */
function valueOf(field: StartFieldRecord, typed: string | string[]): unknown {
  if (Array.isArray(typed)) return typed.length ? typed : undefined;
  if (!typed.trim()) return field.default ? (field.type === "number" ? null : "") : undefined;
  if (field.type === "json") return JSON.parse(typed) as unknown;
  return field.type === "number" ? Number(typed) : typed;
}

/** Returns `before` with the typed values; unchanged fields keep theirs. Call it only if no field has a problem. */
export function payloadOf(fields: readonly StartFieldRecord[], typed: Typed, before: Payload): Payload {
  return fields.reduce((payload, field) => {
    const text = typed[field.name] ?? "";
    if (JSON.stringify(text) === JSON.stringify(textOf(field, valueAt(before, field.path)))) return payload;
    return withValue(payload, field.path, valueOf(field, text));
  }, before);
}

function faultOf(field: StartFieldRecord, typed: string | string[]): string | null {
  if (typeof typed !== "string" ? !typed.length : !typed.trim()) return field.required ? "The form requires this field. Give a value." : null;
  if (typeof typed !== "string") return null;
  if (field.type === "number" && !Number.isFinite(Number(typed))) return "Give a number.";
  if (field.type === "email" && !/^\S+@\S+$/.test(typed.trim())) return "Give an email address.";
  if (field.type !== "json") return null;
  try {
    JSON.parse(typed);
    return null;
  } catch {
    return "Give JSON, such as [1, 2] or {\"a\": 1}. Put text in double quotes.";
  }
}

/** The problems of the typed values, by the field's name. */
export function faultsOf(fields: readonly StartFieldRecord[], typed: Typed): Faults {
  const faults: Faults = {};
  for (const field of fields) {
    const fault = faultOf(field, typed[field.name] ?? "");
    if (fault) faults[field.name] = [fault];
  }
  return faults;
}

/** Parses a payload from JSON text; returns the payload or the problem. */
export function readJson(text: string): { payload: Payload } | { fault: string } {
  if (!text.trim()) return { payload: {} };
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? { payload: value } : { fault: "Give an object, such as {\"name\": \"value\"}." };
  } catch (fault) {
    return { fault: `This is not JSON: ${fault instanceof Error ? fault.message : "it cannot be read"}` };
  }
}

/** Whether the payload exceeds the service's limit. */
export function isTooLarge(payload: Payload): boolean {
  return new TextEncoder().encode(JSON.stringify(payload)).length > MAX_BYTES;
}
