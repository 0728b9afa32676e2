/**
 * The cache of responses, shared by all screens: one entry for each operation with its arguments.
 *
 * A screen calls `const runs = watch(() => ["/v1/automations/runs", { query }], { every: 30 })` and reads
 * `runs.data`, `runs.refused` and `runs.at`. Form values are never stored here.
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
  at = $state(0);
  loading = $state(false);
  watchers = 0;
  #ask: (poll: boolean, signal: AbortSignal) => Promise<D>;
  #running: AbortController | undefined;
  #asked: Promise<void> | undefined;

  constructor(ask: (poll: boolean, signal: AbortSignal) => Promise<D>) {
    this.#ask = ask;
  }

  /** Fetches again. A poll joins a pending request, any other call aborts it. `data` outlives a refusal. */
  refresh(poll = false): Promise<void> {
    if (this.#asked && poll) return this.#asked;
    this.abort();
    return (this.#asked = this.#load(poll));
  }

  /** Stores a record from the response to an action; aborts a pending request, whose response would be older. */
  put(data: D): void {
    this.abort();
    this.data = data;
    this.at = now();
    this.refused = undefined;
  }

  /** Discards the cached answer; components that show it stay empty until it is fetched again. */
  clear(): void {
    this.abort();
    this.data = undefined;
    this.refused = undefined;
    this.at = 0;
  }

  abort(): void {
    this.#running?.abort();
    this.#asked = undefined;
    this.loading = false;
  }

  async #load(poll: boolean): Promise<void> {
    const running = new AbortController();
    this.#running = running;
    this.loading = true;
    try {
      const data = await this.#ask(poll, running.signal);
      if (running.signal.aborted) return;
      this.data = data;
      this.at = now();
      this.refused = undefined;
    } catch (fault) {
      if (running.signal.aborted) return;
      if (!(fault instanceof Refused)) throw fault;
      this.refused = fault;
    } finally {
      if (this.#running === running) {
        this.loading = false;
        this.#asked = undefined;
      }
    }
  }
}

const entries = new Map<string, Entry<unknown>>();
const MAX_ENTRIES = 300;
/** Entries younger than this are not fetched again when a screen opens. */
const FRESH_MS = 1000;

/** Returns the entry of an operation; if it is new, sends the request. */
export function read<P extends Path>(path: P, args?: Args<"get", P>): Entry<Data<"get", P>> {
  const key = `${path} ${JSON.stringify([args?.params ?? {}, args?.query ?? {}])}`;
  let entry = entries.get(key) as Entry<Data<"get", P>> | undefined;
  if (entry === undefined) {
    entry = new Entry((poll, signal) => call("get", path, args, { poll, signal }));
    if (entries.size >= MAX_ENTRIES) forgetUnwatched();
    entries.set(key, entry as Entry<unknown>);
    const created = entry;
    // Deferred, because a template may call this while rendering, when no state may change.
    queueMicrotask(() => void created.refresh());
  }
  return entry;
}

/** Fetches what a screen needs while its code loads; `watch` then uses the cached response. */
export function prefetch<P extends Path>(path: P, args?: Args<"get", P>): void {
  read(path, args);
}

/** After an action: fetches the entries of these operations that are shown again, and discards the others. */
export function changed(...starts: Path[]): void {
  for (const [key, entry] of entries) {
    if (!starts.some((start) => key.startsWith(`${start} `))) continue;
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
export function forgetAll(): void {
  for (const [key, entry] of entries) {
    entry.clear();
    if (!entry.watchers) entries.delete(key);
  }
}

function forgetUnwatched(): void {
  for (const [key, entry] of entries) if (!entry.watchers && !entry.loading) entries.delete(key);
}

function leave(entry: Entry<unknown>): void {
  entry.watchers -= 1;
  if (entry.watchers || !entry.loading || entry.data !== undefined) return;
  entry.abort();
  for (const [key, kept] of entries) if (kept === entry) entries.delete(key);
}

export interface WatchOptions {
  /** Seconds between polls. No polls without it, in a hidden tab, or while the service is unreachable. */
  every?: number | (() => number | undefined);
  /** When the arguments change, the old entry stays current until the new response arrives. */
  keep?: boolean;
}

/** Keeps an entry fresh while the calling component is mounted; a `request` that returns null fetches nothing. */
export function watch<P extends Path>(
  request: () => [P, Args<"get", P>?] | null,
  options: WatchOptions = {},
): { readonly current: Entry<Data<"get", P>> | undefined; readonly isKept: boolean } {
  const requestKey = $derived.by(() => {
    const target = request();
    return target ? JSON.stringify(target) : null;
  });
  const entry = $derived.by(() => {
    if (requestKey === null) return undefined;
    const [path, args] = JSON.parse(requestKey) as [P, Args<"get", P>?];
    return read(path, args);
  });
  $effect(() => {
    const watched = entry;
    if (!watched) return;
    watched.watchers += 1;
    untrack(() => {
      if (watched.refused || (watched.at && now() - watched.at > FRESH_MS)) void watched.refresh(true);
    });
    return () => untrack(() => leave(watched as Entry<unknown>));
  });
  $effect(() => {
    const watched = entry;
    const seconds = typeof options.every === "function" ? options.every() : options.every;
    if (!watched || !seconds) return;
    const poll = () => {
      if (!document.hidden && !online.away) void watched.refresh(true);
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
      return (options.keep && entry && last) || entry;
    },
    /** Whether `current` is the response to earlier arguments. */
    get isKept() {
      return Boolean(options.keep && last && entry && entry.data === undefined && !entry.refused);
    },
  };
}
