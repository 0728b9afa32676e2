/** The keys of runs in the calendar's addresses; a module of its own, because the first screen needs it. */

import type { OccurrenceRecord } from "../../api/schema";
import { instantOf } from "../../lib/time";

/** Returns a slot's key, from its automation and time, or the id of a run that no schedule started. */
export function keyOf(row: Pick<OccurrenceRecord, "automation_id" | "slot_at" | "run_id"> & { origin?: string }): string {
  return row.origin ? row.run_id! : `${row.automation_id}.${instantOf(row.slot_at)}`;
}
