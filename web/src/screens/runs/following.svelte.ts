/** Follows one run: polls for new steps until it has ended. */

import { online } from "../../api/online.svelte";
import { call, Refused } from "../../api/client";
import type { RunRecord, StepRecord } from "../../api/schema";
import { now } from "../../lib/clock.svelte";

/** Poll intervals: short after a change of status, because the run may end at once, then longer and longer. */
const SOON_MS = 250;
const BUSY_MS = 2000;
const WAITING_MS = 10_000;
const ENDED: ReadonlySet<string> = new Set(["succeeded", "failed", "refused", "cancelled", "expired"]);

/** The first request, sent while the screen's code loads. */
let begun: { id: string; answer: Promise<RunRecord>; asking: AbortController } | undefined;

function ask(id: string, after: number, poll: boolean, signal: AbortSignal): Promise<RunRecord> {
  const args = { params: { run_id: id }, query: { after_seq: after } };
  return call("get", "/v1/automations/runs/{run_id}", args, { poll, signal }).then(({ run }) => run);
}

/** The ids of runs shown on the page: switching their tabs sends no first request. */
const followed = new Set<string>();

export function begin(id: string): void {
  if (followed.has(id)) return;
  const asking = new AbortController();
  const answer = ask(id, 0, false, asking.signal);
  answer.catch(() => undefined);
  begun = { id, answer, asking };
}

export class Following {
  readonly id: string;
  run = $state.raw<RunRecord>();
  steps = $state.raw<readonly StepRecord[]>([]);
  refused = $state.raw<Refused>();
  at = $state(0);
  /** The number of steps when the run was opened: these are not marked as new. */
  first = $state(0);
  #whole = false;
  #seen = 0;
  #left = false;
  /** Aborts the pending request. */
  #asking = new AbortController();
  #again = false;
  #wake: () => void = () => (this.#again = true);

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
  again(): void {
    this.refused = undefined;
    this.#asking.abort();
    this.#wake();
  }

  leave(): void {
    this.#left = true;
    this.#asking.abort();
    this.#wake();
  }

  /** Polls until the run has ended and all its steps have loaded. */
  async follow(): Promise<void> {
    followed.add(this.id);
    const woken = () => this.#wake();
    document.addEventListener("visibilitychange", woken);
    let [busy, status]: [number, string | undefined] = [SOON_MS, undefined];
    try {
      for (let first = true; !this.#left; first = false) {
        const more = await this.#once(first);
        busy = this.run?.status === status ? Math.min(2 * busy, BUSY_MS) : SOON_MS;
        status = this.run?.status;
        if (this.#left) return;
        if (more && !this.refused) continue;
        if (this.ended && !this.refused) return;
        if (this.refused && !this.refused.away) await this.#pause(null);
        else await this.#pause(this.run?.status === "waiting_approval" ? WAITING_MS : busy);
        // Waits while the tab is hidden or the service is unreachable.
        while (!this.#left && (document.hidden || online.away)) await this.#pause(document.hidden ? null : BUSY_MS);
      }
    } finally {
      document.removeEventListener("visibilitychange", woken);
      followed.delete(this.id);
    }
  }

  /** Polls once; returns whether more steps are available at once. */
  async #once(first: boolean): Promise<boolean> {
    const early = first && begun?.id === this.id ? begun : undefined;
    begun = undefined;
    const { signal } = (this.#asking = early?.asking ?? new AbortController());
    try {
      const run = await (early?.answer ?? ask(this.id, this.#seen, !first, signal));
      this.#take(run);
      return run.more_steps ?? false;
    } catch (fault) {
      if (signal.aborted) return false;
      if (!(fault instanceof Refused)) throw fault;
      this.refused = fault;
      return false;
    }
  }

  #take(run: RunRecord): void {
    const newSteps = (run.steps ?? []).filter(({ seq }) => seq > this.#seen);
    if (newSteps.length) {
      this.steps = [...this.steps, ...newSteps];
      this.#seen = newSteps.at(-1)!.seq;
    }
    if (!this.#whole) this.first = this.steps.length;
    if (!run.more_steps) this.#whole = true;
    this.run = run;
    this.at = now();
    this.refused = undefined;
  }

  /** Waits `ms` or until woken; null waits until woken. A wake-up during a request ends the next wait at once. */
  async #pause(ms: number | null): Promise<void> {
    if (!this.#again && !this.#left) {
      await new Promise<void>((resolve) => {
        const timer = ms === null ? undefined : setTimeout(resolve, ms);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = () => (this.#again = true);
    }
    this.#again = false;
  }
}
