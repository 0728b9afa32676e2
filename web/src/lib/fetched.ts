/** Code of the app that is fetched when it is wanted. */

import { online } from "../api/online.svelte";
import { pause } from "./clock.svelte";

const TRIES = 5;
const BETWEEN = 2500;

/**
 * Fetches a part of the app, and again for ten seconds: while Steward is updated, one of its processes may not have it
 * yet. A part that is still missing then has gone with the version this page was loaded with.
 */
export async function fetched<T>(load: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await load();
    } catch (fault) {
      const reachable = navigator.onLine && !online.away;
      if (tries === TRIES && reachable) online.updated = true;
      if (tries === TRIES || !reachable) throw fault;
      await pause(BETWEEN);
    }
  }
}
