/**
 * Turns the JSON Schema of inputs into form fields, with their initial values and the values to send.
 *
 * schema_check.ts checks values, schema_rules.ts decides which fields apply, schema_words.ts has the texts. The known
 * schema libraries compile code at run time, which the content security policy forbids.
 */

import { rulesOf } from "./schema_rules";
import type { Schema } from "./schema_shape";
import { hintWords, labelWords, NAMED } from "./schema_words";

export type Kind =
  | "line" | "secret" | "number" | "whole" | "yesno" | "choice" | "date" | "time" | "words" | "list" | "group"
  | "variants" | "money" | "percent" | "connection" | "products" | "spreadsheet" | "automation" | "picks" | "map" | "keyfile"
  | "json";

/** One of several forms of a value, identified by the constant of one property. */
export interface Variant {
  value: string;
  field: Field;
}

export interface Field {
  /** The last part of its path; empty for the root. */
  name: string;
  kind: Kind;
  label: string;
  hint: string;
  required: boolean;
  /** Null is one of its values and means "none". */
  nullable: boolean;
  schema: Schema;
  /** The name of the `$defs` entry it refers to: tag, sheet, teams, file, products, days, … */
  named: string | null;
  fields: Field[];
  item: Field | null;
  options: unknown[];
  variants: Variant[];
  /** The property that identifies the variant. */
  by: string | null;
}

const PICKED = new Set(["sheet", "teams", "file", "integration_id"]);
/** An Id of docs/design/api/conventions.md#common-types; the inputs of this type identify an automation. */
const ID = "^[0-9A-HJKMNP-TV-Z]{26}$";

/** Resolves `$ref`s; properties beside them take precedence. */
export function resolve(schema: Schema, root: Schema): { schema: Schema; named: string | null } {
  let named: string | null = null;
  let resolved = schema;
  for (let depth = 0; resolved.$ref && depth < 16; depth += 1) {
    named = resolved.$ref.split("/").pop() ?? null;
    resolved = { ...(root.$defs?.[named ?? ""] ?? {}), ...without(resolved, "$ref") };
  }
  return { schema: resolved, named };
}

function without(schema: Schema, ...names: (keyof Schema)[]): Schema {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => !names.includes(name as keyof Schema)));
}

/** Returns the form of a schema: a group with its fields. */
export function formOf(root: Schema): Field {
  return fieldOf("", root, root, true);
}

