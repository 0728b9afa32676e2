// Gives JavaScript's own errors the messages of Node.js, since scripts put the messages of caught errors into fields.

// QuickJS's messages with the message of Node.js: a text, or a function of the match and of the place of the error.
const ERROR_TEXTS = [
  [/^cannot read property 'Symbol\.iterator' of (null|undefined)$/, ([, value], place) => notIterable(value, place)],
  [/^cannot read property '(.*)' of (null|undefined)$/s, ([, name, value]) => `Cannot read properties of ${value} (reading '${name}')`],
  [/^cannot set property '(.*)' of (null|undefined)$/s, ([, name, value]) => `Cannot set properties of ${value} (setting '${name}')`],
  [/^not a (?:function|constructor)$/, (match, place) => place.called()],
  [/^value is not iterable$/, (match, place) => withCode(place.expression(), 'is not iterable')],
  [/^'.*' is read-only$/, (match, place) => (place.assignsVariable() ? 'Assignment to constant variable.' : null)],
  [/^(\S+) is not initialized$/, ([, name]) => `Cannot access '${name}' before initialization`],
  [/^Date value is NaN$/, 'Invalid time value'],
  [/^empty array$/, 'Reduce of empty array with no initial value'],
  [/^invalid array length$/, 'Invalid array length'],
  [/^cannot convert symbol to (string|number)$/, ([, kind]) => `Cannot convert a Symbol value to a ${kind}`],
  [/^cannot convert BigInt to number$/, 'Cannot mix BigInt and other types, use explicit conversions'],
  [/^bad normalization form$/, 'The normalization form should be one of NFC, NFD, NFKC, NFKD.'],
  [/^regexp must have the 'g' flag$/, (match, place) => `String.prototype.${place.native} called with a non-global RegExp argument`],
  [/^invalid number of digits$/, (match, { native }) => `${native}() ${native === 'toPrecision' ? 'argument must be between 1' : native === 'toFixed' ? 'digits argument must be between 0' : 'argument must be between 0'} and 100`],
];
const MALFORMED_ADDRESS = 'URI malformed';

const notIterable = (value, place) => {
  const code = place.expression();
  return code === null ? `${value === 'null' ? 'object null' : value} is not iterable (cannot read property Symbol(Symbol.iterator))` : `${code} is not iterable`;
};
const withCode = (code, rest) => (code === null ? null : `${code} ${rest}`);

