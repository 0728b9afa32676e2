/** Saves changes of an automation with the version that was loaded; conflicts are resolved field by field. */

import { call, Refused } from "../../api/client";
import type { AutomationRecord } from "../../api/schema";
import { Action } from "../../lib/action.svelte";
import { type Changes, rebased, staleRows } from "../../lib/fields";
import { notes } from "../../lib/notes.svelte";
import { refreshAutomations } from "./actions.svelte";

export class Saving {
  /** The automation as another person has changed it meanwhile; null without a conflict. */
  theirs = $state.raw<AutomationRecord | null>(null);
  #before: () => AutomationRecord;
  #changes: () => Changes;
  #saved: (after: AutomationRecord) => void;

  /** `before` is the automation when editing began; `changes` holds only the edited fields. */
  constructor(before: () => AutomationRecord, changes: () => Changes, saved: (after: AutomationRecord) => void) {
    this.#before = before;
    this.#changes = changes;
    this.#saved = saved;
  }

  save = new Action(async () => this.#send(this.#before().version, this.#changes()));

  /** Applies this person's changes to the current version, input by input, and saves it. */
  again = new Action(async () => {
    if (this.theirs) await this.#send(this.theirs.version, rebased(this.#before(), this.#changes(), this.theirs));
  });

  /** The conflict: this person's changes beside the current values. */
  get rows() {
    return this.theirs && staleRows(this.#before(), this.#changes(), this.theirs);
  }

  /** Error messages by path, from the last attempt. */
  get errors(): Readonly<Record<string, string[]>> {
    return this.again.refused?.errors ?? this.save.refused?.errors ?? {};
  }

  keepTheirs(): void {
    const { theirs } = this;
    this.theirs = null;
    this.save.forget();
    this.again.forget();
    refreshAutomations();
    if (theirs) this.#saved(theirs);
  }

  async #send(version: number, changes: Changes): Promise<void> {
    try {
      const { automation } = await call("patch", "/v1/automations/{automation_id}", {
        params: { automation_id: this.#before().id },
        body: { version, ...changes } as never,
      });
      this.theirs = null;
      this.save.forget();
      refreshAutomations();
      this.#saved(automation);
      notes.add("Saved");
    } catch (fault) {
      if (fault instanceof Refused && fault.code === "stale_version") this.theirs = fault.data.automation as AutomationRecord;
      // The error is shown at its field, so the conflict dialog is closed.
      else if (fault instanceof Refused && fault.status === 422) this.theirs = null;
      throw fault;
    }
  }
}
