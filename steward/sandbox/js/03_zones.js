// Time zones as tables of offset changes, each with the offset and the zone's short name from then on.

const zoneTables = new Map();
let zoneNames = new Map(); // lower-case name -> the database's spelling

const UTC_NAMES = new Set(['utc', 'etc/utc', 'gmt', 'etc/gmt', 'etc/uct', 'uct', 'zulu', 'universal']);

/** Returns the zone's name in the database's spelling, or null if it is unknown. */
const canonicalZone = (name) => {
  const low = String(name).toLowerCase();
  if (UTC_NAMES.has(low)) return 'UTC';
  return zoneNames.get(low) ?? null;
};

const zoneTable = (name) => {
  const table = zoneTables.get(name);
  if (table) return table;
  run.missingZones += `${name}\n`;
  throw new MissingZone(name);
};

/** Returns the offset at a moment as {seconds, short, summer}; `seconds` is east of UTC. */
const offsetAt = (name, moment) => {
  if (name === 'UTC') return { seconds: 0, short: 'UTC', summer: false };
  const table = zoneTable(name);
  let low = 0;
  let high = table.moments.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (table.moments[middle] <= moment) low = middle + 1;
    else high = middle;
  }
  const [seconds, short, summer] = table.kinds[table.order[low]];
  return { seconds, short, summer: summer === 1 };
};

/** Returns the minutes east of UTC of a zone given as an offset, +05:45 or -0330, or null for any other name. */
const minutesOf = (name) => {
  const match = /^([+-])([01]\d|2[0-3])(?::?([0-5]\d))?$/.exec(name);
  return match && (match[1] === '-' ? -1 : 1) * (match[2] * 60 + Number(match[3] ?? 0));
};

const twoDigits = (number) => String(number).padStart(2, '0');

/** Returns the name of an offset: GMT+2, GMT-3:30 or, if `long`, GMT+02:00. */
const offsetName = (seconds, long) => {
  if (seconds === 0) return 'GMT';
  const sign = seconds < 0 ? '-' : '+';
  const minutes = Math.floor(Math.abs(seconds) / 60);
  const hours = Math.floor(minutes / 60);
  const rest = minutes % 60;
  if (long) return `GMT${sign}${twoDigits(hours)}:${twoDigits(rest)}`;
  return `GMT${sign}${hours}${rest ? `:${twoDigits(rest)}` : ''}`;
};

const AMERICAN = {
  EST: 'Eastern Standard Time', EDT: 'Eastern Daylight Time', CST: 'Central Standard Time',
  CDT: 'Central Daylight Time', MST: 'Mountain Standard Time', MDT: 'Mountain Daylight Time',
  PST: 'Pacific Standard Time', PDT: 'Pacific Daylight Time', AKST: 'Alaska Standard Time',
  AKDT: 'Alaska Daylight Time', HST: 'Hawaii-Aleutian Standard Time',
};
const ELSEWHERE = {
  CET: 'Central European Standard Time', CEST: 'Central European Summer Time', EET: 'Eastern European Standard Time',
  EEST: 'Eastern European Summer Time', WET: 'Western European Standard Time', WEST: 'Western European Summer Time',
  GMT: 'Greenwich Mean Time', BST: 'British Summer Time', MSK: 'Moscow Standard Time', JST: 'Japan Standard Time',
  KST: 'Korean Standard Time', AEST: 'Australian Eastern Standard Time', AEDT: 'Australian Eastern Daylight Time',
  ACST: 'Australian Central Standard Time', ACDT: 'Australian Central Daylight Time',
  AWST: 'Australian Western Standard Time', NZST: 'New Zealand Standard Time', NZDT: 'New Zealand Daylight Time',
  SAST: 'South Africa Standard Time',
};

/** Returns a zone's display name at a moment in American English. */
const zoneTitle = (name, moment, style) => {
  const minutes = minutesOf(name);
  if (minutes !== null) return offsetName(minutes * 60, style === 'long' || style === 'longOffset');
  const { seconds, short } = offsetAt(name, moment);
  if (name === 'UTC') return style === 'long' ? 'Coordinated Universal Time' : 'UTC';
  const american = /^(?:America|US|Canada|Mexico)\/|^Pacific\/Honolulu$|^(?:EST|MST|HST)/.test(name) && AMERICAN[short];
  if (style !== 'long') return american && style === 'short' ? short : offsetName(seconds, style === 'longOffset');
  if (american) return american;
  if (name === 'Asia/Kolkata' || name === 'Asia/Calcutta') return 'India Standard Time';
  if (/^Etc\//.test(name)) return offsetName(seconds, true);
  const local = /^(?:Europe|Australia|Africa|Asia|Antarctica|Pacific|Atlantic)\//.test(name) && ELSEWHERE[short];
  return local || fault(`The full name of the zone “${name}” is not available here. Use its offset (ZZ), or write the name yourself.`);
};
