/** Skipping a coming run, and letting it run again: with a note, an undo, and the runs read again. */

import { Refused } from "../../api/client";
import type { OccurrenceRecord } from "../../api/schema";
import { Action } from "../../lib/action.svelte";
import { notes } from "../../lib/notes.svelte";
import { skipped } from "./edits";

export class Skipping {
  #seen: () => Promise<void> | void;

  /** `seen` asks for what is shown again. */
  constructor(seen: () => Promise<void> | void) {
    this.#seen = seen;
  }

  skip = new Action(async (row: OccurrenceRecord, back: boolean) => {
    const { occurrence } = await skipped(back ? "unskip" : "skip", row);
    if (back) notes.add(`The run of ${row.automation_name} is back`);
    else notes.add(`The run of ${row.automation_name} is skipped`, { undo: occurrence ? () => this.#unskip(occurrence) : undefined });
    await this.#seen();
  });

  /** Whether it was done. Where somebody else was faster the runs are read again, so that what is shown is true. */
  run = async (row: OccurrenceRecord, back: boolean): Promise<boolean> => {
    const done = await this.skip.run(row, back);
    if (!done && this.skip.refused?.status === 409) await this.#seen();
    return done;
  };

  async #unskip(row: OccurrenceRecord): Promise<void> {
    try {
      await skipped("unskip", row);
      notes.say(`The run of ${row.automation_name} is back`);
    } catch (fault) {
      if (!(fault instanceof Refused)) throw fault;
      notes.add(fault.message, { tone: "bad" });
    }
    await this.#seen();
  }
}
