// Number formatting of Intl: decimal rounding, grouping, currency signs and units.

const SIGNS = { USD: '$', EUR: '€', GBP: '£', JPY: '¥', INR: '₹', CNY: 'CN¥', KRW: '₩', BRL: 'R$', CAD: 'CA$', AUD: 'A$',
  MXN: 'MX$', NZD: 'NZ$', ILS: '₪', VND: '₫', TWD: 'NT$', HKD: 'HK$', PHP: '₱',
  XAF: 'FCFA', XOF: 'F\u202fCFA', XPF: 'CFPF', XCD: 'EC$' };

// Number of decimal places of currencies that do not have two.
const NO_CENTS = new Set('AFN ALL BIF CLP COP DJF GNF HUF IDR IQD IRR ISK JPY KMF KPW KRW LAK LBP MGA MMK PKR PYG RWF SLL SOS SYP UGX UYI VND VUV XAF XOF XPF YER'.split(' '));
const THREE_PLACES = new Set(['BHD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND']);
const centsOf = (currency) => (NO_CENTS.has(currency) ? 0 : currency === 'CLF' || currency === 'UYW' ? 4 : THREE_PLACES.has(currency) ? 3 : 2);

const grouped = (digits) => digits.replace(/\B(?=(?:\d{3})+$)/g, ',');

/** Returns a number's digits before and after the decimal point; `shift` moves the point to the right. */
const digitsOf = (number, shift = 0) => {
  const [mantissa, power = '0'] = String(number).replace(/^-/, '').split('e');
  const [whole, part = ''] = mantissa.split('.');
  const moved = whole.length + Number(power) + shift;
  const all = moved > 0 ? whole + part : '0'.repeat(1 - moved) + whole + part;
  const point = Math.max(moved, 1);
  return [all.slice(0, point).padEnd(point, '0').replace(/^0+(?=\d)/, ''), all.slice(point)];
};

/** Rounds to `maxDecimals` decimal places, half away from zero; negative values round to tens, hundreds and so on. */
const roundedTo = ([whole, part], maxDecimals) => {
  if (maxDecimals < 0) {
    const size = 10n ** BigInt(-maxDecimals);
    return [String(((BigInt(whole) + size / 2n) / size) * size), ''];
  }
  if (part.length <= maxDecimals) return [whole, part];
  const digits = whole + part.slice(0, maxDecimals);
  const rounded = (part[maxDecimals] >= '5' ? String(BigInt(digits) + 1n) : digits).padStart(digits.length, '0');
  return [rounded.slice(0, rounded.length - maxDecimals), maxDecimals ? rounded.slice(-maxDecimals) : ''];
};

/** Returns the number of decimal places that correspond to a number of significant digits. */
const placesOf = ([whole, part], significant) =>
  significant - (whole === '0' && /[1-9]/.test(part) ? -/^0*/.exec(part)[0].length : whole.length);

const joined = ([whole, part], minDecimals, group, wide = 1) => {
  const decimals = part.replace(/0+$/, '').padEnd(minDecimals, '0');
  const digits = whole.padStart(wide, '0');
  return (group ? grouped(digits) : digits) + (decimals ? `.${decimals}` : '');
};

const SIZES = [[0, '', ''], [3, 'K', ' thousand'], [6, 'M', ' million'], [9, 'B', ' billion'], [12, 'T', ' trillion']];

const compact = (number, long) => {
  const cut = (size) => {
    const digits = digitsOf(number, -size);
    return roundedTo(digits, digits[0].length > 1 ? 0 : placesOf(digits, 2));
  };
  const digitCount = digitsOf(number)[0].length;
  let index = Math.min(Math.floor((digitCount - 1) / 3), SIZES.length - 1);
  if (cut(SIZES[index][0])[0].length > 3 && index < SIZES.length - 1) index += 1; // rounding may carry over: 999,999 is 1M
  const digits = cut(SIZES[index][0]);
  return joined(digits, 0, digits[0].length > 4) + SIZES[index][long ? 2 : 1];
};

const UNIT_WORDS = { year: ['yr', 'y'], month: ['mth', 'm'], week: ['wk', 'w'], day: ['day', 'd'], hour: ['hr', 'h'], minute: ['min', 'm'], second: ['sec', 's'], millisecond: ['ms', 'ms'] };
const ADDED_S = ['yr', 'mth', 'wk', 'day'];

const inUnit = (text, { unit, unitDisplay }) => {
  const many = text !== '1';
  const words = UNIT_WORDS[unit] ?? fault(`The unit “${unit}” is not supported here. Write the number and the unit yourself.`);
  if (unitDisplay === 'narrow') return text + words[1];
  if (unitDisplay === 'long') return `${text} ${unit}${many ? 's' : ''}`;
  return `${text} ${words[0]}${many && ADDED_S.includes(words[0]) ? 's' : ''}`;
};

/** Fails for unsupported options instead of ignoring them. */
const refuseStyles = (options) => {
  const unsupported = (options.notation && !['standard', 'compact'].includes(options.notation) && `notation “${options.notation}”`) || (options.currencyDisplay === 'name' && 'currencyDisplay “name”') || (options.currencyDisplay === 'narrowSymbol' && !hasOwn(SIGNS, options.currency ?? '') && 'currencyDisplay “narrowSymbol” of this currency') || (options.roundingMode && options.roundingMode !== 'halfExpand' && `roundingMode “${options.roundingMode}”`) || (options.roundingIncrement > 1 && 'roundingIncrement') || (typeof options.useGrouping === 'string' && `useGrouping “${options.useGrouping}”`);
  if (unsupported) fault(`Numbers cannot be formatted with ${unsupported} here. Leave it out, or format the number yourself.`);
};

