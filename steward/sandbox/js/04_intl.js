// Date and list formatting of Intl, in American English and in the locales of 03_regions.js.

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

// Supported combinations of date parts; the order of other combinations differs between languages.
const DATE_COMBINATIONS = new Set(['', 'y', 'm', 'd', 'w', 'ym', 'md', 'ymd', 'wd', 'wmd', 'wymd']);

/** Fails for combinations of date and time parts that are not supported. */
const checkDateParts = (options) => {
  const parts = [options.weekday && 'w', options.year && 'y', options.month && 'm', options.day && 'd'].filter(Boolean).join('');
  if (!DATE_COMBINATIONS.has(parts)) fault('A date cannot be formatted with only these parts here. Add day and month, or format each part by itself.');
  if (options.fractionalSecondDigits && !options.second) fault('A fraction of a second needs the second here. Add second.');
  if (options.hour && options.second && !options.minute) fault('A time cannot be formatted with only hours and seconds here. Add the minutes.');
};

/** Fails for times and zone names whose format in the locale is not supported. */
const checkTimeParts = (options, region, twelve) => {
  const hasTime = options.hour || options.minute || options.second;
  if (region?.tag === 'fr-FR' && options.month === 'narrow' && hasTime) refuseRegion(region, 'A month of one letter with a time');
  if (region && !region.twelve && options.hourCycle === 'h24' && hasTime) refuseRegion(region, 'A time whose midnight is 24');
  if (!options.timeZoneName) return;
  if (!hasTime && (region || options.month === 'long')) fault('A date cannot be formatted with the name of a zone here. Add the time.');
  const isSuffixed = twelve ? region?.tag === 'pt-BR' : !region?.hour;
  if (options.hour && !options.minute && isSuffixed) fault('An hour alone cannot be formatted with the name of a zone here. Add the minutes.');
};

/** Returns the local time of a moment in a zone, as a Date whose UTC fields hold it. */
const localTime = (zone, moment) => {
  return new RealDate(moment + (minutesOf(zone) ?? offsetAt(zone, moment).seconds / 60) * 60000);
};

const NARROW_SPACE = '\u202f'; // the space before AM or PM; V8 has it in formatToParts() and a plain one in format()

const part = (type, value) => ({ type, value: String(value) });
const literal = (value) => ({ type: 'literal', value });
const sized = (style, number) => (style === '2-digit' ? twoDigits(number % 100) : String(number));

const dateParts = (options, date, words) => {
  const year = date.getUTCFullYear();
  const yearOfEra = options.era && year <= 0 ? 1 - year : year;
  const parts = {
    weekday: options.weekday && part('weekday', wordOf(words.days, words.shortDays, date.getUTCDay(), options.weekday)),
    day: options.day && part('day', sized(options.day, date.getUTCDate())),
    year: options.year && part('year', sized(options.year, yearOfEra)),
  };
  const month = date.getUTCMonth();
  const worded = /^(?:long|short|narrow)$/.test(options.month ?? '') ? wordOf(words.months, words.shortMonths, month, options.month) : undefined;
  parts.month = options.month && part('month', worded ?? sized(options.month, month + 1));
  const inner = [parts.month, parts.day, parts.year].filter(Boolean);
  const sequence = [];
  if (parts.weekday && parts.month && inner.length === 1) return [parts.month, literal(' '), parts.weekday];
  if (parts.weekday) sequence.push(parts.weekday, ...(inner.length ? [literal(inner.length === 1 && parts.day ? ' ' : ', ')] : []));
  if (parts.weekday && inner.length === 1 && parts.day) sequence.splice(0, 2, parts.day, literal(' '), parts.weekday);
  else if (worded) {
    if (parts.month) sequence.push(parts.month);
    if (parts.day) sequence.push(literal(' '), parts.day);
    if (parts.year) sequence.push(literal(parts.day ? ', ' : ' '), parts.year);
  } else inner.forEach((part, index) => sequence.push(...(index ? [literal('/')] : []), part));
  if (options.era) sequence.push(literal(' '), part('era', { long: year > 0 ? 'Anno Domini' : 'Before Christ', narrow: year > 0 ? 'A' : 'B' }[options.era] ?? (year > 0 ? 'AD' : 'BC')));
  return sequence;
};

