// Modules and globals of Node.js that n8n's code steps can use: Buffer, crypto, URLs, query strings and formats.

const LATIN = new Set(['latin1', 'binary', 'ascii']);
const invalidCharacter = (message) => Object.defineProperty(new Error(message), 'name', { value: 'InvalidCharacterError' });

/** Decodes Base64 like `atob`. Throws InvalidCharacterError. */
const decodedStrictly = (text) => {
  let letters = String(text).replace(/[\t\n\f\r ]/g, '');
  if (letters.length % 4 === 0 && letters.endsWith('=')) letters = letters.slice(0, letters.endsWith('==') ? -2 : -1);
  if (/[^A-Za-z\d+/]/.test(letters)) throw invalidCharacter('Invalid character');
  if (letters.length % 4 === 1) throw invalidCharacter('The string to be decoded is not correctly encoded.');
  return fromLatin1(fromBase64(letters));
};
const latin1 = (text, strict = false) => {
  const bytes = [];
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (strict && code > 255) throw invalidCharacter('Invalid character');
    bytes.push(code & 255);
  }
  return bytes;
};
const fromLatin1 = (bytes) => {
  let text = '';
  for (let from = 0; from < bytes.length; from += 4096) text += apply(String.fromCharCode, null, bytes.slice(from, from + 4096));
  return text;
};

const NO_BYTES = 'The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object.';
const receivedText = (value) => {
  if (value === null || value === undefined) return String(value);
  return typeof value === 'object' ? `an instance of ${value.constructor?.name ?? 'Object'}` : typeof value === 'function' ? `function ${value.name}` : `type ${typeof value} (${String(value)})`;
};

/** `Buffer`: bytes with conversions from and to text, Base64 and hexadecimal. */
class Bytes extends Uint8Array {
  static from(value, form = 'utf8', length = undefined) {
    if (value instanceof ArrayBuffer) return new Bytes(value, form === 'utf8' ? 0 : form, length); // shares the memory, as in Node.js
    if (value?.type === 'Buffer' && isList(value.data)) return super.from.call(this, value.data); // the output of toJSON()
    if (typeof value !== 'string') {
      if (typeof value !== 'object' || value === null || value.length === undefined) throw new TypeError(`${NO_BYTES} Received ${receivedText(value)}`);
      return super.from.call(this, value);
    }
    const kind = String(form).toLowerCase().replace('-', '');
    if (kind === 'base64' || kind === 'base64url') return super.from.call(this, fromBase64(value));
    if (kind === 'hex') return super.from.call(this, fromHex(value));
    if (LATIN.has(kind)) return super.from.call(this, latin1(value));
    if (kind !== 'utf8') throw new TypeError(`Unknown encoding: ${form}`);
    return super.from.call(this, utf8(value));
  }
  static alloc(size, fill = 0) {
    return typeof fill === 'number' ? new Bytes(size).fill(fill) : Bytes.from(fill.repeat(size)).slice(0, size);
  }
  static concat(list, length) {
    return Bytes.from(list.flatMap((bytes) => [...bytes])).slice(0, length);
  }
  static isBuffer(value) {
    return value instanceof Bytes;
  }
  static byteLength(text, form) {
    return Bytes.from(text, form).length;
  }
  equals(other) {
    return this.length === other.length && this.every((byte, index) => byte === other[index]);
  }
  indexOf(value, from = 0, form = 'utf8') {
    if (typeof value === 'number') return super.indexOf(value & 255, from);
    const bytes = typeof value === 'string' ? Bytes.from(value, form) : value;
    let position = from < 0 ? Math.max(this.length + from, 0) : from;
    while (position + bytes.length <= this.length && !bytes.every((byte, index) => byte === this[position + index])) position += 1;
    return position + bytes.length <= this.length ? position : -1;
  }
  includes(value, from, form) {
    return this.indexOf(value, from, form) >= 0;
  }
  toString(form = 'utf8', from = 0, to = this.length) {
    const bytes = [...this.subarray(from, to)];
    const kind = String(form).toLowerCase().replace('-', '');
    if (kind === 'base64') return toBase64(bytes);
    if (kind === 'base64url') return toBase64(bytes).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
    if (kind === 'hex') return toHex(bytes);
    if (kind === 'ascii') return fromLatin1(bytes.map((byte) => byte & 127));
    if (LATIN.has(kind)) return fromLatin1(bytes);
    if (kind !== 'utf8') throw new TypeError(`Unknown encoding: ${form}`);
    return fromUtf8(bytes);
  }
  toJSON() {
    return { type: 'Buffer', data: [...this] };
  }
}

