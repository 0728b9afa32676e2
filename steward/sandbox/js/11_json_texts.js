// Gives errors of JSON.parse the messages of Node.js.

const isDigit = (sign) => sign >= '0' && sign <= '9';
const [BLANKS, DIGITS, PLAIN_SIGNS] = [/[ \t\n\r]*/y, /[0-9]*/y, /[^"\\\0-\x1f]*/y];

/** Scans JSON text up to its first error; `what` is the kind of error and `at` its position. */
class JsonScan {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }
  stop(what) {
    throw new JsonError(what, this.at);
  }
  skip(pattern) {
    pattern.lastIndex = this.at;
    pattern.test(this.text);
    this.at = pattern.lastIndex;
  }
  blanks() {
    if (this.text[this.at] <= ' ') this.skip(BLANKS);
  }
  unexpected() {
    const sign = this.text[this.at];
    if (sign === '"') this.stop('Unexpected string in JSON');
    if (sign === '-' || isDigit(sign)) this.stop('Unexpected number in JSON');
    this.stop(sign === undefined ? 'end' : '');
  }
  take(sign) {
    const matches = this.text[this.at] === sign;
    if (matches) this.at += 1;
    return matches;
  }
  digits() {
    const from = this.at;
    this.skip(DIGITS);
    return this.at > from;
  }
  number() {
    if (this.take('-') && !isDigit(this.text[this.at])) this.stop('No number after minus sign in JSON');
    if (this.take('0')) {
      if (isDigit(this.text[this.at])) this.stop('Unexpected number in JSON');
    } else this.digits();
    if (this.take('.') && !this.digits()) this.stop('Unterminated fractional number in JSON');
    if (this.take('e') || this.take('E')) {
      if (!this.take('+')) this.take('-');
      if (!this.digits()) this.stop('Exponent part is missing a number in JSON');
    }
  }
  string() {
    for (this.at += 1; ; this.at += 1) {
      this.skip(PLAIN_SIGNS);
      const sign = this.text[this.at];
      if (sign === undefined) this.stop('Unterminated string in JSON');
      if (sign < ' ') this.stop('Bad control character in string literal in JSON');
      if (sign === '"') break;
      if (sign === '\\') this.escape();
    }
    this.at += 1;
  }
  escape() {
    this.at += 1;
    if (this.at >= this.text.length) this.unexpected();
    if (this.text[this.at] === 'u') {
      for (let count = 0; count < 4; count += 1) {
        this.at += 1;
        if (!/[\da-fA-F]/.test(this.text[this.at] ?? '')) this.stop('Bad Unicode escape in JSON');
      }
    } else if (!'"\\/bfnrt'.includes(this.text[this.at])) this.stop('Bad escaped character in JSON');
  }
  word(letters) {
    for (let index = 0; index < letters.length; index += 1) if (!this.take(letters[index])) this.unexpected();
  }
  property(first) {
    this.string();
    this.blanks();
    if (this.take(':')) return;
    if (first) this.stop("Expected ':' after property name in JSON");
    this.unexpected();
  }
  /** Reads a simple value, or the opening of a list or object; returns the closing character, or '' for a simple value. */
  value() {
    this.blanks();
    const sign = this.text[this.at];
    if (sign === '{' || sign === '[') {
      this.at += 1;
      return sign === '{' ? '}' : ']';
    }
    if (sign === '"') this.string();
    else if (sign === '-' || isDigit(sign)) this.number();
    else if (sign === 't') this.word('true');
    else if (sign === 'f') this.word('false');
    else if (sign === 'n') this.word('null');
    else this.unexpected();
    return '';
  }
  /** Reads on after a value; returns whether another value follows. */
  after(open) {
    for (;;) {
      this.blanks();
      if (!open.length) {
        if (this.at < this.text.length) this.stop('Unexpected non-whitespace character after JSON');
        return false;
      }
      const close = open[open.length - 1];
      if (this.take(',')) {
        this.blanks();
        if (close === ']') return true;
        if (this.text[this.at] !== '"') this.stop('Expected double-quoted property name in JSON');
        this.property(false);
        return true;
      }
      if (!this.take(close)) this.stop(close === '}' ? "Expected ',' or '}' after property value in JSON" : "Expected ',' or ']' after array element in JSON");
      open.length -= 1;
    }
  }
  all() {
    const open = [];
    for (let more = true; more; ) {
      const close = this.value();
      if (close) {
        this.blanks();
        if (!this.take(close)) {
          open[open.length] = close;
          if (close === '}') {
            if (this.text[this.at] !== '"') this.stop("Expected property name or '}' in JSON");
            this.property(true);
          }
          continue;
        }
      }
      more = this.after(open);
    }
  }
}

class JsonError extends Error {
  constructor(what, at) {
    super(what);
    this.what = what;
    this.at = at;
  }
}

const NO_JSON = new Set(['undefined', 'NaN', 'Infinity', '[object Object]']);
const CONTEXT = 10; // number of characters quoted on either side of an error

const quotedAround = (text, at) => {
  if (text.length <= 2 * CONTEXT) return `"${text}"`;
  const [from, to] = [at - CONTEXT, at + CONTEXT];
  return `${from >= 0 ? '...' : ''}"${text.slice(Math.max(from, 0), to)}"${to < text.length ? '...' : ''}`;
};

/** Returns the message of Node.js for invalid JSON, or '' if the text is valid. */
const jsonErrorText = (text) => {
  try {
    new JsonScan(text).all();
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const { what, at } = error;
    if (NO_JSON.has(text)) return `"${text}" is not valid JSON`;
    if (what === 'end') return 'Unexpected end of JSON input';
    if (!what) return `Unexpected token '${text[at]}', ${quotedAround(text, at)} is not valid JSON`;
    const before = text.slice(0, at).split(/\r\n|[\n\r]/);
    return `${what} at position ${at} (line ${before.length} column ${before.at(-1).length + 1})`;
  }
  return '';
};

defineHidden(JSON, 'parse', function parseJson(text, ...more) {
  const json = `${text}`;
  let value;
  try {
    value = parse(json);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new SyntaxError(jsonErrorText(json) || error.message);
  }
  return more.length ? parse(json, ...more) : value;
});
