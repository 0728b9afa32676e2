/** The shortcuts of the current screen: it registers them, `?` lists them, and fields and a preference disable them. */

import { address, type PageName, router } from "../router.svelte";
import { now } from "./clock.svelte";
import { isField, isSearch, type Key, nameOf, Sequence, step } from "./keys";
import { preferences } from "./preferences.svelte";

export interface Shortcut extends Key {
  run: (event: KeyboardEvent) => void;
  /** Whether it applies now; otherwise the browser handles the key. */
  when?: () => boolean;
}

const PAGE_SHORTCUTS: readonly [string, PageName, string][] = [
  ["o", "overview", "Overview"],
  ["a", "automations", "Automations"],
  ["c", "calendar", "Calendar"],
  ["p", "approvals", "Approvals"],
  ["r", "runs", "Runs"],
  ["i", "imports", "Imports"],
  ["n", "connections", "Connections"],
];

/** Moves the focus to the link or button of the next or previous row of a list. */
function moveRow(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main [data-row]")].filter((row) => row.offsetParent);
  const index = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[index < 0 && by < 0 ? rows.length - 1 : step(index, by, rows.length)];
  (next?.querySelector<HTMLElement>("a, button, input") ?? next)?.focus();
}

class Shortcuts {
  /** Whether the list of shortcuts is open. */
  help = $state(false);
  /** Whether the search is open. */
  searching = $state(false);
  /** The text typed after the search was opened and before its field was rendered. */
  #ahead = "";
  #isSearchOffered = false;
  #screen = $state.raw<Shortcut[]>([]);
  #typed = new Sequence();

  #everywhere: Shortcut[] = [
    { keys: "?", words: "Show the keys", run: () => (this.help = true) },
    { keys: "Ctrl K", words: "Search everything", run: () => this.search() },
    { keys: "j", words: "Next row", run: () => moveRow(1) },
    { keys: "k", words: "Row before", run: () => moveRow(-1) },
  ];

  /** Opens the search; keys typed until its field is rendered go into the field, not to the page. */
  search(): void {
    if (this.searching || !this.#isSearchOffered) return;
    this.#ahead = "";
    this.searching = true;
  }

  /** Closes the search, or cancels opening it. */
  endSearch(): void {
    this.#ahead = "";
    this.searching = false;
  }

  /** Sets whether the search is available: only inside an organization with automations switched on. */
  offerSearch(isOffered: boolean): void {
    this.#isSearchOffered = isOffered;
    if (!isOffered) this.endSearch();
  }

  /** Returns the text typed before the field was rendered, and clears it. */
  takeAhead(): string {
    const ahead = this.#ahead;
    this.#ahead = "";
    return ahead;
  }

  get all(): Shortcut[] {
    const navigationKeys = PAGE_SHORTCUTS.map(
      ([key, page, words]): Shortcut => ({ keys: `g ${key}`, words, run: () => void router.go(address(page)) }),
    );
    return [...this.#screen, ...this.#everywhere, ...navigationKeys];
  }

  /** Registers a screen's shortcuts while its component is mounted; call it while the component is created. */
  use(keysOf: () => Shortcut[]): void {
    $effect(() => {
      const keys = keysOf();
      this.#screen = keys;
      return () => {
        if (this.#screen === keys) this.#screen = [];
      };
    });
  }

  /** Collects a key for the search field, which is not rendered yet. */
  #keepAhead(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event;
    if (key === "Escape") this.endSearch();
    else if (key === "Backspace") this.#ahead = this.#ahead.slice(0, -1);
    else if (key.length === 1) this.#ahead += key;
    else if (key !== "Enter") return;
    event.preventDefault();
  }

  /** Handles every key event of the page. */
  heard = (event: KeyboardEvent): void => {
    const isCovered = Boolean(document.querySelector("dialog[open]"));
    if (isSearch(event) && !isCovered && this.#isSearchOffered) {
      event.preventDefault();
      this.search();
    } else if (this.searching && !isCovered) {
      this.#keepAhead(event);
      return;
    }
    const key = nameOf(event);
    if (key === null || !preferences.choices.keys || event.defaultPrevented) return;
    if (isField(event.target) || document.querySelector("dialog[open], [popover]:popover-open")) return;
    const firsts = new Set(this.all.filter(({ keys }) => keys.includes(" ")).map(({ keys }) => keys.split(" ")[0]!));
    const typed = this.#typed.next(key, now(), firsts);
    const shortcut = this.all.find(({ keys, when }) => keys === typed && when?.() !== false);
    if (!shortcut) return;
    event.preventDefault();
    shortcut.run(event);
  };
}

export const shortcuts = new Shortcuts();
