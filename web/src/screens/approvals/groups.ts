/** The queue of approvals by automation: what waits, how much, until when. */

import type { ApprovalRecord } from "../../api/schema";

export interface Queue {
  automation: string;
  name: string;
  store: string;
  rows: ApprovalRecord[];
  /** Waiting ones alone are counted. */
  waiting: number;
  changes: number;
  irreversible: number;
  /** When the first of the waiting ones runs out; null when none waits. */
  expires: string | null;
}

/** By automation, the one with the approval that runs out first on top; decided ones after what waits. */
export function queues(approvals: readonly ApprovalRecord[]): Queue[] {
  const found = new Map<string, Queue>();
  for (const approval of approvals) {
    const { automation_id: automation, automation_name: name, store_label: store } = approval;
    const empty = { automation, name, store, rows: [], waiting: 0, changes: 0, irreversible: 0, expires: null };
    const group: Queue = found.get(automation) ?? empty;
    found.set(automation, group);
    group.rows.push(approval);
    if (approval.status !== "pending") continue;
    group.waiting += 1;
    group.changes += approval.counts.total;
    group.irreversible += approval.counts.irreversible;
    if (group.expires === null || approval.expires_at < group.expires) group.expires = approval.expires_at;
  }
  const order = (one: Queue) => one.expires ?? "~";
  const isWaiting = ({ status }: ApprovalRecord) => (status === "pending" ? 0 : 1);
  for (const { rows } of found.values()) {
    rows.sort((a, b) => isWaiting(a) - isWaiting(b) || (isWaiting(a) ? b.created_at.localeCompare(a.created_at) : a.expires_at.localeCompare(b.expires_at)));
  }
  return [...found.values()].sort((a, b) => order(a).localeCompare(order(b)));
}
