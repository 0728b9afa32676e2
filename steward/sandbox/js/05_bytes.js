// UTF-8, Base64, hexadecimal, and the hash functions of RFC 1321, FIPS 180-4 and RFC 2104.

const utf8 = (text) => {
  const bytes = [];
  for (const sign of text.toWellFormed()) {
    const code = sign.codePointAt(0);
    if (code < 0x80) bytes.push(code);
    else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
    else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    else bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
  }
  return bytes;
};

/** Decodes UTF-8; invalid bytes become U+FFFD. */
const fromUtf8 = (bytes) => {
  let text = '';
  for (let offset = 0; offset < bytes.length; ) {
    const first = bytes[offset];
    const more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : -1;
    let code = more > 0 ? first & (0x3f >> more) : first;
    let sequenceLength = 1;
    while (more > 0 && sequenceLength <= more && (bytes[offset + sequenceLength] & 0xc0) === 0x80) code = (code << 6) | (bytes[offset + sequenceLength++] & 63);
    const whole = more >= 0 && sequenceLength === more + 1 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    text += whole ? String.fromCodePoint(code) : '\ufffd';
    offset += sequenceLength;
  }
  return text;
};

const B64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

const toBase64 = (bytes) => {
  let text = '';
  for (let offset = 0; offset < bytes.length; offset += 3) {
    const three = (bytes[offset] << 16) | ((bytes[offset + 1] ?? 0) << 8) | (bytes[offset + 2] ?? 0);
    text += B64[three >> 18] + B64[(three >> 12) & 63];
    text += offset + 1 < bytes.length ? B64[(three >> 6) & 63] : '=';
    text += offset + 2 < bytes.length ? B64[three & 63] : '=';
  }
  return text;
};

const B64_VALUES = Array.from({ length: 128 }, (_, code) => B64.indexOf(code === 45 ? '+' : code === 95 ? '/' : String.fromCharCode(code)));
const PADDING = 61; // code of “=”

const fromBase64 = (text) => {
  const bytes = [];
  let pendingBits = 0;
  let bits = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === PADDING) break;
    const value = code < 128 ? B64_VALUES[code] : -1;
    if (value < 0) continue;
    pendingBits = (pendingBits << 6) | value;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes.push((pendingBits >> bits) & 255);
    }
  }
  return bytes;
};

const toHex = (bytes) => bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('');
const fromHex = (text) => (text.match(/^(?:[\da-f]{2})*/i)[0].match(/../g) ?? []).map((pair) => parseInt(pair, 16));

const words = (bytes, size) => {
  const length = bytes.length;
  const room = size * 16;
  const padded = [...bytes, 0x80];
  while (padded.length % room !== room - size * 2) padded.push(0);
  return { padded, bits: BigInt(length) * 8n };
};

const byteOrder = (number, size, little) => {
  const bytes = [];
  for (let index = 0; index < size; index += 1) bytes.push(Number((number >> BigInt(8 * index)) & 255n));
  return little ? bytes : bytes.reverse();
};

const turn = (word, by) => (word << by) | (word >>> (32 - by));

const md5 = (bytes) => {
  const { padded, bits } = words(bytes, 4);
  padded.push(...byteOrder(bits, 8, true));
  const turns = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
  const state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476];
  for (let offset = 0; offset < padded.length; offset += 64) {
    const m = Array.from({ length: 16 }, (_, i) => padded[offset + 4 * i] | (padded[offset + 4 * i + 1] << 8) | (padded[offset + 4 * i + 2] << 16) | (padded[offset + 4 * i + 3] << 24));
    let [a, b, c, d] = state;
    for (let i = 0; i < 64; i += 1) {
      const round = i >> 4;
      const mixed = [(b & c) | (~b & d), (d & b) | (~d & c), b ^ c ^ d, c ^ (b | ~d)][round];
      const wordIndex = [i, 5 * i + 1, 3 * i + 5, 7 * i][round] % 16;
      const sum = (mixed + a + Math.floor(Math.abs(Math.sin(i + 1)) * 4294967296) + m[wordIndex]) | 0;
      [a, d, c, b] = [d, c, b, (b + turn(sum, turns[round][i % 4])) | 0];
    }
    [a, b, c, d].forEach((word, index) => (state[index] = (state[index] + word) | 0));
  }
  return state.flatMap((word) => byteOrder(BigInt(word >>> 0), 4, true));
};

const sha1 = (bytes) => {
  const { padded, bits } = words(bytes, 4);
  padded.push(...byteOrder(bits, 8, false));
  const state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
  for (let offset = 0; offset < padded.length; offset += 64) {
    const w = Array.from({ length: 16 }, (_, i) => (padded[offset + 4 * i] << 24) | (padded[offset + 4 * i + 1] << 16) | (padded[offset + 4 * i + 2] << 8) | padded[offset + 4 * i + 3]);
    for (let i = 16; i < 80; i += 1) w.push(turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1));
    let [a, b, c, d, e] = state;
    for (let i = 0; i < 80; i += 1) {
      const mixed = i < 20 ? (b & c) | (~b & d) : i < 40 || i >= 60 ? b ^ c ^ d : (b & c) | (b & d) | (c & d);
      const next = (turn(a, 5) + mixed + e + [0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6][Math.floor(i / 20)] + w[i]) | 0;
      [a, b, c, d, e] = [next, a, turn(b, 30), c, d];
    }
    [a, b, c, d, e].forEach((word, index) => (state[index] = (state[index] + word) | 0));
  }
  return state.flatMap((word) => byteOrder(BigInt(word >>> 0), 4, false));
};

