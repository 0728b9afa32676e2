// URL and URLSearchParams by the WHATWG URL standard; host names must be ASCII.

const encodedBy = (unescaped) => (text) => {
  let encoded = '';
  for (const sign of text) {
    if (unescaped.test(sign)) encoded += sign;
    else for (const byte of utf8(sign)) encoded += `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return encoded;
};
const encodedPath = encodedBy(/[!$%&'()*+,\-./0-9:;=@A-Z[\\\]_a-z|~^]/);
const encodedQuery = encodedBy(/[!$%&()*+,\-./0-9:;=?@A-Z[\\\]^_`a-z{|}~]/);
const encodedFragment = encodedBy(/[!#$%&'()*+,\-./0-9:;=?@A-Z[\\\]^_a-z{|}~]/);
const encodedUser = encodedBy(/[!$%&'()*+,\-.0-9A-Z_a-z~]/);
const encodedForm = (text) => encodedBy(/[*\-.0-9A-Z_a-z ]/)(String(text).toWellFormed()).replace(/ /g, '+');
const percentDecoded = (text) => {
  const bytes = [];
  const source = utf8(text);
  for (let index = 0; index < source.length; index += 1) {
    const pair = String.fromCharCode(source[index + 1] ?? 0, source[index + 2] ?? 0);
    if (source[index] === 37 && /^[\da-f]{2}$/i.test(pair)) {
      bytes.push(parseInt(pair, 16));
      index += 2;
    } else bytes.push(source[index]);
  }
  return fromUtf8(bytes);
};

class AddressParameters {
  #pairs = [];
  #changed = () => {};
  constructor(source = '', changed) {
    if (changed) this.#changed = changed;
    if (typeof source === 'object' && source !== null) {
      const pairs = typeof source[Symbol.iterator] === 'function' ? [...source] : Object.entries(source);
      this.#pairs = pairs.map(([name, value]) => [String(name), String(value)]);
    } else this.#read(String(source));
  }
  #read(text) {
    this.#pairs = text.replace(/^\?/, '').split('&').filter((part) => part !== '').map((part) => {
      const equalsIndex = part.indexOf('=');
      const [name, value] = equalsIndex < 0 ? [part, ''] : [part.slice(0, equalsIndex), part.slice(equalsIndex + 1)];
      return [name, value].map((piece) => percentDecoded(piece.replace(/\+/g, ' ')));
    });
  }
  get size() {
    return this.#pairs.length;
  }
  append(name, value) {
    this.#pairs.push([String(name), String(value)]);
    this.#changed(this.toString());
  }
  delete(name, value) {
    this.#pairs = this.#pairs.filter((pair) => pair[0] !== String(name) || (value !== undefined && pair[1] !== String(value)));
    this.#changed(this.toString());
  }
  get(name) {
    return this.#pairs.find((pair) => pair[0] === String(name))?.[1] ?? null;
  }
  getAll(name) {
    return this.#pairs.filter((pair) => pair[0] === String(name)).map((pair) => pair[1]);
  }
  has(name, value) {
    return this.#pairs.some((pair) => pair[0] === String(name) && (value === undefined || pair[1] === String(value)));
  }
  set(name, value) {
    const first = this.#pairs.findIndex((pair) => pair[0] === String(name));
    if (first < 0) this.#pairs.push([String(name), String(value)]);
    else {
      this.#pairs[first][1] = String(value);
      this.#pairs = this.#pairs.filter((pair, index) => index <= first || pair[0] !== String(name));
    }
    this.#changed(this.toString());
  }
  sort() {
    this.#pairs.sort(([first], [other]) => (first < other ? -1 : first > other ? 1 : 0));
    this.#changed(this.toString());
  }
  forEach(call, self) {
    for (const [name, value] of this.#pairs) call.call(self, value, name, this);
  }
  *entries() {
    for (const pair of this.#pairs) yield [...pair];
  }
  *keys() {
    for (const pair of this.#pairs) yield pair[0];
  }
  *values() {
    for (const pair of this.#pairs) yield pair[1];
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  toString() {
    return this.#pairs.map((pair) => pair.map(encodedForm).join('=')).join('&');
  }
}

const PORTS = { 'http:': '80', 'https:': '443', 'ftp:': '21', 'ws:': '80', 'wss:': '443' };
const invalidAddress = () => Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL' });

/** Removes the dot segments of a path. */
const resolvedPath = (path) => {
  const segments = [];
  const parts = path.split('/').slice(1);
  parts.forEach((part, index) => {
    const plain = part.replace(/%2e/gi, '.');
    if (plain === '..') segments.pop();
    else if (plain !== '.') segments.push(part);
    if ((plain === '..' || plain === '.') && index === parts.length - 1) segments.push('');
  });
  return `/${segments.join('/')}`;
};

/** Returns a host; if its last label is a number, it is an IPv4 address, whose parts may be octal or hexadecimal. */
const addressOf = (host) => {
  const labels = host.replace(/\.$/, '').split('.');
  if (!/^(?:\d+|0x[\da-f]*)$/.test(labels.at(-1))) return host;
  const numbers = labels.map((label) => {
    if (/^0x[\da-f]*$/.test(label)) return parseInt(`0${label.slice(2)}`, 16);
    if (/^0[0-7]*$/.test(label)) return parseInt(label, 8);
    return /^[1-9]\d*$/.test(label) ? Number(label) : NaN;
  });
  const last = numbers.pop();
  if (numbers.length > 3 || !(last < 256 ** (4 - numbers.length)) || numbers.some((number) => !(number < 256))) throw invalidAddress();
  const whole = numbers.reduce((sum, number, index) => sum + number * 256 ** (3 - index), last);
  return [24, 16, 8, 0].map((bits) => Math.floor(whole / 2 ** bits) % 256).join('.');
};

const hostOf = (text, special) => {
  if (/^\[[\da-f:.]+\]$/i.test(text)) return text.toLowerCase();
  const host = special ? percentDecoded(text).toLowerCase() : text;
  if ((special && host === '') || /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f-\uffff]/.test(host)) throw invalidAddress();
  return special ? addressOf(host) : host;
};

/** Returns the parts of a URL; a relative one is resolved against the parts of its base. */
const partsOf = (address, base) => {
  const text = address.replace(/^[\0-\x20]+|[\0-\x20]+$/g, '').replace(/[\t\n\r]/g, '');
  const [, beforeFragment, fragment] = /^([^#]*)(#.*)?$/s.exec(text);
  const [, beforeQuery, query] = /^([^?]*)(\?.*)?$/s.exec(beforeFragment);
  const hash = fragment === undefined ? '' : `#${encodedFragment(fragment.slice(1))}`;
  const scheme = /^([a-z][a-z\d+.-]*:)(.*)$/is.exec(beforeQuery);
  const protocol = scheme ? scheme[1].toLowerCase() : base?.protocol;
  if (!protocol) throw invalidAddress();
  const special = Object.hasOwn(PORTS, protocol);
  const search = query === undefined ? '' : `?${encodedQuery(query.slice(1))}`;
  let rest = scheme ? scheme[2] : beforeQuery;
  if (special) rest = rest.replace(/\\/g, '/');
  if (scheme && !special && !rest.startsWith('/')) {
    return { protocol, username: '', password: '', hostname: '', port: '', pathname: rest, search, hash, opaque: true };
  }
  const parts = { protocol, username: '', password: '', hostname: '', port: '', pathname: '', search, hash };
  const isWhole = scheme && !(special && base?.protocol === protocol && !rest.startsWith('//'));
  if (isWhole || rest.startsWith('//')) {
    const [, authority, path] = (special ? /^\/*([^/]*)(.*)$/s : /^(?:\/\/([^/]*))?(.*)$/s).exec(rest);
    readAuthority(parts, authority ?? '', special);
    parts.pathname = encodedPath(path || (special ? '/' : ''));
  } else {
    if (base.opaque) throw invalidAddress();
    for (const name of ['username', 'password', 'hostname', 'port']) parts[name] = base[name];
    if (rest === '') Object.assign(parts, { pathname: base.pathname, search: query === undefined ? base.search : search });
    else parts.pathname = encodedPath(rest.startsWith('/') ? rest : base.pathname.replace(/[^/]*$/, '') + rest);
  }
  if (parts.pathname) parts.pathname = resolvedPath(parts.pathname);
  return parts;
};

const readAuthority = (parts, authority, special) => {
  const atIndex = authority.lastIndexOf('@');
  if (atIndex >= 0) {
    const user = authority.slice(0, atIndex);
    const colon = user.indexOf(':');
    parts.username = encodedUser(colon < 0 ? user : user.slice(0, colon));
    parts.password = colon < 0 ? '' : encodedUser(user.slice(colon + 1));
  }
  const match = /^(\[[^\]]*\]|[^:]*)(?::(\d*))?$/.exec(authority.slice(atIndex + 1));
  if (!match || Number(match[2]) > 65535) throw invalidAddress();
  parts.hostname = hostOf(match[1], special);
  parts.port = match[2] ? String(Number(match[2])) : '';
  if (parts.port === PORTS[parts.protocol]) parts.port = '';
};

class Address {
  #parts;
  #parameters = null;
  constructor(address, base) {
    this.#parts = partsOf(String(address), base === undefined ? undefined : partsOf(String(base)));
  }
  static canParse(address, base) {
    try {
      return Boolean(new Address(address, base));
    } catch (error) {
      if (isFatal(error)) throw error;
      return false;
    }
  }
  #change(name, value) {
    try {
      this.#parts = partsOf(writtenAddress({ ...this.#parts, [name]: value }));
    } catch (error) {
      if (isFatal(error)) throw error; // an invalid value leaves the part unchanged
    }
  }
  get searchParams() {
    this.#parameters ??= new AddressParameters(this.#parts.search, (text) => {
      this.#parts = { ...this.#parts, search: text ? `?${text}` : '' };
    });
    return this.#parameters;
  }
  get href() {
    return writtenAddress(this.#parts);
  }
  set href(text) {
    this.#parts = partsOf(String(text));
    this.#parameters = null;
  }
  get origin() {
    return Object.hasOwn(PORTS, this.#parts.protocol) ? `${this.#parts.protocol}//${this.host}` : 'null';
  }
  get host() {
    return this.#parts.hostname + (this.#parts.port && `:${this.#parts.port}`);
  }
  set host(text) {
    const [hostname, port = ''] = String(text).split(':');
    this.#change('hostname', hostname);
    if (port) this.#change('port', port);
  }
  get search() {
    return this.#parts.search === '?' ? '' : this.#parts.search;
  }
  set search(text) {
    this.#change('search', text === '' ? '' : `?${String(text).replace(/^\?/, '').replace(/#/g, '%23')}`);
    this.#parameters = null;
  }
  get hash() {
    return this.#parts.hash === '#' ? '' : this.#parts.hash;
  }
  set hash(text) {
    this.#change('hash', text === '' ? '' : `#${String(text).replace(/^#/, '')}`);
  }
  get pathname() {
    return this.#parts.pathname;
  }
  set pathname(text) {
    this.#change('pathname', String(text).replace(/^(?!\/)/, '/').replace(/\?/g, '%3F').replace(/#/g, '%23'));
  }
  get protocol() {
    return this.#parts.protocol;
  }
  set protocol(text) {
    this.#change('protocol', `${String(text).replace(/:.*$/s, '')}:`);
  }
  get port() {
    return this.#parts.port;
  }
  set port(text) {
    this.#change('port', String(text));
  }
  get hostname() {
    return this.#parts.hostname;
  }
  set hostname(text) {
    this.#change('hostname', String(text));
  }
  get username() {
    return this.#parts.username;
  }
  set username(text) {
    this.#change('username', encodedUser(String(text)));
  }
  get password() {
    return this.#parts.password;
  }
  set password(text) {
    this.#change('password', encodedUser(String(text)));
  }
  toString() {
    return this.href;
  }
  toJSON() {
    return this.href;
  }
}

const writtenAddress = (parts) => {
  if (parts.opaque) return parts.protocol + parts.pathname + parts.search + parts.hash;
  const user = parts.username || parts.password ? `${parts.username}${parts.password && `:${parts.password}`}@` : '';
  const slashes = parts.hostname || Object.hasOwn(PORTS, parts.protocol) || parts.protocol === 'file:' ? '//' : '';
  const host = parts.hostname + (parts.port && `:${parts.port}`);
  return parts.protocol + slashes + user + host + parts.pathname + parts.search + parts.hash;
};
