// JavaScript cut into tokens, as far as rewriting needs it: which names are used, which calls may be extensions,
// where statements end. What is JavaScript at all is decided by the engine's own compiler.

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

/** Whether a slash after this token begins a pattern. */
const patternMayFollow = (token) => {
  if (!token) return true;
  if (token.kind === 'word') return BEFORE_PATTERN.has(token.text);
  if (token.kind === 'sign') return !')]}'.includes(token.text) && token.text !== '++' && token.text !== '--';
  return token.kind === 'open';
};

const OPENS = { '(': 1, '[': 1, '{': 1 };
const CLOSES = { ')': 1, ']': 1, '}': 1 };
const OPENER = { ')': '(', ']': '[', '}': '{' };

/** The tokens of a text: {kind: word|number|text|pattern|template|open|sign, text, at, partner}, where `partner` is the
 * index of the other bracket of a pair. Throws SyntaxError. */
const tokensOf = (code) => {
  const tokens = [];
  const nested = [];
  const unclosed = []; // indexes of brackets
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

/** Whether brackets close in order of their opening; a text that closes what it did not open is no expression. */
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

/** The refused member a text names, if it names one. */
const refusedIn = (tokens) => {
  for (const [index, token] of tokens.entries()) {
    if (token.kind === 'word' && REFUSED.has(token.text) && isMember(tokens, index)) return token.text;
    if (token.kind === 'text' && REFUSED.has(token.text.slice(1, -1)) && tokens[index - 1]?.text === '[') {
      return token.text.slice(1, -1);
    }
  }
  return null;
};

/** The free names of a text among those known; a member of that name does not count. */
const namesUsed = (tokens, knownNames) => {
  const used = new Set();
  for (const [index, token] of tokens.entries()) {
    if (token.kind === 'word' && knownNames.has(token.text) && !isMember(tokens, index)) used.add(token.text);
  }
  return [...used];
};

/** The index of the bracket that opens the one that closes at `close`; -1 if it is not known. */
const opened = (tokens, close) => tokens[close].partner ?? -1;

const BEFORE_BRACKET = new Set(['if', 'while', 'for', 'with', 'switch', 'catch']);

/** The token at which the operand of a dot begins: `$json.a` of `!$json.a.isEmpty()`; -1 if it is not known, or where
 * the chain has `?.` and `optional` does not allow it: the rest of such a chain is left out where it finds nothing. */
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

// Those that may be asked of nothing at all.
const OF_NOTHING = new Set(['isEmpty', 'isNotEmpty']);

/** The text with every call of an extension's name made a call of its symbol: a.name( becomes a[$ext$.name](,
 * and a.isEmpty( becomes $ext$.$isEmpty(a, since it may be asked of nothing too. */
const withExtensions = (code, tokens, extensions) => {
  const edits = [];
  for (const [index, token] of tokens.entries()) {
    const next = tokens[index + 1];
    const called = next?.text === '(' || (next?.text === '?.' && tokens[index + 2]?.text === '(');
    if (token.kind !== 'word' || !called || !isMember(tokens, index) || !Object.hasOwn(extensions, token.text)) continue;
    const dot = tokens[index - 1];
    const start = OF_NOTHING.has(token.text) && dot.text === '.' && next.text === '(' ? operandOf(tokens, index - 1) : -1;
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

/** Whether a text may change the values it looks at: it is then given copies. */
const MUTATES = /\b(?:sort|reverse|push|pop|shift|unshift|splice|fill|copyWithin|delete|assign|definePropert(?:y|ies)|__define[GS]etter__|setPrototypeOf|set)\b|\+\+|--|[^=!<>]=(?![=>])|<<=|>>=/;

// Words by which a function is found that is not named in the text, or one writes to what it did not make.
const FINDING = new Set(['Reflect', 'globalThis', 'this', 'arguments', 'getPrototypeOf', 'getOwnPropertyDescriptor', 'getOwnPropertyDescriptors', 'for', 'call', 'apply', 'bind', 'class']);

/** Whether a text may change values without MUTATES seeing it, as by a method's name put together from parts. */
const isEvasive = (tokens) => {
  for (let index = 0; index < tokens.length; index += 1) {
    const { kind, text } = tokens[index];
    if (kind === 'word' && FINDING.has(text)) return true;
    if (kind !== 'sign') continue;
    if (text === '\\') return true; // an escape within a name
    if (text !== '[') continue;
    const inner = tokens[index + 1];
    const literal = inner && (inner.kind === 'number' || (inner.kind === 'text' && !inner.text.includes('\\')));
    if (inner?.text !== ']' && !(literal && tokens[index + 2]?.text === ']')) return true;
  }
  return false;
};

/** Places at which a statement may end, outside all brackets. */
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
