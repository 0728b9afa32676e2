/** Whether the service can be reached. During an outage it is tried again after 4, 8, 16, then every 30 seconds. */

import { now, pause } from "../lib/clock.svelte";

const WAITS = [4, 8, 16, 30];

class Online {
  /** When the outage began; null if there is none. */
  since = $state<number | null>(null);
  /** Seconds until the next attempt. */
  wait = $state(0);

  /** Seconds until rate-limited requests are repeated; 0 if none is waiting. */
  slow = $state(0);

  /** Steward was updated after this page was loaded, and no longer serves a part of the app that is needed. */
  updated = $state(false);

  #slowed = 0;
  #tries = 0;
  #timer: ReturnType<typeof setInterval> | undefined;
  #again: () => void = () => {};

  get away(): boolean {
    return this.since !== null;
  }

  /** Sets the function that tries the service again. */
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

  /** Waits for `seconds` or until aborted, and shows the wait in the top bar. */
  async slowDown(seconds: number, signal: AbortSignal): Promise<void> {
    this.#slowed += 1;
    this.slow = Math.max(this.slow, seconds);
    await pause(seconds * 1000, signal);
    if (!(this.#slowed -= 1)) this.slow = 0;
  }

  /** Tries now instead of waiting. */
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
