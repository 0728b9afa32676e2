/** Skips and unskips coming runs, with a note, its undo, and a reload of the runs. */

import { Refused } from "../../api/client";
import type { OccurrenceRecord } from "../../api/schema";
import { Action } from "../../lib/action.svelte";
import { notes } from "../../lib/notes.svelte";
import { skipped } from "./edits";

export class Skipping {
  #seen: () => Promise<void> | void;

  /** `seen` loads the runs again. */
  constructor(seen: () => Promise<void> | void) {
    this.#seen = seen;
  }

  skip = new Action(async (row: OccurrenceRecord, back: boolean) => {
    const { occurrence } = await skipped(back ? "unskip" : "skip", row);
    if (back) notes.add(`The run of ${row.automation_name} is back`);
    else notes.add(`The run of ${row.automation_name} is skipped`, { undo: occurrence ? () => this.#unskip(occurrence) : undefined });
    await this.#seen();
  });

  /** Resolves to whether it succeeded. After a conflict with another person's change, loads the runs again. */
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
