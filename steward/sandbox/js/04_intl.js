// Intl besides numbers: dates, lists and the order of texts, in American English and as the places known write them.

const STYLES = {
  full: { weekday: 'long', month: 'long', day: 'numeric', year: 'numeric' },
  long: { month: 'long', day: 'numeric', year: 'numeric' },
  medium: { month: 'short', day: 'numeric', year: 'numeric' },
  short: { month: 'numeric', day: 'numeric', year: '2-digit' },
};
const TIMES = {
  full: { hour: 'numeric', minute: 'numeric', second: 'numeric', timeZoneName: 'long' },
  long: { hour: 'numeric', minute: 'numeric', second: 'numeric', timeZoneName: 'short' },
  medium: { hour: 'numeric', minute: 'numeric', second: 'numeric' },
  short: { hour: 'numeric', minute: 'numeric' },
};
const ASKS_DATE = ['weekday', 'year', 'month', 'day', 'dateStyle', 'era'];
const ASKS_TIME = ['hour', 'minute', 'second', 'timeStyle', 'fractionalSecondDigits', 'dayPeriod'];

/** The wall clock of a moment in a zone, as a date read in UTC. */
const wall = (zone, moment) => {
  if (/^[+-]/.test(zone)) {
    const [, sign, hours, minutes = '0'] = /^([+-])(\d\d?):?(\d\d)?$/.exec(zone);
    return new RealDate(moment + (sign === '-' ? -1 : 1) * (hours * 60 + +minutes) * 60000);
  }
  return new RealDate(moment + offsetAt(zone, moment).seconds * 1000);
};

const part = (type, value) => ({ type, value: String(value) });
const literal = (value) => ({ type: 'literal', value });
const sized = (style, number) => (style === '2-digit' ? two(number % 100) : String(number));

const dateParts = (asked, date, words) => {
  const year = date.getUTCFullYear();
  const shown = asked.era && year <= 0 ? 1 - year : year;
  const parts = {
    weekday: asked.weekday && part('weekday', wordOf(words.days, words.shortDays, date.getUTCDay(), asked.weekday)),
    day: asked.day && part('day', sized(asked.day, date.getUTCDate())),
    year: asked.year && part('year', sized(asked.year, shown)),
  };
  const month = date.getUTCMonth();
  const worded = /^(?:long|short|narrow)$/.test(asked.month ?? '') ? wordOf(words.months, words.shortMonths, month, asked.month) : undefined;
  parts.month = asked.month && part('month', worded ?? sized(asked.month, month + 1));
  const inner = [parts.month, parts.day, parts.year].filter(Boolean);
  const made = [];
  if (parts.weekday && parts.month && inner.length === 1) return [parts.month, literal(' '), parts.weekday];
  if (parts.weekday) made.push(parts.weekday, ...(inner.length ? [literal(inner.length === 1 && parts.day ? ' ' : ', ')] : []));
  if (parts.weekday && inner.length === 1 && parts.day) made.splice(0, 2, parts.day, literal(' '), parts.weekday);
  else if (worded) {
    if (parts.month) made.push(parts.month);
    if (parts.day) made.push(literal(' '), parts.day);
    if (parts.year) made.push(literal(parts.day ? ', ' : ' '), parts.year);
  } else inner.forEach((one, place) => made.push(...(place ? [literal('/')] : []), one));
  if (asked.era) made.push(literal(' '), part('era', { long: year > 0 ? 'Anno Domini' : 'Before Christ', narrow: year > 0 ? 'A' : 'B' }[asked.era] ?? (year > 0 ? 'AD' : 'BC')));
  return made;
};

const timeParts = (asked, date, twelve, place) => {
  const hour = date.getUTCHours();
  const made = [];
  const add = (one) => made.push(...(made.length ? [literal(':')] : []), one);
  const others = asked.minute || asked.second;
  if (asked.hour) {
    const shown = twelve ? hour % 12 || 12 : asked.hourCycle === 'h24' && hour === 0 ? 24 : hour;
    add(part('hour', asked.hour === '2-digit' || (!twelve && (!place || hourPadded(place, asked))) ? two(shown) : shown));
    if (!twelve && place?.hour && !asked.minute) made.push(literal(place.hour));
  }
  if (asked.minute) add(part('minute', asked.hour || asked.second || asked.minute === '2-digit' ? two(date.getUTCMinutes()) : date.getUTCMinutes()));
  if (asked.second) add(part('second', others && (asked.hour || asked.minute) ? two(date.getUTCSeconds()) : sized(asked.second, date.getUTCSeconds())));
  if (asked.fractionalSecondDigits) {
    made.push(literal('.'), part('fractionalSecond', String(date.getUTCMilliseconds()).padStart(3, '0').slice(0, asked.fractionalSecondDigits)));
  }
  if (asked.hour && twelve) made.push(literal(' '), part('dayPeriod', (PERIODS[place?.tag] ?? ['AM', 'PM'])[hour < 12 ? 0 : 1]));
  return made;
};

