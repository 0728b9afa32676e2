/** Compares two texts word by word; the diff library is loaded on first use. */

import { fetched } from "./fetched";

export interface Part {
  text: string;
  change: "same" | "gone" | "new";
}

const MAX_MS = 300;

/** Returns the parts of both texts in order; texts with too many differences are returned as two whole parts. */
export async function wordDifference(before: string, after: string): Promise<Part[]> {
  const { diffWordsWithSpace } = await fetched(() => import("diff/lib/diff/word.js"));
  const parts = diffWordsWithSpace(before, after, { timeout: MAX_MS });
  if (!parts) return entireTexts(before, after);
  return parts.map(({ value, added, removed }) => ({ text: value, change: added ? "new" : removed ? "gone" : "same" }));
}

/** Compares two lists: kept, removed and added items. */
export function itemDifference(before: readonly unknown[], after: readonly unknown[]): Part[] {
  const words = (item: unknown) => (typeof item === "string" ? item : JSON.stringify(item));
  const [from, to] = [before.map(words), after.map(words)];
  return [
    ...from.map((text): Part => ({ text, change: to.includes(text) ? "same" : "gone" })),
    ...to.filter((text) => !from.includes(text)).map((text): Part => ({ text, change: "new" })),
  ];
}

function entireTexts(before: string, after: string): Part[] {
  return [{ text: before, change: "gone" }, { text: after, change: "new" }];
}
