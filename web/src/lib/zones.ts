/** The zones a person may choose from, with the present offset; made when a form asks. */

import { offsetName } from "./time";

export function zoneOptions(now: number, also: readonly string[] = []): { value: string; words: string }[] {
  const names = new Set([...Intl.supportedValuesOf("timeZone"), "UTC", ...also]);
  return [...names].sort().map((zone) => ({ value: zone, words: `${zone.replaceAll("_", " ")} (${offsetName(now, zone)})` }));
}
