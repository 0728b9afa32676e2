/** The runs of the days that are shown, all pages of them, up to as many as a month can draw. */

import { Entry } from "../../api/cache.svelte";
import { call } from "../../api/client";
import { online } from "../../api/online.svelte";
import type { OccurrenceRecord, OccurrenceState } from "../../api/schema";

/** At so many rows the month stops. */
export const MOST_ROWS = 5000;
const PAGE = 500;
const POLL_MS = 60_000;

export interface Asked {
  from: string;
  to: string;
  automation_id?: string;
  integration_id?: number;
  state?: OccurrenceState[];
}

export interface Found {
  rows: readonly OccurrenceRecord[];
  /** There are more than were read. */
  tooMany: boolean;
}

async function all(query: Asked, poll: boolean, signal: AbortSignal): Promise<Found> {
  const rows: OccurrenceRecord[] = [];
  let cursor: string | undefined;
  do {
    const page = await call("get", "/v1/automations/occurrences", { query: { ...query, limit: PAGE, cursor } }, { poll, signal });
    rows.push(...page.occurrences);
    cursor = page.next_cursor ?? undefined;
  } while (cursor && rows.length < MOST_ROWS);
  return { rows, tooMany: cursor !== undefined };
}

/** Keeps the rows fresh while the component that calls this is there; what was there stays until the new ones come. */
export function coming(asked: () => Asked | null) {
  const wanted = $derived(JSON.stringify(asked()));
  let entry = $state.raw<Entry<Found>>();
  let shown = $state.raw<Entry<Found>>();

  $effect(() => {
    const query = JSON.parse(wanted) as Asked | null;
    if (!query) {
      entry = shown = undefined;
      return;
    }
    const made = new Entry<Found>((poll, signal) => all(query, poll, signal));
    entry = made;
    void made.refresh().then(() => {
      if (entry === made) shown = made;
    });
    const again = () => {
      if (!document.hidden && !online.away) void made.refresh(true);
    };
    const timer = setInterval(again, POLL_MS);
    document.addEventListener("visibilitychange", again);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", again);
      made.abort();
    };
  });
  $effect(() => {
    if (!online.away && entry?.refused?.away) void entry.refresh(true);
  });

  return {
    get current(): Entry<Found> | undefined {
      return shown ?? entry;
    },
    get asking(): boolean {
      return entry !== shown;
    },
    async refresh(): Promise<void> {
      entry?.abort();
      await entry?.refresh();
    },
  };
}
