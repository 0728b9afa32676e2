/** The actions on an automation: run, pause, resume, archive, restore; live runs and archiving need a confirmation. */

import { invalidate } from "../../api/cache.svelte";
import { call, Refused } from "../../api/client";
import type { AutomationRecord, RunRecord, StartFieldRecord } from "../../api/schema";
import { Action, idempotencyKey } from "../../lib/action.svelte";
import { notes } from "../../lib/notes.svelte";
import type { StartFiles } from "../../lib/start_files";
import type { Payload } from "../../lib/start_values";

export type StateChange = "pause" | "resume" | "archive" | "restore";
const DONE: Readonly<Record<StateChange, string>> = {
  pause: "is paused",
  resume: "is on",
  archive: "is archived",
  restore: "is out of the archive, paused until you switch it on",
};

/** Refreshes what shows automations or depends on their state. */
export function refreshAutomations(): void {
  invalidate(
    "/v1/automations", "/v1/automations/{automation_id}", "/v1/automations/occurrences", "/v1/automations/status",
    "/app/automations/{automation_id}/history", "/v1/automations/runs", "/app/runs", "/app/overview",
  );
}

/** Sends one action with the version that was loaded; returns the changed automation. */
export async function changeState(change: StateChange, automation: AutomationRecord): Promise<AutomationRecord> {
  const response = await call("post", `/v1/automations/{automation_id}/${change}`, {
    params: { automation_id: automation.id },
    body: { version: automation.version },
  });
  refreshAutomations();
  return response.automation;
}

/** The values and files a run is started with. */
export interface StartValues {
  payload: Payload;
  files: StartFiles;
}

/** A run whose start values a person is entering. */
export interface Starting {
  automation: AutomationRecord;
  mode: "live" | "test";
  fields: readonly StartFieldRecord[];
}

/** Returns the fields that a start of the automation takes; null if it takes none. */
async function startFields(automation: AutomationRecord): Promise<readonly StartFieldRecord[] | null> {
  if (automation.source !== "workflow_tool") return null;
  const plan = await call("get", "/app/automations/{automation_id}/plan", { params: { automation_id: automation.id } });
  return plan.start_fields;
}

export class AutomationActions {
  /** The action that awaits confirmation. */
  toConfirm = $state.raw<{ action: "run" | "archive"; automation: AutomationRecord }>();
  /** The run whose start values are being entered. */
  starting = $state.raw<Starting>();
  /** The automation that the last action was about. */
  targetId = $state<string>();
  #key = idempotencyKey();
  #started: (run: RunRecord) => void;

  constructor(started: (run: RunRecord) => void) {
    this.#started = started;
  }

  changeState = new Action(async (change: StateChange, automation: AutomationRecord) => {
    this.targetId = automation.id;
    const updated = await changeState(change, automation).catch((fault: unknown) => {
      // The automation shown is out of date: it is loaded again, and the message says why.
      if (fault instanceof Refused && fault.status === 409) refreshAutomations();
      throw fault;
    });
    const inverse = change === "pause" ? "resume" : change === "archive" ? "restore" : null;
    const words = change === "restore" && updated.state === "draft" ? "is out of the archive" : DONE[change];
    notes.add(`${updated.name} ${words}`, { undo: change === "pause" && inverse ? () => this.#undo(inverse, updated) : undefined });
  });

  runTest = new Action(async (automation: AutomationRecord) => {
    if (!(await this.#openDialog(automation, "test"))) await this.#start(automation, "test");
  });

  /** Opens the start dialog of a live run, or its confirmation if it takes no values. */
  openStart = new Action(async (automation: AutomationRecord) => {
    if (!(await this.#openDialog(automation, "live"))) this.confirm("run", automation);
  });

  /** Starts the run with the entered values. */
  start = new Action(async (values: StartValues) => {
    if (this.starting) await this.#start(this.starting.automation, this.starting.mode, values);
  });

  runLive = new Action(async () => {
    if (this.toConfirm) await this.#start(this.toConfirm.automation, "live");
  });

  archive = new Action(async () => {
    if (!this.toConfirm) return;
    const { automation } = this.toConfirm;
    this.targetId = automation.id;
    const updated = await changeState("archive", automation);
    notes.add(`${updated.name} ${DONE.archive}`);
  });

  /** Opens the confirmation; its idempotency key makes a retry after a lost response safe. */
  confirm(action: "run" | "archive", automation: AutomationRecord): void {
    this.#key = idempotencyKey();
    this.runLive.forget();
    this.archive.forget();
    this.toConfirm = { action, automation };
  }

  async #openDialog(automation: AutomationRecord, mode: "live" | "test"): Promise<boolean> {
    this.targetId = automation.id;
    const fields = await startFields(automation);
    if (!fields) return false;
    this.#key = idempotencyKey();
    this.start.forget();
    this.starting = { automation, mode, fields };
    return true;
  }

  async #start(automation: AutomationRecord, mode: "live" | "test", values?: StartValues): Promise<void> {
    this.targetId = automation.id;
    const hasFiles = values && Object.keys(values.files).length > 0;
    try {
      const { run } = await call("post", "/v1/automations/{automation_id}/runs", {
        params: { automation_id: automation.id },
        body: { idempotency_key: this.#key, mode, ...(values && { payload: values.payload }), ...(hasFiles && { files: values.files }) },
      });
      this.#key = idempotencyKey();
      invalidate("/v1/automations/runs", "/app/runs", "/v1/automations/status");
      this.#started(run);
    } catch (fault) {
      // After a lost response, the same key returns the run that may have been started.
      if (!(fault instanceof Refused && fault.isUnreachable)) this.#key = idempotencyKey();
      throw fault;
    }
  }

  async #undo(change: StateChange, automation: AutomationRecord): Promise<void> {
    try {
      await changeState(change, automation);
      notes.say(`${automation.name} is as before`);
    } catch (fault) {
      if (!(fault instanceof Refused)) throw fault;
      notes.add(fault.message, { tone: "bad" });
    }
  }
}
