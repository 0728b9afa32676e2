/** The state of a change table: filter, order, open change and page; stored in the address. */

import type { ChangeRecord } from "../api/schema";
import { router } from "../router.svelte";
import { type Filter, filtered, NO_FILTER, type Only, ordered, type SortBy } from "./changes";
import { pause } from "./clock.svelte";

const LATER_MS = 250;
const NAMES = ["action", "field", "outcome", "only", "over", "between", "search"] as const;

export class ChangeView {
  filter = $state.raw<Filter>(NO_FILTER);
  sortBy = $state<SortBy>("");
  descending = $state(false);
  /** The change shown in full beside the table. */
  open = $state<string | null>(null);
  /** Whether the table is paged, 200 changes a page, instead of scrolling. */
  plain = $state(false);
  page = $state(1);
  /** The ids of changes that the last undo left, because somebody had changed the objects since. */
  changedSince = $state.raw<ReadonlySet<string>>(new Set());
  #writing: AbortController | undefined;

  constructor(query: URLSearchParams) {
    const values = Object.fromEntries(NAMES.map((name) => [name, query.get(name) ?? ""]));
    this.filter = { ...NO_FILTER, ...values, only: (values.only ?? "") as Only };
    this.sortBy = (query.get("sort") ?? "") as SortBy;
    this.descending = query.get("down") === "1";
    this.open = query.get("change");
    this.plain = query.get("list") === "pages";
    this.page = Math.max(1, Number(query.get("page")) || 1);
  }

  set(change: Partial<Filter>): void {
    this.filter = { ...this.filter, ...change };
    this.page = 1;
    this.writeAddress();
  }

  clear(): void {
    this.set(NO_FILTER);
  }

  sort(by: SortBy): void {
    // A third click restores the original order, the one that is hashed.
    if (this.sortBy !== by) [this.sortBy, this.descending] = [by, false];
    else if (!this.descending) this.descending = true;
    else [this.sortBy, this.descending] = ["", false];
    this.writeAddress();
  }

  show(change: string | null): void {
    this.open = change;
    this.writeAddress();
  }

  list(plain: boolean, page = 1): void {
    this.plain = plain;
    this.page = page;
    this.writeAddress();
  }

  /** Returns the filtered changes in the chosen order. */
  apply(changes: readonly ChangeRecord[], leftOut: ReadonlySet<string>): readonly ChangeRecord[] {
    return ordered(filtered(changes, this.filter, leftOut, this.changedSince), this.sortBy, this.descending);
  }

  /** Writes the state into the address once typing pauses. */
  async writeAddress(): Promise<void> {
    this.#writing?.abort();
    const writing = (this.#writing = new AbortController());
    const { pathname } = location;
    await pause(LATER_MS, writing.signal);
    if (writing.signal.aborted || location.pathname !== pathname) return;
    const query = new URLSearchParams(location.search);
    const values = {
      ...this.filter,
      sort: this.sortBy,
      down: this.descending ? "1" : "",
      change: this.open ?? "",
      list: this.plain ? "pages" : "",
      page: this.plain && this.page > 1 ? String(this.page) : "",
    };
    for (const [name, value] of Object.entries(values)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    const search = query.toString();
    await router.go(search ? `${pathname}?${search}` : pathname, { replace: true, keepFocus: true });
  }
}
