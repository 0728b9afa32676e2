/**
 * The cache of responses, shared by all screens: one entry for each operation with its arguments.
 *
 * A screen calls `const runs = watch(() => ["/v1/automations/runs", { query }], { every: 30 })` and reads
 * `runs.data`, `runs.refused` and `runs.receivedAt`. Form values are never stored here.
 */

import { untrack } from "svelte";
import { now } from "../lib/clock.svelte";
import { type Args, call, type Data, type PathOf, Refused } from "./client";
import { online } from "./online.svelte";

type Path = PathOf<"get">;

/** One cached response. It stays available while the next request is pending or after it is refused. */
export class Entry<D> {
  data = $state.raw<D>();
  refused = $state.raw<Refused>();
  /** When `data` was received. */
  receivedAt = $state(0);
  loading = $state(false);
  watchers = 0;
  #request: (poll: boolean, signal: AbortSignal) => Promise<D>;
  #controller: AbortController | undefined;
  #pending: Promise<void> | undefined;

  constructor(request: (poll: boolean, signal: AbortSignal) => Promise<D>) {
    this.#request = request;
  }

  /** Fetches again. A poll joins a pending request, any other call aborts it. `data` outlives a refusal. */
  refresh(poll = false): Promise<void> {
    if (this.#pending && poll) return this.#pending;
    this.abort();
    return (this.#pending = this.#load(poll));
  }

  /** Stores a record from the response to an action; aborts a pending request, whose response would be older. */
  put(data: D): void {
    this.abort();
    this.data = data;
    this.receivedAt = now();
    this.refused = undefined;
  }

  /** Discards the cached response; components that show it stay empty until it is fetched again. */
  clear(): void {
    this.abort();
    this.data = undefined;
    this.refused = undefined;
    this.receivedAt = 0;
  }

  abort(): void {
    this.#controller?.abort();
    this.#pending = undefined;
    this.loading = false;
  }

  async #load(poll: boolean): Promise<void> {
    const controller = new AbortController();
    this.#controller = controller;
    this.loading = true;
    try {
      const data = await this.#request(poll, controller.signal);
      if (controller.signal.aborted) return;
      this.data = data;
      this.receivedAt = now();
      this.refused = undefined;
    } catch (fault) {
      if (controller.signal.aborted) return;
      if (!(fault instanceof Refused)) throw fault;
      this.refused = fault;
    } finally {
      if (this.#controller === controller) {
        this.loading = false;
        this.#pending = undefined;
      }
    }
  }
}

const entries = new Map<string, Entry<unknown>>();
const MAX_ENTRIES = 300;
/** Entries younger than this are not fetched again when a screen opens. */
const FRESH_MS = 1000;

/** Returns the entry of an operation; if it is new, sends the request. */
export function cachedEntry<P extends Path>(path: P, args?: Args<"get", P>): Entry<Data<"get", P>> {
  const key = `${path} ${JSON.stringify([args?.params ?? {}, args?.query ?? {}])}`;
  let entry = entries.get(key) as Entry<Data<"get", P>> | undefined;
  if (entry === undefined) {
    entry = new Entry((poll, signal) => call("get", path, args, { poll, signal }));
    if (entries.size >= MAX_ENTRIES) deleteUnwatched();
    entries.set(key, entry as Entry<unknown>);
    const created = entry;
    // Deferred, because a template may call this while rendering, when no state may change.
    queueMicrotask(() => void created.refresh());
  }
  return entry;
}

/** Fetches what a screen needs while its code loads; `watch` then uses the cached response. */
export function prefetch<P extends Path>(path: P, args?: Args<"get", P>): void {
  cachedEntry(path, args);
}

/** After an action: fetches the entries of these operations that are shown again, and discards the others. */
export function invalidate(...paths: Path[]): void {
  for (const [key, entry] of entries) {
    if (!paths.some((path) => key.startsWith(`${path} `))) continue;
    // A pending response may be older than the action.
    entry.abort();
    if (entry.watchers) void entry.refresh(true);
    else entries.delete(key);
  }
}

/** Fetches every shown entry again; `poll` if no person asked for it, which does not keep the session alive. */
export function refreshShown(poll = false): void {
  for (const entry of entries.values()) if (entry.watchers) void entry.refresh(poll);
}

/** Clears the cache when the person or the organization changes. */
export function clearCache(): void {
  for (const [key, entry] of entries) {
    entry.clear();
    if (!entry.watchers) entries.delete(key);
  }
}

function deleteUnwatched(): void {
  for (const [key, entry] of entries) if (!entry.watchers && !entry.loading) entries.delete(key);
}

function releaseEntry(entry: Entry<unknown>): void {
  entry.watchers -= 1;
  if (entry.watchers || !entry.loading || entry.data !== undefined) return;
  entry.abort();
  for (const [key, cached] of entries) if (cached === entry) entries.delete(key);
}

export interface WatchOptions {
  /** Seconds between polls. No polls without it, in a hidden tab, or while the service is unreachable. */
  every?: number | (() => number | undefined);
  /** When the arguments change, the old entry stays current until the new response arrives. */
  keepPrevious?: boolean;
}

/** Keeps an entry fresh while the calling component is mounted; a `request` that returns null fetches nothing. */
export function watch<P extends Path>(
  request: () => [P, Args<"get", P>?] | null,
  options: WatchOptions = {},
): { readonly current: Entry<Data<"get", P>> | undefined; readonly isPrevious: boolean } {
  const requestKey = $derived.by(() => {
    const target = request();
    return target ? JSON.stringify(target) : null;
  });
  const entry = $derived.by(() => {
    if (requestKey === null) return undefined;
    const [path, args] = JSON.parse(requestKey) as [P, Args<"get", P>?];
    return cachedEntry(path, args);
  });
  $effect(() => {
    const watched = entry;
    if (!watched) return;
    watched.watchers += 1;
    untrack(() => {
      if (watched.refused || (watched.receivedAt && now() - watched.receivedAt > FRESH_MS)) void watched.refresh(true);
    });
    return () => untrack(() => releaseEntry(watched as Entry<unknown>));
  });
  $effect(() => {
    const watched = entry;
    const seconds = typeof options.every === "function" ? options.every() : options.every;
    if (!watched || !seconds) return;
    const poll = () => {
      if (!document.hidden && !online.isUnreachable) void watched.refresh(true);
    };
    const timer = setInterval(poll, seconds * 1000);
    document.addEventListener("visibilitychange", poll);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", poll);
    };
  });
  let last: Entry<Data<"get", P>> | undefined;
  return {
    get current() {
      if (entry?.data !== undefined || entry?.refused) last = entry;
      return (options.keepPrevious && entry && last) || entry;
    },
    /** Whether `current` is the response to earlier arguments. */
    get isPrevious() {
      return Boolean(options.keepPrevious && last && entry && entry.data === undefined && !entry.refused);
    },
  };
}
