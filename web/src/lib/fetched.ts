/** Loads parts of the app on demand. */

import { online } from "../api/online.svelte";
import { pause } from "./clock.svelte";

const TRIES = 5;
const BETWEEN = 2500;

/**
 * Loads a part of the app, retrying for ten seconds: during an update of Steward, one of its processes may not have it
 * yet. A part that is still missing then belonged to the version with which this page was loaded.
 */
export async function fetched<T>(load: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await load();
    } catch (fault) {
      const reachable = navigator.onLine && !online.isUnreachable;
      if (tries === TRIES && reachable) online.isOutdated = true;
      if (tries === TRIES || !reachable) throw fault;
      await pause(BETWEEN);
    }
  }
}