class NumberFormatting {
  #options;
  #region;
  constructor(locale, options = {}) {
    this.#options = { ...options };
    if (typeof options.currency === 'string') this.#options.currency = options.currency.toUpperCase();
    this.#region = regionOf(locale);
    refuseStyles(this.#options);
    if (options.style === 'currency' && options.currency === undefined) throw new TypeError('Currency code is required with currency style.');
    if (this.#region && options.style === 'currency' && (options.signDisplay ?? 'auto') !== 'auto') refuseRegion(this.#region, 'Money with signDisplay');
    if (this.#region && options.currencyDisplay === 'narrowSymbol') refuseRegion(this.#region, 'The narrow sign of a currency');
    if (options.trailingZeroDisplay && options.trailingZeroDisplay !== 'auto') fault('Numbers cannot be formatted with trailingZeroDisplay here. Leave it out.');
    if (this.#region && options.notation === 'compact') refuseRegion(this.#region, 'A compact number');
    if (this.#region && (options.style === 'unit' || options.currencySign === 'accounting')) refuseRegion(this.#region, 'A number of this style');
    this.format = (number) => this.#format(number);
  }
  #digits(value) {
    const options = this.#options;
    const digits = digitsOf(value, options.style === 'percent' ? 2 : 0);
    const money = options.style === 'currency';
    const base = money ? centsOf(options.currency) : 0;
    if (options.maximumSignificantDigits || options.minimumSignificantDigits) {
      const maxDigits = options.maximumSignificantDigits ?? 21;
      const minDecimals = Math.max(placesOf(digits, options.minimumSignificantDigits ?? 1), 0);
      return joined(roundedTo(digits, placesOf(digits, maxDigits)), minDecimals, options.useGrouping !== false, options.minimumIntegerDigits);
    }
    if (options.notation === 'compact' && options.maximumFractionDigits === undefined && options.minimumFractionDigits === undefined) return compact(value, options.compactDisplay === 'long');
    if (options.notation === 'compact') fault('Compact numbers cannot be formatted with a number of digits here. Leave one of the two out.');
    const minDecimals = options.minimumFractionDigits ?? Math.min(base, options.maximumFractionDigits ?? base);
    const maxDecimals = options.maximumFractionDigits ?? Math.max(minDecimals, money ? base : options.style === 'percent' ? 0 : 3);
    return joined(roundedTo(digits, maxDecimals), minDecimals, options.useGrouping !== false, options.minimumIntegerDigits);
  }
  #format(value) {
    const options = this.#options;
    const number = typeof value === 'bigint' ? value : Number(value);
    const minus = number < 0 || Object.is(number, -0);
    const nonFinite = Number.isNaN(number) ? 'NaN' : typeof number !== 'bigint' && !Number.isFinite(number) ? '∞' : null;
    let text = nonFinite ?? this.#digits(number);
    const region = this.#region;
    if (region) text = numberIn(region, text, text.split('.')[0].replace(/\D/g, '').length);
    if (region && options.style === 'currency') return moneyIn(region, text, options.currency, options.currencyDisplay === 'code', minus);
    if (options.style === 'percent') text += region?.percent ?? '%';
    if (options.style === 'unit') text = inUnit(text, options);
    if (options.style === 'currency') {
      const sign = options.currencyDisplay === 'code' ? options.currency : options.currencyDisplay === 'narrowSymbol' ? (SIGNS[options.currency] ?? options.currency).replace(/^(?!R)[A-Z]+(?=[$¥])/, '') : (SIGNS[options.currency] ?? options.currency);
      text = `${sign}${/[A-Z]$/.test(sign) && !nonFinite ? '\u00a0' : ''}${text}`;
    }
    const zero = !/[1-9∞]/.test(text);
    const signDisplay = options.signDisplay ?? 'auto';
    const negative = minus && !(signDisplay === 'never' || (zero && (signDisplay === 'exceptZero' || signDisplay === 'negative')));
    if (negative) return options.currencySign === 'accounting' && options.style === 'currency' ? `(${text})` : `${region?.minus ?? '-'}${text}`;
    return (signDisplay === 'always' || (signDisplay === 'exceptZero' && !zero)) && nonFinite !== 'NaN' && !minus ? `+${text}` : text;
  }
  formatToParts() {
    return fault('formatToParts() of numbers is not available here. Use format().');
  }
  resolvedOptions() {
    return { locale: this.#region?.tag ?? 'en-US', numberingSystem: 'latn', style: 'decimal', ...this.#options };
  }
  static supportedLocalesOf() {
    return ['en-US'];
  }
}

/** Returns a class that can also be called without `new`. Its instances are frozen, because luxon caches and shares them. */
const callable = (kind, name) => {
  Object.defineProperty(kind, 'name', { value: name });
  const whole = (instance) => {
    for (const key of keysOf(instance)) freeze(instance[key]);
    return freeze(instance);
  };
  const visibleClass = new Proxy(kind, {
    apply: (target, self, args) => whole(new target(...args)),
    construct: (target, args, newTarget) => (newTarget === visibleClass ? whole(new target(...args)) : Reflect.construct(target, args, newTarget)),
  });
  return visibleClass;
};
const NumberFormat = callable(NumberFormatting, 'NumberFormat');
