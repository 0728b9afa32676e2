/** A list that comes in pages: the first is kept fresh, the following come when they are asked for.
 *  A page may be empty and yet not the last: then the next one is asked for at once. */

import { type Args, call, type Data, type PathOf, Refused } from "./client";
import { watch, type WatchOptions } from "./cache.svelte";

type Path = PathOf<"get">;

/** Call it while a component is made. `rows` takes the rows out of a response, `key` tells one row from another. */
export function paged<P extends Path, R>(
  request: () => [P, Args<"get", P>] | null,
  rows: (data: Data<"get", P>) => readonly R[],
  key: (row: R) => string | number,
  options: WatchOptions = {},
) {
  const first = watch(request, { keepPrevious: true, ...options });
  const cursorOf = (data: Data<"get", P> | undefined) => (data as { next_cursor?: string | null } | undefined)?.next_cursor ?? null;
  let later = $state.raw<readonly R[]>([]);
  let cursor = $state.raw<string | null>();
  let busy = $state(false);
  let refused = $state.raw<Refused>();
  let running: AbortController | undefined;

  const queryKey = $derived(JSON.stringify(request()));
  $effect(() => {
    void queryKey;
    running?.abort();
    later = [];
    cursor = undefined;
    refused = undefined;
    busy = false;
    return () => running?.abort();
  });

  const next = $derived(cursor === undefined ? cursorOf(first.current?.data) : cursor);
  const all = $derived.by(() => {
    const firstRows = first.current?.data ? rows(first.current.data) : [];
    const firstKeys = new Set(firstRows.map(key));
    // A row that was made meanwhile moves the others down: none is shown twice.
    return [...firstRows, ...later.filter((row) => !firstKeys.has(key(row)))];
  });

  const searching = $derived(Boolean(next) && !all.length && !refused && !first.isPrevious);
  $effect(() => {
    if (searching && !busy) void more();
  });

  async function more(): Promise<void> {
    const target = request();
    if (busy || !next || !target) return;
    const asking = (running = new AbortController());
    busy = true;
    refused = undefined;
    try {
      const [path, args] = target;
      for (let added = 0; !added && next; ) {
        const query = { ...(args.query as object), cursor: next };
        const data = await call("get", path, { ...args, query } as Args<"get", P>, { signal: asking.signal });
        if (asking.signal.aborted) return;
        added = rows(data).length;
        later = [...later, ...rows(data)];
        cursor = cursorOf(data);
      }
    } catch (fault) {
      if (asking.signal.aborted) return;
      if (!(fault instanceof Refused)) throw fault;
      refused = fault;
    } finally {
      if (running === asking) busy = false;
    }
  }

  return {
    /** The first page; none while no page has had a row yet. */
    get first() {
      return searching ? undefined : first.current;
    },
    get rows() {
      return all;
    },
    get hasMore() {
      return next !== null && next !== undefined;
    },
    get busy() {
      return busy;
    },
    get refused() {
      return refused;
    },
    more,
  };
}
