/** Turns a run's result into tables and numbers, named and ordered by the template's schema if there is one. */

import { plainName } from "../../lib/record_words";
import { dayOf } from "../../lib/time";

export type Shape =
  | { kind: "text"; name: string; value: string }
  | { kind: "link"; name: string; value: string }
  | { kind: "number"; name: string; value: number }
  | { kind: "table"; name: string; columns: [string, string][]; rows: Record<string, unknown>[] }
  | { kind: "list"; name: string; values: string[] }
  | { kind: "tree"; name: string; value: unknown };

interface Schema {
  title?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const isDay = (value: unknown) => typeof value === "string" && /^\d{4}-\d\d-\d\d$/.test(value) && !Number.isNaN(Date.parse(value));
const isPlain = (value: unknown) => value === null || typeof value !== "object";

/** Formats a plain value; dates always with their year. */
export function wordsOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (isDay(value)) return dayOf(value as string, "UTC", 0);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Returns the fields of a result, those of the schema first and in its order. */
export function shapesOf(result: Readonly<Record<string, unknown>>, schema: unknown): Shape[] {
  const properties = isRecord(schema) ? ((schema as Schema).properties ?? {}) : {};
  const names = [...Object.keys(properties).filter((name) => name in result), ...Object.keys(result).filter((name) => !(name in properties))];
  return names.filter((name) => result[name] !== null && result[name] !== undefined).map((name) => shapeOf(name, result[name], properties[name]));
}

/** Labels for fields whose name does not say what they count. */
const NAMED: Readonly<Record<string, string>> = { tagged: "Tag added", untagged: "Tag taken off" };

function shapeOf(key: string, value: unknown, schema: Schema | undefined): Shape {
  const name = schema?.title ?? NAMED[key] ?? plainName(key);
  if (typeof value === "number") return { kind: "number", name, value };
  if (typeof value === "string") return { kind: /^https:\/\/\S+$/.test(value) ? "link" : "text", name, value: wordsOf(value) };
  if (typeof value === "boolean") return { kind: "text", name, value: wordsOf(value) };
  if (Array.isArray(value) && value.every(isPlain)) return { kind: "list", name, values: value.map(wordsOf) };
  if (Array.isArray(value) && value.every(isRecord)) {
    const rows = value as Record<string, unknown>[];
    const declared = Object.keys(schema?.items?.properties ?? {});
    const names = [...new Set([...declared, ...rows.flatMap(Object.keys)])].filter((column) => rows.some((row) => row[column] !== undefined));
    // Codes are for programs; the message beside them, which the schema declares, says the same.
    const isSaid = declared.includes("code") && declared.includes("message");
    const columns = isSaid ? names.filter((column) => column !== "code") : names;
    return { kind: "table", name, columns: columns.map((column) => [column, schema?.items?.properties?.[column]?.title ?? plainName(column)]), rows };
  }
  return { kind: "tree", name, value };
}
