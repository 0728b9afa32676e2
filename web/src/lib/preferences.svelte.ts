/** The preferences of this browser: time zone, colour scheme, density, shortcuts, calendar view. */

import { minute } from "./clock.svelte";
import { isZone } from "./time";

export type Theme = "system" | "light" | "dark";
export type Rows = "roomy" | "dense";

const STORAGE_KEY = "steward";

interface Choices {
  zone: string | null;
  theme: Theme;
  rows: Rows;
  keys: boolean;
  calendar: string | null;
  /** Organizations for which the person has hidden the first steps. */
  dismissed: number[];
  /** Organizations for which the person has declined to invite an approver. */
  decides: number[];
  /** Failed runs that were marked as seen; the overview leaves them out. */
  seen: string[];
}

const FIRST: Choices = { zone: null, theme: "system", rows: "roomy", keys: true, calendar: null, dismissed: [], decides: [], seen: [] };

function storedChoices(): Choices {
  try {
    return { ...FIRST, ...(JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "{}") as Partial<Choices>) };
  } catch {
    return FIRST;
  }
}

class Preferences {
  #choices = $state.raw(storedChoices());
  #zone = $derived.by(() => {
    const chosen = this.#choices.zone;
    if (chosen && isZone(chosen)) return chosen;
    // The browser's zone may change on a journey; reading it again for every time on a screen is too slow.
    void minute.at;
    return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  });
  #dark = matchMedia("(prefers-color-scheme: dark)");

  constructor() {
    this.#show();
    this.#dark.addEventListener("change", () => this.#show());
    addEventListener("storage", (event) => {
      if (event.key !== STORAGE_KEY) return;
      this.#choices = storedChoices();
      this.#show();
    });
  }

  get choices(): Choices {
    return this.#choices;
  }

  /** The viewer's time zone: the chosen one, else the browser's. */
  get zone(): string {
    return this.#zone;
  }

  choose(choice: Partial<Choices>): void {
    this.#choices = { ...this.#choices, ...choice };
    try {
      localStorage.setItem(STORAGE_KEY, JSON.stringify(this.#choices));
    } catch {
      // Without storage, preferences apply until the page is closed.
    }
    this.#show();
  }

  #show(): void {
    const { theme, rows } = this.#choices;
    const { classList } = document.documentElement;
    classList.toggle("dark", theme === "dark" || (theme === "system" && this.#dark.matches));
    classList.toggle("dense", rows === "dense");
  }
}

export const preferences = new Preferences();
