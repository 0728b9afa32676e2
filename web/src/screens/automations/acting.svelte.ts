/** What a person does to one automation: run, pause, switch on, archive, restore; asked first where it is live or final. */

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

/** Asks again what shows automations or what follows from their state. */
export function seen(): void {
  changed(
    "/v1/automations", "/v1/automations/{automation_id}", "/v1/automations/occurrences", "/v1/automations/status",
    "/app/automations/{automation_id}/history", "/v1/automations/runs", "/app/runs", "/app/overview",
  );
}

/** Does one step to an automation as it was read. */
export async function step(which: Step, automation: AutomationRecord): Promise<AutomationRecord> {
  const answer = await call("post", `/v1/automations/{automation_id}/${which}`, {
    params: { automation_id: automation.id },
    body: { version: automation.version },
  });
  seen();
  return answer.automation;
}

/** What a run is started with. */
export interface StartValues {
  payload: Payload;
  files: StartFiles;
}

/** A run that a person is asked values for. */
export interface Starting {
  automation: AutomationRecord;
  mode: "live" | "test";
  fields: readonly StartFieldRecord[];
}

/** The values that a run of it can be given; null when it starts without. */
async function startFields(automation: AutomationRecord): Promise<readonly StartFieldRecord[] | null> {
  if (automation.source !== "workflow_tool") return null;
  const plan = await call("get", "/app/automations/{automation_id}/plan", { params: { automation_id: automation.id } });
  return plan.start_fields;
}

export class Acting {
  /** The one that is asked about: run now, or archive. */
  asked = $state.raw<{ what: "run" | "archive"; automation: AutomationRecord }>();
  /** The run whose values are asked for. */
  starting = $state.raw<Starting>();
  /** Which automation the last refusal is about. */
  of = $state<string>();
  #key = idempotencyKey();
  #started: (run: RunRecord) => void;

  constructor(started: (run: RunRecord) => void) {
    this.#started = started;
  }

  change = new Action(async (which: Step, automation: AutomationRecord) => {
    this.of = automation.id;
    const after = await step(which, automation).catch((fault: unknown) => {
      // What is shown is not what is current: read again, and the message says why.
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

  /** Asks for the values of a live run, or whether to run it. */
  open = new Action(async (automation: AutomationRecord) => {
    if (!(await this.#asksValues(automation, "live"))) this.ask("run", automation);
  });

  /** Starts the run with the values that were asked for. */
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

  /** Opens the question; its key makes a repeat after a lost answer safe. */
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
      // With a lost answer the same key finds the run that may have been started.
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
