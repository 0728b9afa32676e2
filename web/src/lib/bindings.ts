/** The connections bound to a workflow's steps: as chosen, and as sent. */

import type { BindableStepRecord, StepAccountRecord, StepBindingRecord, WorkflowReadinessRecord } from "../api/schema";

/** What a person chose for one step. */
export interface Bound {
  integration: number | null;
  /** Where, when the step's file leaves it open; its own spreadsheet and tab rule otherwise. */
  spreadsheet: string | null;
  /** A tab chosen elsewhere than in this app; it stays while its spreadsheet does. */
  sheet?: string | null;
}

export type Bindings = Readonly<Record<string, Bound>>;

/** A step that needs its own connection; the store belongs to the automation and is not bound. */
export interface ToBind {
  step: string;
  /** `spreadsheet` and `teams` are bound by `bindings`, every other kind by `accounts`. */
  kind: string;
  target: BindableStepRecord["target"];
  /** Where it signs in, as far as its file tells. */
  hosts?: readonly string[];
  /** How it signs in there, as far as its file tells; `none` for a private host without a key. */
  sign_in?: string | null;
  /** The one connection that fits; null when none does, or several do. */
  proposed?: number | null;
}

export const NOTHING: Bound = { integration: null, spreadsheet: null };

/** Why a step cannot run as it is bound. */
export const REASON_WORDS: Readonly<Record<string, string>> = {
  no_connection: "Choose a connection",
  wrong_target: "Leads to another spreadsheet",
  needs_reconnecting: "Reconnect it",
};

/** A step that cannot run as it is bound, by whichever field it is bound. */
export interface Lacking {
  step: string;
  kind: string;
  why: string;
}

/** All steps without a usable connection, the store's among them. */
export function lackingOf(readiness: WorkflowReadinessRecord | undefined): Lacking[] {
  return readiness ? [...readiness.unconfigured, ...(readiness.unbound ?? [])] : [];
}

function isBinding(kind: string): kind is "spreadsheet" | "teams" {
  return kind === "spreadsheet" || kind === "teams";
}

/** As the service takes them: steps without a connection are left out, an open target is null. */
export function sent(rows: readonly ToBind[], chosen: Bindings): Record<string, StepBindingRecord> {
  const body: Record<string, StepBindingRecord> = {};
  for (const { step, kind } of rows) {
    const bound = chosen[step];
    if (!bound || bound.integration === null || !isBinding(kind)) continue;
    const { spreadsheet, sheet = null } = bound;
    const target = kind === "teams" || !(spreadsheet || sheet) ? null : { spreadsheet_id: spreadsheet || null, sheet };
    body[step] = { integration_id: bound.integration, kind, target };
  }
  return body;
}

/** The same of the steps that are bound by `accounts`. */
export function sentAccounts(rows: readonly ToBind[], chosen: Bindings): Record<string, StepAccountRecord> {
  const bound = rows.filter(({ step, kind }) => !isBinding(kind) && (chosen[step]?.integration ?? null) !== null);
  return Object.fromEntries(bound.map(({ step }) => [step, { integration_id: chosen[step]!.integration! }]));
}

/** What an automation has bound already, by either field, as it is chosen again. */
export function chosenOf(bindings: Readonly<Record<string, unknown>>, accounts: Readonly<Record<string, unknown>> = {}): Bindings {
  const read = { ...bindings, ...accounts } as Readonly<Record<string, BindingWire>>;
  return Object.fromEntries(
    Object.entries(read).map(([step, { integration_id, target }]) => [
      step,
      { integration: integration_id, spreadsheet: target?.spreadsheet_id ?? null, sheet: target?.sheet ?? null },
    ]),
  );
}

/** The import chosen for each step that calls a workflow; null where a person chose none. */
export type Calls = Readonly<Record<string, string | null>>;

/** As the service takes them: a step without an import is left out, and so is one that is no longer there. */
export function sentCalls(rows: readonly { step: string }[], chosen: Calls): Record<string, { import_id: string }> {
  const steps = new Set(rows.map(({ step }) => step));
  return Object.fromEntries(Object.entries(chosen).flatMap(([step, id]) => (id && steps.has(step) ? [[step, { import_id: id }]] : [])));
}

/** The value typed for each variable of n8n. */
export type Values = Readonly<Record<string, string>>;

/** As the service takes them: a variable without a value is left out, and so is one that is no longer read. */
export function sentValues(rows: readonly { name: string }[], values: Values): Record<string, string> {
  return Object.fromEntries(rows.flatMap(({ name }) => (values[name] ? [[name, values[name]]] : [])));
}

interface BindingWire {
  integration_id: number;
  target?: { spreadsheet_id?: string | null; sheet?: string | null } | null;
}

/** The other steps of the same kind that have no connection yet; none while this one has none. */
function others(rows: readonly ToBind[], chosen: Bindings, step: string): ToBind[] {
  const current = rows.find((row) => row.step === step);
  if ((chosen[step]?.integration ?? null) === null) return [];
  const hosts = (row: ToBind | undefined) => JSON.stringify(row?.hosts ?? []);
  return rows.filter((row) => row.step !== step && row.kind === current?.kind && hosts(row) === hosts(current) && (chosen[row.step]?.integration ?? null) === null);
}

/** The same connection for every step of its kind that has none yet; their targets stay open. */
export function forAll(rows: readonly ToBind[], chosen: Bindings, step: string): Bindings {
  const integration = chosen[step]?.integration ?? null;
  return { ...chosen, ...Object.fromEntries(others(rows, chosen, step).map((row) => [row.step, { ...NOTHING, integration }])) };
}

/** Whether there are steps "use for all" would fill. */
export function hasOthers(rows: readonly ToBind[], chosen: Bindings, step: string): boolean {
  return others(rows, chosen, step).length > 0;
}
