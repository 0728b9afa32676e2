/** An action of a person: sent once at a time; keeps its refusal for the form and the wait after a 429. */

import { Refused } from "../api/client";
import { pause } from "./clock.svelte";
import { notes } from "./notes.svelte";

export class Action<A extends unknown[] = []> {
  busy = $state(false);
  refused = $state.raw<Refused>();
  /** Seconds the service asks to wait before a retry. */
  wait = $state(0);
  #act: (...args: A) => Promise<void>;
  #words: (refused: Refused) => string;

  /** `words` returns the announcement of a refusal, where the page shows its own text instead of the service's. */
  constructor(act: (...args: A) => Promise<void>, words: (refused: Refused) => string = ({ message }) => message) {
    this.#act = act;
    this.#words = words;
  }

  /** Returns the messages at a field, by its path in the request. */
  at(path: string): string[] {
    return this.refused?.errors[path] ?? [];
  }

  /** Runs the action; resolves to whether it succeeded. Form values stay unchanged. */
  run = async (...args: A): Promise<boolean> => {
    if (this.busy || this.wait) return false;
    this.busy = true;
    this.refused = undefined;
    try {
      await this.#act(...args);
      return true;
    } catch (fault) {
      if (!(fault instanceof Refused)) throw fault;
      this.refused = fault;
      notes.warn(this.#words(fault));
      if (fault.status === 429) void this.#count(fault.retryAfter ?? 1);
      return false;
    } finally {
      this.busy = false;
    }
  };

  forget(): void {
    this.refused = undefined;
  }

  async #count(seconds: number): Promise<void> {
    for (this.wait = seconds; this.wait > 0; this.wait -= 1) await pause(1000);
  }
}

/** Returns an idempotency key, which makes a retry after a lost response safe; created when a form opens. */
export function idempotencyKey(): string {
  return `ui-${crypto.randomUUID()}`;
}
