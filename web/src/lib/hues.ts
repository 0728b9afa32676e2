/** Assigns each automation one of eight colours, the same from day to day. */

export const HUES = 8;

function hueOf(id: string): number {
  let hash = 0;
  for (const letter of id) hash = (hash * 31 + letter.codePointAt(0)!) >>> 0;
  return hash % HUES;
}

/** Assigns colours; of two automations with the same one, the younger (higher id) takes the next free colour. */
export function huesOf(ids: Iterable<string>): ReadonlyMap<string, number> {
  const hues = new Map<string, number>();
  const used = new Set<number>();
  for (const id of [...new Set(ids)].sort()) {
    let hue = hueOf(id);
    if (used.size < HUES) while (used.has(hue)) hue = (hue + 1) % HUES;
    used.add(hue);
    hues.set(id, hue);
  }
  return hues;
}
