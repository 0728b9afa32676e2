/** Returns the selectable time zones with their current offset; computed when a form needs them. */

import { offsetName } from "./time";

export function zoneOptions(now: number, also: readonly string[] = []): { value: string; words: string }[] {
  const names = new Set([...Intl.supportedValuesOf("timeZone"), "UTC", ...also]);
  return [...names].sort().map((zone) => ({ value: zone, words: `${zone.replaceAll("_", " ")} (${offsetName(now, zone)})` }));
}
