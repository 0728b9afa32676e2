/** Whether the service can be reached. During an outage it is tried again after 4, 8, 16, then every 30 seconds. */

import { now, pause } from "../lib/clock.svelte";

const RETRY_SECONDS = [4, 8, 16, 30];

class Online {
  /** When the outage began; null if there is none. */
  unreachableSince = $state<number | null>(null);
  /** Seconds until the next attempt. */
  retrySeconds = $state(0);

  /** Seconds until rate-limited requests are repeated; 0 if none is waiting. */
  rateLimitSeconds = $state(0);

  /** Steward was updated after this page was loaded, and no longer serves a part of the app that is needed. */
  isOutdated = $state(false);

  #rateLimited = 0;
  #attempts = 0;
  #timer: ReturnType<typeof setInterval> | undefined;
  #retry: () => void = () => {};

  get isUnreachable(): boolean {
    return this.unreachableSince !== null;
  }

  /** Sets the function that tries the service again. */
  onRetry(retry: () => void): void {
    this.#retry = retry;
  }

  markUnreachable(): void {
    if (this.unreachableSince === null) this.unreachableSince = now();
    if (this.#timer === undefined) this.#scheduleRetry();
  }

  markReachable(): void {
    this.unreachableSince = null;
    this.#attempts = 0;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Waits for `seconds` or until aborted, and shows the wait in the top bar. */
  async waitForRateLimit(seconds: number, signal: AbortSignal): Promise<void> {
    this.#rateLimited += 1;
    this.rateLimitSeconds = Math.max(this.rateLimitSeconds, seconds);
    await pause(seconds * 1000, signal);
    if (!(this.#rateLimited -= 1)) this.rateLimitSeconds = 0;
  }

  /** Tries now instead of waiting. */
  retryNow(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#retry();
  }

  #scheduleRetry(): void {
    this.retrySeconds = RETRY_SECONDS[Math.min(this.#attempts, RETRY_SECONDS.length - 1)]!;
    this.#attempts += 1;
    this.#timer = setInterval(() => {
      this.retrySeconds -= 1;
      if (this.retrySeconds <= 0) this.retryNow();
    }, 1000);
  }
}

export const online = new Online();
