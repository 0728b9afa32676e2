/** Follows one run: polls for steps after the highest seen until it has ended, each step once. */

import { online } from "../../api/online.svelte";
import { call, Refused } from "../../api/client";
import type { RunRecord, StepRecord } from "../../api/schema";
import { now } from "../../lib/clock.svelte";

/** A run that begins or goes on may end at once: it is asked about soon, then less and less often. */
const SOON_MS = 250;
const BUSY_MS = 2000;
const WAITING_MS = 10_000;
const ENDED: ReadonlySet<string> = new Set(["succeeded", "failed", "refused", "cancelled", "expired"]);

/** The first answer, asked for before the screen's code is there. */
let begun: { id: string; answer: Promise<RunRecord>; asking: AbortController } | undefined;

function ask(id: string, after: number, poll: boolean, signal: AbortSignal): Promise<RunRecord> {
  const args = { params: { run_id: id }, query: { after_seq: after } };
  return call("get", "/v1/automations/runs/{run_id}", args, { poll, signal }).then(({ run }) => run);
}

/** Runs on the page: another tab of one begins nothing. */
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
  /** How many steps there were when the run was opened: none of them is news. */
  first = $state(0);
  #whole = false;
  #seen = 0;
  #left = false;
  /** Ends the call under way. */
  #asking = new AbortController();
  #again = false;
  #wake: () => void = () => (this.#again = true);

  constructor(id: string) {
    this.id = id;
  }

  get ended(): boolean {
    return this.run !== undefined && ENDED.has(this.run.status);
  }

  /** Takes what an action answered; the next poll brings the rest. */
  put(run: RunRecord): void {
    this.run = { ...this.run, ...run };
    this.#wake();
  }

  /** Asks at once, also while an answer is waited for; what is shown stays. */
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

  /** Polls until the run has ended and every step is here. */
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
        // A hidden tab and a service that is away are waited for.
        while (!this.#left && (document.hidden || online.away)) await this.#pause(document.hidden ? null : BUSY_MS);
      }
    } finally {
      document.removeEventListener("visibilitychange", woken);
      followed.delete(this.id);
    }
  }

  /** One answer; true when there are more steps at once. */
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

  /** Waits so long, or until woken; null until woken alone. Who was woken while an answer was under way asks again. */
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
