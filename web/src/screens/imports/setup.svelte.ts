/** What a person chooses before an import runs as an automation; kept while the import's page is open. */

import { call, Refused } from "../../api/client";
import type { AutomationRecord, CallableStepRecord, ImportPreviewResponse, ImportRecord, ScheduleRecord, VariableRecord } from "../../api/schema";
import { idempotencyKey } from "../../lib/action.svelte";
import { type Bindings, type Calls, sent, sentAccounts, sentCalls, sentValues, type ToBind, type Values } from "../../lib/bindings";
import { same } from "../../lib/fields";
import type { TriggerBody } from "../../lib/topics";
import { lackingOf } from "./report";

const MANUAL: ScheduleRecord = {
  cadence: "manual", run_at: null, day_of_week: null, day_of_month: null, date: null, days: null, week_of_month: null,
};

/** The platforms of the stores its steps are made for, by their operations; a flow runs on any that has them all. */
export function platforms(record: ImportRecord): string[] {
  if (record.source === "store_flow") return [];
  const steps = record.plan?.steps.filter(({ needs }) => needs === "store") ?? [];
  return [...new Set(steps.map(({ operation }) => operation.split(".")[0]!))].sort();
}

const named = (rows: readonly VariableRecord[]) => rows.map(({ name, required }) => [name, required]);
const steps = (rows: readonly { step: string }[]) => rows.map(({ step }) => step);

export class SetUp {
  name = $state("");
  store = $state<number | null>(null);
  bindings = $state.raw<Bindings>({});
  calls = $state.raw<Calls>({});
  values = $state.raw<Values>({});
  schedule = $state.raw<ScheduleRecord>(MANUAL);
  timezone = $state("");
  trigger = $state.raw<TriggerBody>({ kind: "schedule" });
  sendMode = $state<"ask" | "send">("ask");
  /** The steps to bind: what an automation without any binding lacks. */
  rows = $state.raw<readonly ToBind[]>();
  /** The steps that call a workflow, those of chosen ones among them. */
  callable = $state.raw<readonly CallableStepRecord[]>([]);
  /** The variables of n8n that it reads, with chosen workflows. */
  variables = $state.raw<readonly VariableRecord[]>([]);
  /** How it would run as it is set up now. */
  latestPreview = $state.raw<ImportPreviewResponse>();
  refused = $state.raw<Refused>();
  busy = $state(false);
  /** Whether a person changed a field. Where there is only one connection, it is chosen by itself, which does not count. */
  touched = $state(false);
  readonly record: ImportRecord;
  #begun = "";
  #key = idempotencyKey();
  #sent = "";

  constructor(record: ImportRecord, zone: string) {
    this.record = record;
    this.name = record.name;
    this.schedule = { ...MANUAL, ...record.trigger?.schedule };
    this.timezone = record.trigger?.timezone ?? zone;
    if (record.trigger?.kind === "event") this.trigger = { kind: "event", topics: record.trigger.topics ?? [] };
    this.#begun = this.#typed();
  }

  /** Whether it runs on a store: its steps need one, or a store's events start it. */
  get onStore(): boolean {
    return this.record.needs.includes("store") || this.trigger.kind === "event";
  }

  /** What the chosen store has no counterpart for, beyond what the import itself reports. */
  get lacking(): string[] {
    const fresh = lackingOf(this.record.issues, this.latestPreview?.issues ?? []);
    return this.store === null ? [] : fresh.map(({ step, message }) => (step === null ? message : `${step}: ${message}`));
  }

  get isChanged(): boolean {
    return this.touched || this.#typed() !== this.#begun;
  }

  #typed(): string {
    return JSON.stringify([this.name, this.schedule, this.trigger, this.sendMode]);
  }

  #chosen() {
    return { ...(this.onStore && this.store !== null ? { integration_id: this.store } : {}), bindings: sent(this.rows ?? [], this.bindings), accounts: sentAccounts(this.rows ?? [], this.bindings), calls: sentCalls(this.callable, this.calls), variables: sentValues(this.variables, this.values) };
  }

  /** Asks how it would run now. */
  async preview(signal: AbortSignal): Promise<void> {
    const body = this.#chosen();
    this.busy = true;
    try {
      const args = { params: { import_id: this.record.id }, body };
      const response = await call("post", "/v1/automations/imports/{import_id}/preview", args, { signal });
      if (signal.aborted) return;
      this.latestPreview = response;
      this.refused = undefined;
      // A chosen workflow can bring steps to bind and to choose for; others stay the objects they are.
      const rows = response.bindable as readonly ToBind[];
      if (!same(this.rows, rows)) this.rows = rows;
      const callable = response.callable as readonly CallableStepRecord[];
      if (!same(steps(this.callable), steps(callable))) this.callable = callable;
      const variables = response.variables as readonly VariableRecord[];
      if (!same(named(this.variables), named(variables))) this.variables = variables;
    } catch (fault) {
      if (signal.aborted) return;
      if (!(fault instanceof Refused)) throw fault;
      this.refused = fault;
    }
    this.busy = false;
  }

  /** Makes the automation. The same request, repeated after a lost response, makes no second one. */
  async make(): Promise<AutomationRecord> {
    const topics = this.trigger.kind === "event" ? { trigger: this.trigger } : {};
    const schedule = Object.fromEntries(Object.entries(this.schedule).filter(([, value]) => value !== null)) as { cadence: string };
    const fields = { name: this.name.trim(), schedule, timezone: this.timezone, send_mode: this.sendMode, ...topics, ...this.#chosen() };
    const text = JSON.stringify(fields);
    if (this.#sent && this.#sent !== text) this.#key = idempotencyKey();
    this.#sent = text;
    const args = { params: { import_id: this.record.id }, body: { ...fields, idempotency_key: this.#key } };
    return (await call("post", "/v1/automations/imports/{import_id}/automations", args as never)).automation;
  }
}
