/** Moves, skips and unskips runs, with the versions that were loaded; marks affected cache entries as changed. */

import { invalidate } from "../../api/cache.svelte";
import { call, Refused } from "../../api/client";
import type { AutomationRecord, EditedResponse, OccurrenceRecord } from "../../api/schema";
import { wire } from "../../lib/time";

export type MoveScope = "this" | "this_and_later";

function versions(row: OccurrenceRecord) {
  return { slot_at: row.slot_at, occurrence_version: row.version, automation_version: row.automation_version };
}

function refreshOccurrences(): void {
  invalidate("/v1/automations/occurrences", "/v1/automations", "/v1/automations/{automation_id}", "/app/automations/{automation_id}/history");
}

export async function setSkipped(which: "skip" | "unskip", row: OccurrenceRecord): Promise<EditedResponse> {
  const response = await call("post", `/v1/automations/{automation_id}/occurrences/${which}`, {
    params: { automation_id: row.automation_id },
    body: versions(row),
  });
  refreshOccurrences();
  return response;
}

export async function moveRun(row: OccurrenceRecord, to: number, scope: MoveScope): Promise<EditedResponse> {
  const response = await call("post", "/v1/automations/{automation_id}/occurrences/move", {
    params: { automation_id: row.automation_id },
    body: { ...versions(row), run_at: wire(to), scope },
  });
  refreshOccurrences();
  return response;
}

/** Returns the current records after a conflict with another person's change; null for any other refusal. */
export function currentAfterConflict(fault: Refused | undefined): { occurrence: OccurrenceRecord | null; automation: AutomationRecord } | null {
  if (fault?.code !== "stale_version") return null;
  return fault.data as unknown as { occurrence: OccurrenceRecord | null; automation: AutomationRecord };
}
