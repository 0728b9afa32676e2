// Checks expressions and scripts without running them: syntax, and names that are not available here (12_absent.js).

const LOCALES = new Set(['toLocaleString', 'toLocaleDateString', 'toLocaleTimeString', 'setLocale', 'reconfigure', 'NumberFormat', 'DateTimeFormat', 'localeCompare', 'format', 'Collator', 'PluralRules', 'ListFormat', 'RelativeTimeFormat']);
const LOCALE_TEXT = /^['"`][a-z]{2,3}(?:[-_][A-Za-z]{4})?(?:[-_](?:[A-Z]{2}|\d{3}))?['"`]$/;

const KNOWN_LOCALES = new Set(['en', 'en-US', ...Object.keys(REGIONS), ...Object.keys(REGIONS).map((tag) => tag.slice(0, 2))]);
const ENGLISH_ALWAYS = new Set(['toRelative', 'toRelativeCalendar', 'toHuman', 'PluralRules', 'ListFormat']);

/** Returns a warning for each unsupported language, or any language but English for methods that only write English. */
const localesIn = (code, tokens) => {
  const english = tokens.some((token) => token.kind === 'word' && ENGLISH_ALWAYS.has(token.text));
  return tokens.flatMap((token, index) => {
    const tag = token.text.slice(1, -1).replace('_', '-');
    if (token.kind !== 'text' || !LOCALE_TEXT.test(token.text) || (KNOWN_LOCALES.has(tag) && (!english || tag.startsWith('en')))) return [];
    const before = tokens.slice(Math.max(0, index - 8), index);
    if (!before.some((previous) => previous.kind === 'word' && (LOCALES.has(previous.text) || previous.text === 'locale'))) return [];
    return [problemOf('locale_fallback', 'warning', `The language ${token.text} is not available here, so numbers and dates are written in English.`, 'Write the words yourself if the language matters.', columnOf(code, token))];
  });
};

/** Returns an error for each member of Intl that is not available; in an expression, it would silently give undefined. */
const intlMissing = (code, tokens) =>
  ['RelativeTimeFormat', 'DisplayNames', 'Segmenter', 'DurationFormat'].flatMap((member) => {
    const index = memberIndex(tokens, 'Intl', member);
    return index < 0 ? [] : [missing('error', `“Intl.${member}” is not available.`, 'Write the words yourself; for times use toRelative() of a date.', columnOf(code, tokens[index]))];
  });

const deduped = (problems) => {
  const messages = new Set();
  return problems.filter(({ message: text }) => !messages.has(text) && messages.add(text));
};

/** Returns the problems of a chunk. */
const checkChunk = (code) => {
  const chunk = compiled(code);
  if (chunk.problem) return [problemOf('expression_feature', 'error', chunk.problem, 'Correct the expression in n8n and export again.', 1, chunk.syntax)];
  const tokens = tokensOf(code);
  return deduped([...absentIn(code, tokens, ABSENT), ...variablesIn(code, tokens), ...executionMissing(code, tokens), ...contentReads(code, tokens, EXPRESSION_ITEMS), ...intlMissing(code, tokens), ...unknownCalls(code, tokens), ...localesIn(code, tokens)]);
};

/** Returns the words within parameter lists and destructuring patterns, which may be names that the code declares. */
const boundWords = (tokens) => {
  const bound = new Set();
  tokens.forEach((token, index) => {
    if (!(token.partner > index)) return;
    const before = tokens[index - 1]?.text;
    const parameters = token.text === '(' && (tokens[token.partner + 1]?.text === '=>' || before === 'function' || tokens[index - 2]?.text === 'function' || before === 'catch' || isMethod(tokens, index - 1));
    if (!parameters && !DECLARING.has(before)) return;
    for (const { kind, text } of tokens.slice(index, token.partner)) if (kind === 'word') bound.add(text);
  });
  return bound;
};

/** Returns a warning for each call of an unknown function, which makes the expression's value undefined. */
const unknownCalls = (code, tokens) => {
  let bound = null;
  return tokens.flatMap((token, index) => {
    if (token.kind !== 'word' || (tokens[index + 1]?.text !== '(' && tokens[index - 1]?.text !== 'new') || isMember(tokens, index) || isMethod(tokens, index) || KEYWORDS.has(token.text)) return [];
    const known = Object.hasOwn(ABSENT, token.text) || (expressionNames.has(token.text) && !EMPTY_NAMES.includes(token.text)) || token.text in Engine || declares(tokens, token.text) || (bound ??= boundWords(tokens)).has(token.text);
    return known ? [] : [missing('warning', `Expressions have no function “${token.text}”, so this value is empty.`, 'Use a method of the value, or a Code step before this one.', columnOf(code, token))];
  });
};

/** Returns an error for each module that is not available. */
const modulesIn = (code, tokens) =>
  declares(tokens, 'require') ? [] : tokens.flatMap((token, index) => {
    if (token.text !== 'require' || token.kind !== 'word' || isMember(tokens, index) || tokens[index + 1]?.text === ':') return [];
    const argument = tokens[index + 1]?.text === '(' ? tokens[index + 2] : undefined;
    const name = argument?.kind === 'text' ? argument.text.slice(1, -1).replace(/^node:/, '') : undefined;
    if (name !== undefined && Object.hasOwn(MODULES, name)) return [];
    const words = name === undefined ? 'It loads a module whose name is not fixed.' : `It loads the module “${name}”, which scripts do not have here.`;
    return [missing('error', words, `Use plain JavaScript, or one of ${Object.keys(MODULES).join(', ')}.`, columnOf(code, token))];
  });
/** Returns the members that a script reads of each variable: {name: tokens}. */
const membersByName = (tokens) => {
  const members = new Map();
  tokens.forEach((token, index) => {
    if (token.kind !== 'word' || !isMember(tokens, index) || tokens[index - 2]?.kind !== 'word' || isMember(tokens, index - 2)) return;
    const owner = tokens[index - 2].text;
    if (!members.has(owner)) members.set(owner, []);
    members.get(owner).push(token);
  });
  return members;
};
/** Returns an error for each unavailable member of a module, read where it is loaded or from the variable that holds it. */
const moduleMembers = (code, tokens) => {
  let [members, bound] = [null, null];
  const readOf = (name) => {
    if (declarationCount(tokens, name) > 1 || (bound ??= boundWords(tokens)).has(name)) return []; // it may hold another value
    return (members ??= membersByName(tokens)).get(name) ?? [];
  };
  return tokens.flatMap((token, index) => {
    const name = token.text === 'require' && token.kind === 'word' && tokens[index + 1]?.text === '(' ? tokens[index + 2]?.text.slice(1, -1).replace(/^node:/, '') : '';
    if (name === 'crypto' || !Object.hasOwn(MODULES, name)) return [];
    const view = MODULES[name]();
    const { text: before, partner: open } = tokens[index - 2] ?? {};
    const after = tokens.slice(index + 4, index + 6);
    const isAssigned = tokens[index - 1]?.text === '=';
    let parts = [];
    if (after[0]?.text === '.') parts = [after[1]];
    else if (isAssigned && before === '}') parts = tokens.slice(open, index - 2).filter((part, place, list) => part.kind === 'word' && '{,'.includes(list[place - 1]?.text ?? 'x'));
    else if (isAssigned) parts = readOf(before);
    return parts.filter((part) => part && !(part.text in view)).map((part) => missing('error', `“${part.text}” of the module ${name} is not available.`, `Use plain JavaScript, or what it has: ${Object.keys(view).join(', ')}.`, columnOf(code, part)));
  });
};
const makesFunctions = (code, tokens) =>
  tokens.flatMap((token, index) => (token.text === 'Function' && token.kind === 'word' && tokens[index + 1]?.text === '(' && !isMember(tokens, index)
    ? [missing('error', `“Function”: ${ABSENT_IN_SCRIPTS.eval[1]}`, ABSENT_IN_SCRIPTS.eval[2], columnOf(code, token))]
    : []));
const NOT_IN_CRYPTO = new Set(['createCipheriv', 'createDecipheriv', 'createCipher', 'createDecipher', 'scryptSync', 'scrypt', 'pbkdf2Sync', 'pbkdf2', 'hkdfSync', 'randomBytes', 'randomFillSync', 'getRandomValues', 'createSign', 'createVerify', 'publicEncrypt', 'privateDecrypt', 'generateKeyPairSync', 'createPrivateKey', 'createPublicKey', 'timingSafeEqual', 'subtle', 'webcrypto']);
const cryptoIn = (code, tokens) => {
  if (!tokens.some((token) => token.text === 'crypto' || /^['"`](?:node:)?crypto['"`]$/.test(token.text))) return [];
  return tokens.flatMap((token) => (token.kind === 'word' && NOT_IN_CRYPTO.has(token.text) && !declares(tokens, token.text)
    ? [missing('error', `“${token.text}” of the module crypto is not available: scripts can hash, but not encrypt or sign.`, 'Use a crypto step, or leave this to the service that is called.', columnOf(code, token))]
    : []));
};

const checkScript = (mode, text) => {
  let tokens;
  try {
    tokens = tokensOf(text);
    if (mode === 'flow') frozenFunction([], text.replace(/\bexport\s+default\b/g, '(').replace(/\bexport\b/g, '') + (/\bexport\s+default\b/.test(text) ? ')' : ''));
    else if (tokens.some((token, index) => token.text === 'import' && !isMember(tokens, index))) throw new SyntaxError('it imports a module; scripts have none');
    else new (awaits(tokens) ? AsyncFunction : RealFunction)(`${text}\n`);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return [problemOf('expression_feature', 'error', `The script cannot be read: ${error.message}.`, 'Correct the script in n8n and export again.', 1, true)];
  }
  const helpersIndex = memberIndex(tokens, 'this', 'helpers');
  const helped = helpersIndex < 0 ? [] : [missing('error', '“this.helpers” is not available: scripts make no requests and read no files.', 'Use an HTTP request step.', columnOf(text, tokens[helpersIndex]))];
  const first = mode === 'all' ? tokens.findIndex((token, index) => (token.text === '$json' && token.kind === 'word' && !isMember(tokens, index)) || (token.text === 'item' && isMember(tokens, index) && (tokens[index - 2]?.text === '$input' || tokens[index - 2]?.text === ')'))) : -1;
  const single = first < 0 || declares(tokens, '$json') ? [] : [missing('warning', 'It runs once for all items but reads a single item, which is the first one.', 'Nothing to do if only one item arrives; otherwise let it run once for each item.', columnOf(text, tokens[first]))];
  return deduped([...absentIn(text, tokens, ABSENT_IN_MODE[mode] ?? ABSENT_IN_SCRIPTS), ...(mode === 'flow' ? [] : [...variablesIn(text, tokens), ...executionMissing(text, tokens), ...thisMissing(mode, text, tokens), ...modulesIn(text, tokens), ...moduleMembers(text, tokens), ...makesFunctions(text, tokens), ...cryptoIn(text, tokens)]), ...(NO_ITEM_MODES.has(mode) ? [] : contentReads(text, tokens, SCRIPT_ITEMS)), ...single, ...helped, ...intlMissing(text, tokens), ...localesIn(text, tokens)]);
};

const checkAll = (text) => {
  const { chunks, scripts } = parse(text);
  return stringify({ chunks: chunks.map((codes) => codes.map(checkChunk)), scripts: scripts.map(([mode, script]) => checkScript(mode, script)) });
};

const matchAll = (text) =>
  stringify(parse(text).map(([pattern, flags, tested]) => {
    try {
      return new RegExp(pattern, flags).test(tested);
    } catch (error) {
      if (isFatal(error)) throw error;
      return null;
    }
  }));

/** Stores the table of a time zone; setZones stores the names of all zones once. */
const addZone = (name, text) => zoneTables.set(name, parse(text));
const setZones = (text) => {
  zoneNames = new Map(parse(text).map((name) => [name.toLowerCase(), name]));
};

/** Returns the objects that expressions can reach beyond JavaScript's globals: luxon's internals, iterators, our views. */
const reachable = () => {
  const names = Object.values(EXPRESSION_NAMES).concat(Object.values(helpers));
  const views = [ItemContext, StepView, NodeView, InputView, Fault, MissingZone, $ext$];
  const kinds = [async () => {}, function* () {}, async function* () {}, [][Symbol.iterator](), new Map().entries(), new Set().entries(), 'a'.matchAll(/a/g), Iterator.from({})];
  if (!luxon) return [...names, ...views, ...kinds];
  const formats = Object.getOwnPropertyNames(luxon.DateTime).filter((name) => /^(?:DATE|TIME)/.test(name)).map((name) => luxon.DateTime[name]);
  const date = luxon.DateTime.fromMillis(0, { zone: 'utc' });
  const locale = date.loc;
  const inner = [locale, locale.dtFormatter(date, {}), locale.numberFormatter(), locale.relFormatter(), locale.listFormatter(), luxon.DateTime.invalid('none').invalid].map(Object.getPrototypeOf);
  const sizes = ['casual', 'longterm'].map((conversionAccuracy) => luxon.Duration.fromObject({}, { conversionAccuracy }).matrix);
  const zones = [luxon.FixedOffsetZone.utcInstance, luxon.SystemZone.instance];
  return [...names, ...views, ...kinds, ...formats, ...inner, ...sizes, ...zones, ...Object.values(luxon), jmespath];
};

/** Freezes everything that outlasts an expression, so that no expression can influence another. */
const freezeAll = () => {
  const done = new Set();
  const freezeWhole = (value) => {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || done.has(value)) return;
    done.add(value);
    if (value === luxon?.Settings) return; // is set anew for each message and cannot be reached by code
    freeze(value);
    for (const key of Reflect.ownKeys(value)) {
      const { value: member, get, set } = Object.getOwnPropertyDescriptor(value, key);
      [member, get, set].forEach(freezeWhole);
    }
    freezeWhole(Object.getPrototypeOf(value));
  };
  freezeWhole(Engine);
  reachable().forEach(freezeWhole);
};

return { begin: startMessage, evaluateBlock, missingZones, scriptStart, scriptEnd, scriptAnswer, scriptLines, scriptStatic, checkAll, matchAll, addZone, setZones, freezeAll };
