// Finds names of n8n and Node.js that are not available here, and says what to use instead.

const columnOf = (code, token) => token.at + 1;

const problemOf = (code, level, message, todo, column = 1, syntax = false) => ({ code, level, message, what_to_do: todo, column, syntax });
const missing = (level, message, todo, column) => problemOf('expression_feature', level, message, todo, column);

const ABSENT = {
  $fromAI: ['error', 'It asks a language model for a value, which is not possible here.', 'Write the value or an expression instead.'],
  $secrets: ['error', 'Secrets of n8n are not available here.', 'Connect an account and choose it for the step, or write the value into the workflow.'],
  $credentials: ['error', 'Neither Steward nor n8n lets an expression read the keys of an account.', 'Choose the account in the authentication of the step.'],
  $evaluateExpression: ['error', 'It evaluates a text as an expression, which is not possible here.', 'Write the expression itself.'],
  $resumeWebhookUrl: ['error', 'Runs are not resumed from outside.', 'Remove it, or use an event of the store.'],
};
const ABSENT_IN_SCRIPTS = {
  fetch: ['error', 'It calls the network, which a script cannot.', 'Use an HTTP request step.'],
  process: ['error', 'It reads the machine it runs on, which a script cannot.', 'Write the value into the script.'],
  setTimeout: ['error', 'It waits; scripts have no timers.', 'Use a wait step.'],
  setInterval: ['error', 'It waits; scripts have no timers.', 'Use a wait step.'],
  setImmediate: ['error', 'It waits; scripts have no timers.', 'Use a wait step.'],
  FormData: ['error', 'It is not available: scripts make no requests.', 'Use an HTTP request step.'],
  $helpers: ['error', 'Scripts make no requests and read no files.', 'Use an HTTP request step.'],
  $evaluateExpression: ['error', 'It evaluates a text as an expression, which is not possible in scripts.', 'Write it as JavaScript.'],
  getNodeParameter: ['error', 'It is not available.', 'Write the value into the script.'],
  eval: ['error', 'Text is not run as code.', 'Write the calculation in plain JavaScript.'],
  $credentials: ABSENT.$credentials,
  $fromAI: ABSENT.$fromAI,
  $secrets: ABSENT.$secrets,
  $resumeWebhookUrl: ABSENT.$resumeWebhookUrl,
};
const NOT_IN_FLOW = ['error', 'It is not available in code of Shopify Flow.', 'Write the value into the script.'];
const ABSENT_IN_FLOW = { ...ABSENT_IN_SCRIPTS, $env: NOT_IN_FLOW, $vars: NOT_IN_FLOW };
const ABSENT_IN_MODE = { flow: ABSENT_IN_FLOW };
for (const [mode, name] of Object.entries(STATIC_NAMES)) {
  const other = name.startsWith('$') ? name.slice(1) : `$${name}`;
  ABSENT_IN_MODE[mode] = { ...ABSENT_IN_SCRIPTS, [other]: ['error', `It is not available in this kind of step, in n8n as here: its name is “${name}”.`, 'Use that name.'] };
}
for (const name of ['require', 'Buffer', 'URL', 'URLSearchParams', 'TextEncoder', 'TextDecoder']) {
  ABSENT_IN_FLOW[name] = ['error', 'It is not available in code of Shopify Flow.', 'Use string methods.'];
}

const nameCounts = new WeakMap(); // how often a script declares each name; cached per token list

const declarationCount = (tokens, name) => {
  if (!nameCounts.has(tokens)) {
    const counts = new Map();
    tokens.forEach(({ kind, text }, index) => {
      if (kind === 'word' && (DECLARING.has(tokens[index - 1]?.text) || tokens[index + 1]?.text === '=>')) counts.set(text, (counts.get(text) ?? 0) + 1);
    });
    nameCounts.set(tokens, counts);
  }
  return nameCounts.get(tokens).get(name) ?? 0;
};
/** Returns the index of the name in its declaration outside all brackets, which applies to all of the code, or -1. A
 * declaration within brackets does not apply outside of them. */
const outerDeclaration = (tokens, name) => {
  let end = 0; // end of the enclosing brackets
  return tokens.findIndex((token, index) => {
    if (index < end) return false;
    if (token.partner > index) end = token.partner;
    return token.kind === 'word' && token.text === name && DECLARING.has(tokens[index - 1]?.text);
  });
};
/** Returns whether a script declares the name, which then no longer means n8n's. */
const declares = (tokens, name) => declarationCount(tokens, name) > 0;

// Objects that are empty without values, with how many members can be read before one is read of undefined.
const EMPTY_WITHOUT_VALUES = { $env: 1, $vars: 1, $secrets: 0 };

