// Intl in English: numbers and dates as American English writes them, for the date library and for scripts.

const SIGNS = { USD: '$', EUR: '€', GBP: '£', JPY: '¥', INR: '₹', CNY: 'CN¥', KRW: '₩', BRL: 'R$', CAD: 'CA$', AUD: 'A$',
  MXN: 'MX$', NZD: 'NZ$', ILS: '₪', VND: '₫', TWD: 'NT$', HKD: 'HK$', PHP: '₱' };

const grouped = (digits) => digits.replace(/\B(?=(?:\d{3})+$)/g, ',');

/** Digits of a number: at least and at most so many after the point. */
const written = (number, least, most, group) => {
  const fixed = Math.abs(number) < 1e21 ? Math.abs(number).toFixed(Math.min(most, 100)) : String(Math.abs(number));
  const [whole, part = ''] = fixed.split('.');
  let kept = part;
  while (kept.length > least && kept.endsWith('0')) kept = kept.slice(0, -1);
  return (group ? grouped(whole) : whole) + (kept ? `.${kept}` : '');
};

const compact = (number) => {
  const steps = [[1e12, 'T'], [1e9, 'B'], [1e6, 'M'], [1e3, 'K']];
  const [by, sign] = steps.find(([size]) => Math.abs(number) >= size) ?? [1, ''];
  const small = number / by;
  return written(small, 0, Math.abs(small) < 10 ? 1 : 0, true) + sign;
};

class NumberFormat {
  #asked;
  constructor(locale, asked = {}) {
    this.#asked = { ...asked };
    this.format = (number) => this.#format(number);
  }
  #format(given) {
    const asked = this.#asked;
    const number = typeof given === 'bigint' ? given : Number(given);
    if (typeof number === 'bigint') return grouped(String(number));
    if (Number.isNaN(number)) return 'NaN';
    const money = asked.style === 'currency';
    const base = money ? (asked.currency === 'JPY' || asked.currency === 'KRW' ? 0 : 2) : 0;
    const least = asked.minimumFractionDigits ?? Math.min(base, asked.maximumFractionDigits ?? base);
    const most = asked.maximumFractionDigits ?? Math.max(least, money ? base : asked.style === 'percent' ? 0 : 3);
    const value = asked.style === 'percent' ? number * 100 : number;
    const minus = value < 0 || Object.is(value, -0) ? '-' : '';
    let text = Number.isFinite(value) ? written(value, least, most, asked.useGrouping !== false) : '∞';
    if (asked.notation === 'compact' && Number.isFinite(value)) text = compact(Math.abs(value));
    if (asked.maximumSignificantDigits && Number.isFinite(value)) {
      text = written(Number(Math.abs(value).toPrecision(asked.maximumSignificantDigits)), 0, 20, asked.useGrouping !== false);
    }
    if (asked.minimumIntegerDigits) text = text.padStart(text.length + Math.max(0, asked.minimumIntegerDigits - text.split('.')[0].length), '0');
    if (asked.style === 'percent') text += '%';
    if (money) text = asked.currencyDisplay === 'code' ? `${asked.currency}\u00a0${text}` : `${SIGNS[asked.currency] ?? `${asked.currency}\u00a0`}${text}`;
    if (asked.style === 'unit') {
      const many = asked.unitDisplay === 'long' && text !== '1' ? 's' : '';
      text += asked.unitDisplay === 'narrow' ? asked.unit[0] : asked.unitDisplay === 'long' ? ` ${asked.unit}${many}` : ` ${asked.unit.slice(0, 3)}`;
    }
    return (/[1-9∞]/.test(text) || minus === '' ? minus : '-') + text;
  }
  formatToParts(number) {
    return [{ type: 'literal', value: this.format(number) }];
  }
  resolvedOptions() {
    return { locale: 'en-US', numberingSystem: 'latn', style: 'decimal', ...this.#asked };
  }
  static supportedLocalesOf() {
    return ['en-US'];
  }
}

const STYLES = {
  full: { weekday: 'long', month: 'long', day: 'numeric', year: 'numeric' },
  long: { month: 'long', day: 'numeric', year: 'numeric' },
  medium: { month: 'short', day: 'numeric', year: 'numeric' },
  short: { month: 'numeric', day: 'numeric', year: '2-digit' },
};
const TIMES = {
  full: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'long' },
  long: { hour: 'numeric', minute: '2-digit', second: '2-digit', timeZoneName: 'short' },
  medium: { hour: 'numeric', minute: '2-digit', second: '2-digit' },
  short: { hour: 'numeric', minute: '2-digit' },
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

const timeParts = (asked, date, twelve) => {
  const hour = date.getUTCHours();
  const made = [];
  const add = (one) => made.push(...(made.length ? [literal(':')] : []), one);
  const others = asked.minute || asked.second;
  if (asked.hour) {
    const shown = twelve ? hour % 12 || 12 : asked.hourCycle === 'h24' && hour === 0 ? 24 : hour;
    add(part('hour', asked.hour === '2-digit' || !twelve ? two(shown) : shown));
  }
  if (asked.minute) add(part('minute', asked.hour || asked.second || asked.minute === '2-digit' ? two(date.getUTCMinutes()) : date.getUTCMinutes()));
  if (asked.second) add(part('second', others && (asked.hour || asked.minute) ? two(date.getUTCSeconds()) : sized(asked.second, date.getUTCSeconds())));
  if (asked.fractionalSecondDigits) {
    made.push(literal('.'), part('fractionalSecond', String(date.getUTCMilliseconds()).padStart(3, '0').slice(0, asked.fractionalSecondDigits)));
  }
  if (asked.hour && twelve) made.push(literal(' '), part('dayPeriod', hour < 12 ? 'AM' : 'PM'));
  return made;
};

