/** The distribution of price changes: counts, median and largest as a sentence, and the columns of a dot plot. */

import type { ChangeRecord } from "../api/schema";
import { percentWords, priceMove } from "./changes";
import { formatNumber } from "./words";

const STEPS = [0.5, 1, 2, 5, 10, 20, 50];
const MAX_COLUMNS = 40;
/** Price changes beyond this percentage, in either direction, share the outermost column. */
const MAX_PERCENT = 100;

/** The price changes between `from` (inclusive) and `to` percent. */
export interface MoveColumn {
  from: number;
  to: number;
  count: number;
}

export interface PriceMoves {
  down: number;
  up: number;
  same: number;
  median: number;
  /** The largest price change in percent, signed. */
  largest: number;
  columns: MoveColumn[];
}

/** Summarizes the price changes; null if fewer than two prices change. */
export function priceMoves(changes: readonly ChangeRecord[]): PriceMoves | null {
  const moves = changes.map(priceMove).filter((percent): percent is number => percent !== null);
  if (moves.length < 2) return null;
  moves.sort((a, b) => a - b);
  const middle = moves.length >> 1;
  const [lowest, highest] = [moves[0]!, moves.at(-1)!];
  return {
    down: moves.filter((percent) => percent < 0).length,
    up: moves.filter((percent) => percent > 0).length,
    same: moves.filter((percent) => percent === 0).length,
    median: moves.length % 2 ? moves[middle]! : (moves[middle - 1]! + moves[middle]!) / 2,
    largest: Math.abs(lowest) > Math.abs(highest) ? lowest : highest,
    columns: columnsOf(moves),
  };
}

function columnsOf(moves: readonly number[]): MoveColumn[] {
  const low = Math.max(-MAX_PERCENT, Math.min(0, moves[0]!));
  const high = Math.min(MAX_PERCENT, Math.max(0, moves.at(-1)!));
  const step = STEPS.find((size) => (high - low) / size <= MAX_COLUMNS - 2) ?? STEPS.at(-1)!;
  const [first, last] = [Math.floor(low / step), Math.max(Math.floor(low / step), Math.floor(high / step))];
  const columns = Array.from({ length: last - first + 1 }, (_, index) => {
    const from = (first + index) * step;
    return { from, to: from + step, count: 0 };
  });
  columns[0]!.from = Math.min(columns[0]!.from, moves[0]!);
  columns.at(-1)!.to = Math.max(columns.at(-1)!.to, Math.ceil(moves.at(-1)! + step));
  for (const percent of moves) {
    const index = Math.max(0, Math.min(columns.length - 1, Math.floor(percent / step) - first));
    columns[index]!.count += 1;
  }
  return columns;
}

/** "6 down, 4 up, median −5 %, largest −20 %". */
export function moveWords(moves: PriceMoves): string {
  const parts = [
    moves.down ? `${formatNumber(moves.down)} down` : "",
    moves.up ? `${formatNumber(moves.up)} up` : "",
    moves.same ? `${formatNumber(moves.same)} unchanged` : "",
    `median ${percentWords(moves.median)}`,
    `largest ${percentWords(moves.largest)}`,
  ];
  return parts.filter(Boolean).join(", ");
}
