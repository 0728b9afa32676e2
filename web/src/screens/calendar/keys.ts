/** The calendar's keys: between days, views and times, and skipping what has the focus. */

import type { Shortcut } from "../../lib/shortcuts.svelte";
import { addDays } from "../../lib/time";
import type { Span, View } from "./range";

export interface Ways {
  view: View;
  day: string;
  span: Span;
  show: (change: { view?: View; day?: string }) => void;
  step: (by: number) => void;
  today: () => void;
  skip: (key: string) => void;
  move: (key: string) => void;
}

function focused(name: "run" | "day"): string | undefined {
  const at = document.activeElement;
  const held = at?.closest<HTMLElement>(`[data-${name}]`) ?? at?.querySelector<HTMLElement>(`[data-${name}]`);
  return held?.dataset[name];
}

/** Focuses the first run of the next day that has one; the view goes on where it ends. */
function toDay(ways: Ways, by: number): void {
  let day = addDays(focused("day") ?? addDays(ways.day, -Math.sign(by)), by);
  for (; day >= ways.span.from && day < ways.span.to; day = addDays(day, Math.sign(by))) {
    const found = document.querySelector<HTMLElement>(`main [data-day="${day}"]`);
    if (found) return found.focus();
  }
  ways.step(Math.sign(by));
}

export function calendarKeys(ways: () => Ways): Shortcut[] {
  return [
    { keys: "ArrowLeft", words: "Day before", run: () => toDay(ways(), -1) },
    { keys: "ArrowRight", words: "Next day", run: () => toDay(ways(), 1) },
    { keys: "[", words: "Earlier", run: () => ways().step(-1) },
    { keys: "]", words: "Later", run: () => ways().step(1) },
    { keys: "t", words: "Today", run: () => ways().today() },
    { keys: "1", words: "Month", run: () => ways().show({ view: "month" }) },
    { keys: "2", words: "Week", run: () => ways().show({ view: "week" }) },
    { keys: "3", words: "List", run: () => ways().show({ view: "list" }) },
    {
      keys: "m",
      words: "Move the run that has the focus",
      run: (event) => {
        const key = focused("run");
        if (!key) return;
        event.preventDefault();
        ways().move(key);
      },
    },
    {
      keys: "s",
      words: "Skip the run that has the focus",
      run: () => {
        const key = focused("run");
        if (key) ways().skip(key);
      },
    },
  ];
}
