/** Closed periods as bands behind the runs of a month or week. */

import type { ClosingRecord } from "../../api/schema";
import { addDays, toWall, type Zone } from "../../lib/time";
import type { Span, View } from "./range";

export interface Band {
  id: string;
  start: string;
  end: string;
  /** In a month, every day that is closed at any time is shown as a whole day. */
  allDay: boolean;
  words: string;
  stops: string;
}

/** Returns the bands of the days shown, in the viewer's zone. */
export function bandsOf(closings: readonly ClosingRecord[], zone: Zone, view: View, span: Span): Band[] {
  if (view === "list") return [];
  const allDay = view === "month";
  return closings.flatMap((closing) => {
    const start = latest(toWall(closing.start, zone), `${span.from}T00:00`);
    const end = earliest(closing.end === null ? `${span.to}T00:00` : toWall(closing.end, zone), `${span.to}T00:00`);
    if (start >= end) return [];
    const endDay = end.endsWith("T00:00") ? end.slice(0, 10) : addDays(end.slice(0, 10), 1);
    return [{
      id: `closing.${closing.period_id}.${closing.start}`,
      start: allDay ? start.slice(0, 10) : start,
      end: allDay ? endDay : end,
      allDay,
      words: closing.name,
      stops: closing.stops,
    }];
  });
}

function latest(first: string, second: string): string {
  return first > second ? first : second;
}

function earliest(first: string, second: string): string {
  return first < second ? first : second;
}