/** The place at which an error was thrown: a token of the compiled script. */
class ThrownPlace {
  constructor(tokens, index) {
    this.tokens = tokens;
    this.index = index;
  }
  /** Returns the text of one link of a chain and the index after it; null if Node.js would print it differently. */
  part(index) {
    const { kind, text, partner } = this.tokens[index];
    if (kind === 'word' || text === '.' || text === '?.') return [text, index + 1];
    if (partner === undefined || partner < index) return null;
    if (text === '(') return ['(...)', partner + 1];
    if (text !== '[' || partner !== index + 2) return null;
    const inner = this.tokens[index + 1];
    if (inner.kind === 'text') return [`.${inner.text.slice(1, -1)}`, partner + 1];
    return inner.kind === 'word' || inner.kind === 'number' ? [`[${inner.text}]`, partner + 1] : null;
  }
  /** Returns the code of the tokens from `from` to `to` as Node.js quotes it; null if it would print it differently. */
  quoted(from, to) {
    let code = '';
    for (let index = from; index < to; ) {
      const part = this.part(index);
      if (part === null) return null;
      code += part[0];
      index = part[1];
    }
    return code || null;
  }
  /** Returns the opening brackets of the calls that may have failed; QuickJS may report an argument of the call. */
  calls() {
    let end = this.index + 1;
    while (this.tokens[end]?.text === '[' && this.tokens[end].partner > end) end = this.tokens[end].partner + 1;
    if (this.tokens[end]?.text === '?.') return [];
    const calls = this.tokens[end]?.text === '(' ? [end] : [];
    for (let index = this.index - 1; index >= 0; index -= 1) {
      const { text, partner } = this.tokens[index];
      const before = this.tokens[index - 1];
      if (text === '=>' || text === ';') break;
      if (partner < index) index = partner;
      else if (text === '(' && (')]'.includes(before?.text ?? 'x') || (before?.kind === 'word' && !BEFORE_PATTERN.has(before.text)))) {
        if (BEFORE_BRACKET.has(before.text)) break;
        calls[calls.length] = index;
      } else if (text === '[' && this.tokens[partner + 1]?.text === '(') calls[calls.length] = partner + 1;
      else if (text === '{' && (before === undefined || [')', ';', '{', '}', 'else', 'try', 'finally', 'do'].includes(before.text))) break;
    }
    return calls;
  }
  /** Returns the message about a call's callee; null if that is no chain of names or if several calls may have failed. */
  called() {
    const calls = this.calls();
    if (calls.length !== 1) return null;
    let start = operandOf(this.tokens, calls[0], true);
    const made = this.tokens[start]?.text === 'new';
    if (made) start += 1;
    if (this.tokens[start]?.kind !== 'word') return null;
    const code = this.quoted(start, calls[0]);
    return code === null || (made && code.includes('(')) ? null : `${code} is not a ${made ? 'constructor' : 'function'}`;
  }
  /** Returns whether the statement assigns a variable and not a member. */
  assignsVariable() {
    return !'.['.includes(this.tokens[this.index + 1]?.text ?? '.');
  }
  /** Returns the code of the chain that is iterated; null for any other expression. */
  expression() {
    let start = this.index;
    if (this.tokens[start - 1]?.text === '.') start = operandOf(this.tokens, start - 1);
    const [pattern, before] = [this.tokens[start - 2]?.text, this.tokens[start - 1]?.text];
    const isIterated = before === '...' || (before === 'of' && !']}'.includes(pattern));
    if (this.tokens[start]?.kind !== 'word' || !isIterated) return null; // QuickJS reported another token
    let end = this.index + 1;
    while ('.?.'.includes(this.tokens[end]?.text || 'x') || this.tokens[end - 1].text.endsWith('.') || (this.tokens[end]?.partner > end && '[('.includes(this.tokens[end].text))) {
      end = this.tokens[end].partner > end ? this.tokens[end].partner + 1 : end + 1;
    }
    return /^[)\];,]?$/.test(this.tokens[end]?.text ?? '') ? this.quoted(start, end)?.replaceAll('(...)', '') ?? null : null; // Node.js omits calls in this message
  }
}
const NO_PLACE = { called: () => null, expression: () => null, assignsVariable: () => false, native: '' };

/** Returns the place at which an error was thrown, from the first line of its stack. */
const placeOf = (script, error) => {
  const first = `${error.stack ?? ''}`.split('\n', 1)[0];
  const native = /^ *at (\w+) \(native\)$/.exec(first);
  if (native) return { ...NO_PLACE, native: native[1] };
  const match = /\(<input>:(\d+):(\d+)\)$/.exec(first);
  if (!match || match[1] < 3 || match[1] - 3 >= script.lines.length) return NO_PLACE;
  if (!script.places.has(match[0])) script.places.set(match[0], placeAt(script, positionOf(script.code, script.lines[match[1] - 3], match[2] - 1)));
  return script.places.get(match[0]);
};

/** Returns the position that lies a number of UTF-8 bytes after `from`; QuickJS counts columns in bytes. */
const positionOf = (code, from, bytes) => {
  let position = Math.max(from, 0);
  let left = bytes + Math.min(from, 0);
  while (left > 0 && position < code.length) {
    const sign = code.codePointAt(position);
    left -= sign < 0x80 ? 1 : sign < 0x800 ? 2 : sign < 0x10000 ? 3 : 4;
    position += sign > 0xffff ? 2 : 1;
  }
  return position;
};

const placeAt = (script, at) => {
  let [low, high] = [0, script.tokens.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (script.tokens[middle].at < at) low = middle + 1;
    else high = middle;
  }
  return script.tokens[low]?.at === at ? new ThrownPlace(script.tokens, low) : NO_PLACE;
};