const gathering = (finish) => {
  const bytes = [];
  return {
    update(data, form) {
      bytes.push(...(typeof data === 'string' ? Bytes.from(data, form) : data));
      return this;
    },
    digest(form) {
      const result = Bytes.from(finish(bytes));
      return form === undefined ? result : result.toString(form);
    },
  };
};

const keyBytes = (key) => (typeof key === 'string' ? utf8(key) : [...key]);
const cryptoView = {
  createHash: (name) => gathering(hashNamed(name)),
  createHmac: (name, key) => gathering((bytes) => hmac(name, keyBytes(key), bytes)),
  randomUUID: () => 'xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx'.replace(/[xy]/g, (sign) => Math.floor(sign === 'x' ? nextRandom() * 16 : 8 + nextRandom() * 4).toString(16)),
  randomInt: (min, max) => (max === undefined ? Math.floor(nextRandom() * min) : min + Math.floor(nextRandom() * (max - min))),
};

class TextEncoderView {
  get encoding() {
    return 'utf-8';
  }
  encode(text = '') {
    return Uint8Array.from(utf8(String(text)));
  }
}

class TextDecoderView {
  constructor(label = 'utf-8') {
    if (!/^utf-?8$/i.test(label)) throw new RangeError(`The encoding ${label} is not known here. Use utf-8.`);
  }
  get encoding() {
    return 'utf-8';
  }
  decode(bytes = []) {
    const list = bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : bytes;
    const text = fromUtf8([...list]);
    return text.startsWith('\ufeff') ? text.slice(1) : text;
  }
}

const queryEscape = (text) => encodedBy(/[!'()*\-.0-9A-Z_a-z~]/)(text);
const queryView = {
  escape: (text) => queryEscape(String(text)),
  unescape: (text) => percentDecoded(String(text)),
  stringify: (values, between = '&', is = '=') => {
    const written = (value) => (typeof value === 'string' || typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value)) ? queryEscape(String(value)) : '');
    return Object.entries(values ?? {}).flatMap(([name, value]) => (isList(value) ? value : [value]).map((entry) => `${queryEscape(name)}${is}${written(entry)}`)).join(between);
  },
  parse: (text, between = '&', is = '=') => {
    const values = Object.create(null);
    for (const part of String(text).split(between).filter((field) => field !== '')) {
      const equalsIndex = part.indexOf(is);
      const pair = equalsIndex < 0 ? [part, ''] : [part.slice(0, equalsIndex), part.slice(equalsIndex + is.length)];
      const [name, value] = pair.map((piece) => percentDecoded(piece.replace(/\+/g, ' ')));
      if (!(name in values)) values[name] = value;
      else if (isList(values[name])) values[name].push(value);
      else values[name] = [values[name], value];
    }
    return values;
  },
};
queryView.encode = queryView.stringify;
queryView.decode = queryView.parse;

/** `util.format`: fills in %s, %d, %i, %f, %j and %%; further values are appended. */
const formatted = (first, ...values) => {
  if (typeof first !== 'string') return [first, ...values].map(displayText).join(' ');
  if (!values.length) return first;
  const text = first.replace(/%([sdifj%])/g, (whole, kind) => {
    if (kind === '%') return '%';
    if (!values.length) return whole;
    const value = values.shift();
    if (kind === 'd') return String(Number(value));
    if (kind === 'i') return String(parseInt(value, 10));
    if (kind === 'f') return String(parseFloat(value));
    return kind === 'j' ? stringify(value) : displayText(value);
  });
  return [text, ...values.map(displayText)].join(' ');
};

const utilView = {
  format: formatted,
  isDeepStrictEqual: isEqual,
  isArray: isList,
  TextEncoder: TextEncoderView,
  TextDecoder: TextDecoderView,
};
const MODULES = {
  crypto: () => cryptoView,
  url: () => ({ URL: Address, URLSearchParams: AddressParameters }),
  querystring: () => queryView,
  util: () => utilView,
  buffer: () => ({ Buffer: Bytes }),
  luxon: () => luxon,
};

/** Returns a module by its name, with or without the prefix `node:`. */
const requireModule = (name) => {
  const key = String(name).replace(/^node:/, '');
  if (!Object.hasOwn(MODULES, key)) throw new Error(`Cannot find module '${key}'`);
  return MODULES[key]();
};
