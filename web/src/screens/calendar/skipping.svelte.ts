/** Skips and unskips coming runs, with a note, its undo, and a reload of the runs. */

import { Refused } from "../../api/client";
import type { OccurrenceRecord } from "../../api/schema";
import { Action } from "../../lib/action.svelte";
import { notes } from "../../lib/notes.svelte";
import { setSkipped } from "./edits";

export class Skipping {
  #reload: () => Promise<void> | void;

  /** `reload` loads the runs again. */
  constructor(reload: () => Promise<void> | void) {
    this.#reload = reload;
  }

  skip = new Action(async (row: OccurrenceRecord, unskip: boolean) => {
    const { occurrence } = await setSkipped(unskip ? "unskip" : "skip", row);
    if (unskip) notes.add(`The run of ${row.automation_name} is back`);
    else notes.add(`The run of ${row.automation_name} is skipped`, { undo: occurrence ? () => this.#unskip(occurrence) : undefined });
    await this.#reload();
  });

  /** Resolves to whether it succeeded. After a conflict with another person's change, loads the runs again. */
  run = async (row: OccurrenceRecord, unskip: boolean): Promise<boolean> => {
    const done = await this.skip.run(row, unskip);
    if (!done && this.skip.refused?.status === 409) await this.#reload();
    return done;
  };

  async #unskip(row: OccurrenceRecord): Promise<void> {
    try {
      await setSkipped("unskip", row);
      notes.say(`The run of ${row.automation_name} is back`);
    } catch (fault) {
      if (!(fault instanceof Refused)) throw fault;
      notes.add(fault.message, { tone: "bad" });
    }
    await this.#reload();
  }
}