/** Returns the first 64 bits of the fractional parts of the square or cube roots of the first `count` primes. */
const roots = (count, power) => {
  const primes = [];
  for (let number = 2; primes.length < count; number += 1) if (primes.every((prime) => number % prime)) primes.push(number);
  return primes.map((prime) => {
    const target = BigInt(prime) << (64n * BigInt(power));
    let low = 0n;
    let high = 1n << 70n;
    while (low < high) {
      const middle = (low + high + 1n) >> 1n;
      if (middle ** BigInt(power) <= target) low = middle;
      else high = middle - 1n;
    }
    return low & 0xffffffffffffffffn;
  });
};

let shaRoots = null;

/** Returns a SHA-2 function for 32-bit or, if `wide`, 64-bit words; `starts` computes the initial hash from the roots. */
const sha2 = (wide, outputBytes, starts) => (bytes) => {
  shaRoots ??= { squares: roots(16, 2), cubes: roots(80, 3) };
  const size = wide ? 8 : 4;
  const width = BigInt(size * 8);
  const mask = (1n << width) - 1n;
  const right = (word, by) => ((word >> BigInt(by)) | (word << (width - BigInt(by)))) & mask;
  const [a1, a2, a3, e1, e2, e3] = wide ? [28, 34, 39, 14, 18, 41] : [2, 13, 22, 6, 11, 25];
  const [s1, s2, s3, t1, t2, t3] = wide ? [1, 8, 7n, 19, 61, 6n] : [7, 18, 3n, 17, 19, 10n];
  const rounds = wide ? 80 : 64;
  const keys = shaRoots.cubes.slice(0, rounds).map((root) => (wide ? root : root >> 32n));
  const state = starts(shaRoots.squares);
  const { padded, bits } = words(bytes, size);
  padded.push(...byteOrder(bits, size * 2, false));
  for (let offset = 0; offset < padded.length; offset += size * 16) {
    const w = Array.from({ length: 16 }, (_, i) => padded.slice(offset + size * i, offset + size * (i + 1)).reduce((word, byte) => (word << 8n) | BigInt(byte), 0n));
    for (let i = 16; i < rounds; i += 1) {
      const x = w[i - 15];
      const y = w[i - 2];
      w.push((w[i - 16] + (right(x, s1) ^ right(x, s2) ^ (x >> s3)) + w[i - 7] + (right(y, t1) ^ right(y, t2) ^ (y >> t3))) & mask);
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < rounds; i += 1) {
      const temp1 = (h + (right(e, e1) ^ right(e, e2) ^ right(e, e3)) + ((e & f) ^ (~e & mask & g)) + keys[i] + w[i]) & mask;
      const temp2 = ((right(a, a1) ^ right(a, a2) ^ right(a, a3)) + ((a & b) ^ (a & c) ^ (b & c))) & mask;
      [a, b, c, d, e, f, g, h] = [(temp1 + temp2) & mask, a, b, c, (d + temp1) & mask, e, f, g];
    }
    [a, b, c, d, e, f, g, h].forEach((word, index) => (state[index] = (state[index] + word) & mask));
  }
  return state.flatMap((word) => byteOrder(word, size, false)).slice(0, outputBytes);
};

const HASHES = {
  md5,
  sha1,
  sha224: sha2(false, 28, (squares) => squares.slice(8).map((root) => root & 0xffffffffn)),
  sha256: sha2(false, 32, (squares) => squares.slice(0, 8).map((root) => root >> 32n)),
  sha384: sha2(true, 48, (squares) => squares.slice(8)),
  sha512: sha2(true, 64, (squares) => squares.slice(0, 8)),
};

/** Returns a hash function by its name, in any common spelling. Fails for an unknown name. */
const hashNamed = (name) => {
  const key = String(name).toLowerCase().replace(/^sha-/, 'sha');
  if (!Object.hasOwn(HASHES, key)) fault(`The hash “${name}” is not known. Use one of ${Object.keys(HASHES).join(', ')}.`);
  return HASHES[key];
};

const hmac = (name, key, bytes) => {
  const hash = hashNamed(name);
  const room = /384|512/.test(name) ? 128 : 64;
  const block = key.length > room ? hash(key) : [...key];
  while (block.length < room) block.push(0);
  return hash([...block.map((byte) => byte ^ 0x5c), ...hash([...block.map((byte) => byte ^ 0x36), ...bytes])]);
};
