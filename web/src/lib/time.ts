/**
 * Instants and wall clock times (docs/design/web.md#time): the only module that converts between them.
 *
 * Instants are milliseconds since 1970 in UTC, or ISO 8601 texts; a wall time is "2026-11-21T06:02".
 */

export type Zone = string;
export type Fit = "exact" | "gap" | "fold";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: Zone, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone + JSON.stringify(options);
  let formatter = formats.get(key);
  if (!formatter) {
    formatter = new Intl.DateTimeFormat("en-GB", { timeZone: zone, numberingSystem: "latn", calendar: "gregory", ...options });
    formats.set(key, formatter);
  }
  return formatter;
}

const FIELDS: Intl.DateTimeFormatOptions = {
  year: "numeric",
  month: "numeric",
  day: "numeric",
  hour: "numeric",
  minute: "numeric",
  second: "numeric",
  hourCycle: "h23",
};

/** Returns an instant in milliseconds. */
export function instantOf(value: string | number | Date): number {
  return typeof value === "number" ? value : new Date(value).getTime();
}

/** Returns an instant in the format of the API. */
export function wire(instant: number): string {
  return new Date(instant).toISOString();
}

/** Returns the zone's clock reading at an instant, as if it were UTC. */
function reading(instant: number, zone: Zone): number {
  const parts: Record<string, number> = {};
  for (const { type, value } of format(zone, FIELDS).formatToParts(instant)) parts[type] = Number(value);
  return Date.UTC(parts.year!, parts.month! - 1, parts.day, parts.hour, parts.minute, parts.second);
}

/** Returns the zone's offset from UTC at an instant, in minutes. */
export function offsetAt(instant: number, zone: Zone): number {
  const second = Math.floor(instant / 1000) * 1000;
  return (reading(second, zone) - second) / MINUTE;
}

/** Returns the wall time at an instant: "2026-11-21T06:02". */
export function toWall(value: string | number, zone: Zone): string {
  const instant = instantOf(value);
  return new Date(instant + offsetAt(instant, zone) * MINUTE).toISOString().slice(0, 16);
}

/**
 * Returns the instant of a wall time. A time that the clock skips is moved later by the skipped time (`gap`); a time
 * that occurs twice is its first occurrence (`fold`).
 */
export function fromWall(wall: string, zone: Zone): { instant: number; fit: Fit } {
  const asUtc = Date.parse(`${wall.length === 10 ? `${wall}T00:00` : wall}Z`);
  const before = offsetAt(asUtc - DAY, zone) * MINUTE;
  const after = offsetAt(asUtc + DAY, zone) * MINUTE;
  const isOffset = (offset: number) => offsetAt(asUtc - offset, zone) * MINUTE === offset;
  const fits = [...new Set([before, after])].filter(isOffset).map((offset) => asUtc - offset);
  if (fits.length === 2) return { instant: Math.min(...fits), fit: "fold" };
  if (fits.length === 1) return { instant: fits[0]!, fit: "exact" };
  return { instant: asUtc - before, fit: "gap" };
}

/** Returns the first instant of a day in a zone, which need not be 00:00. */
export function startOfDay(day: string, zone: Zone): number {
  return fromWall(day.slice(0, 10), zone).instant;
}

/** Adds days to a date: calendar arithmetic without a zone. */
export function addDays(day: string, days: number): string {
  return new Date(Date.parse(`${day.slice(0, 10)}T00:00Z`) + days * DAY).toISOString().slice(0, 10);
}

/** Formats an instant: "Sat 21 Nov, 06:02"; with the year if it is not the current one. */
export function full(value: string | number, zone: Zone, now: number, { seconds = false } = {}): string {
  const instant = instantOf(value);
  return `${dayOf(instant, zone, now)}, ${clockOf(instant, zone, { seconds })}`;
}

