/**
 * JSON Schema of inputs as fields of a form (web 6.5.2): which field, with which value, and what is wrong with it.
 *
 * Checked are bounds, lengths, patterns, choices and doubles; the service decides. No schema library: those seen
 * compile code, which the page's policy forbids.
 */

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  examples?: unknown[];
  enum?: unknown[];
  const?: unknown;
  $ref?: string;
  $defs?: Record<string, Schema>;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  pattern?: string;
  format?: string;
}

export type Kind =
  | "line" | "box" | "secret" | "number" | "whole" | "yesno" | "choice" | "date" | "time" | "words" | "list" | "group"
  | "variants" | "money" | "percent" | "connection" | "json";

/** One of several forms a value may have, told apart by the constant of one property. */
export interface Variant {
  value: string;
  field: Field;
}

export interface Field {
  /** The last part of its path; empty for the whole. */
  name: string;
  kind: Kind;
  label: string;
  hint: string;
  required: boolean;
  /** Null stands for "none", beside its other values. */
  nullable: boolean;
  schema: Schema;
  /** The `$defs` name it refers to: tag, sheet, teams, file, products, days, … */
  named: string | null;
  fields: Field[];
  item: Field | null;
  options: unknown[];
  variants: Variant[];
  /** The property that tells variants apart. */
  by: string | null;
}

const PICKED = new Set(["sheet", "teams", "file", "integration_id"]);
const LONG = 255;

/** `$ref`s followed, and what stands beside them laid over. */
export function resolve(schema: Schema, root: Schema): { schema: Schema; named: string | null } {
  let named: string | null = null;
  let found = schema;
  for (let depth = 0; found.$ref && depth < 16; depth += 1) {
    named = found.$ref.split("/").pop() ?? null;
    found = { ...(root.$defs?.[named ?? ""] ?? {}), ...without(found, "$ref") };
  }
  return { schema: found, named };
}

function without(schema: Schema, ...names: (keyof Schema)[]): Schema {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => !names.includes(name as keyof Schema)));
}

/** The form of a schema: a group with its fields. */
export function formOf(root: Schema): Field {
  return fieldOf("", root, root, true);
}

function fieldOf(name: string, given: Schema, root: Schema, required: boolean): Field {
  let { schema, named } = resolve(given, root);
  let nullable = false;
  // Beside properties, anyOf and oneOf say which of them go together: the service tells when they do not.
  const choices = schema.properties ? undefined : (schema.anyOf ?? schema.oneOf);
  if (choices) {
    const rest = choices.filter((one) => resolve(one, root).schema.type !== "null");
    nullable = rest.length < choices.length;
    if (rest.length === 1) {
      const inner = resolve(rest[0]!, root);
      schema = { ...inner.schema, ...without(schema, "anyOf", "oneOf") };
      named = inner.named ?? named;
    }
  }
  if (Array.isArray(schema.type)) {
    nullable ||= schema.type.includes("null");
    const rest = schema.type.filter((type) => type !== "null");
    if (rest.length === 1) schema = { ...schema, type: rest[0] };
  }
  const field: Field = {
    name, kind: "json", label: labelOf(name, schema), hint: schema.description ?? "", required, nullable, schema, named,
    fields: [], item: null, options: [], variants: [], by: null,
  };
  return shaped(field, root);
}

function shaped(field: Field, root: Schema): Field {
  const { schema, named } = field;
  const several = schema.anyOf ?? schema.oneOf;
  if (several && !schema.properties) return variantsOf(field, several, root);
  if (named && PICKED.has(named)) field.kind = "connection";
  else if (named === "money" || named === "percent") field.kind = named;
  else if (schema.enum) {
    field.kind = "choice";
    field.options = schema.enum;
  } else field.kind = kindOf(schema, root);
  if (schema.properties) {
    const needed = new Set(schema.required ?? []);
    field.fields = Object.entries(schema.properties)
      .filter(([, one]) => resolve(one, root).schema.const === undefined)
      .map(([name, one]) => fieldOf(name, one, root, needed.has(name)));
  }
  if (field.kind === "list" && schema.items) field.item = fieldOf("", schema.items, root, true);
  return field;
}

function kindOf(schema: Schema, root: Schema): Kind {
  switch (schema.type) {
    case "string":
      if (schema.format === "date" || schema.format === "time") return schema.format;
      return (schema.maxLength ?? 0) > LONG ? "box" : "line";
    case "integer":
      return "whole";
    case "number":
      return "number";
    case "boolean":
      return "yesno";
    case "object":
      return schema.properties ? "group" : "json";
    case "array": {
      const item = schema.items && resolve(schema.items, root).schema;
      if (item?.type === "string" && !item.enum) return "words";
      return item?.type === "object" || item?.enum || item?.type === "integer" || item?.type === "number" ? "list" : "json";
    }
    default:
      return "json";
  }
}

