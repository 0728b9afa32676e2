// Chunks compiled, kept by their text while the child lives, and worked out item by item.

const compiledChunks = new Map();
const expressionNames = new Set(Object.keys(EXPRESSION_NAMES));

/** A frozen function: an expression finds its own as arguments.callee, and it is called again for other items. */
const frozenFunction = (names, body) => {
  const call = new RealFunction('$ext$', ...names, body);
  freeze(call.prototype);
  return freeze(call);
};

/** The function a chunk is: its first statement's value, where it has several. Throws SyntaxError. */
const functionOf = (code, tokens, names) => {
  const text = withExtensions(code, tokens, $ext$);
  if (balanced(tokens)) {
    try {
      return frozenFunction(names, `return (${text}\n)`);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }
  const again = tokensOf(text);
  frozenFunction(names, text);
  for (const end of statementEnds(text, again)) {
    const first = text.slice(0, end);
    const inner = tokensOf(first);
    if (!inner.length || !balanced(inner)) continue;
    try {
      return frozenFunction(names, `return (${first}\n)`);
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  }
  throw new SyntaxError('it is no expression');
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

/** The value of a chunk for an item; undefined for any error but our own. */
const valueOf = (chunk, contexts) => {
  if (chunk.problem) fault(chunk.problem);
  const context = contexts[chunk.access];
  try {
    const { call, finders, withFallback } = chunk;
    if (finders.length === 1) return call($ext$, finders[0](context, withFallback));
    return call($ext$, ...finders.map((find) => find(context, withFallback)));
  } catch (error) {
    if (run.wanted) throw error;
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
    if (run.wanted || isFatal(error) || error instanceof Fault) throw error;
    return '';
  }
};

const DEEPEST = 500; // of what an expression gives: what reads it has a stack too

/** Refuses what cannot be copied out of the engine: functions and symbols, and what is nested too deeply. */
const mustCopy = (value, depth = 0) => {
  if (typeof value === 'function' || typeof value === 'symbol') fault('The expression gives a function, not a value. Call it, or name a field.');
  if (typeof value !== 'object' || value === null) return;
  if (depth > DEEPEST) fault('The expression gives a value that is nested too deeply.');
  if (isList(value)) for (const element of value) mustCopy(element, depth + 1);
  else if (isPlain(value)) for (const key of Object.keys(value)) mustCopy(value[key], depth + 1);
};

/** Evaluates a template for an item and adds its value to `result`, whose `odd` lists what JSON cannot express. */
const workOut = (parts, contexts, result) => {
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
        if (typeof value === 'object') mustCopy(value);
        else if (typeof value === 'function' || typeof value === 'symbol') mustCopy(value);
        result.v[index] = value;
      }
      return;
    }
    result.v[index] = parts.map((part) => (typeof part === 'string' ? part : textOf(valueOf(compiled(part[0]), contexts)))).join('');
  } catch (error) {
    if (!(error instanceof Fault) || run.wanted) throw error;
    result.odd.push([index, 'f', error.message]);
  }
};

/** The JSON of the results; a value that cannot be written is replaced by a fault. */
const answered = (templates) => {
  try {
    return stringify(templates);
  } catch (error) {
    if (isFatal(error) || run.wanted) throw error;
  }
  for (const result of templates) {
    result.v.forEach((value, index) => {
      try {
        stringify(value);
      } catch (error) {
        if (isFatal(error)) throw error;
        result.v[index] = null;
        result.odd.push([index, 'f', 'The expression gives a value that cannot be written down.']);
      }
    });
  }
  return stringify(templates);
};

/** Does a piece of work; where it lacks a zone, its answer says nothing and the work is done again. */
const withZones = (act) => {
  run.wanted = '';
  const dice = run.dice;
  try {
    const answer = act();
    if (!run.wanted) return answer;
  } catch (error) {
    if (!run.wanted) throw error;
  }
  run.dice = dice;
  return 'null';
};
const zonesWanted = () => stringify(run.wanted);

const evaluateBlock = (from, to) =>
  withZones(() => {
    const results = message.templates.map(() => ({ v: [], odd: [] }));
    for (let index = from; index < to; index += 1) {
      const item = message.places[index];
      const contexts = [new ItemContext(item, PLAIN), new ItemContext(item, GUARDED), new ItemContext(item, COPIED)];
      message.templates.forEach((parts, number) => workOut(parts, contexts, results[number]));
    }
    return answered(results);
  });