/** Formats a day: "Sat 21 Nov", or "Sat 21 Nov 2027". */
export function dayOf(value: string | number, zone: Zone, now: number): string {
  const instant = instantOf(value);
  const date = { weekday: "short", day: "numeric", month: "short" } as const;
  const words = parts(format(zone, { ...date, year: "numeric" }), instant);
  const withoutYear = `${words.weekday} ${words.day} ${words.month!.slice(0, 3)}`;
  const year = toWall(now, zone).slice(0, 4);
  return words.year === year ? withoutYear : `${withoutYear} ${words.year}`;
}

/** Formats a time of day: "06:02", always 24 hours. */
export function clockOf(value: string | number, zone: Zone, { seconds = false } = {}): string {
  const fields = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" } as const;
  return format(zone, seconds ? { ...fields, second: "2-digit" } : fields).format(instantOf(value));
}

function parts(made: Intl.DateTimeFormat, instant: number): Record<string, string> {
  return Object.fromEntries(made.formatToParts(instant).map(({ type, value }) => [type, value]));
}

/** Formats the distance to now: "in 3 h", "12 min ago", "now"; null from 24 hours on, where the date says more. */
export function relative(value: string | number, now: number): string | null {
  const away = instantOf(value) - now;
  const size = Math.abs(away);
  if (size >= DAY) return null;
  if (size < MINUTE) return "now";
  const words = size < HOUR ? `${Math.floor(size / MINUTE)} min` : `${Math.floor(size / HOUR)} h`;
  return away > 0 ? `in ${words}` : `${words} ago`;
}

/** "3 days left", "3 h left", "12 min left"; "time is up" afterwards. */
export function leftUntil(value: string | number, now: number): string {
  const remaining = instantOf(value) - now;
  if (remaining <= 0) return "time is up";
  // Rounded by whole hours, so that a new approval shows "3 days left".
  if (remaining >= 2 * DAY) return `${Math.floor(Math.round(remaining / HOUR) / 24)} days left`;
  return remaining >= HOUR ? `${Math.floor(remaining / HOUR)} h left` : `${Math.max(1, Math.floor(remaining / MINUTE))} min left`;
}

/** "4 s", "2 min 10 s", "1 h 5 min". */
export function lengthOf(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  const rest: [number, string] = hours ? [minutes, "min"] : [seconds % 60, "s"];
  const whole = hours ? `${hours} h` : `${minutes} min`;
  return rest[0] ? `${whole} ${rest[0]} ${rest[1]}` : whole;
}

/** Returns the city of a zone: "Berlin" for "Europe/Berlin"; the whole name if it has no city. */
export function cityOf(zone: Zone): string {
  return (zone.split("/").pop() ?? zone).replaceAll("_", " ");
}

/** Returns "06:02 in New York" if the zone's clock differs from the viewer's at that instant; else null. */
export function elsewhere(value: string | number, zone: Zone | null | undefined, viewer: Zone): string | null {
  if (!zone) return null;
  const instant = instantOf(value);
  if (offsetAt(instant, zone) === offsetAt(instant, viewer)) return null;
  const sameDay = toWall(instant, zone).slice(0, 10) === toWall(instant, viewer).slice(0, 10);
  const day = sameDay ? "" : `${dayOf(instant, zone, instant).replace(/ \d{4}$/, "")}, `;
  return `${day}${clockOf(instant, zone)} in ${cityOf(zone)}`;
}

/** Formats the zone's offset at an instant: "UTC+01:00". */
export function offsetName(value: string | number, zone: Zone): string {
  const minutes = offsetAt(instantOf(value), zone);
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const two = (number: number) => String(Math.floor(number)).padStart(2, "0");
  return `UTC${minutes < 0 ? "−" : "+"}${two(hours)}:${two(rest)}`;
}

/** Whether this browser knows the zone. */
export function isZone(zone: string): boolean {
  try {
    return Boolean(zone && format(zone, {}));
  } catch {
    return false;
  }
}