function variantsOf(field: Field, several: Schema[], root: Schema): Field {
  const made = several.map((one) => resolve(one, root).schema);
  const constants = made.map((one) =>
    Object.entries(one.properties ?? {}).find(([, property]) => resolve(property, root).schema.const !== undefined),
  );
  const by = constants[0]?.[0];
  if (by === undefined || !constants.every((constant) => constant?.[0] === by)) return field;
  field.kind = "variants";
  field.by = by;
  field.variants = made.map((one, at) => ({
    value: String(resolve(constants[at]![1], root).schema.const),
    field: fieldOf("", one, root, true),
  }));
  return field;
}

function labelOf(name: string, schema: Schema): string {
  if (schema.title) return schema.title;
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1).replace(/\bsku\b/i, "SKU");
}

/** The value a form starts with: defaults, and nothing for what has none. */
export function startOf(field: Field): unknown {
  if (field.schema.default !== undefined) return structuredClone(field.schema.default);
  if (field.kind === "group") {
    const made = field.fields.map((one) => [one.name, startOf(one)] as const).filter(([, value]) => value !== undefined);
    return field.required || made.length ? Object.fromEntries(made) : undefined;
  }
  return field.nullable ? null : undefined;
}

/** Whether nothing was given. */
export function isBlank(value: unknown): boolean {
  return value === undefined || value === "" || (typeof value === "number" && Number.isNaN(value));
}

/** What is sent: without fields left empty. */
export function sent(field: Field, value: unknown): unknown {
  if (isBlank(value)) return undefined;
  if (field.kind === "group" && value && typeof value === "object") {
    const given = value as Record<string, unknown>;
    const kept = field.fields.map((one) => [one.name, sent(one, given[one.name])] as const);
    return Object.fromEntries(kept.filter(([, part]) => part !== undefined));
  }
  return value;
}

/** Messages by path, as the service words them: `inputs.<path>` is the prefix it answers with. */
export function check(field: Field, value: unknown, path = ""): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  const add = (message: string) => (found[path] = [...(found[path] ?? []), message]);
  if (value === null && field.nullable) return found;
  if (isBlank(value) || value === null) {
    if (field.required) add("This field is required.");
    return found;
  }
  const { schema } = field;
  if (typeof value === "number") {
    if (field.kind === "whole" && !Number.isInteger(value)) add("Give a whole number.");
    for (const words of bounds(value, schema)) add(words);
  } else if (typeof value === "string") for (const words of textFaults(value, schema)) add(words);
  else if (Array.isArray(value)) {
    for (const words of listFaults(value, schema)) add(words);
    value.forEach((one, at) => field.item && Object.assign(found, check(field.item, one, join(path, String(at)))));
  } else if (field.kind === "group") {
    const given = value as Record<string, unknown>;
    for (const one of field.fields) Object.assign(found, check(one, given[one.name], join(path, one.name)));
  } else if (field.kind === "variants") {
    const variant = field.variants.find((one) => one.value === String((value as Record<string, unknown>)[field.by ?? ""]));
    if (variant) Object.assign(found, check(variant.field, value, path));
    else add("Choose one.");
  }
  return found;
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
  if (schema.pattern && !new RegExp(schema.pattern, "u").test(value)) yield "This does not have the form that is needed here.";
}

function* listFaults(value: unknown[], schema: Schema): Generator<string> {
  if (schema.minItems !== undefined && value.length < schema.minItems) yield `Give at least ${schema.minItems}.`;
  if (schema.maxItems !== undefined && value.length > schema.maxItems) yield `Give at most ${schema.maxItems}; these are ${value.length}.`;
  if (schema.uniqueItems && new Set(value.map((one) => JSON.stringify(one))).size < value.length) yield "One is there twice.";
}

/** The bounds of a field in words, for its hint. */
export function boundsInWords(schema: Schema): string {
  const least = schema.minimum ?? schema.exclusiveMinimum;
  const most = schema.maximum ?? schema.exclusiveMaximum;
  if (least !== undefined && most !== undefined) return `${least} to ${most}`;
  if (least !== undefined) return `${schema.minimum === undefined ? "more than" : "at least"} ${least}`;
  return most === undefined ? "" : `${schema.maximum === undefined ? "less than" : "at most"} ${most}`;
}

/** Pasted text as a list of words: split at commas and lines. */
export function splitWords(text: string): string[] {
  return [...new Set(text.split(/[,;\n\r]+/).map((word) => word.trim()).filter(Boolean))];
}