const CLOSER_THAN_FALLBACK = new Set(['+', '-', '*', '/', '%', '^', '~', '!', '<', '>', '++', '--', 'typeof', 'void', 'delete', 'new', 'in', 'instanceof']);

/** Returns whether an operator before `index` binds closer than a fallback, as in `'Bearer ' + $vars.key || 'x'`. */
const bindsCloser = (tokens, index) => {
  const [before, last] = [tokens[index - 2]?.text, tokens[index - 1]?.text];
  if (last === '=') return ['=', '!', '<', '>'].includes(before);
  if (last === '|' || last === '&') return before !== last;
  return CLOSER_THAN_FALLBACK.has(last);
};

/** Returns whether the read at `index` has a fallback that takes effect, as in `$vars.shop?.name ?? 'x'`. It has none if the
 * name itself is read, or if the read fails first. After the first `?.` on undefined the rest of the chain is skipped. */
const hasFallback = (tokens, index) => {
  const joints = [];
  let end = index + 1;
  while (['.', '?.', '['].includes(tokens[end]?.text)) {
    joints.push(tokens[end].text);
    const member = tokens[end].text === '[' ? end : end + 1;
    end = (tokens[member].text === '[' ? tokens[member].partner : member) + 1;
  }
  const readOfNothing = joints[EMPTY_WITHOUT_VALUES[tokens[index].text]] ?? '?.';
  if (!joints.length || readOfNothing !== '?.' || bindsCloser(tokens, index)) return false;
  return ['|', '?'].includes(tokens[end]?.text) && tokens[end + 1]?.text === tokens[end].text;
};

const absentIn = (code, tokens, table) =>
  tokens.flatMap((token, index) => {
    if (token.kind !== 'word' || !Object.hasOwn(table, token.text) || isMember(tokens, index) || tokens[index + 1]?.text === ':' || declares(tokens, token.text)) return [];
    const [level, message, todo] = table[token.text];
    const isEmptyThere = Object.hasOwn(EMPTY_WITHOUT_VALUES, token.text) && hasFallback(tokens, index);
    return [missing(isEmptyThere ? 'warning' : level, `“${token.text}”: ${message}`, todo, columnOf(code, token))];
  });

/** Returns the variable that is read by a fixed name at `index`, as in `$env.SHOP` or `$vars?.['my shop']`. */
const variableName = (tokens, index) => {
  const joint = tokens[index + 1]?.text;
  const open = index + (joint === '?.' && tokens[index + 2]?.text === '[' ? 2 : 1);
  if (tokens[open]?.text === '[') {
    const member = tokens[open + 1];
    return tokens[open].partner === open + 2 && /^(?:'[^'\\]+'|"[^"\\]+")$/.test(member.text) ? member.text.slice(1, -1) : undefined;
  }
  return (joint === '.' || joint === '?.') && tokens[index + 2]?.kind === 'word' ? tokens[index + 2].text : undefined;
};

/** Returns the indexes of the words `$env` and `$vars` that are n8n's: not members, keys or names that the code declares. */
const variableReads = (tokens) => {
  const indexes = [];
  tokens.forEach((token, index) => {
    if (token.kind !== 'word' || (token.text !== '$env' && token.text !== '$vars') || isMember(tokens, index)) return;
    const isKey = tokens[index + 1]?.text === ':' && (tokens[index - 1]?.text === '{' || tokens[index - 1]?.text === ',');
    if (!isKey) indexes.push(index);
  });
  const own = new Set(['$env', '$vars'].filter((name) => declares(tokens, name) && outerDeclaration(tokens, name) >= 0));
  return indexes.filter((index) => !own.has(tokens[index].text));
};

/** Returns a function that returns the variables read with a fallback, as an object with keys such as `$env.SHOP`. */
const fallbacksOf = (tokens) => {
  let names = null;
  return () => (names ??= freeze(Object.fromEntries(variableReads(tokens).filter((index) => hasFallback(tokens, index)).map((index) => [`${tokens[index].text}.${variableName(tokens, index)}`, true]))));
};

/** Returns a problem for each variable of n8n that is read, with its name; the level is 'error' if it needs a value. */
const variablesIn = (code, tokens) =>
  variableReads(tokens).flatMap((index) => {
    const token = tokens[index];
    const owner = token.text;
    const [name, column] = [variableName(tokens, index), columnOf(code, token)];
    if (name === undefined) return [missing('error', `“${owner}”: Variables of n8n are read by fixed names here.`, declares(tokens, owner) ? `Give what the code itself calls “${owner}” another name.` : `Write “${owner}.name” for each variable that it reads.`, column)];
    const isOptional = hasFallback(tokens, index);
    const variable = `${owner}.${name}`;
    return [{ ...problemOf('variable', isOptional ? 'warning' : 'error', `“${variable}”${isOptional ? ' has a fallback' : ' is a variable of n8n'}.`, 'Give its value when you set the automation up.', column), variable }];
  });

