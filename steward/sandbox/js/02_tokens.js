// A tokenizer for JavaScript, sufficient for finding names, extension calls and the ends of statements. Whether code is
// valid is left to the engine's compiler.

const WORD = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
const NUMBER = /(?:0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)n?/y;
const TEXT = /'(?:[^'\\\n\r]|\\(?:\r\n|[^]))*'|"(?:[^"\\\n\r]|\\(?:\r\n|[^]))*"/y;
const BLANK = /(?:[\s\ufeff]|\/\/[^\n\r\u2028\u2029]*|\/\*[^]*?\*\/)+/y;
const PATTERN = /\/(?![*/])(?:[^\\/[\n\r]|\\[^\n\r]|\[(?:[^\]\\\n\r]|\\[^\n\r])*\])+\/[a-z]*/y;
const SIGN = /\?\.(?!\d)|\.\.\.|=>|\+\+|--|[^]/y;
const TEMPLATE = /(?:[^`\\$]|\\[^]|\$(?!\{))*(?:`|\$\{)/y;

const BEFORE_PATTERN = new Set([
  'return', 'typeof', 'case', 'in', 'of', 'delete', 'void', 'throw', 'new', 'instanceof', 'else', 'do', 'await', 'yield',
]);

const stick = (pattern, text, position) => {
  pattern.lastIndex = position;
  const match = pattern.exec(text);
  return match ? match[0] : null;
};

/** Returns whether a slash after this token begins a regular expression. */
const patternMayFollow = (token) => {
  if (!token) return true;
  if (token.kind === 'word') return BEFORE_PATTERN.has(token.text);
  if (token.kind === 'sign') return !')]}'.includes(token.text) && token.text !== '++' && token.text !== '--';
  return token.kind === 'open';
};

const OPENS = { '(': 1, '[': 1, '{': 1 };
const CLOSES = { ')': 1, ']': 1, '}': 1 };
const OPENER = { ')': '(', ']': '[', '}': '{' };

/** Returns the tokens of code: {kind: word|number|text|pattern|template|open|sign, text, at, partner}, where `partner`
 * is the index of the matching bracket. Throws SyntaxError. */
const tokensOf = (code) => {
  const tokens = [];
  const nested = [];
  const unclosed = []; // indexes of the brackets that are still open
  let position = 0;
  const take = (kind, text) => {
    tokens.push({ kind, text, at: position });
    position += text.length;
  };
  const pair = (index) => {
    const { text } = tokens[index];
    if (OPENS[text]) unclosed.push(index);
    if (!CLOSES[text] || !unclosed.length) return;
    const opening = unclosed.pop();
    if (tokens[opening].text === OPENER[text]) [tokens[opening].partner, tokens[index].partner] = [index, opening];
  };
  const template = (from) => {
    const rest = stick(TEMPLATE, code, from);
    if (rest === null) throw new SyntaxError('a template is not closed');
    const opens = rest.endsWith('${');
    if (opens) nested.push('template');
    take(opens ? 'open' : 'template', code.slice(position, from) + rest);
  };
  while (position < code.length) {
    const sign = code[position];
    const blank = stick(BLANK, code, position);
    if (blank) {
      position += blank.length;
      continue;
    }
    const simple = stick(TEXT, code, position);
    if (simple) take('text', simple);
    else if (sign === '`') template(position + 1);
    else if (sign === '}' && nested.at(-1) === 'template') {
      nested.pop();
      template(position + 1);
    } else if (/[\d.]/.test(sign) && /^\.?\d/.test(code.slice(position, position + 2))) take('number', stick(NUMBER, code, position));
    else if (stick(WORD, code, position)) take('word', stick(WORD, code, position));
    else {
      const pattern = sign === '/' && patternMayFollow(tokens.at(-1)) ? stick(PATTERN, code, position) : null;
      if (pattern) take('pattern', pattern);
      else {
        if (sign === '{') nested.push('brace');
        if (sign === '}') nested.pop();
        take('sign', stick(SIGN, code, position));
        pair(tokens.length - 1);
      }
    }
  }
  return tokens;
};

/** Returns whether all brackets are balanced; code that closes a bracket it did not open is no expression. */
const balanced = (tokens) => {
  let depth = 0;
  for (const token of tokens) {
    if (token.kind === 'open') depth += token.text[0] === '`' ? 1 : 0;
    else if (token.kind === 'template') depth -= token.text[0] === '}' ? 1 : 0;
    else if (token.kind === 'sign') depth += (OPENS[token.text] ?? 0) - (CLOSES[token.text] ?? 0);
    if (depth < 0) return false;
  }
  return depth === 0;
};

const DECLARING = new Set(['const', 'let', 'var', 'function', 'class']);

const isMember = (tokens, index) =>
  index > 0 && tokens[index - 1].kind === 'sign' && (tokens[index - 1].text === '.' || tokens[index - 1].text === '?.');

const REFUSED = new Set(['constructor', 'prototype', '__proto__']);

/** Returns the first forbidden member that the code names, or null. */
const refusedIn = (tokens) => {
  for (const [index, token] of tokens.entries()) {
    if (token.kind === 'word' && REFUSED.has(token.text) && isMember(tokens, index)) return token.text;
    if (token.kind === 'text' && REFUSED.has(token.text.slice(1, -1)) && tokens[index - 1]?.text === '[') {
      return token.text.slice(1, -1);
    }
  }
  return null;
};

/** Returns those of `knownNames` that the code uses as variables, not as members. */
const namesUsed = (tokens, knownNames) => {
  const used = new Set();
  for (const [index, token] of tokens.entries()) {
    if (token.kind === 'word' && knownNames.has(token.text) && !isMember(tokens, index)) used.add(token.text);
  }
  return [...used];
};

/** Returns the index of the bracket that matches the closing one at `close`, or -1. */
const opened = (tokens, close) => tokens[close].partner ?? -1;

const BEFORE_BRACKET = new Set(['if', 'while', 'for', 'with', 'switch', 'catch']);

/** Returns the index of the first token of a dot's operand, such as `$json` in `!$json.a.isEmpty()`, or -1 if it is
 * uncertain. It is also -1 for a chain with `?.` unless `optional`, because such a chain may stop before the dot. */
const operandOf = (tokens, dot, optional = false) => {
  let index = dot - 1;
  while (index >= 0) {
    const { kind, text } = tokens[index];
    if (kind === 'sign') {
      index = text === ')' || text === ']' ? opened(tokens, index) : -1;
      if (index < 0) return -1;
      const before = tokens[index - 1];
      if (before?.text === '?.' || (before?.kind === 'word' && BEFORE_BRACKET.has(before.text))) return -1;
      const more = before && (before.text === ')' || before.text === ']' || (before.kind === 'word' && !BEFORE_PATTERN.has(before.text)));
      if (!more) return index;
      index -= 1;
      continue;
    }
    if (kind === 'open' || (kind === 'template' && text[0] === '}')) return -1;
    const before = tokens[index - 1];
    if (before?.text === '?.' && !optional) return -1;
    if (!isMember(tokens, index)) return before?.text === 'new' ? index - 1 : index;
    index -= 2;
  }
  return -1;
};

// Extensions that can be called on null and undefined.
const ON_NULLISH = new Set(['isEmpty', 'isNotEmpty']);

/** Returns the code with calls of extensions replaced by calls of their symbols: `a.name(` becomes `a[$ext$.name](`.
 * `a.isEmpty(` becomes `$ext$.$isEmpty(a, `, since `a` may be null or undefined. */
const withExtensions = (code, tokens, extensions) => {
  const edits = [];
  for (const [index, token] of tokens.entries()) {
    const next = tokens[index + 1];
    const called = next?.text === '(' || (next?.text === '?.' && tokens[index + 2]?.text === '(');
    if (token.kind !== 'word' || !called || !isMember(tokens, index) || !Object.hasOwn(extensions, token.text)) continue;
    const dot = tokens[index - 1];
    const start = ON_NULLISH.has(token.text) && dot.text === '.' && next.text === '(' ? operandOf(tokens, index - 1) : -1;
    if (start >= 0) {
      edits.push({ at: tokens[start].at, end: tokens[start].at, text: `$ext$.$${token.text}(`, order: -index });
      edits.push({ at: dot.at, end: next.at + 1, text: ', ', order: index });
    } else edits.push({ at: dot.at, end: token.at + token.text.length, text: `${dot.text === '?.' ? '?.' : ''}[$ext$.${token.text}]`, order: index });
  }
  edits.sort((first, other) => first.at - other.at || first.order - other.order);
  let result = '';
  let from = 0;
  for (const edit of edits) {
    result += code.slice(from, edit.at) + edit.text;
    from = edit.end;
  }
  return result + code.slice(from);
};

/** Matches code that may modify the values it reads; it then gets copies. */
const MUTATES = /\b(?:sort|reverse|push|pop|shift|unshift|splice|fill|copyWithin|delete|assign|definePropert(?:y|ies)|__define[GS]etter__|setPrototypeOf|set)\b|\+\+|--|[^=!<>]=(?![=>])|<<=|>>=/;

// Words by which code can call a function it does not name, or write to objects it did not create.
const FINDING = new Set(['Reflect', 'globalThis', 'this', 'arguments', 'getPrototypeOf', 'getOwnPropertyDescriptor', 'getOwnPropertyDescriptors', 'for', 'call', 'apply', 'bind', 'class']);

/** Returns whether code may modify values in a way that MUTATES does not detect, such as by a computed method name. */
const isEvasive = (tokens) => {
  for (let index = 0; index < tokens.length; index += 1) {
    const { kind, text } = tokens[index];
    if (kind === 'word' && FINDING.has(text)) return true;
    if (kind !== 'sign') continue;
    if (text === '\\') return true; // a Unicode escape within a name
    if (text !== '[') continue;
    const inner = tokens[index + 1];
    const literal = inner && (inner.kind === 'number' || (inner.kind === 'text' && !inner.text.includes('\\')));
    if (inner?.text !== ']' && !(literal && tokens[index + 2]?.text === ']')) return true;
  }
  return false;
};

/** Returns the offsets, outside all brackets, at which a statement may end. */
const statementEnds = (code, tokens) => {
  const ends = [];
  let depth = 0;
  for (const [index, token] of tokens.entries()) {
    if (token.kind === 'open') depth += token.text[0] === '`' ? 1 : 0;
    else if (token.kind === 'template') depth -= token.text[0] === '}' ? 1 : 0;
    else if (token.kind === 'sign') depth += (OPENS[token.text] ?? 0) - (CLOSES[token.text] ?? 0);
    const end = token.at + token.text.length;
    if (depth !== 0) continue;
    if (token.kind === 'sign' && token.text === ';') ends.push(token.at);
    else if (/[\n\r]/.test(code.slice(end, tokens[index + 1]?.at ?? end))) ends.push(end);
  }
  return ends;
};
