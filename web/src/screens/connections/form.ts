/** The connecting form of a kind: its fields with their hints, one of two kinds of keys at a time. */

import type { KindRecord } from "../../api/schema";
import { type Field, formOf, isLeft, sent } from "../../lib/schema";
import type { Schema } from "../../lib/schema_shape";
import { check } from "../../lib/schema_check";
import { alternativesOf, type FieldAlternative } from "../../lib/schema_rules";
import { spreadsheetIn } from "../../lib/spreadsheet";
import { GUIDES } from "./guides";

/** The form, and the alternatives to choose between; `alternative` is which of them, by number. */
export function connectForm(kind: KindRecord, alternative: number): { form: Field; alternatives: FieldAlternative[] } {
  const schema = kind.settings_schema as Schema;
  const guide = GUIDES[kind.kind];
  const alternatives = alternativesOf(schema);
  const chosen = alternatives[alternative];
  const form = formOf({ ...schema, oneOf: undefined, required: [...(schema.required ?? []), ...(chosen?.names ?? [])] });
  const others = new Set(chosen?.others ?? []);
  for (const [name, beside] of Object.entries(guide?.beside ?? {})) if (others.has(beside)) others.add(name);
  const fields = form.fields
    .filter(({ name }) => !others.has(name))
    .map((field) => ({ ...field, hint: guide?.hints?.[field.name] ?? field.hint }));
  return { form: { ...form, fields }, alternatives };
}

/** What is sent: without what the other way needs, with what the chosen way is known by; a spreadsheet's address as its id. */
export function settingsOf(form: Field, value: unknown): Record<string, unknown> {
  const constants = (form.schema.required ?? []).map((name) => [name, form.schema.properties?.[name]?.const] as const);
  const settings = {
    ...((sent(form, value) ?? {}) as Record<string, unknown>),
    ...Object.fromEntries(constants.filter(([, constant]) => constant !== undefined)),
  } as Record<string, unknown>;
  const sheet = settings.spreadsheet_id;
  return typeof sheet === "string" ? { ...settings, spreadsheet_id: spreadsheetIn(sheet) } : settings;
}

/** What is missing or wrong, by the path the service names. */
export function faultsOf(form: Field, value: unknown): Record<string, string[]> {
  const whole = check(form, { ...(value as object | undefined) });
  return Object.fromEntries(Object.entries(whole).map(([path, words]) => [path ? `settings.${path}` : "settings", words]));
}

/** Whether anything was typed besides what the form began with. */
export function isTyped(form: Field, value: unknown, begun: Readonly<Record<string, unknown>> = {}): boolean {
  const settings = (value ?? {}) as Record<string, unknown>;
  return form.fields.some(({ name, ...field }) => !isLeft({ name, ...field }, settings[name]) && settings[name] !== begun[name]);
}

/** The way whose fields hold a sign-in that an import names, by number; the first when it names none. */
export function alternativeOf(alternatives: readonly FieldAlternative[], signIn: string | null): number {
  const field = SIGN_INS[signIn ?? ""];
  return Math.max(0, alternatives.findIndex(({ names }) => names[0] === field));
}

/** The first field of each sign-in of an HTTP API that a file can ask for. */
const SIGN_INS: Readonly<Record<string, string>> = {
  none: "sign_in", bearer: "token", header: "header_name", query: "query_name", basic: "username", path: "path_prefix",
  body: "body_key", custom: "custom",
};
