/** Which fields of an object are required, excluded or alternatives, from the conditions of a JSON Schema. */

import type { Schema } from "./schema_shape";

export interface Rules {
  needed: Set<string>;
  /** Fields that the current values exclude: neither shown nor sent. */
  excluded: Set<string>;
  /** Groups of fields of which at least one is required. */
  oneOf: string[][];
}

/** Returns the rules that an object's schema sets for its current values. */
export function rulesOf(schema: Schema, values: Readonly<Record<string, unknown>>): Rules {
  const rules: Rules = { needed: new Set(), excluded: new Set(), oneOf: [] };
  gather(schema, values, rules);
  return rules;
}

function gather(schema: Schema, values: Readonly<Record<string, unknown>>, rules: Rules): void {
  for (const name of schema.required ?? []) rules.needed.add(name);
  for (const name of excludedBy(schema)) rules.excluded.add(name);
  const names = (schema.anyOf ?? []).flatMap(({ required }) => required ?? []);
  if (names.length) rules.oneOf.push(names);
  for (const part of schema.allOf ?? []) gather(part, values, rules);
  if (!schema.if) return;
  if (isOpen(schema.if, values)) {
    // The deciding field has no value yet: fields of a single branch stay hidden until it has one.
    for (const name of [...excludedBy(schema.then), ...excludedBy(schema.else)]) rules.excluded.add(name);
    return;
  }
  const branch = meets(schema.if, values) ? schema.then : schema.else;
  if (branch) gather(branch, values, rules);
}

function excludedBy(schema: Schema | undefined): string[] {
  const parts = schema?.not ? (schema.not.anyOf ?? [schema.not]) : [];
  return parts.flatMap(({ required }) => required ?? []);
}

/** Whether a property that a condition depends on has no value yet. */
function isOpen(condition: Schema, value: unknown): boolean {
  const values = (value ?? {}) as Record<string, unknown>;
  return Object.entries(condition.properties ?? {}).some(
    ([name, part]) => values[name] === undefined || values[name] === "" || isOpen(part, values[name]),
  );
}

/** Whether a value meets a condition: constants, enums, and properties with them. */
export function meets(condition: Schema, value: unknown): boolean {
  if (condition.const !== undefined && value !== condition.const) return false;
  if (condition.enum && !condition.enum.includes(value)) return false;
  if (condition.not && meets(condition.not, value)) return false;
  if (condition.anyOf && !condition.anyOf.some((part) => meets(part, value))) return false;
  const values = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  if ((condition.required ?? []).some((name) => values[name] === undefined)) return false;
  return Object.entries(condition.properties ?? {}).every(
    ([name, part]) => values[name] === undefined || meets(part, values[name]),
  );
}

/** One of several alternative sets of fields, such as two kinds of keys. */
export interface FieldAlternative {
  names: string[];
  others: string[];
}

/** Returns the alternatives of a schema whose `oneOf` names required fields; empty if it has none. */
export function alternativesOf(schema: Schema): FieldAlternative[] {
  const sets = (schema.oneOf ?? []).map(({ required }) => required ?? []);
  if (sets.length < 2 || sets.some((names) => !names.length)) return [];
  return sets.map((names, own) => ({ names, others: sets.filter((_, index) => index !== own).flat() }));
}
