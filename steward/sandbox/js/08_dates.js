// Sets luxon to the run's clock and time zone, and defines the extensions of dates.

const UNITS = { week: 'weekNumber', yearDayNumber: 'ordinal', dayOfYear: 'ordinal', weekday: 'weekday' };

/** Sets luxon's defaults for the current message. */
const setUpDates = () => {
  if (!luxon) return;
  luxon.Settings.resetCaches();
  luxon.Settings.defaultZone = run.zone;
  luxon.Settings.defaultLocale = 'en-US';
  luxon.Settings.now = () => run.now;
};

if (luxon) {
  // These methods expose internal objects that luxon shares between all dates.
  for (const name of ['buildFormatParser', 'fromFormatParser', 'fromFormatExplain', 'fromStringExplain']) delete luxon.DateTime[name];
  // luxon caches zones and shares them between all dates.
  const zoneNamed = luxon.IANAZone.create;
  luxon.IANAZone.create = (name) => freeze(zoneNamed.call(luxon.IANAZone, name));
  luxon.IANAZone.isValidZone = (name) => typeof name === 'string' && (minutesOf(name) !== null || canonicalZone(name) !== null);
  luxon.IANAZone.prototype.offset = function offset(moment) {
    if (!this.valid || !Number.isFinite(moment)) return NaN;
    return minutesOf(this.name) ?? offsetAt(canonicalZone(this.name), moment).seconds / 60;
  };
}

/** Matches the most common form of a date, which is parsed here because it is faster than luxon's parser. */
const MOMENT = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{3}))?(?:Z|([+-])(\d\d):(\d\d))$/;

const momentOf = (text) => {
  const match = MOMENT.exec(text);
  if (!match) return NaN;
  const [, year, month, day, hour, minute, second, part = 0, sign, hours = 0, minutes = 0] = match;
  if (month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59 || hours > 14 || minutes > 59) return NaN;
  const moment = RealDate.UTC(year, month - 1, day, hour, minute, second, part);
  if (new RealDate(moment).getUTCDate() !== Number(day) || year < 100) return NaN;
  return moment - (sign === '-' ? -1 : 1) * (hours * 60 + Number(minutes)) * 60000;
};

if (luxon) {
  const slow = luxon.DateTime.fromISO;
  luxon.DateTime.fromISO = function fromISO(text, options) {
    const moment = options === undefined && typeof text === 'string' ? momentOf(text) : NaN;
    return Number.isNaN(moment) ? slow.call(luxon.DateTime, text, options) : luxon.DateTime.fromMillis(moment);
  };
}

const asDateTime = (value) => (luxon.DateTime.isDateTime(value) ? value : luxon.DateTime.fromJSDate(value));

/** Converts an argument of a date method to a luxon date. */
const anyDate = (value) => {
  if (value instanceof RealDate || luxon.DateTime.isDateTime(value)) return asDateTime(value);
  if (typeof value === 'number') return luxon.DateTime.fromMillis(value);
  if (typeof value === 'string') return dateOfText(value);
  return fault('A date is needed here: write it as 2025-01-31.');
};

const EXCEL_DAYS = 25569; // days from 1899-12-30 to 1970-01-01

const dateOfNumber = (number, format = 'ms') => {
  const sizes = { ms: 1, s: 1000, us: 0.001 };
  const date = format === 'excel' ? luxon.DateTime.fromMillis(Math.round((number - EXCEL_DAYS) * 86400000)) : luxon.DateTime.fromMillis(Math.trunc(number * (sizes[format] ?? fault(`The unit of time “${format}” is not known. Use ms, s, us or excel.`))));
  return date.isValid ? date : fault(`${number} is not a valid time.`);
};

const READERS = ['fromISO', 'fromRFC2822', 'fromHTTP', 'fromSQL'];

/** Parses a date; it keeps the zone given in the text, else it is in the workflow's zone. */
const dateOfText = (text, format) => {
  const trimmed = text.trim();
  if (['ms', 's', 'us', 'excel'].includes(format)) return dateOfNumber(Number(trimmed), format);
  if (format) {
    const date = luxon.DateTime.fromFormat(trimmed, format);
    return date.isValid ? date : fault(`“${text.slice(0, 60)}” is not a date in the format “${format}”.`);
  }
  for (const reader of READERS) {
    const date = luxon.DateTime[reader](trimmed, { setZone: true });
    if (date.isValid) return date;
  }
  if (/^\d{9,}$/.test(trimmed)) return dateOfNumber(Number(trimmed));
  const plain = new RealDate(momentOfText(trimmed));
  if (!Number.isNaN(plain.getTime()) && /\d/.test(trimmed)) return luxon.DateTime.fromJSDate(plain);
  return fault(`“${text.slice(0, 60)}” is not a date. Write it as 2025-01-31.`);
};

const inClassOf = (original, result) => (original instanceof RealDate ? result.toJSDate() : result);
const span = (amount, unit) => (typeof amount === 'object' ? amount : { [unit]: amount });

/** Returns `plus` or `minus` taking a number and a unit; other arguments are passed to luxon's method. */
const moved = (name) => (date, amount, unit = 'milliseconds') =>
  inClassOf(date, asDateTime(date)[name](typeof amount === 'number' ? span(amount, unit) : amount));

EXTENSIONS.date = {
  isEmpty: () => false,
  isNotEmpty: () => true,
  plus: moved('plus'),
  minus: moved('minus'),
  beginningOf: (date, unit = 'week') => inClassOf(date, asDateTime(date).startOf(unit)),
  endOfMonth: (date) => inClassOf(date, asDateTime(date).endOf('month')),
  extract: (date, unit = 'week') => {
    const key = String(unit).replace(/s$/, '');
    return asDateTime(date).get(UNITS[key] ?? key);
  },
  format: (date, format, options) => asDateTime(date).toFormat(format, options),
  isBetween: (date, first, other) => {
    const [from, to] = [anyDate(first), anyDate(other)].map(Number).sort((a, b) => a - b);
    return Number(date) > from && Number(date) < to;
  },
  isDst: (date) => asDateTime(date).isInDST,
  isInLast: (date, amount = 0, unit = 'minutes') => {
    const from = luxon.DateTime.now().minus({ [unit]: amount });
    return Number(date) >= Number(from) && Number(date) <= run.now;
  },
  isWeekend: (date) => asDateTime(date).weekday > 5,
  diffTo: (date, other, unit = 'days') => {
    const apart = asDateTime(date).diff(anyDate(other), unit);
    return isList(unit) ? apart.toObject() : apart.as(unit);
  },
  diffToNow: (date, unit = 'days') => EXTENSIONS.date.diffTo(date, luxon.DateTime.now(), unit),
  toDateTime: (date) => asDateTime(date),
  toInt: (date) => Number(date),
  toNumber: (date) => Number(date),
  toJsonString: (date) => JSON.stringify(date),
};

for (const table of Object.values(EXTENSIONS)) {
  for (const name of Object.keys(table)) if (!$ext$[name]) defineExtension(name);
}
$ext$.$isEmpty = (value, ...args) => (value === null || value === undefined ? true : value[$ext$.isEmpty](...args));
$ext$.$isNotEmpty = (value, ...args) => (value === null || value === undefined ? false : value[$ext$.isNotEmpty](...args));
