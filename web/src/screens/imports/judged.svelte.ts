/** Whether an import runs on each of the organisation's own stores: what each of them has no counterpart for. */

import { call, Refused } from "../../api/client";
import type { FindingRecord, ImportRecord, StoreRecord } from "../../api/schema";
import { lackingOf } from "./report";

export interface Judged {
  name: string;
  faults: readonly FindingRecord[];
}

export class JudgedStores {
  stores = $state.raw<readonly Judged[]>([]);

  /** Asks for one store after the other, until it is aborted. */
  async judge(record: ImportRecord, stores: readonly StoreRecord[], signal: AbortSignal): Promise<void> {
    this.stores = [];
    const params = { import_id: record.id };
    for (const { integration_id, name } of stores) {
      try {
        const answer = await call("post", "/v1/automations/imports/{import_id}/preview", { params, body: { integration_id } }, { signal });
        if (signal.aborted) return;
        this.stores = [...this.stores, { name, faults: lackingOf(record.issues, answer.issues) }];
      } catch (fault) {
        if (signal.aborted || fault instanceof Refused) return;
        throw fault;
      }
    }
  }
}