function fieldOf(name: string, unresolved: Schema, root: Schema, required: boolean): Field {
  let { schema, named } = resolve(unresolved, root);
  let nullable = false;
  // Beside properties, anyOf and oneOf only constrain which fields go together; schema_rules.ts handles that.
  const choices = schema.properties ? undefined : (schema.anyOf ?? schema.oneOf);
  if (choices) {
    const rest = choices.filter((choice) => resolve(choice, root).schema.type !== "null");
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
  const label = schema.title ?? NAMED[named ?? ""]?.label ?? labelWords(name);
  // A description of a single choice replaces the general one.
  const ofChoice = schema.enum?.some((value) => schema.description?.startsWith(`${String(value)}: `));
  const hint = (ofChoice ? "" : hintWords(schema.description, label)) || (NAMED[named ?? ""]?.hint ?? "");
  const field: Field = {
    name, kind: "json", label, hint, required, nullable, schema, named,
    fields: [], item: null, options: [], variants: [], by: null,
  };
  return shaped(field, root);
}

function shaped(field: Field, root: Schema): Field {
  const { schema, named } = field;
  const several = schema.anyOf ?? schema.oneOf;
  if (several && !schema.properties) return variantsOf(field, several, root);
  if (named && PICKED.has(named)) field.kind = "connection";
  else if (named === "products") field.kind = "products";
  else if (named === "sheet_place") field.kind = "spreadsheet";
  else if (schema.pattern === ID && field.name.endsWith("automation_id")) field.kind = "automation";
  else if (named === "money" || named === "percent") field.kind = named;
  else if (schema.enum) {
    field.kind = "choice";
    field.options = schema.enum;
  } else field.kind = kindOf(schema, root);
  if (schema.properties) {
    const needed = new Set(schema.required ?? []);
    field.fields = Object.entries(schema.properties)
      .filter(([, property]) => resolve(property, root).schema.const === undefined)
      .map(([name, property]) => fieldOf(name, property, root, needed.has(name)));
  }
  if (["list", "words", "picks"].includes(field.kind) && schema.items) field.item = fieldOf("", schema.items, root, true);
  if (field.kind === "picks") field.options = field.item?.options ?? [];
  if (field.kind === "map") field.item = fieldOf("", schema.additionalProperties as Schema, root, true);
  return field;
}

function kindOf(schema: Schema, root: Schema): Kind {
  switch (schema.type) {
    case "string":
      if (schema.secret) return "secret";
      return schema.format === "date" || schema.format === "time" ? schema.format : "line";
    case "integer":
      return "whole";
    case "number":
      return "number";
    case "boolean":
      return "yesno";
    case "object":
      if (schema.secret) return "keyfile";
      if (schema.properties) return "group";
      return isText(schema.additionalProperties, root) ? "map" : "json";
    case "array": {
      const item = schema.items && resolve(schema.items, root).schema;
      if (item?.type === "string" && !item.enum) return "words";
      if (item?.enum) return "picks";
      return item?.type === "object" || item?.type === "integer" || item?.type === "number" ? "list" : "json";
    }
    default:
      return "json";
  }
}

function variantsOf(field: Field, several: Schema[], root: Schema): Field {
  const variants = several.map((alternative) => resolve(alternative, root).schema);
  const constants = variants.map((variant) =>
    Object.entries(variant.properties ?? {}).find(([, property]) => resolve(property, root).schema.const !== undefined),
  );
  const by = constants[0]?.[0];
  if (by === undefined || !constants.every((constant) => constant?.[0] === by)) return field;
  field.kind = "variants";
  field.by = by;
  field.variants = variants.map((variant, index) => ({
    value: String(resolve(constants[index]![1], root).schema.const),
    field: fieldOf("", variant, root, true),
  }));
  return field;
}

function isText(schema: Schema | boolean | undefined, root: Schema): boolean {
  return typeof schema === "object" && resolve(schema, root).schema.type === "string";
}

/** Returns the initial value of a form: defaults, and nothing for fields without one. */
export function startOf(field: Field): unknown {
  if (["products", "connection", "spreadsheet"].includes(field.kind)) return undefined;
  if (field.schema.default !== undefined) return structuredClone(field.schema.default);
  if (field.kind === "group") {
    const members = field.fields.map((field) => [field.name, startOf(field)] as const).filter(([, value]) => value !== undefined);
    return field.required || members.length ? Object.fromEntries(members) : undefined;
  }
  return field.nullable ? null : undefined;
}

/** Whether a value is empty. */
export function isBlank(value: unknown): boolean {
  return value === undefined || value === "" || (typeof value === "number" && Number.isNaN(value));
}

/** Whether a field has no value: an empty list counts as none if the schema requires items. */
export function isLeft(field: Field, value: unknown): boolean {
  return isBlank(value) || (Array.isArray(value) && value.length === 0 && (field.schema.minItems ?? 0) > 0);
}

/** Returns the values to send: without empty fields and without excluded ones. */
export function sent(field: Field, value: unknown): unknown {
  if (isLeft(field, value)) return undefined;
  if (Array.isArray(value)) return field.item ? value.map((item) => sent(field.item!, item)) : value;
  if (!field.fields.length || value === null || typeof value !== "object") return value;
  const members = value as Record<string, unknown>;
  if (members.all === true) return { all: true };
  const { excluded } = rulesOf(field.schema, members);
  const entries = field.fields
    .filter((inner) => !excluded.has(inner.name))
    .map((inner) => [inner.name, sent(inner, members[inner.name])] as const);
  return Object.fromEntries(entries.filter(([, part]) => part !== undefined));
}

/** Splits pasted text into words at commas and line breaks. */
export function splitWords(text: string): string[] {
  return [...new Set(text.split(/[,;\n\r]+/).map((word) => word.trim()).filter(Boolean))];
}
