/** Loads all pages of the runs in a range of days, whatever started them, up to a limit. */

import { Entry } from "../../api/cache.svelte";
import { call } from "../../api/client";
import { online } from "../../api/online.svelte";
import type { OccurrenceState, RunStatus } from "../../api/schema";
import { now } from "../../lib/clock.svelte";
import { instantOf } from "../../lib/time";
import { type CalendarRow, rowOf } from "./entries";

/** The maximum number of scheduled runs that are loaded. */
export const MAX_ROWS = 5000;
/** The maximum number of runs loaded for each other trigger, by hand and by events; the newest first. */
const MAX_RUNS = 2000;
const PAGE = 500;
const RUNS_PAGE = 200;
const POLL_MS = 60_000;

export interface RangeQuery {
  from: string;
  to: string;
  automation_id?: string;
  integration_id?: number;
  state?: OccurrenceState[];
  /** Only runs in these states. */
  statuses?: RunStatus[];
}

export interface CalendarRows {
  rows: readonly CalendarRow[];
  /** Whether there are more rows than were loaded. */
  tooMany: boolean;
}

/** Loads pages until the last one or until `limit` rows. */
async function readPages(limit: number, read: (cursor: string | undefined) => Promise<{ rows: CalendarRow[]; next: string | null }>): Promise<CalendarRows> {
  const rows: CalendarRow[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    rows.push(...page.rows);
    cursor = page.next ?? undefined;
  } while (cursor && rows.length < limit);
  return { rows, tooMany: cursor !== undefined };
}

async function readRows({ statuses, ...query }: RangeQuery, poll: boolean, signal: AbortSignal): Promise<CalendarRows> {
  const callOptions = { poll, signal };
  const slots = readPages(MAX_ROWS, async (cursor) => {
    const { occurrences, next_cursor } = await call("get", "/v1/automations/occurrences", { query: { ...query, limit: PAGE, cursor } }, callOptions);
    return { rows: statuses ? occurrences.filter(({ run_status }) => statuses.includes(run_status as RunStatus)) : occurrences, next: next_cursor };
  });
  // Occurrences include the runs that a schedule started; runs by hand or by events exist only in the past.
  const { from, to, automation_id, state } = query;
  const hasPastRuns = instantOf(from) < now() && (!state || state.includes("queued"));
  const unscheduledRuns = (hasPastRuns ? (["hand", "event"] as const) : []).map((started_by) =>
    readPages(MAX_RUNS, async (cursor) => {
      const { runs, next_cursor } = await call("get", "/v1/automations/runs", { query: { from, to, automation_id, started_by, status: statuses, limit: RUNS_PAGE, cursor } }, callOptions);
      return { rows: runs.map(rowOf), next: next_cursor };
    }),
  );
  const results = await Promise.all([slots, ...unscheduledRuns]);
  const rows = results.flatMap((result) => result.rows).sort((a, b) => (a.run_at < b.run_at ? -1 : 1));
  return { rows, tooMany: results.some(({ tooMany }) => tooMany) };
}

/** Keeps the rows fresh while the calling component is mounted; old rows stay until the new ones have loaded. */
export function watchRows(range: () => RangeQuery | null) {
  const queryKey = $derived(JSON.stringify(range()));
  let entry = $state.raw<Entry<CalendarRows>>();
  let shownEntry = $state.raw<Entry<CalendarRows>>();

  $effect(() => {
    const query = JSON.parse(queryKey) as RangeQuery | null;
    if (!query) {
      entry = shownEntry = undefined;
      return;
    }
    const created = new Entry<CalendarRows>((poll, signal) => readRows(query, poll, signal));
    entry = created;
    void created.refresh().then(() => {
      if (entry === created) shownEntry = created;
    });
    const poll = () => {
      if (!document.hidden && !online.isUnreachable) void created.refresh(true);
    };
    const timer = setInterval(poll, POLL_MS);
    document.addEventListener("visibilitychange", poll);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", poll);
      created.abort();
    };
  });
  $effect(() => {
    if (!online.isUnreachable && entry?.refused?.isUnreachable) void entry.refresh(true);
  });

  return {
    get current(): Entry<CalendarRows> | undefined {
      return shownEntry ?? entry;
    },
    get asking(): boolean {
      return entry !== shownEntry;
    },
    async refresh(): Promise<void> {
      await entry?.refresh();
    },
  };
}
