/** The calendar's shortcuts: moving between days, views and times, and moving and skipping the focused run. */

import type { Shortcut } from "../../lib/shortcuts.svelte";
import { addDays } from "../../lib/time";
import type { Span, View } from "./range";

export interface CalendarActions {
  view: View;
  day: string;
  span: Span;
  /** Whether a run is being moved with the keyboard. */
  isMoving: boolean;
  show: (change: { view?: View; day?: string }) => void;
  step: (by: number) => void;
  today: () => void;
  skip: (key: string) => void;
  move: (key: string) => void;
  moveBy: (arrow: string, fine: boolean) => void;
  endMove: (moves: boolean) => void;
}

function focused(name: "run" | "day"): string | undefined {
  const active = document.activeElement;
  const marked = active?.closest<HTMLElement>(`[data-${name}]`) ?? active?.querySelector<HTMLElement>(`[data-${name}]`);
  return marked?.dataset[name];
}

/** Returns the first run of a day or, in a month, the day itself if it has none. */
function firstOf(day: string): HTMLElement | null {
  return document.querySelector(`main [data-day="${day}"]:not(.day)`) ?? document.querySelector(`main .day[data-day="${day}"]`);
}

/** Focuses the next day with runs; at the end of the view it pages on and, in a month, moves the focus there. */
function toDay(actions: CalendarActions, by: number): void {
  let day = addDays(focused("day") ?? addDays(actions.day, -Math.sign(by)), by);
  for (; day >= actions.span.from && day < actions.span.to; day = addDays(day, by)) {
    const first = firstOf(day);
    if (first) return first.focus();
  }
  if (actions.view !== "month") return actions.step(Math.sign(by));
  actions.show({ day });
  focusSoon(day);
}

/** Focuses a day once it is rendered, unless a key is pressed before. */
function focusSoon(day: string): void {
  const look = () => {
    if (!document.querySelector(`main .day[data-day="${day}"]`)) return;
    watching.disconnect();
    firstOf(day)?.focus();
  };
  const watching = new MutationObserver(look);
  watching.observe(document.querySelector("main")!, { subtree: true, childList: true });
  addEventListener("keydown", () => watching.disconnect(), { once: true, capture: true });
  look();
}

/** Focuses the previous or next run on the focused run's day. */
function withinDay(by: number): void {
  const all = [...document.querySelectorAll<HTMLElement>(`main .chip[data-day="${focused("day")}"]`)];
  const rising = all.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
  rising[rising.indexOf(document.activeElement as HTMLElement) + by]?.focus();
}

function moveKeys(actions: () => CalendarActions): Shortcut[] {
  const arrow = (keys: string, words: string): Shortcut => ({ keys, words, run: (event) => actions().moveBy(keys, event.shiftKey) });
  const month = actions().view === "month";
  return [
    arrow("ArrowLeft", "A day earlier"),
    arrow("ArrowRight", "A day later"),
    arrow("ArrowUp", month ? "A week earlier" : "15 minutes earlier (with Shift 1)"),
    arrow("ArrowDown", month ? "A week later" : "15 minutes later (with Shift 1)"),
    { keys: "Enter", words: "Confirm the move", run: () => actions().endMove(true) },
    { keys: "Escape", words: "Put the run back", run: () => actions().endMove(false) },
  ];
}

export function calendarKeys(actions: () => CalendarActions): Shortcut[] {
  if (actions().isMoving) return moveKeys(actions);
  const month = actions().view === "month";
  const dayHasFocus = () => focused("day") !== undefined;
  return [
    { keys: "ArrowLeft", words: "Day before", run: () => toDay(actions(), -1) },
    { keys: "ArrowRight", words: "Next day", run: () => toDay(actions(), 1) },
    { keys: "ArrowUp", words: month ? "Week before" : "Run before", when: dayHasFocus, run: () => (month ? toDay(actions(), -7) : withinDay(-1)) },
    { keys: "ArrowDown", words: month ? "Next week" : "Next run", when: dayHasFocus, run: () => (month ? toDay(actions(), 7) : withinDay(1)) },
    { keys: "[", words: "Earlier", run: () => actions().step(-1) },
    { keys: "]", words: "Later", run: () => actions().step(1) },
    { keys: "t", words: "Today", run: () => actions().today() },
    { keys: "1", words: "Month", run: () => actions().show({ view: "month" }) },
    { keys: "2", words: "Week", run: () => actions().show({ view: "week" }) },
    { keys: "3", words: "List", run: () => actions().show({ view: "list" }) },
    {
      keys: "m",
      words: "Move the run that has the focus",
      run: (event) => {
        const key = focused("run");
        if (!key) return;
        event.preventDefault();
        actions().move(key);
      },
    },
    {
      keys: "s",
      words: "Skip the run that has the focus",
      run: () => {
        const key = focused("run");
        if (key) actions().skip(key);
      },
    },
  ];
}