const ENGINE_ERRORS = [TypeError, RangeError, ReferenceError, SyntaxError, URIError].map((kind) => kind.prototype);

/** Errors that scripts create themselves; their messages stay unchanged. */
const scriptErrors = new WeakSet();
const { captureStackTrace } = Error;
const scriptError = (kind, args, newTarget, trap) => {
  const error = construct(kind, args, newTarget);
  captureStackTrace(error, trap); // leaves this function out of the stack
  scriptErrors.add(error);
  return error;
};
const ERROR_TRAPS = {
  construct: (kind, args, newTarget) => scriptError(kind, args, newTarget, ERROR_TRAPS.construct),
  apply: (kind, self, args) => scriptError(kind, args, kind, ERROR_TRAPS.apply),
};
for (const kind of [Error, EvalError, TypeError, RangeError, ReferenceError, SyntaxError, URIError]) {
  const visible = new Proxy(kind, ERROR_TRAPS);
  defineHidden(Engine, kind.name, visible);
  defineHidden(kind.prototype, 'constructor', visible);
  if (visible !== Error) Object.setPrototypeOf(kind, Error);
}

const { repeat } = String.prototype;
defineHidden(String.prototype, 'repeat', function repeatText(count) {
  if (count < 0 || count === Infinity) throw new RangeError(`Invalid count value: ${count}`);
  return apply(repeat, this, [count]);
});
Object.defineProperty(String.prototype.repeat, 'name', { value: 'repeat' });

/** Replaces the message of a QuickJS error by that of Node.js; returns the error. */
const reworded = (script, error) => {
  if (!(error instanceof Error) || scriptErrors.has(error) || !ENGINE_ERRORS.includes(getPrototypeOf(error)) || !hasOwn(error, 'message')) return error;
  const { message: engineText } = error;
  let nodeText = error instanceof URIError && error.stack?.includes('(native)') ? MALFORMED_ADDRESS : null;
  for (let index = 0; index < ERROR_TEXTS.length && nodeText === null; index += 1) {
    const match = ERROR_TEXTS[index][0].exec(engineText);
    if (match) nodeText = typeof ERROR_TEXTS[index][1] === 'function' ? ERROR_TEXTS[index][1](match, placeOf(script, error)) : ERROR_TEXTS[index][1];
  }
  if (nodeText !== null) setMember(error, 'message', nodeText);
  return error;
};

const WORDED = '$worded$';
const CAUGHT = '$caught$';

/** Returns a script whose catch clauses reword the errors they catch, with its tokens and line starts. `opening` is the
 * number of characters before the script on its first line. */
const rewordedScript = (text, tokens, opening) => {
  let code = '';
  let from = 0;
  tokens.forEach((token, index) => {
    const open = tokens[index + 1];
    const parts = tokens[index + 2];
    if (token.kind !== 'word' || token.text !== 'catch' || isMember(tokens, index) || open?.text !== '(' || tokens[open.partner + 1]?.text !== '{') return;
    const [close, body] = [tokens[open.partner], tokens[open.partner + 1]];
    if (parts === close || close !== tokens[(parts.partner ?? index + 2) + 1]) return; // a method called `catch`
    if (parts.kind === 'word') code += `${text.slice(from, body.at + 1)}${WORDED}(${parts.text});`;
    else code += `${text.slice(from, open.at + 1)}${CAUGHT}${text.slice(close.at, body.at + 1)}let ${text.slice(open.at + 1, close.at)} = ${WORDED}(${CAUGHT});`;
    from = body.at + 1;
  });
  code += text.slice(from);
  let positions = null;
  return {
    code,
    places: new Map(), // cached, since a loop may throw at one place many times
    get lines() {
      return this.positions.lines;
    },
    get tokens() {
      return this.positions.tokens;
    },
    get positions() {
      return (positions ??= { tokens: tokensOf(code), lines: [-opening, ...Array.from(code.matchAll(/\n/g), (match) => match.index + 1)] });
    },
  };
};
