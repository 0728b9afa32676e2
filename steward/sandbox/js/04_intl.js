// Intl besides numbers: dates, lists and the order of texts, in American English and as the known regions write them.

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

// The parts of a date that are written together; how others are is not the same in any two languages.
const TOGETHER = new Set(['', 'y', 'm', 'd', 'w', 'ym', 'md', 'ymd', 'wd', 'wmd', 'wymd']);

/** Refuses parts of a date or time that have no form of their own. */
const mustFit = (options) => {
  const parts = [options.weekday && 'w', options.year && 'y', options.month && 'm', options.day && 'd'].filter(Boolean).join('');
  if (!TOGETHER.has(parts)) fault('A date is not written with these parts alone here. Write day and month too, or each part by itself.');
  if (options.fractionalSecondDigits && !options.second) fault('A part of a second is not written without the second here. Add second.');
  if (options.hour && options.second && !options.minute) fault('A time is not written with hours and seconds alone here. Write the minutes too.');
};

/** Refuses times and names of zones that a region writes in a way of its own. */
const mustFitTime = (options, region, twelve) => {
  const hasTime = options.hour || options.minute || options.second;
  if (region?.tag === 'fr-FR' && options.month === 'narrow' && hasTime) refuseRegion(region, 'A month of one letter with a time');
  if (region && !region.twelve && options.hourCycle === 'h24' && hasTime) refuseRegion(region, 'A time whose midnight is 24');
  if (!options.timeZoneName) return;
  if (!hasTime && (region || options.month === 'long')) fault('A date is not written with the name of a zone here. Write the time too.');
  const isSuffixed = twelve ? region?.tag === 'pt-BR' : !region?.hour;
  if (options.hour && !options.minute && isSuffixed) fault('An hour alone is not written with the name of a zone here. Write the minutes too.');
};

/** The wall clock of a moment in a zone, as a date read in UTC. */
const wall = (zone, moment) => {
  if (/^[+-]/.test(zone)) {
    const [, sign, hours, minutes = '0'] = /^([+-])(\d\d?):?(\d\d)?$/.exec(zone);
    return new RealDate(moment + (sign === '-' ? -1 : 1) * (hours * 60 + +minutes) * 60000);
  }
  return new RealDate(moment + offsetAt(zone, moment).seconds * 1000);
};

const NARROW = '\u202f'; // the space before AM or PM; V8 writes it as a plain one in texts, but not in parts

