/** What the overview's answers come to, one line an automation. */

import type { ApprovalRecord, RunRecord } from "../../api/schema";

export interface Waiting {
  automation: string;
  name: string;
  store: string;
  approvals: number;
  changes: number;
  irreversible: number;
  /** The one that runs out first, opened from here. */
  first: ApprovalRecord;
}

/** The waiting approvals by automation, the one that runs out first on top. */
export function byAutomation(approvals: readonly ApprovalRecord[]): Waiting[] {
  const found = new Map<string, Waiting>();
  for (const approval of [...approvals].sort((a, b) => a.expires_at.localeCompare(b.expires_at))) {
    const { total = 0, irreversible = 0 } = approval.counts as { total?: number; irreversible?: number };
    const group = found.get(approval.automation_id);
    if (group) {
      group.approvals += 1;
      group.changes += total;
      group.irreversible += irreversible;
    } else {
      found.set(approval.automation_id, {
        automation: approval.automation_id,
        name: approval.automation_name,
        store: approval.store_label,
        approvals: 1,
        changes: total,
        irreversible,
        first: approval,
      });
    }
  }
  return [...found.values()];
}

export interface Failing {
  newest: RunRecord;
  runs: number;
  since: string;
}

/** The failed runs by automation, the newest on top: lists come newest first. */
export function failing(runs: readonly RunRecord[]): Failing[] {
  const found = new Map<string, Failing>();
  for (const run of runs) {
    const group = found.get(run.automation_id);
    const at = run.finished_at ?? run.queued_at;
    if (group) {
      group.runs += 1;
      group.since = at;
    } else found.set(run.automation_id, { newest: run, runs: 1, since: at });
  }
  return [...found.values()];
}
