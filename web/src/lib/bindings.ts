/** Steps of a workflow bound to connections: what is chosen, and what is sent of it. */

import type { StepBindingRecord, UnconfiguredRecord } from "../api/schema";

/** What a person chose for one step. */
export interface Bound {
  integration: number | null;
  /** Where, when the step's file leaves it open; its own spreadsheet and tab rule otherwise. */
  spreadsheet: string | null;
  /** A tab chosen elsewhere than in this app; it stays while its spreadsheet does. */
  sheet?: string | null;
}

export type Bindings = Readonly<Record<string, Bound>>;

/** A step that needs a connection of its own; the store is the automation's and not bound. */
export interface ToBind {
  step: string;
  kind: "spreadsheet" | "teams";
  target: UnconfiguredRecord["target"];
}

export const NOTHING: Bound = { integration: null, spreadsheet: null };

/** Why a step cannot run as it is bound. */
export const WHY: Readonly<Record<string, string>> = {
  no_connection: "Choose a connection",
  wrong_target: "Leads to another spreadsheet",
  needs_reconnecting: "Reconnect it",
};

/** The steps to bind, of what a service that was told of no binding says is missing. */
export function toBind(unconfigured: readonly UnconfiguredRecord[]): ToBind[] {
  return unconfigured.filter((one): one is UnconfiguredRecord & ToBind => one.kind === "spreadsheet" || one.kind === "teams");
}

/** As the service takes them: steps without a connection are left out, an open target is null. */
export function sent(rows: readonly ToBind[], chosen: Bindings): Record<string, StepBindingRecord> {
  const body: Record<string, StepBindingRecord> = {};
  for (const { step, kind } of rows) {
    const bound = chosen[step];
    if (!bound || bound.integration === null) continue;
    const { spreadsheet, sheet = null } = bound;
    const target = kind === "teams" || !(spreadsheet || sheet) ? null : { spreadsheet_id: spreadsheet || null, sheet };
    body[step] = { integration_id: bound.integration, kind, target };
  }
  return body;
}

/** What an automation has bound already, as it is chosen anew. */
export function chosenOf(bindings: Readonly<Record<string, unknown>>): Bindings {
  const read = bindings as Readonly<Record<string, BindingWire>>;
  return Object.fromEntries(
    Object.entries(read).map(([step, { integration_id, target }]) => [
      step,
      { integration: integration_id, spreadsheet: target?.spreadsheet_id ?? null, sheet: target?.sheet ?? null },
    ]),
  );
}

interface BindingWire {
  integration_id: number;
  target?: { spreadsheet_id?: string | null; sheet?: string | null } | null;
}

/** The other steps of the same kind that have no connection yet; none while this one has none. */
function others(rows: readonly ToBind[], chosen: Bindings, step: string): ToBind[] {
  const kind = rows.find((row) => row.step === step)?.kind;
  if ((chosen[step]?.integration ?? null) === null) return [];
  return rows.filter((row) => row.step !== step && row.kind === kind && (chosen[row.step]?.integration ?? null) === null);
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