class DateTimeFormat {
  #asked;
  #words;
  #zone;
  #twelve;
  constructor(locale, asked = {}) {
    const given = { ...(asked ?? {}) };
    this.#words = wordsIn(locale);
    const zone = given.timeZone === undefined ? 'UTC' : /^[+-]\d\d?(?::?\d\d)?$/.test(given.timeZone) ? given.timeZone : canonicalZone(given.timeZone);
    if (zone === null) throw new RangeError(`Invalid time zone specified: ${given.timeZone}`);
    this.#zone = zone;
    this.#twelve = given.hourCycle ? /^h1[12]$/.test(given.hourCycle) : given.hour12 !== false;
    if (given.dateStyle) Object.assign(given, STYLES[given.dateStyle]);
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
    const dates = dateParts(asked, date, this.#words);
    const times = timeParts(asked, date, this.#twelve);
    const wordy = asked.month === 'long' ? ' at ' : ', ';
    const made = [...dates, ...(dates.length && times.length ? [literal(wordy)] : []), ...times];
    if (asked.timeZoneName) made.push(literal(times.length ? ' ' : ', '), part('timeZoneName', /^[+-]/.test(this.#zone) ? `GMT${this.#zone}` : zoneTitle(this.#zone, moment, asked.timeZoneName)));
    return made;
  }
  formatRange(from, to) {
    return `${this.format(from)} – ${this.format(to)}`;
  }
  resolvedOptions() {
    return { locale: 'en-US', calendar: 'gregory', numberingSystem: 'latn', timeZone: this.#zone, hourCycle: this.#twelve ? 'h12' : 'h23' };
  }
  static supportedLocalesOf() {
    return ['en-US'];
  }
}

class ListFormat {
  #word;
  constructor(locale, asked = {}) {
    this.#word = asked.type === 'disjunction' ? 'or' : asked.type === 'unit' || asked.style === 'narrow' ? '' : 'and';
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
  }
  select(number) {
    if (!this.#ordinal) return number === 1 ? 'one' : 'other';
    const tens = number % 100;
    return tens > 10 && tens < 14 ? 'other' : ({ 1: 'one', 2: 'two', 3: 'few' }[number % 10] ?? 'other');
  }
}

class Collator {
  #numeric;
  #loose;
  constructor(locale, asked = {}) {
    this.#numeric = asked.numeric === true;
    this.#loose = asked.sensitivity === 'base' || asked.sensitivity === 'accent';
    this.compare = (a, b) => collate(String(a), String(b), this.#numeric, this.#loose);
  }
}

const bare = (text) => text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();

/** The order a dictionary has: letters first, then accents, then capitals after small letters. */
const collate = (a, b, numeric = false, loose = false) => {
  const [left, right] = [bare(a), bare(b)];
  const cut = (text) => (numeric ? text.match(/\d+|\D+/g) ?? [] : [...text]);
  const rank = (sign) => (/\s/.test(sign) ? 0 : /[^\p{L}\p{N}]/u.test(sign) ? 1 : /\p{N}/u.test(sign) ? 2 : 3);
  const [one, other] = [cut(left), cut(right)];
  for (let place = 0; place < Math.min(one.length, other.length); place += 1) {
    const [x, y] = [one[place], other[place]];
    if (x === y) continue;
    if (numeric && /^\d/.test(x) && /^\d/.test(y)) return Math.sign(Number(x) - Number(y)) || 0;
    return rank(x[0]) !== rank(y[0]) ? Math.sign(rank(x[0]) - rank(y[0])) : x < y ? -1 : 1;
  }
  if (one.length !== other.length) return Math.sign(one.length - other.length);
  if (loose || a === b) return 0;
  const [x, y] = [a.normalize('NFD').toLowerCase(), b.normalize('NFD').toLowerCase()];
  if (x !== y) return x < y ? -1 : 1;
  return a > b ? -1 : 1;
};

hide(Engine, 'Intl', { DateTimeFormat, NumberFormat, ListFormat, PluralRules, Collator, getCanonicalLocales: () => ['en-US'], supportedValuesOf: (kind) => (kind === 'timeZone' ? [...zoneNames.values()] : []) });
const localNumber = function toLocaleString(locale, asked) {
  return new NumberFormat(locale, asked).format(this);
};
hide(Number.prototype, 'toLocaleString', localNumber);
hide(BigInt.prototype, 'toLocaleString', localNumber);
hide(String.prototype, 'localeCompare', function localeCompare(other, locale, asked) {
  return new Collator(locale, asked).compare(this, other);
});
const DAY = { year: 'numeric', month: 'numeric', day: 'numeric' };
const CLOCK = { hour: 'numeric', minute: '2-digit', second: '2-digit' };
const localDate = (base, keys) =>
  function toLocaleString(locale, asked = {}) {
    if (Number.isNaN(this.getTime())) return 'Invalid Date';
    const filled = keys.some((key) => asked[key]) ? asked : { ...base, ...asked };
    return new DateTimeFormat(locale, filled).format(this);
  };
hide(RealDate.prototype, 'toLocaleString', localDate({ ...DAY, ...CLOCK }, [...ASKS_DATE, ...ASKS_TIME]));
hide(RealDate.prototype, 'toLocaleDateString', localDate(DAY, ASKS_DATE));
hide(RealDate.prototype, 'toLocaleTimeString', localDate(CLOCK, ASKS_TIME));
