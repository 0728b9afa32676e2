// Number and date formats of other locales. Unsupported options fail instead of falling back to English.

/** The formats of each supported locale except American English, by locale tag. */
const REGIONS = {
  'en-GB': { sep: '/', padded: true, weekday: ', ', at: ' at ', signs: { USD: 'US$', EUR: '€', GBP: '£' }, shortYear: 'numeric' },
  'de-DE': { sep: '.', weekday: ', ', at: ' um ', signs: { USD: '$', EUR: '€', GBP: '£' }, shortYear: '2-digit', group: '.', point: ',', percent: '\u00a0%', after: true, hour: ' Uhr' },
  'fr-FR': { sep: '/', padded: true, weekday: ' ', at: ' à ', numeric: ' ', signs: { USD: '$US', EUR: '€', GBP: '£GB' }, shortYear: 'numeric', group: '\u202f', point: ',', percent: '\u00a0%', after: true, hour: ' h' },
  'es-ES': { sep: '/', bare: true, weekday: ', ', at: ' a las ', full: ', ', of: ' de ', signs: { USD: 'US$', EUR: '€' }, shortYear: '2-digit', group: '.', point: ',', percent: '\u00a0%', after: true, grouped: 5 },
  'it-IT': { sep: '/', padded: true, weekday: ' ', at: ' alle ore ', signs: { USD: 'USD', EUR: '€', GBP: '£' }, shortYear: '2-digit', group: '.', point: ',', percent: '%', after: true, grouped: 5 },
  'nl-NL': { sep: '-', weekday: ' ', at: ' om ', signs: { USD: 'US$', EUR: '€', GBP: '£' }, shortYear: 'numeric', group: '.', point: ',', percent: '%', gap: '\u00a0', inner: true },
  'pt-BR': { sep: '/', padded: true, weekday: ', ', at: ' às ', of: ' de ', always: true, signs: { USD: 'US$', EUR: '€', GBP: '£', BRL: 'R$' }, shortYear: 'numeric', group: '.', point: ',', percent: '%', gap: '\u00a0' },
  'en-CA': { iso: true, at: ' at ', signs: { CAD: '$', USD: 'US$', EUR: '€', GBP: '£' }, shortYear: 'numeric', twelve: true },
  'sv-SE': { iso: true, slash: '/', weekday: ' ', at: ' kl. ', short: ' ', numeric: ' ', signs: { SEK: 'kr', USD: 'US$', EUR: '€', NOK: 'Nkr', DKK: 'Dkr' }, shortYear: 'numeric', group: '\u00a0', point: ',', percent: '\u00a0%', after: true, minus: '\u2212' },
};
const PERIODS = { 'en-GB': ['am', 'pm'], 'en-CA': ['a.m.', 'p.m.'], 'es-ES': ['a. m.', 'p. m.'], 'nl-NL': ['a.m.', 'p.m.'] };

/** Returns the formats of a locale with its tag, or null for American English and for unknown locales. */
const regionOf = (locale) => {
  const requestedTag = String(isList(locale) ? locale[0] : (locale ?? '')).replace('_', '-');
  const tag = requestedTag.includes('-') ? requestedTag : Object.keys(REGIONS).find((candidate) => candidate.startsWith(`${requestedTag}-`) && requestedTag !== 'en');
  return tag !== undefined && Object.hasOwn(REGIONS, tag) ? { tag, ...REGIONS[tag] } : null;
};

const refuseRegion = (region, what) => fault(`${what} is not supported in “${region.tag}” here. Leave it out, or write the words yourself.`);

/** Converts a number's text from American English to the locale's format. */
const numberIn = (region, text, digitsBefore) => {
  const [group, point] = [region.group ?? ',', region.point ?? '.'];
  const separator = digitsBefore < (region.grouped ?? 0) ? '' : group;
  return text.replace(/[,.]/g, (sign) => (sign === ',' ? separator : point));
};

/** Returns an amount, already in the locale's digits, with its currency sign. */
const moneyIn = (region, text, currency, code, negative) => {
  const sign = code ? currency : (region.signs[currency] ?? (/^(?:CHF|SEK|NOK|DKK|PLN|CZK|HUF|RON|BGN|TRY)$/.test(currency) ? currency : refuseRegion(region, `Money in ${currency}`)));
  const minus = negative ? (region.minus ?? '-') : '';
  if (region.after) return `${minus}${text}\u00a0${sign}`;
  const gap = region.gap ?? (/[A-Z]$/.test(sign) ? '\u00a0' : '');
  return region.inner ? `${sign}${gap}${minus}${text}` : `${minus}${sign}${gap}${text}`;
};

/** Returns the options that a date style stands for in the locale. */
const styleIn = (region, style) => {
  const [day, month, year] = ['numeric', 'long', 'numeric'];
  if (style === 'full') return { weekday: 'long', day, month, year };
  if (style === 'long') return { day, month, year };
  const padded = { day: '2-digit', month: '2-digit' };
  if (style === 'medium') return region.tag === 'de-DE' ? { ...padded, year } : { day, month: 'short', year };
  return { ...(region.tag === 'es-ES' ? { day, month: 'numeric' } : padded), year: region.shortYear };
};

/** Returns whether the locale omits leading zeros of day and month whatever the options say. */
const bareIn = (region, options) => region.tag === 'es-ES' && (options.day ? !options.year && !options.weekday : options.year || options.weekday);

