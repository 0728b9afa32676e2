/** Parses a typed time of day: "930", "9:30" and "9.30" are "09:30"; any other text is "". */
export function timeOf(typed: string): string {
  const match = /^\s*(\d{1,2})[:.h]?(\d{2})\s*$/.exec(typed);
  if (!match || Number(match[1]) > 23 || Number(match[2]) > 59) return "";
  return `${match[1]!.padStart(2, "0")}:${match[2]}`;
}
