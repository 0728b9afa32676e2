/** Moves a run with the keyboard: `m` picks it up, arrows move it, Enter drops it as the mouse does. */

import { minute } from "../../lib/clock.svelte";
import { notes } from "../../lib/notes.svelte";
import { preferences } from "../../lib/preferences.svelte";
import { addDays, full, toWall } from "../../lib/time";
import { type CalendarRow, droppedAt } from "./entries";
import { keyOf } from "./key";
import type { Span, View } from "./range";

const DAY_S = 86_400;
const STEP_S = 15 * 60;

export class KeyboardMove {
  #run = $state.raw<{ key: string; row: CalendarRow; seconds: number } | null>(null);
  #view: () => { view: View; span: Span };
  readonly target = $derived.by(() => (this.#run ? droppedAt(this.#run.row, this.#run.seconds, this.#view().view, preferences.zone).instant : null));

  constructor(view: () => { view: View; span: Span }) {
    this.#view = view;
  }

  get key(): string | null {
    return this.#run?.key ?? null;
  }

  get words(): string {
    return this.#run && this.target !== null ? `${this.#run.row.automation_name} to ${full(this.target, preferences.zone, minute.at)}` : "";
  }

  begin(row: CalendarRow): void {
    this.#run = { key: keyOf(row), row, seconds: 0 };
    notes.say(`Moving ${row.automation_name}. Use the arrow keys to choose when, Enter to continue, Escape to put it back.`);
  }

  /** Moves one step: a day or week in the month; a day, a quarter of an hour or (`fine`) a minute in the week. */
  step(arrow: string, fine: boolean): void {
    if (!this.#run) return;
    const { view, span } = this.#view();
    const vertical = view === "month" ? 7 * DAY_S : fine ? 60 : STEP_S;
    const by = { ArrowLeft: -DAY_S, ArrowRight: DAY_S, ArrowUp: -vertical, ArrowDown: vertical }[arrow] ?? 0;
    const next = { ...this.#run, seconds: this.#run.seconds + by };
    const { instant } = droppedAt(next.row, next.seconds, view, preferences.zone);
    const day = toWall(instant, preferences.zone).slice(0, 10);
    if (day < span.from || day > addDays(span.to, -1)) return notes.say("The days shown end here. Press Enter to type another date.");
    if (instant <= minute.at) return notes.say("That would be in the past.");
    this.#run = next;
    notes.say(full(instant, preferences.zone, minute.at));
    this.focus();
  }

  /** Ends the move; returns the run's key and by how many seconds it was moved. */
  end(): { key: string; seconds: number } | null {
    const run = this.#run;
    this.#run = null;
    return run;
  }

  /** Focuses the run's chip, which is rendered anew at its target. */
  focus(): void {
    const { key } = this;
    requestAnimationFrame(() => key !== null && document.querySelector<HTMLElement>(`[data-run="${key}"]`)?.focus());
  }
}
