/** Checks the values of a form before they are sent; the service validates them again. */

import { type Field, isLeft } from "./schema";
import { rulesOf } from "./schema_rules";
import type { Schema } from "./schema_shape";
import { patternWords } from "./schema_words";

/** Returns messages by path, in the service's words, which uses the paths `inputs.<path>`. */
export function check(field: Field, value: unknown, path = "", required = field.required): Record<string, string[]> {
  const faults: Record<string, string[]> = {};
  const add = (message: string) => (faults[path] = [...(faults[path] ?? []), message]);
  if (value === null && field.nullable) return faults;
  if (isLeft(field, value) || value === null) {
    if (required) add("This field is required.");
    return faults;
  }
  const { schema } = field;
  if (["whole", "number", "percent"].includes(field.kind) && typeof value !== "number") add("Give a number.");
  else if (typeof value === "number") {
    if (field.kind === "whole" && !Number.isInteger(value)) add("Give a whole number.");
    for (const words of bounds(value, schema)) add(words);
  } else if (typeof value === "string") for (const words of textFaults(value, schema)) add(words);
  else if (Array.isArray(value)) {
    for (const words of listFaults(value, schema)) add(words);
    value.forEach((element, index) => field.item && Object.assign(faults, check(field.item, element, join(path, String(index)))));
  } else if (field.kind === "map") {
    for (const [name, member] of Object.entries(value as object)) Object.assign(faults, pairFaults(field, name, member, join(path, name)));
  } else if (field.kind === "variants") {
    const variant = field.variants.find((variant) => variant.value === String((value as Record<string, unknown>)[field.by ?? ""]));
    if (variant) Object.assign(faults, check(variant.field, value, path));
    else add("Choose one.");
  } else if (field.fields.length) {
    const members = value as Record<string, unknown>;
    for (const words of partFaults(field, members)) add(words);
    const { needed, excluded } = rulesOf(schema, members);
    for (const member of field.fields) {
      if (!excluded.has(member.name)) Object.assign(faults, check(member, members[member.name], join(path, member.name), needed.has(member.name)));
    }
  }
  return faults;
}

/** The message for a group of fields of which at least one is required and none is set. */
function* partFaults(field: Field, members: Record<string, unknown>): Generator<string> {
  if (members.all === true) return;
  const labelOf = (name: string) => field.fields.find((member) => member.name === name)?.label ?? name;
  const isGiven = (name: string) => {
    const member = field.fields.find((part) => part.name === name);
    return member !== undefined && !isLeft(member, members[name]);
  };
  for (const names of rulesOf(field.schema, members).oneOf) {
    if (!names.some(isGiven)) yield `Give at least one of these: ${names.map(labelOf).join(", ")}.`;
  }
  if (field.kind === "products" && !Object.values(members).some((list) => Array.isArray(list) && list.length)) {
    yield "Name at least one tag, vendor or type, or choose all products.";
  }
}

function pairFaults(field: Field, name: string, value: unknown, path: string): Record<string, string[]> {
  const valueFaults = field.item ? check(field.item, value, path) : {};
  const faults = [...textFaults(name, field.schema.propertyNames ?? {})];
  return faults.length ? { ...valueFaults, [path]: [...(valueFaults[path] ?? []), ...faults] } : valueFaults;
}

function join(path: string, name: string): string {
  return path ? `${path}.${name}` : name;
}

function* bounds(value: number, schema: Schema): Generator<string> {
  if (schema.minimum !== undefined && value < schema.minimum) yield `Give at least ${schema.minimum}.`;
  if (schema.maximum !== undefined && value > schema.maximum) yield `Give at most ${schema.maximum}.`;
  if (schema.exclusiveMinimum !== undefined && value <= schema.exclusiveMinimum) yield `Give more than ${schema.exclusiveMinimum}.`;
  if (schema.exclusiveMaximum !== undefined && value >= schema.exclusiveMaximum) yield `Give less than ${schema.exclusiveMaximum}.`;
}

function* textFaults(value: string, schema: Schema): Generator<string> {
  const length = [...value].length;
  if (schema.minLength !== undefined && length < schema.minLength) yield `Give at least ${schema.minLength} characters.`;
  if (schema.maxLength !== undefined && length > schema.maxLength) yield `Give at most ${schema.maxLength} characters; these are ${length}.`;
  if (schema.enum && !schema.enum.includes(value)) yield "Choose one of the list.";
  if (schema.pattern && !new RegExp(schema.pattern, "u").test(value)) yield patternWords(schema.pattern);
}

function* listFaults(value: unknown[], schema: Schema): Generator<string> {
  if (schema.minItems !== undefined && value.length < schema.minItems) yield `Give at least ${schema.minItems}.`;
  if (schema.maxItems !== undefined && value.length > schema.maxItems) yield `Give at most ${schema.maxItems}; these are ${value.length}.`;
  if (schema.uniqueItems && new Set(value.map((item) => JSON.stringify(item))).size < value.length) yield "One is there twice.";
}

const formatted = (number: number) => number.toLocaleString("en-GB", { maximumFractionDigits: 10 });

/** Describes the bounds of a field, for its hint. */
export function boundsInWords(schema: Schema): string {
  const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below } = schema;
  if (minimum !== undefined && maximum !== undefined) return `${formatted(minimum)} to ${formatted(maximum)}`;
  const lowerBound = minimum !== undefined ? `at least ${formatted(minimum)}` : above !== undefined ? `more than ${formatted(above)}` : "";
  const upperBound = maximum !== undefined ? `at most ${formatted(maximum)}` : below !== undefined ? `less than ${formatted(below)}` : "";
  const words = [lowerBound, upperBound].filter(Boolean).join(", ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Returns the messages that no field of the form shows, such as those about several fields. */
export function problemsOutsideFields(field: Field, errors: Readonly<Record<string, readonly string[]>>, prefix: string): string[] {
  const outside = Object.entries(errors).filter(([path]) => {
    if (path !== prefix && !path.startsWith(`${prefix}.`)) return false;
    return !lands(field, path.slice(prefix.length + 1).split(".").filter(Boolean));
  });
  return [...new Set(outside.flatMap(([, words]) => words))];
}

function lands(field: Field, path: readonly string[]): boolean {
  const [first, ...rest] = path;
  if (first === undefined) return field.name !== "" || field.kind !== "group";
  if (field.kind === "variants") return field.variants.some((variant) => lands(variant.field, path));
  if (["words", "picks", "map", "json", "keyfile"].includes(field.kind)) return true;
  if (field.kind === "list") return field.item !== null && (!rest.length || lands(field.item, rest));
  const inner = field.fields.find((field) => field.name === first);
  return inner !== undefined && (!rest.length || lands(inner, rest));
}
