/** The actions on an automation: run, pause, resume, archive, restore; live runs and archiving need a confirmation. */

import { changed } from "../../api/cache.svelte";
import { call, Refused } from "../../api/client";
import type { AutomationRecord, RunRecord, StartFieldRecord } from "../../api/schema";
import { Action, idempotencyKey } from "../../lib/action.svelte";
import { notes } from "../../lib/notes.svelte";
import type { StartFiles } from "../../lib/start_files";
import type { Payload } from "../../lib/start_values";

export type Step = "pause" | "resume" | "archive" | "restore";
const DONE: Readonly<Record<Step, string>> = {
  pause: "is paused",
  resume: "is on",
  archive: "is archived",
  restore: "is out of the archive, paused until you switch it on",
};

/** Refreshes what shows automations or depends on their state. */
export function seen(): void {
  changed(
    "/v1/automations", "/v1/automations/{automation_id}", "/v1/automations/occurrences", "/v1/automations/status",
    "/app/automations/{automation_id}/history", "/v1/automations/runs", "/app/runs", "/app/overview",
  );
}

/** Sends one action with the version that was loaded; returns the changed automation. */
export async function step(which: Step, automation: AutomationRecord): Promise<AutomationRecord> {
  const answer = await call("post", `/v1/automations/{automation_id}/${which}`, {
    params: { automation_id: automation.id },
    body: { version: automation.version },
  });
  seen();
  return answer.automation;
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

export class Acting {
  /** The action that awaits confirmation. */
  asked = $state.raw<{ what: "run" | "archive"; automation: AutomationRecord }>();
  /** The run whose start values are being entered. */
  starting = $state.raw<Starting>();
  /** The automation that the last refusal is about. */
  of = $state<string>();
  #key = idempotencyKey();
  #started: (run: RunRecord) => void;

  constructor(started: (run: RunRecord) => void) {
    this.#started = started;
  }

  change = new Action(async (which: Step, automation: AutomationRecord) => {
    this.of = automation.id;
    const after = await step(which, automation).catch((fault: unknown) => {
      // The automation shown is out of date: it is loaded again, and the message says why.
      if (fault instanceof Refused && fault.status === 409) seen();
      throw fault;
    });
    const other = which === "pause" ? "resume" : which === "archive" ? "restore" : null;
    const words = which === "restore" && after.state === "draft" ? "is out of the archive" : DONE[which];
    notes.add(`${after.name} ${words}`, { undo: which === "pause" && other ? () => this.#undo(other, after) : undefined });
  });

  test = new Action(async (automation: AutomationRecord) => {
    if (!(await this.#asksValues(automation, "test"))) await this.#start(automation, "test");
  });

  /** Opens the start dialog of a live run, or its confirmation if it takes no values. */
  open = new Action(async (automation: AutomationRecord) => {
    if (!(await this.#asksValues(automation, "live"))) this.ask("run", automation);
  });

  /** Starts the run with the entered values. */
  begin = new Action(async (values: StartValues) => {
    if (this.starting) await this.#start(this.starting.automation, this.starting.mode, values);
  });

  live = new Action(async () => {
    if (this.asked) await this.#start(this.asked.automation, "live");
  });

  archive = new Action(async () => {
    if (!this.asked) return;
    const { automation } = this.asked;
    this.of = automation.id;
    const after = await step("archive", automation);
    notes.add(`${after.name} ${DONE.archive}`);
  });

  /** Opens the confirmation; its idempotency key makes a retry after a lost response safe. */
  ask(what: "run" | "archive", automation: AutomationRecord): void {
    this.#key = idempotencyKey();
    this.live.forget();
    this.archive.forget();
    this.asked = { what, automation };
  }

  async #asksValues(automation: AutomationRecord, mode: "live" | "test"): Promise<boolean> {
    this.of = automation.id;
    const fields = await startFields(automation);
    if (!fields) return false;
    this.#key = idempotencyKey();
    this.begin.forget();
    this.starting = { automation, mode, fields };
    return true;
  }

  async #start(automation: AutomationRecord, mode: "live" | "test", values?: StartValues): Promise<void> {
    this.of = automation.id;
    const hasFiles = values && Object.keys(values.files).length > 0;
    try {
      const { run } = await call("post", "/v1/automations/{automation_id}/runs", {
        params: { automation_id: automation.id },
        body: { idempotency_key: this.#key, mode, ...(values && { payload: values.payload }), ...(hasFiles && { files: values.files }) },
      });
      this.#key = idempotencyKey();
      changed("/v1/automations/runs", "/app/runs", "/v1/automations/status");
      this.#started(run);
    } catch (fault) {
      // After a lost response, the same key returns the run that may have been started.
      if (!(fault instanceof Refused && fault.away)) this.#key = idempotencyKey();
      throw fault;
    }
  }

  async #undo(which: Step, automation: AutomationRecord): Promise<void> {
    try {
      await step(which, automation);
      notes.say(`${automation.name} is as before`);
    } catch (fault) {
      if (!(fault instanceof Refused)) throw fault;
      notes.add(fault.message, { tone: "bad" });
    }
  }
}
