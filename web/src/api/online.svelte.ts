/** Whether the service is there. While it is not, it is asked again after 4, 8, 16, then 30 seconds. */

import { now } from "../lib/clock.svelte";

const WAITS = [4, 8, 16, 30];

class Online {
  /** When it was last there, while it is away; else null. */
  since = $state<number | null>(null);
  /** Seconds until it is asked again. */
  wait = $state(0);

  #tries = 0;
  #timer: ReturnType<typeof setInterval> | undefined;
  #again: () => void = () => {};

  get away(): boolean {
    return this.since !== null;
  }

  /** What to do when it is time to ask again. */
  onAgain(again: () => void): void {
    this.#again = again;
  }

  lost(): void {
    if (this.since === null) this.since = now();
    if (this.#timer === undefined) this.#wait();
  }

  found(): void {
    this.since = null;
    this.#tries = 0;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Asks now instead of waiting. */
  ask(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#again();
  }

  #wait(): void {
    this.wait = WAITS[Math.min(this.#tries, WAITS.length - 1)]!;
    this.#tries += 1;
    this.#timer = setInterval(() => {
      this.wait -= 1;
      if (this.wait <= 0) this.ask();
    }, 1000);
  }
}

export const online = new Online();
