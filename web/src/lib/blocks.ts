/** Determines which of many blocks of different heights are in view. */

import { MAX_ROWS } from "./table";

const BLOCKS_AROUND = 8;

/** Returns where each block begins, and where the last one ends. */
export function offsetsOf(heights: Iterable<number>): number[] {
  const offsets = [0];
  for (const height of heights) offsets.push(offsets.at(-1)! + height);
  return offsets;
}

/** Returns the range of blocks to render: those between `top` and `bottom` and some around them. */
export function blocksIn(offsets: readonly number[], top: number, bottom: number): { from: number; to: number } {
  const count = offsets.length - 1;
  const from = Math.max(0, Math.min(blockAt(offsets, top), count - 1) - BLOCKS_AROUND);
  const to = Math.min(count, blockAt(offsets, bottom) + 1 + BLOCKS_AROUND, from + MAX_ROWS);
  return { from, to };
}

/** Returns the index of the block at this height; the last one if it is beyond all of them. */
function blockAt(offsets: readonly number[], y: number): number {
  let [low, high] = [0, Math.max(0, offsets.length - 2)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (offsets[middle]! <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}
