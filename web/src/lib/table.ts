/** The columns of tables, and which rows of a long table are in view. */

export interface Column<C extends string = string> {
  name: C;
  title: string;
  /** Only screen readers get the title. */
  hiddenTitle?: boolean;
  align?: "start" | "end";
  /** As wide as its content, on one line: numbers, times, marks and buttons. Other columns share the rest and wrap. */
  fits?: boolean;
  /** Hidden while the table is narrower than 1000 px. */
  roomy?: boolean;
  sorts?: boolean;
  /** Its position on a small screen: beside the name, in the second line, on a separate line, or hidden. */
  small?: "beside" | "second" | "whole" | "absent";
}

/** The selection of rows for an action on several. */
export interface Picks<R> {
  has: (row: R) => boolean;
  toggle: (row: R) => void;
  /** Names a row after "Choose ". */
  name: (row: R) => string;
  all: boolean;
  toggleAll: () => void;
}

const ROWS_AROUND = 12;
/** The maximum number of rendered rows. */
export const MAX_ROWS = 80;

/** Returns the range of rows to render: those in view and some around them. */
export function windowOf(top: number, height: number, rowHeight: number, count: number): { from: number; to: number } {
  const heightOfRow = Math.max(1, rowHeight);
  const first = Math.min(Math.max(0, Math.floor(top / heightOfRow) - ROWS_AROUND), Math.max(0, count - 1));
  const inView = Math.ceil(height / heightOfRow) + 2 * ROWS_AROUND;
  return { from: first, to: Math.min(count, first + Math.min(inView, MAX_ROWS)) };
}

/** Sorts rows by the value that `of` returns; equal rows keep their order. */
export function sorted<R>(rows: readonly R[], of: (row: R) => string | number | null, down: boolean): R[] {
  const compare = (a: R, b: R): number => {
    const [left, right] = [of(a), of(b)];
    if (left === right) return 0;
    if (left === null) return 1;
    if (right === null) return -1;
    const order =
      typeof left === "number" && typeof right === "number" ? left - right : String(left).localeCompare(String(right), "en");
    return down ? -order : order;
  };
  return [...rows].sort(compare);
}