class DateTimeFormatting {
  #asked;
  #words;
  #zone;
  #twelve;
  #place;
  constructor(locale, asked = {}) {
    const given = { ...(asked ?? {}) };
    const place = placeOf(locale);
    this.#place = place;
    this.#words = wordsIn(locale);
    const zone = given.timeZone === undefined ? 'UTC' : /^[+-]\d\d?(?::?\d\d)?$/.test(given.timeZone) ? given.timeZone : canonicalZone(given.timeZone);
    if (zone === null) throw new RangeError(`Invalid time zone specified: ${given.timeZone}`);
    this.#zone = zone;
    this.#twelve = given.hourCycle ? /^h1[12]$/.test(given.hourCycle) : (given.hour12 ?? place === null);
    if (given.dayPeriod) fault('Times are not written with a part of the day here. Leave dayPeriod out.');
    if (given.dateStyle) Object.assign(given, place ? styleIn(place, given.dateStyle) : STYLES[given.dateStyle]);
    if (given.timeStyle) Object.assign(given, TIMES[given.timeStyle]);
    if (![...ASKS_DATE, ...ASKS_TIME].some((key) => given[key])) Object.assign(given, { year: 'numeric', month: 'numeric', day: 'numeric' });
    this.#asked = given;
    this.format = (date) => this.formatToParts(date).map((one) => one.value).join('');
  }
  formatToParts(given) {
    const moment = given === undefined ? run.now : Number(given);
    if (!Number.isFinite(moment)) throw new RangeError('Invalid time value');
    const asked = this.#asked;
    const date = wall(this.#zone, moment);
    const place = this.#place;
    const dates = place ? datePartsIn(place, asked, date, this.#words) : dateParts(asked, date, this.#words);
    const times = timeParts(asked, date, this.#twelve, place);
    if (place && asked.timeZoneName && this.#zone !== 'UTC') refusePlace(place, 'The name of a zone');
    const wordy = place ? betweenIn(place, asked) : asked.month === 'long' ? ' at ' : dates.length === 1 && asked.weekday ? ' ' : ', ';
    const made = [...dates, ...(dates.length && times.length ? [literal(wordy)] : []), ...times];
    if (asked.timeZoneName) made.push(literal(times.length ? ' ' : ', '), part('timeZoneName', /^[+-]/.test(this.#zone) ? `GMT${this.#zone}` : zoneTitle(this.#zone, moment, asked.timeZoneName)));
    return made;
  }
  formatRange(from, to) {
    return `${this.format(from)} – ${this.format(to)}`;
  }
  resolvedOptions() {
    return { locale: this.#place?.tag ?? 'en-US', calendar: 'gregory', numberingSystem: 'latn', timeZone: this.#zone, hourCycle: this.#twelve ? 'h12' : 'h23', hour12: this.#twelve };
  }
  static supportedLocalesOf() {
    return ['en-US'];
  }
}

class ListFormat {
  #word;
  constructor(locale, asked = {}) {
    this.#word = asked.type === 'disjunction' ? 'or' : asked.type === 'unit' || asked.style === 'narrow' ? '' : 'and';
    freeze(this); // the date library keeps it, as it does the formats of numbers and dates
  }
  format(given) {
    const list = [...given];
    if (list.length < 2) return list.join('');
    if (!this.#word) return list.join(', ');
    if (list.length === 2) return list.join(` ${this.#word} `);
    return `${list.slice(0, -1).join(', ')}, ${this.#word} ${list.at(-1)}`;
  }
}

class PluralRules {
  #ordinal;
  constructor(locale, asked = {}) {
    this.#ordinal = asked.type === 'ordinal';
    freeze(this);
  }
  select(number) {
    if (!this.#ordinal) return number === 1 ? 'one' : 'other';
    const tens = number % 100;
    return tens > 10 && tens < 14 ? 'other' : ({ 1: 'one', 2: 'two', 3: 'few' }[number % 10] ?? 'other');
  }
}

const bare = (text) => text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
const MARKS_ORDER = '\t\n\v\f\r _-,;:!?.\'"()[]{}@*/\\&#%`^+<=>|~$';

/** The place of a sign among all: blanks, marks, digits, letters. */
const rankOf = (sign) => {
  const at = MARKS_ORDER.indexOf(sign[0]);
  if (at >= 0) return at;
  return /\s/.test(sign) ? 5 : /[^\p{L}\p{N}]/u.test(sign) ? 100 : /\p{N}/u.test(sign) ? 101 : 102;
};

/** The order a dictionary has: letters first, then accents, then capitals after small letters. */
const collate = (a, b, numeric = false, sensitivity = 'variant') => {
  const cut = (text) => text.match(numeric ? /\d+|[^]/gu : /[^]/gu) ?? [];
  const [one, other] = [cut(bare(a)), cut(bare(b))];
  for (let place = 0; place < Math.min(one.length, other.length); place += 1) {
    const [x, y] = [one[place], other[place]];
    if (x === y) continue;
    if (numeric && /^\d/.test(x) && /^\d/.test(y)) {
      if (Number(x) === Number(y)) continue;
      return Math.sign(Number(x) - Number(y));
    }
    return rankOf(x) !== rankOf(y) ? Math.sign(rankOf(x) - rankOf(y)) : x < y ? -1 : 1;
  }
  if (one.length !== other.length) return Math.sign(one.length - other.length);
  if (a === b || sensitivity === 'base') return 0;
  const [x, y] = [a.normalize('NFD').toLowerCase(), b.normalize('NFD').toLowerCase()];
  if (x !== y && sensitivity !== 'case') return x < y ? -1 : 1;
  if (sensitivity === 'accent') return 0;
  const [up, down] = [a, b].map((text) => text.normalize('NFD').replace(/\p{M}/gu, ''));
  return up === down ? 0 : up > down ? -1 : 1;
};

class Collating {
  constructor(locale, asked = {}) {
    if (asked.ignorePunctuation) fault('Texts are not compared without their punctuation here. Take it out of them first.');
    this.compare = (a, b) => collate(String(a), String(b), asked.numeric === true, asked.sensitivity);
  }
}
const Collator = callable(Collating, 'Collator');
const DateTimeFormat = callable(DateTimeFormatting, 'DateTimeFormat');

const SUNDAY_FIRST = new Set(['US', 'CA', 'BR', 'JP', 'IN', 'IL', 'MX', 'ZA']);

/** What the date library asks of a locale: on which day its week begins. */
class Locale {
  constructor(tag) {
    const [language, region] = String(tag).split(/[-_]/);
    Object.assign(this, { baseName: String(tag), language, region: region ?? (language === 'en' ? 'US' : undefined) });
    freeze(this);
  }
  getWeekInfo() {
    return SUNDAY_FIRST.has(this.region) ? { firstDay: 7, minimalDays: 1, weekend: [6, 7] } : { firstDay: 1, minimalDays: 4, weekend: [6, 7] };
  }
  toString() {
    return this.baseName;
  }
}

hide(Engine, 'Intl', { Locale, DateTimeFormat, NumberFormat, ListFormat, PluralRules, Collator, getCanonicalLocales: () => ['en-US'], supportedValuesOf: (kind) => (kind === 'timeZone' ? [...zoneNames.values()] : []) });
const localNumber = function toLocaleString(locale, asked) {
  return new NumberFormat(locale, asked).format(this);
};
hide(Number.prototype, 'toLocaleString', localNumber);
hide(BigInt.prototype, 'toLocaleString', localNumber);
hide(String.prototype, 'localeCompare', function localeCompare(other, locale, asked) {
  return new Collator(locale, asked).compare(this, other);
});
const DAY = { year: 'numeric', month: 'numeric', day: 'numeric' };
const CLOCK = { hour: 'numeric', minute: 'numeric', second: 'numeric' };
const localDate = (base, keys, refused) =>
  function toLocaleString(locale, asked = {}) {
    if (refused && asked[refused]) throw new TypeError(`Invalid option : ${refused}`);
    if (Number.isNaN(this.getTime())) return 'Invalid Date';
    const filled = keys.some((key) => asked[key]) ? asked : { ...base, ...asked };
    return new DateTimeFormat(locale, filled).format(this);
  };
hide(RealDate.prototype, 'toLocaleString', localDate({ ...DAY, ...CLOCK }, [...ASKS_DATE, ...ASKS_TIME]));
hide(RealDate.prototype, 'toLocaleDateString', localDate(DAY, ASKS_DATE, 'timeStyle'));
hide(RealDate.prototype, 'toLocaleTimeString', localDate(CLOCK, ASKS_TIME, 'dateStyle'));
