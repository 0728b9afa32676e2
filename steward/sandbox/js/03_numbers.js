// Numbers as Intl writes them: rounded by their decimal digits, grouped, with their signs and units.

const SIGNS = { USD: '$', EUR: '€', GBP: '£', JPY: '¥', INR: '₹', CNY: 'CN¥', KRW: '₩', BRL: 'R$', CAD: 'CA$', AUD: 'A$',
  MXN: 'MX$', NZD: 'NZ$', ILS: '₪', VND: '₫', TWD: 'NT$', HKD: 'HK$', PHP: '₱' };

const grouped = (digits) => digits.replace(/\B(?=(?:\d{3})+$)/g, ',');

/** The digits before and after the point of a number, as its shortest text has them; `shift` moves the point right. */
const digitsOf = (number, shift = 0) => {
  const [mantissa, power = '0'] = String(number).replace('-', '').split('e');
  const [whole, part = ''] = mantissa.split('.');
  const moved = whole.length + Number(power) + shift;
  const all = moved > 0 ? whole + part : '0'.repeat(1 - moved) + whole + part;
  const point = Math.max(moved, 1);
  return [all.slice(0, point).padEnd(point, '0').replace(/^0+(?=\d)/, ''), all.slice(point)];
};

/** Rounded to so many places, half away from zero; below 0 to tens, hundreds… */
const roundedTo = ([whole, part], most) => {
  if (most < 0) {
    const size = 10n ** BigInt(-most);
    return [String(((BigInt(whole) + size / 2n) / size) * size), ''];
  }
  if (part.length <= most) return [whole, part];
  const kept = whole + part.slice(0, most);
  const made = (part[most] >= '5' ? String(BigInt(kept) + 1n) : kept).padStart(kept.length, '0');
  return [made.slice(0, made.length - most), most ? made.slice(-most) : ''];
};

/** How many places so many significant digits reach to. */
const placesOf = ([whole, part], significant) =>
  significant - (whole === '0' && /[1-9]/.test(part) ? -/^0*/.exec(part)[0].length : whole.length);

const joined = ([whole, part], least, group, wide = 1) => {
  const kept = part.replace(/0+$/, '').padEnd(least, '0');
  const digits = whole.padStart(wide, '0');
  return (group ? grouped(digits) : digits) + (kept ? `.${kept}` : '');
};

const SIZES = [[0, '', ''], [3, 'K', ' thousand'], [6, 'M', ' million'], [9, 'B', ' billion'], [12, 'T', ' trillion']];

const compact = (number, long) => {
  const cut = (size) => {
    const digits = digitsOf(number, -size);
    return roundedTo(digits, digits[0].length > 1 ? 0 : placesOf(digits, 2));
  };
  const held = digitsOf(number)[0].length;
  let at = Math.min(Math.floor((held - 1) / 3), SIZES.length - 1);
  if (cut(SIZES[at][0])[0].length > 3 && at < SIZES.length - 1) at += 1; // 999,999 is 1M
  const digits = cut(SIZES[at][0]);
  return joined(digits, 0, digits[0].length > 4) + SIZES[at][long ? 2 : 1];
};

const UNIT_WORDS = { year: ['yr', 'y'], month: ['mth', 'm'], week: ['wk', 'w'], day: ['day', 'd'], hour: ['hr', 'h'], minute: ['min', 'm'], second: ['sec', 's'], millisecond: ['ms', 'ms'] };
const ADDED_S = ['yr', 'mth', 'wk', 'day'];

const inUnit = (text, { unit, unitDisplay }) => {
  const many = text !== '1';
  const words = UNIT_WORDS[unit] ?? fault(`The unit “${unit}” is not written here. Write the number and the unit yourself.`);
  if (unitDisplay === 'narrow') return text + words[1];
  if (unitDisplay === 'long') return `${text} ${unit}${many ? 's' : ''}`;
  return `${text} ${words[0]}${many && ADDED_S.includes(words[0]) ? 's' : ''}`;
};

/** What is asked for and not done here: said, rather than written otherwise. */
const refuseStyles = (asked) => {
  const odd = (asked.notation && !['standard', 'compact'].includes(asked.notation) && `notation “${asked.notation}”`) || (asked.currencyDisplay === 'name' && 'currencyDisplay “name”') || (asked.roundingMode && asked.roundingMode !== 'halfExpand' && `roundingMode “${asked.roundingMode}”`) || (asked.roundingIncrement > 1 && 'roundingIncrement');
  if (odd) fault(`Numbers are not written with ${odd} here. Leave it out, or write the number yourself.`);
};

