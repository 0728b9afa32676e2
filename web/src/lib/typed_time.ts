/** A time of day as people type it: "930", "9:30" and "9.30" are "09:30"; anything else is none yet. */
export function timeOf(typed: string): string {
  const found = /^\s*(\d{1,2})[:.h]?(\d{2})\s*$/.exec(typed);
  if (!found || Number(found[1]) > 23 || Number(found[2]) > 59) return "";
  return `${found[1]!.padStart(2, "0")}:${found[2]}`;
}
