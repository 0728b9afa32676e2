/** Whether an import runs on each of the organization's own stores: what each of them has no counterpart for. */

import { Refused } from "../../api/client";
import type { FindingRecord, StoreRecord } from "../../api/schema";
import { lackingOf } from "./report";

export interface Judged {
  name: string;
  faults: readonly FindingRecord[];
}

/** Previews the import on a store. */
export type PreviewOn = (integration_id: number, signal: AbortSignal) => Promise<{ issues: readonly FindingRecord[] }>;

/** The most stores of an organization that an import is judged against. */
export const MAX_STORES = 10;

export class JudgedStores {
  stores = $state.raw<readonly Judged[]>([]);

  /** Previews the import on one store after the other, until it is aborted; `issues` are those of every store. */
  async judge(issues: readonly FindingRecord[], stores: readonly StoreRecord[], preview: PreviewOn, signal: AbortSignal): Promise<void> {
    this.stores = [];
    for (const { integration_id, name } of stores) {
      try {
        const answer = await preview(integration_id, signal);
        if (signal.aborted) return;
        this.stores = [...this.stores, { name, faults: lackingOf(issues, answer.issues) }];
      } catch (fault) {
        if (signal.aborted || fault instanceof Refused) return;
        throw fault;
      }
    }
  }
}
