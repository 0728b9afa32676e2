/** Follows one run: polls for new steps until it has ended. */

import { online } from "../../api/online.svelte";
import { call, Refused } from "../../api/client";
import type { RunRecord, StepRecord } from "../../api/schema";
import { now } from "../../lib/clock.svelte";

/** Poll intervals: short after a change of status, because the run may end at once, then longer and longer. */
const MIN_INTERVAL_MS = 250;
const MAX_INTERVAL_MS = 2000;
const APPROVAL_INTERVAL_MS = 10_000;
const ENDED: ReadonlySet<string> = new Set(["succeeded", "failed", "refused", "cancelled", "expired"]);

/** The first request, sent while the screen's code loads. */
let prefetched: { id: string; response: Promise<RunRecord>; controller: AbortController } | undefined;

function readRun(id: string, after: number, poll: boolean, signal: AbortSignal): Promise<RunRecord> {
  const args = { params: { run_id: id }, query: { after_seq: after } };
  return call("get", "/v1/automations/runs/{run_id}", args, { poll, signal }).then(({ run }) => run);
}

/** The ids of runs shown on the page: switching their tabs sends no first request. */
const followed = new Set<string>();

export function prefetchRun(id: string): void {
  if (followed.has(id)) return;
  const controller = new AbortController();
  const response = readRun(id, 0, false, controller.signal);
  response.catch(() => undefined);
  prefetched = { id, response, controller };
}

export class FollowedRun {
  readonly id: string;
  run = $state.raw<RunRecord>();
  steps = $state.raw<readonly StepRecord[]>([]);
  refused = $state.raw<Refused>();
  at = $state(0);
  /** The number of steps when the run was opened: these are not marked as new. */
  initialSteps = $state(0);
  #allRead = false;
  #lastSeq = 0;
  #stopped = false;
  /** Aborts the pending request. */
  #controller = new AbortController();
  #pollAgain = false;
  #wake: () => void = () => (this.#pollAgain = true);

  constructor(id: string) {
    this.id = id;
  }

  get ended(): boolean {
    return this.run !== undefined && ENDED.has(this.run.status);
  }

  /** Stores the run that an action returned; the next poll loads the rest. */
  put(run: RunRecord): void {
    this.run = { ...this.run, ...run };
    this.#wake();
  }

  /** Polls at once, aborting a pending request; the data shown stays. */
  refresh(): void {
    this.refused = undefined;
    this.#controller.abort();
    this.#wake();
  }

  stop(): void {
    this.#stopped = true;
    this.#controller.abort();
    this.#wake();
  }

  /** Polls until the run has ended and all its steps have loaded. */
  async follow(): Promise<void> {
    followed.add(this.id);
    const onVisibility = () => this.#wake();
    document.addEventListener("visibilitychange", onVisibility);
    let [interval, status]: [number, string | undefined] = [MIN_INTERVAL_MS, undefined];
    try {
      for (let first = true; !this.#stopped; first = false) {
        const more = await this.#poll(first);
        interval = this.run?.status === status ? Math.min(2 * interval, MAX_INTERVAL_MS) : MIN_INTERVAL_MS;
        status = this.run?.status;
        if (this.#stopped) return;
        if (more && !this.refused) continue;
        if (this.ended && !this.refused) return;
        if (this.refused && !this.refused.isUnreachable) await this.#pause(null);
        else await this.#pause(this.run?.status === "waiting_approval" ? APPROVAL_INTERVAL_MS : interval);
        // Waits while the tab is hidden or the service is unreachable.
        while (!this.#stopped && (document.hidden || online.isUnreachable)) await this.#pause(document.hidden ? null : MAX_INTERVAL_MS);
      }
    } finally {
      document.removeEventListener("visibilitychange", onVisibility);
      followed.delete(this.id);
    }
  }

  /** Polls once; returns whether more steps are available at once. */
  async #poll(first: boolean): Promise<boolean> {
    const prefetchedRun = first && prefetched?.id === this.id ? prefetched : undefined;
    prefetched = undefined;
    const { signal } = (this.#controller = prefetchedRun?.controller ?? new AbortController());
    try {
      const run = await (prefetchedRun?.response ?? readRun(this.id, this.#lastSeq, !first, signal));
      this.#addSteps(run);
      return run.more_steps ?? false;
    } catch (fault) {
      if (signal.aborted) return false;
      if (!(fault instanceof Refused)) throw fault;
      this.refused = fault;
      return false;
    }
  }

  #addSteps(run: RunRecord): void {
    const newSteps = (run.steps ?? []).filter(({ seq }) => seq > this.#lastSeq);
    if (newSteps.length) {
      this.steps = [...this.steps, ...newSteps];
      this.#lastSeq = newSteps.at(-1)!.seq;
    }
    if (!this.#allRead) this.initialSteps = this.steps.length;
    if (!run.more_steps) this.#allRead = true;
    this.run = run;
    this.at = now();
    this.refused = undefined;
  }

  /** Waits `ms` or until woken; null waits until woken. A wake-up during a request ends the next wait at once. */
  async #pause(ms: number | null): Promise<void> {
    if (!this.#pollAgain && !this.#stopped) {
      await new Promise<void>((resolve) => {
        const timer = ms === null ? undefined : setTimeout(resolve, ms);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = () => (this.#pollAgain = true);
    }
    this.#pollAgain = false;
  }
}
