/** Whether an import can run on each of the organization's stores, and what each store lacks for it. */

import { Refused } from "../../api/client";
import type { FindingRecord, StoreRecord } from "../../api/schema";
import { lackingOf } from "./report";

export interface StoreCheck {
  name: string;
  missing: readonly FindingRecord[];
}

/** Previews the import on a store. */
export type PreviewOn = (integration_id: number, signal: AbortSignal) => Promise<{ issues: readonly FindingRecord[] }>;

/** The maximum number of stores that an import is checked against. */
export const MAX_STORES = 10;

export class StoreChecks {
  checked = $state.raw<readonly StoreCheck[]>([]);

  /** Previews the import on each store in turn, until aborted; `issues` are those that every store has. */
  async check(issues: readonly FindingRecord[], stores: readonly StoreRecord[], preview: PreviewOn, signal: AbortSignal): Promise<void> {
    this.checked = [];
    for (const { integration_id, name } of stores) {
      try {
        const response = await preview(integration_id, signal);
        if (signal.aborted) return;
        this.checked = [...this.checked, { name, missing: lackingOf(issues, response.issues) }];
      } catch (fault) {
        if (signal.aborted || fault instanceof Refused) return;
        throw fault;
      }
    }
  }
}
