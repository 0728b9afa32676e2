/** The present, and what is shown relative to it: the one place of the app that reads the time. */

export function now(): number {
  return Date.now();
}

class Minute {
  at = $state(now());

  constructor() {
    setInterval(() => (this.at = now()), 15_000);
  }
}

/** A time that moves on by itself four times a minute; read in a template it keeps "in 3 h" true. */
export const minute = new Minute();

/** Resolves after so many milliseconds, or at once when aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Whether so many milliseconds have passed since a component was made; call it while it is made. */
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
