/** Whether the service is there. While it is not, it is asked again after 4, 8, 16, then 30 seconds. */

import { now, pause } from "../lib/clock.svelte";

const WAITS = [4, 8, 16, 30];

class Online {
  /** When it was last there, while it is away; else null. */
  since = $state<number | null>(null);
  /** Seconds until it is asked again. */
  wait = $state(0);

  /** Seconds after which calls that came too fast are made again; 0 while none waits. */
  slow = $state(0);

  /** Steward was updated since this page was opened: a part of it that is wanted is no longer served. */
  updated = $state(false);

  #slowed = 0;
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

  /** Waits for `seconds`, or until aborted, and shows that it waits. */
  async slowDown(seconds: number, signal: AbortSignal): Promise<void> {
    this.#slowed += 1;
    this.slow = Math.max(this.slow, seconds);
    await pause(seconds * 1000, signal);
    if (!(this.#slowed -= 1)) this.slow = 0;
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
