/** One action of a person: sent once at a time, its refusal kept for the form, the button off while told to wait. */

import { Refused } from "../api/client";
import { pause } from "./clock.svelte";
import { notes } from "./notes.svelte";

export class Action<A extends unknown[] = []> {
  busy = $state(false);
  refused = $state.raw<Refused>();
  /** Seconds the service asks to wait before the same again. */
  wait = $state(0);
  #act: (...given: A) => Promise<void>;
  #words: (refused: Refused) => string;

  /** `words`: what a screen reader hears of a refusal, where the page shows better words than the service's. */
  constructor(act: (...given: A) => Promise<void>, words: (refused: Refused) => string = ({ message }) => message) {
    this.#act = act;
    this.#words = words;
  }

  /** The messages at a field, by its path in the request. */
  at(path: string): string[] {
    return this.refused?.errors[path] ?? [];
  }

  /** Does it; true when it was done. What was typed stays where it is. */
  run = async (...given: A): Promise<boolean> => {
    if (this.busy || this.wait) return false;
    this.busy = true;
    this.refused = undefined;
    try {
      await this.#act(...given);
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

/** A key that makes a repeat after a lost answer safe; made when a form opens. */
export function idempotencyKey(): string {
  return `ui-${crypto.randomUUID()}`;
}