const timeParts = (options, date, twelve, region) => {
  const hour = date.getUTCHours();
  const parts = [];
  const add = (part) => parts.push(...(parts.length ? [literal(':')] : []), part);
  if (options.hour) {
    const displayedHour = twelve ? hour % 12 || (options.hourCycle === 'h11' ? 0 : 12) : options.hourCycle === 'h24' && hour === 0 ? 24 : hour;
    add(part('hour', options.hour === '2-digit' || (!twelve && (!region || hourPadded(region, options))) ? twoDigits(displayedHour) : displayedHour));
    if (!twelve && region?.hour && !options.minute) parts.push(literal(region.hour));
  }
  if (options.minute) add(part('minute', options.hour || options.second ? twoDigits(date.getUTCMinutes()) : date.getUTCMinutes()));
  if (options.second) add(part('second', options.minute ? twoDigits(date.getUTCSeconds()) : date.getUTCSeconds()));
  if (options.fractionalSecondDigits) {
    parts.push(literal('.'), part('fractionalSecond', String(date.getUTCMilliseconds()).padStart(3, '0').slice(0, options.fractionalSecondDigits)));
  }
  if (options.hour && twelve) parts.push(literal(NARROW_SPACE), part('dayPeriod', (PERIODS[region?.tag] ?? ['AM', 'PM'])[hour < 12 ? 0 : 1]));
  return parts;
};

