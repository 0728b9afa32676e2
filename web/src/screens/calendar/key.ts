/** How the calendar's addresses name a run; apart from the rest, since the first view needs it. */

import type { OccurrenceRecord } from "../../api/schema";
import { instantOf } from "../../lib/time";

/** A slot by its automation and time; a run that no schedule started by its own id. */
export function keyOf(row: Pick<OccurrenceRecord, "automation_id" | "slot_at" | "run_id"> & { origin?: string }): string {
  return row.origin ? row.run_id! : `${row.automation_id}.${instantOf(row.slot_at)}`;
}
