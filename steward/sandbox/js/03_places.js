// How the languages around write numbers and dates; what is asked of them beyond this is refused, not written in English.

/** The places known besides American English, by their tag; each also by its language and country alone. */
const PLACES = {
  'en-GB': { sep: '/', padded: true, timed: ' ', weekday: ', ', at: ' at ', signs: { USD: 'US$', EUR: '€', GBP: '£' }, shortYear: 'numeric' },
  'de-DE': { sep: '.', timed: ', ', weekday: ', ', at: ' um ', signs: { USD: '$', EUR: '€', GBP: '£' }, shortYear: '2-digit', group: '.', point: ',', percent: '\u00a0%', after: true, hour: ' Uhr' },
  'fr-FR': { sep: '/', padded: true, timed: ' ', weekday: ' ', at: ' à ', numeric: ' ', signs: { USD: '$US', EUR: '€', GBP: '£GB' }, shortYear: 'numeric', group: '\u202f', point: ',', percent: '\u00a0%', after: true, hour: ' h' },
  'es-ES': { sep: '/', bare: true, timed: ', ', weekday: ', ', at: ' a las ', full: ', ', of: ' de ', signs: { USD: 'US$', EUR: '€' }, shortYear: '2-digit', group: '.', point: ',', percent: '\u00a0%', after: true, grouped: 5 },
  'it-IT': { sep: '/', padded: true, timed: ' ', weekday: ' ', at: ' alle ore ', signs: { USD: 'USD', EUR: '€', GBP: '£' }, shortYear: '2-digit', group: '.', point: ',', percent: '%', after: true, grouped: 5 },
  'nl-NL': { sep: '-', timed: ' ', weekday: ' ', at: ' om ', signs: { USD: 'US$', EUR: '€', GBP: '£' }, shortYear: 'numeric', group: '.', point: ',', percent: '%', gap: '\u00a0', inner: true },
  'pt-BR': { sep: '/', padded: true, timed: ', ', weekday: ', ', at: ' às ', of: ' de ', always: true, signs: { USD: 'US$', EUR: '€', GBP: '£', BRL: 'R$' }, shortYear: 'numeric', group: '.', point: ',', percent: '%', gap: '\u00a0' },
};
const PERIODS = { 'en-GB': ['am', 'pm'], 'es-ES': ['a. m.', 'p. m.'], 'nl-NL': ['a.m.', 'p.m.'] };

/** The place a locale names, with its tag; null: American English, or one that is not known. */
const placeOf = (locale) => {
  const asked = String(isList(locale) ? locale[0] : (locale ?? '')).replace('_', '-');
  const tag = asked.includes('-') ? asked : Object.keys(PLACES).find((one) => one.startsWith(`${asked}-`) && asked !== 'en');
  return tag !== undefined && Object.hasOwn(PLACES, tag) ? { tag, ...PLACES[tag] } : null;
};

const refusePlace = (place, what) => fault(`${what} is not written in “${place.tag}” here. Leave it out, or write the words yourself.`);

/** A number's text in American English, as the place writes it. */
const numberIn = (place, text, digitsBefore) => {
  const [group, point] = [place.group ?? ',', place.point ?? '.'];
  const kept = digitsBefore < (place.grouped ?? 0) ? '' : group;
  return text.replace(/[,.]/g, (sign) => (sign === ',' ? kept : point));
};

/** Money: digits as the place writes them, beside its sign of the currency. */
const moneyIn = (place, text, currency, code, negative) => {
  const sign = code ? currency : (place.signs[currency] ?? (/^(?:CHF|SEK|NOK|DKK|PLN|CZK|HUF|RON|BGN|TRY)$/.test(currency) ? currency : refusePlace(place, `Money in ${currency}`)));
  const minus = negative ? '-' : '';
  if (place.after) return `${minus}${text}\u00a0${sign}`;
  const gap = place.gap ?? (/[A-Z]$/.test(sign) ? '\u00a0' : '');
  return place.inner ? `${sign}${gap}${minus}${text}` : `${minus}${sign}${gap}${text}`;
};

/** What a style of dates asks for, in the place. */
const styleIn = (place, style) => {
  const [day, month, year] = ['numeric', 'long', 'numeric'];
  if (style === 'full') return { weekday: 'long', day, month, year };
  if (style === 'long') return { day, month, year };
  const padded = { day: '2-digit', month: '2-digit' };
  if (style === 'medium') return place.tag === 'de-DE' ? { ...padded, year } : { day, month: 'short', year };
  return { ...(place.tag === 'es-ES' ? { day, month: 'numeric' } : padded), year: place.shortYear };
};

/** Whether so little is asked that the place writes day and month without noughts whatever was asked. */
const bareIn = (place, asked) => place.tag === 'es-ES' && (!asked.day || (!asked.year && !asked.weekday));

const datePartsIn = (place, asked, date, words) => {
  if (asked.era) refusePlace(place, 'An era');
  const month = date.getUTCMonth();
  const worded = /^(?:long|short|narrow)$/.test(asked.month ?? '');
  const alone = !asked.day && !asked.year && !asked.weekday;
  const shortMonths = alone ? words.shortMonths : words.formMonths;
  const shortDays = asked.day || asked.month || asked.year ? words.formDays : words.shortDays;
  const pad = place.padded && !worded && asked.month && (asked.day || asked.year) ? '2-digit' : null;
  const size = (style) => (!worded && asked.month && bareIn(place, asked) ? 'numeric' : (pad ?? style));
  const day = asked.day && part('day', sized(size(asked.day), date.getUTCDate()));
  const year = asked.year && part('year', sized(asked.year, date.getUTCFullYear()));
  const middle = asked.month && part('month', worded ? wordOf(words.months, shortMonths, month, asked.month) : sized(size(asked.month), month + 1));
  const of = place.of && (place.always || asked.month === 'long') ? place.of : ' ';
  const german = place.tag === 'de-DE';
  const [first, second] = worded ? [german ? '. ' : of, of] : [place.sep, german && !asked.day ? '/' : place.sep];
  const made = [];
  if (asked.weekday) made.push(part('weekday', wordOf(words.days, shortDays, date.getUTCDay(), asked.weekday)));
  if (made.length && (day || middle || year)) made.push(literal(place.tag === 'en-GB' && !year ? ' ' : place.weekday));
  if (day) made.push(day);
  if (day && middle) made.push(literal(first));
  if (middle) made.push(middle);
  if ((day || middle) && year) made.push(literal(second));
  if (year) made.push(year);
  if (german && !worded && day && middle && !year) made.push(literal('.'));
  return made;
};

/** Whether an hour below ten has a nought: where no other width than the place's own is asked for. */
const hourPadded = (place, asked) => {
  if (place.bare || (place.tag === 'it-IT' && !asked.minute)) return false;
  return asked.minute !== '2-digit' && asked.second !== '2-digit';
};

/** What stands between a date and a time. */
const betweenIn = (place, asked) => {
  if (asked.weekday && !asked.day && !asked.month) return place.timed;
  if (asked.month === 'long') return asked.weekday && place.full ? place.full : place.at;
  return /short|narrow/.test(asked.month ?? '') ? ', ' : (place.numeric ?? ', ');
};
