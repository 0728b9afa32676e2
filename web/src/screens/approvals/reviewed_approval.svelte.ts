/**
 * One approval with all its changes. It can only be approved when every change has loaded exactly once and the record,
 * read again after the last page, still has the same version (docs/design/web.md#approvals).
 */

import { invalidate } from "../../api/cache.svelte";
import { call, Refused } from "../../api/client";
import type { ApprovalRecord, ChangeRecord, DecidedResponse, RunRecord } from "../../api/schema";

const PAGE = 200;
const TRIES = 3;
/** The maximum number of changes that one decision may leave out (docs/design/api/approvals.md#requests). */
export const MAX_LEFT_OUT = 5000;

export class ReviewedApproval {
  readonly id: string;
  record = $state.raw<ApprovalRecord>();
  changes = $state.raw<readonly ChangeRecord[]>([]);
  /** The number of changes loaded so far. */
  loaded = $state(0);
  /** Whether all changes have loaded and belong to `record`. */
  complete = $state(false);
  leftOut = $state.raw<ReadonlySet<string>>(new Set());
  refused = $state.raw<Refused>();
  /** Whether it was loaded again because its changes had changed. */
  reloaded = $state(false);
  /** For an undo: it writes although changes are stopped. */
  writeNow = $state(false);
  /** The run, as the response to the decision returned it. */
  run = $state.raw<RunRecord>();
  #loading: AbortController | undefined;

  constructor(id: string, first?: ApprovalRecord) {
    this.id = id;
    if (first) this.#setRecord(first);
  }

  get isOpen(): boolean {
    return this.record?.status === "pending";
  }

  get total(): number {
    return this.record?.changes_total ?? this.record?.counts.total ?? 0;
  }

  /** The number of changes that approving it now would make. */
  get includedCount(): number {
    return this.changes.length - this.leftOut.size;
  }

  get irreversible(): number {
    return this.changes.reduce((sum, { id, reversible }) => sum + (!reversible && !this.leftOut.has(id) ? 1 : 0), 0);
  }

  /** Loads the record and all its changes; changes that were left out stay left out. */
  async load(): Promise<void> {
    this.#loading?.abort();
    const loading = (this.#loading = new AbortController());
    this.complete = false;
    this.refused = undefined;
    try {
      for (let tries = TRIES; tries > 0; tries -= 1) {
        if (await this.#loadAll(loading.signal)) return;
        this.reloaded = true;
      }
      this.refused = new Refused(409, {
        code: "stale_version", message: "The changes were updated while they were loading. Load them again in a moment.",
      });
    } catch (fault) {
      if (loading.signal.aborted) return;
      if (!(fault instanceof Refused)) throw fault;
      this.refused = fault;
    }
  }

  leave(): void {
    this.#loading?.abort();
  }

  /** Whether `read` is a newer version than the one shown. */
  isOlderThan(read: ApprovalRecord): boolean {
    const shown = this.record;
    return shown !== undefined && read.version > shown.version;
  }

  setLeftOut(ids: Iterable<string>, out: boolean): void {
    const leftOut = new Set(this.leftOut);
    for (const id of ids) {
      if (out) leftOut.add(id);
      else leftOut.delete(id);
    }
    this.leftOut = leftOut;
  }

  /** Sends the decision about exactly the changes shown. Throws Refused; then loads the approval again. */
  async decide(rejects: boolean, comment: string): Promise<void> {
    const { record } = this;
    if (!record || !this.complete) return;
    const params = { approval_id: this.id };
    const decision = { version: record.version, comment: comment.trim() || null };
    try {
      // In the order shown, which is the order hashed.
      const except = this.changes.filter(({ id }) => this.leftOut.has(id)).map(({ id }) => id);
      const body = { ...decision, except, change_hash: record.change_hash, ...(this.writeNow ? { write_now: true } : {}) };
      const response = rejects
        ? await call("post", "/v1/automations/approvals/{approval_id}/reject", { params, body: decision })
        : await call("post", "/v1/automations/approvals/{approval_id}/approve", { params, body });
      this.#decided(response);
    } catch (fault) {
      if (fault instanceof Refused && fault.status === 409) {
        this.reloaded = fault.code === "stale_version";
        void this.load();
      }
      throw fault;
    }
  }

  #decided(response: DecidedResponse): void {
    this.record = { ...this.record, ...response.approval };
    this.run = response.run;
    invalidate("/v1/automations/approvals", "/v1/automations/approvals/{approval_id}", "/v1/automations/runs", "/app/runs", "/v1/automations/status");
  }

  #setRecord(record: ApprovalRecord): void {
    this.record = record;
    if (record.changes && !this.changes.length) this.changes = record.changes;
  }

  /** Loads all pages once; returns false if the approval changed in between. */
  async #loadAll(signal: AbortSignal): Promise<boolean> {
    const record = await this.#read(signal);
    const waits = record.status === "pending";
    this.#setRecord(record);
    const rows: ChangeRecord[] = [];
    const seen = new Set<string>();
    let cursor: string | undefined;
    do {
      const query = { limit: PAGE, cursor, ...(waits ? { outcome: ["proposed" as const] } : {}) };
      const params = { run_id: record.run_id };
      const page = await call("get", "/v1/automations/runs/{run_id}/changes", { params, query }, { signal });
      for (const change of page.changes) {
        if (!seen.has(change.id)) rows.push(change);
        seen.add(change.id);
      }
      cursor = page.next_cursor ?? undefined;
      this.loaded = rows.length;
      // Renders whenever the number of rows has doubled: rendering each page would take longer than loading.
      if (rows.length >= 2 * this.changes.length) this.changes = [...rows];
    } while (cursor);
    const again = await this.#read(signal);
    const same = again.version === record.version && again.change_hash === record.change_hash && again.status === record.status;
    if (!same || (waits && rows.length !== record.changes_total)) return false;
    this.changes = rows;
    this.leftOut = new Set([...this.leftOut].filter((id) => seen.has(id)));
    this.complete = true;
    return true;
  }

  async #read(signal: AbortSignal): Promise<ApprovalRecord> {
    const params = { approval_id: this.id };
    return (await call("get", "/v1/automations/approvals/{approval_id}", { params }, { poll: true, signal })).approval;
  }
}