class DateTimeFormatting {
  #options;
  #words;
  #zone;
  #twelve;
  #region;
  constructor(locale, options = {}) {
    const resolved = { ...(options ?? {}) };
    const region = regionOf(locale);
    this.#region = region;
    this.#words = wordsIn(locale);
    const zone = resolved.timeZone === undefined ? 'UTC' : minutesOf(resolved.timeZone) !== null ? resolved.timeZone : canonicalZone(resolved.timeZone);
    if (zone === null) throw new RangeError(`Invalid time zone specified: ${resolved.timeZone}`);
    this.#zone = zone;
    if (resolved.hour12 !== undefined) delete resolved.hourCycle; // hour12 takes precedence; midnight is 0 or 12
    this.#twelve = resolved.hourCycle ? /^h1[12]$/.test(resolved.hourCycle) : Boolean(resolved.hour12 ?? (region === null || region.twelve === true));
    if (this.#twelve && region?.tag === 'sv-SE') refuseRegion(region, 'A time of twelve hours');
    if (resolved.era && !resolved.year) fault('An era needs its year here. Add year.');
    if (resolved.dayPeriod) fault('Times cannot be formatted with a part of the day here. Leave dayPeriod out.');
    if (resolved.dateStyle) Object.assign(resolved, region ? styleIn(region, resolved.dateStyle) : STYLES[resolved.dateStyle]);
    if (resolved.timeStyle) Object.assign(resolved, TIMES[resolved.timeStyle]);
    if (![...ASKS_DATE, ...ASKS_TIME].some((key) => resolved[key])) Object.assign(resolved, { year: 'numeric', month: 'numeric', day: 'numeric' });
    if (region?.point && resolved.fractionalSecondDigits) refuseRegion(region, 'A part of a second');
    if (region && resolved.timeStyle && (resolved.hour12 !== undefined || resolved.hourCycle)) refuseRegion(region, 'timeStyle with another count of hours');
    checkDateParts(resolved);
    checkTimeParts(resolved, region, this.#twelve);
    this.#options = resolved;
    this.format = (date) => this.formatToParts(date).map((part) => part.value).join('').replaceAll(NARROW_SPACE, ' ');
  }
  formatToParts(value) {
    const moment = value === undefined ? run.now : Number(value);
    if (!Number.isFinite(moment)) throw new RangeError('Invalid time value');
    const options = this.#options;
    const date = localTime(this.#zone, moment);
    const region = this.#region;
    const dates = region ? datePartsIn(region, options, date, this.#words, this.#twelve) : dateParts(options, date, this.#words);
    const times = timeParts(options, date, this.#twelve, region);
    if (region && options.timeZoneName && (this.#zone !== 'UTC' || options.timeZoneName === 'long')) refuseRegion(region, 'The name of a zone');
    const onlyWeekday = options.weekday && !options.day && !options.month && !options.year;
    const wordy = onlyWeekday ? behindWeekday(region?.tag, options, this.#twelve) : region ? betweenIn(region, options) : options.month === 'long' ? ' at ' : ', ';
    const parts = [...dates, ...(dates.length && times.length ? [literal(wordy)] : []), ...times];
    if (options.timeZoneName) parts.push(literal(times.length ? ' ' : ', '), part('timeZoneName', zoneTitle(this.#zone, moment, options.timeZoneName)));
    return parts;
  }
  formatRange() {
    return fault('formatRange() is not available here. Format the start and the end yourself.');
  }
  resolvedOptions() {
    return { locale: this.#region?.tag ?? 'en-US', calendar: 'gregory', numberingSystem: 'latn', timeZone: this.#zone, hourCycle: this.#twelve ? 'h12' : 'h23', hour12: this.#twelve };
  }
  static supportedLocalesOf() {
    return ['en-US'];
  }
}

class ListFormat {
  #word;
  constructor(locale, options = {}) {
    this.#word = options.type === 'disjunction' ? 'or' : options.type === 'unit' || options.style === 'narrow' ? '' : 'and';
    freeze(this); // luxon caches and shares it, like number and date formats
  }
  format(values) {
    const list = [...values];
    if (list.length < 2) return list.join('');
    if (!this.#word) return list.join(', ');
    if (list.length === 2) return list.join(` ${this.#word} `);
    return `${list.slice(0, -1).join(', ')}, ${this.#word} ${list.at(-1)}`;
  }
}

class PluralRules {
  #ordinal;
  constructor(locale, options = {}) {
    this.#ordinal = options.type === 'ordinal';
    freeze(this);
  }
  select(number) {
    if (!this.#ordinal) return number === 1 ? 'one' : 'other';
    const tens = number % 100;
    return tens > 10 && tens < 14 ? 'other' : ({ 1: 'one', 2: 'two', 3: 'few' }[number % 10] ?? 'other');
  }
}

const DateTimeFormat = callable(DateTimeFormatting, 'DateTimeFormat');

const SUNDAY_FIRST = new Set(['US', 'CA', 'BR', 'JP', 'IN', 'IL', 'MX', 'ZA']);

/** The part of Intl.Locale that luxon uses: the first day of the week. */
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

defineHidden(Engine, 'Intl', { Locale, DateTimeFormat, NumberFormat, ListFormat, PluralRules, Collator, getCanonicalLocales: () => ['en-US'], supportedValuesOf: (kind) => (kind === 'timeZone' ? [...zoneNames.values()] : []) });
const localNumber = function toLocaleString(locale, options) {
  return new NumberFormat(locale, options).format(this);
};
defineHidden(Number.prototype, 'toLocaleString', localNumber);
defineHidden(BigInt.prototype, 'toLocaleString', localNumber);
defineHidden(String.prototype, 'localeCompare', function localeCompare(other, locale, options) {
  if (options === undefined) return collate(String(this), String(other), languageOf(locale));
  return new Collator(locale, options).compare(this, other);
});
const DAY = { year: 'numeric', month: 'numeric', day: 'numeric' };
const CLOCK = { hour: 'numeric', minute: 'numeric', second: 'numeric' };
const localDate = (base, keys, refused) =>
  function toLocaleString(locale, options = {}) {
    if (refused && options[refused]) throw new TypeError(`Invalid option : ${refused}`);
    if (Number.isNaN(this.getTime())) return 'Invalid Date';
    const filled = keys.some((key) => options[key]) ? options : { ...base, ...options };
    return new DateTimeFormat(locale, filled).format(this);
  };
defineHidden(RealDate.prototype, 'toLocaleString', localDate({ ...DAY, ...CLOCK }, [...ASKS_DATE, ...ASKS_TIME]));
defineHidden(RealDate.prototype, 'toLocaleDateString', localDate(DAY, ASKS_DATE, 'timeStyle'));
defineHidden(RealDate.prototype, 'toLocaleTimeString', localDate(CLOCK, ASKS_TIME, 'dateStyle'));
