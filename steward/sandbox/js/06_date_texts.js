// Parses dates as V8 does: ISO first, then its lenient parser, in the process's time zone, UTC.

const ISO_DATE = /^(?:[+-]\d{6}|\d{4})(?:-\d\d(?:-\d\d)?)?(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?$/i;
// V8 ends a word at the first character below “A” and ignores text in parentheses.
const DATE_TOKEN = /(\d+)|([A-\uffff]+)|([^])/g;
const MONTH_WORDS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const ZONE_WORDS = { utc: 0, ut: 0, z: 0, gmt: 0, est: -5, edt: -4, cst: -6, cdt: -5, mst: -7, mdt: -6, pst: -8, pdt: -7 };
const TIME_LIMITS = [24, 59, 59, 999];

/** Returns the tokens of a date: numbers with their digits, lower-case words, and single other characters. */
const dateTokens = (text) => {
  const tokens = [];
  let depth = 0;
  for (const [sign, digits, word] of text.matchAll(DATE_TOKEN)) {
    if (sign === '(') depth += 1;
    else if (sign === ')' && depth > 0) depth -= 1;
    else if (depth === 0) tokens.push(digits ? { digits, number: Number(digits.replace(/^0+(?=\d)/, '').slice(0, 9)) } : word ? { word: word.toLowerCase() } : { sign });
  }
  return tokens;
};

/** Parses a date that is not in ISO form: numbers, month names and zones in any order that V8 accepts. */
class DateReading {
  constructor(text) {
    this.tokens = dateTokens(text);
    this.at = 0;
    this.day = [];
    this.time = [];
    this.month = this.half = this.offsetSign = this.offsetHour = this.offsetMinute = null;
    this.hasNumber = false;
  }
  next(sign) {
    const is = this.tokens[this.at]?.sign === sign;
    if (is) this.at += 1;
    return is;
  }
  expectsTime(number) {
    const { length } = this.time;
    return length > 0 && length < 4 && number <= TIME_LIMITS[length];
  }
  endTime(number) {
    this.time.push(number);
    while (this.time.length < 4) this.time.push(0);
  }
  /** Reads a number token; returns whether a number is valid there. */
  readNumber({ number }) {
    this.hasNumber = true;
    if (this.next(':')) {
      if (this.next(':')) {
        if (this.time.length) return false;
        this.time.push(number, 0);
        return true;
      }
      if (this.time.length > 3) return false;
      this.time.push(number);
      this.next('.');
      return true;
    }
    if (this.next('.') && this.expectsTime(number)) {
      this.time.push(number);
      const part = this.tokens[this.at++];
      if (part?.digits === undefined) return false;
      this.endTime(Math.floor(Number(part.digits.slice(0, 9)) * 10 ** (3 - Math.min(part.digits.length, 9))));
      return true;
    }
    if (this.offsetHour !== null && this.offsetMinute === null && number <= 59) {
      this.offsetMinute = number;
      return true;
    }
    if (this.expectsTime(number)) {
      this.endTime(number);
      const after = this.tokens[this.at];
      return !after || after.word === 'z' || /^[+\-\s]$/.test(after.sign ?? '');
    }
    if (this.day.length > 2) return false;
    this.day.push(number);
    this.next('-');
    return true;
  }
  readWord({ word }) {
    const start = word.slice(0, 3);
    const short = word.length < 4;
    if (short && (word === 'am' || word === 'pm') && this.time.length) this.half = word === 'am' ? 0 : 12;
    else if (MONTH_WORDS.includes(start)) {
      this.month = MONTH_WORDS.indexOf(start) + 1;
      this.next('-');
    } else if (short && Object.hasOwn(ZONE_WORDS, word) && this.hasNumber) {
      [this.offsetSign, this.offsetHour, this.offsetMinute] = [Math.sign(ZONE_WORDS[word]) || 1, Math.abs(ZONE_WORDS[word]), 0];
    } else return !this.hasNumber && this.tokens[this.at]?.digits === undefined;
    return true;
  }
  readOffset(sign) {
    [this.offsetSign, this.offsetHour, this.offsetMinute] = [sign === '+' ? 1 : -1, null, null];
    let number = 0;
    let length = 0;
    if (this.tokens[this.at]?.digits !== undefined) {
      number = this.tokens[this.at].number;
      length = this.tokens[this.at].digits.length;
      this.at += 1;
    }
    this.hasNumber = true;
    if (this.tokens[this.at]?.sign === ':') this.offsetHour = number;
    else if (length === 1 || length === 2) [this.offsetHour, this.offsetMinute] = [number, 0];
    else if (length === 3 || length === 4) [this.offsetHour, this.offsetMinute] = [Math.floor(number / 100), number % 100];
    else return false;
    return true;
  }
  /** Parses all tokens; returns milliseconds since 1970, or NaN if they are no date. */
  read() {
    while (this.at < this.tokens.length) {
      const token = this.tokens[this.at++];
      if (token.digits !== undefined) {
        if (!this.readNumber(token)) return NaN;
      } else if (token.word !== undefined) {
        if (!this.readWord(token)) return NaN;
      } else if ((token.sign === '+' || token.sign === '-') && (this.time.length || (this.offsetHour === 0 && this.offsetMinute === 0))) {
        if (!this.readOffset(token.sign)) return NaN;
      } else if ((token.sign === '+' || token.sign === '-' || token.sign === ')') && this.hasNumber) return NaN;
    }
    return this.moment();
  }
  moment() {
    if (!this.day.length) return NaN;
    const [first, second = 1, third = 1] = this.day;
    const isDay = (number) => number >= 1 && number <= 31;
    let [year, month, day] = [third, first, second];
    if (this.month !== null) [year, month, day] = isDay(first) ? [second, this.month, first] : [first, this.month, second];
    else if (!isDay(first)) [year, month, day] = [first, second, third];
    if (year < 50) year += 2000;
    else if (year < 100) year += 1900;
    if (month < 1 || month > 12 || !isDay(day)) return NaN;
    const [written, minute = 0, seconds = 0, part = 0] = this.time.length ? this.time : [0];
    if (this.half !== null && written > 12) return NaN;
    const hour = this.half === null ? written : (written % 12) + this.half;
    const isTime = hour < 24 && minute < 60 && seconds < 60 && part < 1000;
    if (!isTime && (hour !== 24 || minute || seconds || part)) return NaN;
    const offset = this.offsetSign === null ? 0 : this.offsetSign * ((this.offsetHour ?? 0) * 60 + (this.offsetMinute ?? 0));
    return RealDate.UTC(year, month - 1, day, hour, minute, seconds, part) - offset * 60000;
  }
}

const isoMoment = RealDate.parse;
const MAX_DATE_LENGTH = 1000; // characters
const momentOfText = (text) => {
  if (text.length > MAX_DATE_LENGTH) return NaN;
  return ISO_DATE.test(text) ? isoMoment(text.toUpperCase().replace(/(\.\d{9})\d+/, '$1')) : new DateReading(text).read();
};
