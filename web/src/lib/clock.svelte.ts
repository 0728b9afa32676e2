/** The current time: the only module that reads the clock. */

export function now(): number {
  return Date.now();
}

class Minute {
  at = $state(now());

  constructor() {
    setInterval(() => (this.at = now()), 15_000);
  }
}

/** The current time, updated four times a minute; a template that reads it keeps "in 3 h" correct. */
export const minute = new Minute();

/** Resolves after `ms` milliseconds, or at once when aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Whether `ms` milliseconds have passed since a component was created; call it during creation. */
export function begunAfter(ms: number) {
  let begun = $state(false);
  $effect(() => {
    const stop = new AbortController();
    void pause(ms, stop.signal).then(() => (begun = !stop.signal.aborted));
    return () => stop.abort();
  });
  return {
    get begun() {
      return begun;
    },
  };
}
