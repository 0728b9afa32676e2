// Compiles chunks, caches them by their text, and evaluates templates for each item.

const compiledChunks = new Map();
const expressionNames = new Set(Object.keys(EXPRESSION_NAMES));

/** Returns a frozen function: an expression can reach its own by arguments.callee, and it is reused for other items. */
const frozenFunction = (names, body) => {
  const call = new RealFunction('$ext$', ...names, body);
  freeze(call.prototype);
  return freeze(call);
};

/** Compiles a chunk to a function; if it has several statements, the first one gives the value. Throws SyntaxError. */
const functionOf = (code, tokens, names) => {
  const text = withExtensions(code, tokens, $ext$);
  if (balanced(tokens)) {
    try {
      return frozenFunction(names, `return (${text}\n)`);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }
  const rewrittenTokens = tokensOf(text);
  frozenFunction(names, text);
  for (const end of statementEnds(text, rewrittenTokens)) {
    const first = text.slice(0, end);
    const firstTokens = tokensOf(first);
    if (!firstTokens.length || !balanced(firstTokens)) continue;
    try {
      return frozenFunction(names, `return (${first}\n)`);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }
  throw new SyntaxError('it is not an expression');
};

const compiled = (code) => {
  let chunk = compiledChunks.get(code);
  if (chunk) return chunk;
  try {
    const tokens = tokensOf(code);
    if (!tokens.length) throw new SyntaxError('it is empty');
    const refused = refusedIn(tokens);
    if (refused) chunk = { problem: `“${refused}” cannot be reached from an expression.`, syntax: false };
    else {
      const names = namesUsed(tokens, expressionNames);
      const finders = names.map((name) => EXPRESSION_NAMES[name]);
      const withFallback = fallbacksOf(tokens);
      chunk = { call: functionOf(code, tokens, names), finders, withFallback, access: MUTATES.test(code) ? COPIED : isEvasive(tokens) ? GUARDED : PLAIN };
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    chunk = { problem: `The expression cannot be read: ${error.message}.`, syntax: true };
  }
  if (compiledChunks.size < 5000) compiledChunks.set(code, chunk);
  return chunk;
};

/** Evaluates a chunk for an item; any error except a Fault gives undefined. */
const valueOf = (chunk, contexts) => {
  if (chunk.problem) fault(chunk.problem);
  const context = contexts[chunk.access];
  try {
    const { call, finders, withFallback } = chunk;
    if (finders.length === 1) return call($ext$, finders[0](context, withFallback));
    return call($ext$, ...finders.map((find) => find(context, withFallback)));
  } catch (error) {
    if (run.missingZones) throw error;
    if (isFatal(error) || error instanceof Fault) throw error;
    if (error instanceof TypeError && error.message.startsWith(`cannot read property '${MARK}`)) {
      const name = error.message.slice(22 + MARK.length).split("'")[0];
      fault(`${name}() cannot be used on an empty value. Check that the field is there first.`);
    }
    return undefined;
  }
};

const textOf = (value) => {
  if (typeof value === 'symbol') fault('A symbol cannot become text.');
  if (!value && value !== 0 && value !== false) return '';
  try {
    return String(value);
  } catch (error) {
    if (run.missingZones || isFatal(error) || error instanceof Fault) throw error;
    return '';
  }
};

const MAX_DEPTH = 500; // maximum nesting of a value, because its reader's stack is limited too

/** Fails for values that cannot leave the engine: functions, symbols, and values nested too deeply. */
const checkCopyable = (value, depth = 0) => {
  if (typeof value === 'function' || typeof value === 'symbol') fault('The expression gives a function, not a value. Call it, or name a field.');
  if (typeof value !== 'object' || value === null) return;
  if (depth > MAX_DEPTH) fault('The expression gives a value that is nested too deeply.');
  if (isList(value)) for (const element of value) checkCopyable(element, depth + 1);
  else if (isPlain(value)) for (const key of Object.keys(value)) checkCopyable(value[key], depth + 1);
};

/** Evaluates a template for an item and adds its value to `result`, whose `odd` lists what JSON cannot express. */
const evaluateTemplate = (parts, contexts, result) => {
  const index = result.v.length;
  result.v.push(null);
  try {
    if (parts.length === 1 && typeof parts[0] !== 'string') {
      const value = valueOf(compiled(parts[0][0]), contexts);
      if (value === undefined) result.odd.push([index, 'u']);
      else if (typeof value === 'number') {
        if (Number.isFinite(value)) result.v[index] = value;
        else result.odd.push([index, 'n', String(value)]);
      } else {
        if (value instanceof RealDate) result.odd.push([index, 'd']);
        if (typeof value === 'object') checkCopyable(value);
        else if (typeof value === 'function' || typeof value === 'symbol') checkCopyable(value);
        result.v[index] = value;
      }
      return;
    }
    result.v[index] = parts.map((part) => (typeof part === 'string' ? part : textOf(valueOf(compiled(part[0]), contexts)))).join('');
  } catch (error) {
    if (!(error instanceof Fault) || run.missingZones) throw error;
    result.odd.push([index, 'f', error.message]);
  }
};

/** Encodes the results as JSON, with a fault in place of each value that cannot be encoded. */
const encodedResults = (templates) => {
  try {
    return stringify(templates);
  } catch (error) {
    if (isFatal(error) || run.missingZones) throw error;
  }
  for (const result of templates) {
    result.v.forEach((value, index) => {
      try {
        stringify(value);
      } catch (error) {
        if (isFatal(error)) throw error;
        result.v[index] = null;
        result.odd.push([index, 'f', 'The expression gives a value that cannot be converted to JSON.']);
      }
    });
  }
  return stringify(templates);
};

/** Calls `act`; returns 'null' if a time zone is missing, so that the caller can load it and repeat the call. */
const withZones = (act) => {
  run.missingZones = '';
  const randomState = run.randomState;
  try {
    const result = act();
    if (!run.missingZones) return result;
  } catch (error) {
    if (!run.missingZones) throw error;
  }
  run.randomState = randomState;
  return 'null';
};
const missingZones = () => stringify(run.missingZones);

const evaluateBlock = (from, to) =>
  withZones(() => {
    const results = message.templates.map(() => ({ v: [], odd: [] }));
    for (let index = from; index < to; index += 1) {
      const item = message.places[index];
      const contexts = [new ItemContext(item, PLAIN), new ItemContext(item, GUARDED), new ItemContext(item, COPIED)];
      message.templates.forEach((parts, number) => evaluateTemplate(parts, contexts, results[number]));
    }
    return encodedResults(results);
  });