const memberIndex = (tokens, owner, member) =>
  tokens.findIndex((token, index) => token.text === member && isMember(tokens, index) && tokens[index - 2]?.text === owner);

/** Returns the index of a read of `$execution.member` or `$execution["member"]`, or -1. */
const executionMember = (tokens, member) => {
  const dotted = memberIndex(tokens, '$execution', member);
  if (dotted >= 0) return dotted;
  return tokens.findIndex((token, index) => token.kind === 'text' && token.text.slice(1, -1) === member && tokens[index - 1]?.text === '[' && tokens[index - 2]?.text === '$execution');
};

/** Returns an error for each unavailable member of `$execution` in the usual spellings; other reads fail at run time. */
const executionMissing = (code, tokens) =>
  Object.entries(NOT_OF_EXECUTION).flatMap(([member, [why, todo]]) => {
    const index = executionMember(tokens, member);
    return index < 0 ? [] : [missing('error', `“$execution.${member}” is not available: ${why}.`, todo, columnOf(code, tokens[index]))];
  });

const KEYWORDS = new Set(['if', 'while', 'for', 'switch', 'catch', 'function', 'return', 'typeof', 'await', 'void', 'delete', 'in', 'of', 'new', 'throw', 'super', 'import', 'case', 'yield', 'do', 'else', 'async', 'with', 'instanceof']);

/** Returns whether a word is the name of a method in its definition: `foo(x) { … }`. */
const isMethod = (tokens, index) => tokens[index]?.kind === 'word' && !KEYWORDS.has(tokens[index].text) && tokens[index + 1]?.text === '(' && tokens[tokens[index + 1].partner + 1]?.text === '{';

const METHODS_OF_THIS = new Set(['getWorkflowStaticData', 'getCredentials', 'getInputData', 'getNodeParameter', 'getNode', 'getMode', 'getWorkflow', 'getTimezone']);

/** Returns whether the word at `index` is assigned a value: `x = 1`, `x ??= 1`. */
const isAssigned = (tokens, index) => /^(?:\?\?|\|\||&&)?=(?!=)/.test(tokens.slice(index + 1, index + 5).map(({ text }) => text).join(''));

/** Returns the fields of the class whose `class` is at `index`. */
const classFields = (tokens, index) => {
  const after = (place) => (tokens[place].partner > place ? tokens[place].partner : place) + 1;
  let place = index + 1;
  while (tokens[place] && tokens[place].text !== '{') place = after(place);
  const end = tokens[place]?.partner ?? 0;
  const fields = [];
  for (place += 1; place < end; place = after(place)) {
    if (tokens[place].kind === 'word' && !isMember(tokens, place) && isAssigned(tokens, place)) fields.push(tokens[place].text);
  }
  return fields;
};

/** Returns the members that a script defines on its own objects and classes: by assignment, as methods, keys and fields. */
const ownMembers = (tokens) => {
  const names = new Set();
  tokens.forEach((token, index) => {
    if (token.kind !== 'word') return;
    const [before, next] = [tokens[index - 1]?.text, tokens[index + 1]];
    if (isMember(tokens, index)) {
      if (isAssigned(tokens, index)) names.add(token.text);
    } else if (token.text === 'class' && (next?.kind === 'word' || next?.text === '{')) {
      for (const field of classFields(tokens, index)) names.add(field);
    } else if (isMethod(tokens, index) ? before !== 'function' : next?.text === ':' && (before === '{' || before === ',')) names.add(token.text);
  });
  return names;
};

/** Returns an error for each member of n8n read from `this`, which is empty here, unless the script defines that member. */
const thisMissing = (mode, code, tokens) => {
  let [names, own] = [null, null];
  return tokens.flatMap((token, index) => {
    const name = token.text;
    if (token.kind !== 'word' || !isMember(tokens, index) || tokens[index - 2]?.text !== 'this') return [];
    names ??= namesOf(mode);
    const absent = Object.hasOwn(ABSENT_IN_SCRIPTS, name) ? ABSENT_IN_SCRIPTS[name][2] : undefined;
    if (!METHODS_OF_THIS.has(name) && !(name.startsWith('$') && (absent || Object.hasOwn(names, name)))) return [];
    if ((own ??= ownMembers(tokens)).has(name)) return [];
    const plain = name === 'getWorkflowStaticData' ? STATIC_NAMES[mode] : name;
    const instead = Object.hasOwn(names, plain) ? `Write “${plain}” instead of “this.${name}”.` : 'Read an item or another step instead.';
    return [missing('error', `“this.${name}” is not available: “this” is empty here.`, absent ?? instead, columnOf(code, token))];
  });
};