const part = (type, value) => ({ type, value: String(value) });
const literal = (value) => ({ type: 'literal', value });
const sized = (style, number) => (style === '2-digit' ? two(number % 100) : String(number));

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
    add(part('hour', options.hour === '2-digit' || (!twelve && (!region || hourPadded(region, options))) ? two(displayedHour) : displayedHour));
    if (!twelve && region?.hour && !options.minute) parts.push(literal(region.hour));
  }
  if (options.minute) add(part('minute', options.hour || options.second ? two(date.getUTCMinutes()) : date.getUTCMinutes()));
  if (options.second) add(part('second', options.minute ? two(date.getUTCSeconds()) : date.getUTCSeconds()));
  if (options.fractionalSecondDigits) {
    parts.push(literal('.'), part('fractionalSecond', String(date.getUTCMilliseconds()).padStart(3, '0').slice(0, options.fractionalSecondDigits)));
  }
  if (options.hour && twelve) parts.push(literal(NARROW), part('dayPeriod', (PERIODS[region?.tag] ?? ['AM', 'PM'])[hour < 12 ? 0 : 1]));
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
    const zone = resolved.timeZone === undefined ? 'UTC' : /^[+-]\d\d?(?::?\d\d)?$/.test(resolved.timeZone) ? resolved.timeZone : canonicalZone(resolved.timeZone);
    if (zone === null) throw new RangeError(`Invalid time zone specified: ${resolved.timeZone}`);
    this.#zone = zone;
    if (resolved.hour12 !== undefined) delete resolved.hourCycle; // hour12 decides alone, midnight is 0 or 12
    this.#twelve = resolved.hourCycle ? /^h1[12]$/.test(resolved.hourCycle) : Boolean(resolved.hour12 ?? (region === null || region.twelve === true));
    if (this.#twelve && region?.tag === 'sv-SE') refuseRegion(region, 'A time of twelve hours');
    if (resolved.era && !resolved.year) fault('An era is not written without its year here. Add year.');
    if (resolved.dayPeriod) fault('Times are not written with a part of the day here. Leave dayPeriod out.');
    if (resolved.dateStyle) Object.assign(resolved, region ? styleIn(region, resolved.dateStyle) : STYLES[resolved.dateStyle]);
    if (resolved.timeStyle) Object.assign(resolved, TIMES[resolved.timeStyle]);
    if (![...ASKS_DATE, ...ASKS_TIME].some((key) => resolved[key])) Object.assign(resolved, { year: 'numeric', month: 'numeric', day: 'numeric' });
    if (region?.point && resolved.fractionalSecondDigits) refuseRegion(region, 'A part of a second');
    if (region && resolved.timeStyle && (resolved.hour12 !== undefined || resolved.hourCycle)) refuseRegion(region, 'timeStyle with another count of hours');
    mustFit(resolved);
    mustFitTime(resolved, region, this.#twelve);
    this.#options = resolved;
    this.format = (date) => this.formatToParts(date).map((part) => part.value).join('').replaceAll(NARROW, ' ');
  }
  formatToParts(value) {
    const moment = value === undefined ? run.now : Number(value);
    if (!Number.isFinite(moment)) throw new RangeError('Invalid time value');
    const options = this.#options;
    const date = wall(this.#zone, moment);
    const region = this.#region;
    const dates = region ? datePartsIn(region, options, date, this.#words, this.#twelve) : dateParts(options, date, this.#words);
    const times = timeParts(options, date, this.#twelve, region);
    if (region && options.timeZoneName && (this.#zone !== 'UTC' || options.timeZoneName === 'long')) refuseRegion(region, 'The name of a zone');
    const onlyWeekday = options.weekday && !options.day && !options.month && !options.year;
    const wordy = onlyWeekday ? behindWeekday(region?.tag, options, this.#twelve) : region ? betweenIn(region, options) : options.month === 'long' ? ' at ' : ', ';
    const parts = [...dates, ...(dates.length && times.length ? [literal(wordy)] : []), ...times];
    if (options.timeZoneName) parts.push(literal(times.length ? ' ' : ', '), part('timeZoneName', /^[+-]/.test(this.#zone) ? `GMT${this.#zone}` : zoneTitle(this.#zone, moment, options.timeZoneName)));
    return parts;
  }
  formatRange() {
    return fault('A range of dates is not written as one text here. Write its start and its end yourself.');
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
    freeze(this); // the date library keeps it, as it does the formats of numbers and dates
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

// Letters sorted like others, and in two languages behind others: ᴀ, ᴁ and ᴂ stand behind z, ᴢ behind every letter.
const SORTED_AS = { ß: 'ss', ẞ: 'ss', æ: 'ae', œ: 'oe', ø: 'o', ð: 'd', đ: 'd', ħ: 'h', ł: 'l', ŀ: 'l', ĳ: 'ij', ſ: 's', ı: 'iᴢ' };
const SORTED_IN = { sv: { å: 'ᴀ', ä: 'ᴁ', æ: 'ᴁ', ę: 'ᴁ', ö: 'ᴂ', ø: 'ᴂ', ő: 'ᴂ', œ: 'ᴂ', ô: 'ᴂ', ü: 'y', ű: 'y' }, es: { ñ: 'nᴢ' } };

const BEYOND_ASCII = /[^\0-\x7f]/;
const MOST_KEPT = 10_000;
const LONGEST_KEPT = 200;
let keptTexts = Object.create(null); // a sort compares each text many times
let keptCount = 0;

/** A text in small letters without marks, as `language` sorts it. */
const bare = (text, language) => {
  if (!BEYOND_ASCII.test(text)) return text.toLowerCase();
  if (text.length > LONGEST_KEPT) return sortedAs(text, language);
  const key = `${language} ${text}`;
  if (keptTexts[key] !== undefined) return keptTexts[key];
  if (keptCount >= MOST_KEPT) [keptTexts, keptCount] = [Object.create(null), 0];
  keptCount += 1;
  return (keptTexts[key] = sortedAs(text, language));
};

const sortedAs = (text, language) => {
  const own = SORTED_IN[language];
  const small = text.normalize('NFC').toLowerCase();
  const kept = own ? small.replace(/[^\0-\x7f]/gu, (letter) => own[letter] ?? letter) : small;
  return kept.normalize('NFD').replace(/\p{M}/gu, '').replace(/[\p{No}\ufb00-\ufb06]/gu, (sign) => sign.normalize('NFKD')).replace(/[ßẞæœøðđħłŀĳſı]/gu, (letter) => SORTED_AS[letter]);
};
const MARKS_ORDER = '\t\n\v\f\r _-–—,;:!¡?¿.…·\'‘’‹›"“”„«»()[]{}§¶@*/\\&#%‰†‡•′″`´^¯¨¸°©®+±÷×<=>¬|¦~¤¢$£¥€™';

const ranks = Object.create(null);

/** The rank of a sign among all: blanks, marks, digits, letters. */
const rankOf = (sign) => (ranks[sign] ??= rankAmongAll(sign));

const rankAmongAll = (sign) => {
  const index = MARKS_ORDER.indexOf(sign[0]);
  if (index >= 0) return index;
  return /\s/.test(sign) ? 5 : /[^\p{L}\p{N}]/u.test(sign) ? 100 : /\p{N}/u.test(sign) ? 101 : 102;
};

const byRank = (x, y) => (rankOf(x) !== rankOf(y) ? Math.sign(rankOf(x) - rankOf(y)) : x < y ? -1 : 1);

/** The order of two texts by their first different sign. */
const bySigns = (first, other) => {
  const shorter = Math.min(first.length, other.length);
  let index = 0;
  while (index < shorter && first[index] === other[index]) index += 1;
  if (index === shorter) return Math.sign(first.length - other.length);
  if (index > 0 && /[\ud800-\udbff]/.test(first[index - 1])) index -= 1; // within a pair
  return byRank(String.fromCodePoint(first.codePointAt(index)), String.fromCodePoint(other.codePointAt(index)));
};

/** The order of two texts whose digits count as numbers. */
const byNumbers = (first, other) => {
  const [signs, otherSigns] = [first, other].map((text) => text.match(/\d+|[^]/gu) ?? []);
  for (let index = 0; index < Math.min(signs.length, otherSigns.length); index += 1) {
    const [x, y] = [signs[index], otherSigns[index]];
    if (x === y) continue;
    if (!/^\d/.test(x) || !/^\d/.test(y)) return byRank(x, y);
    if (Number(x) !== Number(y)) return Math.sign(Number(x) - Number(y));
  }
  return Math.sign(signs.length - otherSigns.length);
};

// The marks of letters in their order, by code point; those joined by = count as one.
const MARKS_OF_LETTERS = '332 313=343 314 301=341 300=340 306 302 30c 30a 342 308 344 30b 303 307 338 327 328 304 30d=30e=312=315=31a=33d=33e=33f=346=34a=34b=34c=350=351=352=357=35b=35d=35e 316=317=318=319=31c=31d=31e=31f=320=329=32a=32b=32c=32f=333=33a=33b=33c=347=348=349=34d=34e=353=354=355=356=359=35a=35c=35f=362 336=337 335 305 309 30f 310 311 31b 321 322 323 324 325 326 32d 32e 330 331 334 339 345 358 360 361';
const MARK_RANKS = Object.create(null);
MARKS_OF_LETTERS.split(' ').forEach((group, index) => group.split('=').forEach((code) => (MARK_RANKS[String.fromCodePoint(parseInt(code, 16))] = index + 1)));
const STRUCK = { ø: 'o\u0338', đ: 'd\u0335', ħ: 'h\u0335', ł: 'l\u0335' };

const RANKED_IN = { sv: ['äæę', 'öøőœô', 'yüű'] }; // letters that differ as marks do, in their order
const BEHIND_MARKS = 0x110000;

const ranksOf = (sign) => {
  if (MARK_RANKS[sign]) return [MARK_RANKS[sign]];
  if (/\p{M}/u.test(sign)) return [sign.codePointAt(0)];
  return SORTED_AS[sign] || /[\p{No}\ufb00-\ufb06]/u.test(sign) ? [0, BEHIND_MARKS + sign.codePointAt(0)] : [0];
};

/** The ranks of the marks of a text, with 0 for each letter; letters sorted as others stand behind all marks. */
const markRanks = (text, language) =>
  Array.from(text.normalize('NFC').toLowerCase()).flatMap((letter) => {
    const index = RANKED_IN[language]?.find((letters) => letters.includes(letter))?.indexOf(letter);
    if (index !== undefined) return index ? [0, BEHIND_MARKS + index] : [0];
    return Array.from(STRUCK[letter] ?? letter.normalize('NFD')).flatMap(ranksOf);
  });

/** The order of two texts of the same letters by the first different mark. */
const byMarks = (first, other, language) => {
  const [ranks, otherRanks] = [markRanks(first, language), markRanks(other, language)];
  const index = ranks.findIndex((rank, position) => rank !== otherRanks[position]);
  if (index < 0) return Math.sign(ranks.length - otherRanks.length);
  return Math.sign(ranks[index] - (otherRanks[index] ?? -1));
};

/** A text of 1 for each capital and 0 for each other sign. */
const capitalsOf = (text) => text.normalize('NFD').replace(/\p{M}/gu, '').replace(/[^]/gu, (sign) => (sign === sign.toLowerCase() ? '0' : '1'));

/** The order a dictionary has: letters first, then accents, then capitals after small letters. */
const collate = (a, b, language, numeric = false, sensitivity = 'variant') => {
  const [first, other] = [bare(a, language), bare(b, language)];
  const order = numeric ? byNumbers(first, other) : bySigns(first, other);
  if (order !== 0) return order;
  if (a === b || sensitivity === 'base') return 0;
  if (numeric) [a, b] = [a, b].map((text) => text.replace(/(?<!\d)0+(?=\d)/g, ''));
  const orderOfMarks = sensitivity === 'case' ? 0 : byMarks(a, b, language);
  if (orderOfMarks !== 0 || sensitivity === 'accent') return orderOfMarks;
  const [x, y] = [a, b].map(capitalsOf);
  return x === y ? 0 : x < y ? -1 : 1;
};

const languageOf = (locale) => (locale === undefined ? 'en' : String(isList(locale) ? locale[0] : locale).slice(0, 2).toLowerCase());

class Collating {
  constructor(locale, options = {}) {
    if (options.ignorePunctuation) fault('Texts are not compared without their punctuation here. Take it out of them first.');
    const language = languageOf(locale);
    this.compare = (a, b) => collate(String(a), String(b), language, options.numeric === true, options.sensitivity);
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
const localNumber = function toLocaleString(locale, options) {
  return new NumberFormat(locale, options).format(this);
};
hide(Number.prototype, 'toLocaleString', localNumber);
hide(BigInt.prototype, 'toLocaleString', localNumber);
hide(String.prototype, 'localeCompare', function localeCompare(other, locale, options) {
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
hide(RealDate.prototype, 'toLocaleString', localDate({ ...DAY, ...CLOCK }, [...ASKS_DATE, ...ASKS_TIME]));
hide(RealDate.prototype, 'toLocaleDateString', localDate(DAY, ASKS_DATE, 'timeStyle'));
hide(RealDate.prototype, 'toLocaleTimeString', localDate(CLOCK, ASKS_TIME, 'dateStyle'));