/** Returns the parts of a numeric date in ISO order; a date without a year keeps the locale's order. */
const isoPartsIn = (region, options, date, words) => {
  const slashed = region.slash && !options.year;
  const dashed = options.month && (options.year || (options.day && !slashed));
  const pad = dashed && (options.weekday || !options.day || options.day === options.month) ? '2-digit' : null;
  const monthSize = slashed && options.day === 'numeric' && !options.weekday ? 'numeric' : options.month;
  const day = options.day && part('day', sized(pad ?? options.day, date.getUTCDate()));
  const month = options.month && part('month', sized(pad ?? monthSize, date.getUTCMonth() + 1));
  const year = options.year && part('year', sized(options.year, date.getUTCFullYear()));
  const digits = (slashed ? [day, month] : [year, month, day]).filter(Boolean);
  const parts = digits.flatMap((digit, index) => (index ? [literal(slashed ? region.slash : '-'), digit] : [digit]));
  if (!options.weekday) return parts;
  const weekday = part('weekday', wordOf(words.days, words.formDays, date.getUTCDay(), options.weekday));
  return digits.length ? [weekday, literal(dashed ? ', ' : ' '), ...parts] : [weekday];
};

/** Returns whether the options give day and month different widths, which the locale then keeps. */
const isMixed = (region, options) => {
  if (options.weekday || !options.day || !options.month || options.day === options.month) return false;
  if (region.tag === 'it-IT') return options.year === '2-digit';
  return region.tag !== 'fr-FR' || Boolean(options.year);
};

const datePartsIn = (region, options, date, words, twelve) => {
  if (options.era) refuseRegion(region, 'An era');
  const month = date.getUTCMonth();
  const worded = /^(?:long|short|narrow)$/.test(options.month ?? '');
  if (region.iso && !worded) return isoPartsIn(region, options, date, words);
  if (region.tag === 'en-CA') return dateParts(options, date, words);
  const alone = !options.day && !options.year && !options.weekday;
  const shortMonths = alone ? words.shortMonths : words.formMonths;
  const isBesideTime = !options.timeZoneName && options.hour && (options.minute || twelve);
  const isBesideOthers = options.day || options.month || options.year || isBesideTime;
  const shortDays = isBesideOthers ? words.formDays : words.shortDays;
  const german = region.tag === 'de-DE';
  const padded = region.padded && !isMixed(region, options) || (german && !options.year && !options.weekday && options.month === '2-digit');
  const pad = padded && !worded && options.month && (options.day || options.year) ? '2-digit' : null;
  const size = (style) => (!worded && options.month && bareIn(region, options) ? 'numeric' : (pad ?? style));
  const day = options.day && part('day', sized(size(options.day), date.getUTCDate()));
  const year = options.year && part('year', sized(options.year, date.getUTCFullYear()));
  const middle = options.month && part('month', worded ? wordOf(words.months, shortMonths, month, options.month) : sized(size(options.month), month + 1));
  const hasSpanishShortMonth = region.tag === 'es-ES' && options.weekday === 'long' && options.month === 'short' && options.day && options.year;
  const of = region.of && (region.always || options.month === 'long' || hasSpanishShortMonth) ? region.of : ' ';
  const [first, second] = worded ? [german ? '. ' : of, of] : [region.sep, german && !options.day ? '/' : region.sep];
  const parts = [];
  if (options.weekday) parts.push(part('weekday', wordOf(words.days, shortDays, date.getUTCDay(), options.weekday)));
  if (parts.length && (day || middle || year)) parts.push(literal(region.tag === 'en-GB' && !year || region.tag === 'es-ES' && !middle ? ' ' : region.weekday));
  if (day) parts.push(day);
  if (day && middle) parts.push(literal(first));
  if (middle) parts.push(middle);
  if ((day || middle) && year) parts.push(literal(second));
  if (year) parts.push(year);
  if (german && !worded && day && (middle ? !year : options.weekday)) parts.push(literal('.'));
  return parts;
};

/** Returns whether an hour below ten gets a leading zero: if no other width than the locale's is requested. */
const hourPadded = (region, options) => {
  if (region.twelve) return true;
  if (region.bare) return false;
  if (options.timeZoneName) return Boolean(options.timeStyle) || !options.second;
  if (!options.minute) return region.tag !== 'it-IT';
  if (options.weekday && !options.day && !options.month) return true;
  return options.minute === 'numeric' || options.second === 'numeric';
};

/** Returns the text between a weekday without a date and a time. */
const behindWeekday = (tag, options, twelve) => {
  const { hour, minute, second } = options;
  if (tag === 'fr-FR' || tag === 'sv-SE') return ' ';
  if (tag === 'pt-BR' || options.timeZoneName) return ', ';
  if (tag === 'de-DE') return twelve && hour && minute && !second ? ' ' : ', ';
  if (tag === 'es-ES') return twelve && hour && !minute ? ' ' : ', ';
  return hour && (minute || twelve) ? ' ' : ', ';
};

/** Returns the text between a date and a time. */
const betweenIn = (region, options) => {
  if (options.month === 'long') return options.weekday && region.full ? region.full : region.at;
  return /short|narrow/.test(options.month ?? '') ? (region.short ?? ', ') : (region.numeric ?? ', ');
};