class NumberFormatting {
  #asked;
  #place;
  constructor(locale, asked = {}) {
    this.#asked = { ...asked };
    this.#place = placeOf(locale);
    refuseStyles(this.#asked);
    if (this.#place && asked.notation === 'compact') refusePlace(this.#place, 'A compact number');
    if (this.#place && (asked.style === 'unit' || asked.currencySign === 'accounting')) refusePlace(this.#place, 'A number of this style');
    this.format = (number) => this.#format(number);
  }
  #digits(value) {
    const asked = this.#asked;
    const digits = digitsOf(value, asked.style === 'percent' ? 2 : 0);
    const money = asked.style === 'currency';
    const base = money ? (asked.currency === 'JPY' || asked.currency === 'KRW' ? 0 : 2) : 0;
    if (asked.maximumSignificantDigits || asked.minimumSignificantDigits) {
      const most = asked.maximumSignificantDigits ?? 21;
      const least = Math.max(placesOf(digits, asked.minimumSignificantDigits ?? 1), 0);
      return joined(roundedTo(digits, placesOf(digits, most)), least, asked.useGrouping !== false, asked.minimumIntegerDigits);
    }
    if (asked.notation === 'compact' && asked.maximumFractionDigits === undefined && asked.minimumFractionDigits === undefined) return compact(value, asked.compactDisplay === 'long');
    if (asked.notation === 'compact') fault('Compact numbers are not written with a number of digits here. Leave one of the two out.');
    const least = asked.minimumFractionDigits ?? Math.min(base, asked.maximumFractionDigits ?? base);
    const most = asked.maximumFractionDigits ?? Math.max(least, money ? base : asked.style === 'percent' ? 0 : 3);
    return joined(roundedTo(digits, most), least, asked.useGrouping !== false, asked.minimumIntegerDigits);
  }
  #format(given) {
    const asked = this.#asked;
    const number = typeof given === 'bigint' ? given : Number(given);
    const minus = number < 0 || Object.is(number, -0);
    const odd = Number.isNaN(number) ? 'NaN' : typeof number !== 'bigint' && !Number.isFinite(number) ? '∞' : null;
    let text = odd ?? this.#digits(number);
    const place = this.#place;
    if (place) text = numberIn(place, text, text.split('.')[0].replace(/\D/g, '').length);
    if (place && asked.style === 'currency') return moneyIn(place, text, asked.currency, asked.currencyDisplay === 'code', minus);
    if (asked.style === 'percent') text += place?.percent ?? '%';
    if (asked.style === 'unit') text = inUnit(text, asked);
    if (asked.style === 'currency') {
      const sign = asked.currencyDisplay === 'code' ? asked.currency : asked.currencyDisplay === 'narrowSymbol' ? (SIGNS[asked.currency] ?? asked.currency).replace(/^[A-Z]+(?=[$¥])/, '') : (SIGNS[asked.currency] ?? asked.currency);
      text = `${sign}${/[A-Z]$/.test(sign) && !odd ? '\u00a0' : ''}${text}`;
    }
    const zero = !/[1-9∞]/.test(text);
    const shown = asked.signDisplay ?? 'auto';
    const negative = minus && !(shown === 'never' || (zero && (shown === 'exceptZero' || shown === 'negative')));
    if (negative) return asked.currencySign === 'accounting' && asked.style === 'currency' ? `(${text})` : `-${text}`;
    return (shown === 'always' || (shown === 'exceptZero' && !zero)) && odd !== 'NaN' && !minus ? `+${text}` : text;
  }
  formatToParts() {
    return fault('Numbers are not taken apart into their parts here. Use format().');
  }
  resolvedOptions() {
    return { locale: this.#place?.tag ?? 'en-US', numberingSystem: 'latn', style: 'decimal', ...this.#asked };
  }
  static supportedLocalesOf() {
    return ['en-US'];
  }
}

/** A class that may be called without new, as these may; what it makes is frozen, since the date library keeps it. */
const callable = (kind, name) => {
  Object.defineProperty(kind, 'name', { value: name });
  const whole = (made) => {
    for (const key of keysOf(made)) freeze(made[key]);
    return freeze(made);
  };
  const seen = new Proxy(kind, {
    apply: (target, self, given) => whole(new target(...given)),
    construct: (target, given, asked) => (asked === seen ? whole(new target(...given)) : Reflect.construct(target, given, asked)),
  });
  return seen;
};
const NumberFormat = callable(NumberFormatting, 'NumberFormat');
