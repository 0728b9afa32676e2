// Runs code steps: the names that scripts can use, how they are called, and how results become items.

const LOG_LINES = 200;
const logged = [];

const displayText = (value) => {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  try {
    return stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
};

const write = (...values) => {
  if (logged.length < LOG_LINES) logged.push(values.map(displayText).join(' ').slice(0, 1000));
};
const consoleView = { log: write, info: write, warn: write, error: write, debug: write, trace: write, table: write, dir: write };

const refuseClone = (value) => {
  const error = new Error(`${String(value)} could not be cloned.`);
  throw Object.defineProperty(error, 'name', { value: 'DataCloneError', configurable: true });
};
/** Returns a copy of an error with its class, message and cause, like structuredClone. */
const clonedError = (error) => Object.assign(new ({ EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }[error.name] ?? Error)(error.message), hasOwn(error, 'cause') && { cause: error.cause });

/** Returns a deep copy of any value, like structuredClone; `copies` maps what is already copied. */
const structured = (value, copies = new Map()) => {
  if (typeof value === 'function' || typeof value === 'symbol') refuseClone(value);
  if (typeof value !== 'object' || value === null) return value;
  if (copies.has(value)) return copies.get(value);
  const keep = (copy) => (copies.set(value, copy), copy);
  if (value instanceof RealDate) return keep(new RealDate(value.getTime()));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
  if (value instanceof Error) return keep(clonedError(value));
  if (value instanceof ArrayBuffer) return keep(value.slice(0));
  if (ArrayBuffer.isView(value)) return keep(new (value instanceof Uint8Array ? Uint8Array : getPrototypeOf(value).constructor)(value));
  if (value instanceof Number || value instanceof String || value instanceof Boolean) return keep(Object(value.valueOf()));
  if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet) refuseClone(value);
  if (value instanceof Map) {
    const copy = keep(new Map());
    for (const [key, member] of value) copy.set(structured(key, copies), structured(member, copies));
    return copy;
  }
  if (value instanceof Set) {
    const copy = keep(new Set());
    for (const member of value) copy.add(structured(member, copies));
    return copy;
  }
  const copy = keep(isList(value) ? new Array(value.length) : {});
  for (const key of keysOf(value)) setOwn(copy, key, structured(value[key], copies));
  return copy;
};

const SCRIPT_GLOBALS = {
  console: () => consoleView,
  Buffer: () => Bytes,
  crypto: () => cryptoView,
  btoa: () => (text) => toBase64(latin1(String(text), true)),
  atob: () => decodedStrictly,
  escape: () => escaped,
  unescape: () => unescaped,
  structuredClone: () => (value) => structured(value),
  require: () => requireModule,
  URL: () => Address,
  URLSearchParams: () => AddressParameters,
  TextEncoder: () => TextEncoderView,
  TextDecoder: () => TextDecoderView,
};

/** Returns copies of the input items for a script, each with its index. */
const scriptItems = () => message.items.map((json, item) => ({ json: copied(json), ...(message.files?.[item] && { binary: fileViews(message.files[item]) }), pairedItem: { item } }));

const scriptInput = (items, index) => ({
  first: () => items[0],
  last: () => items.at(-1),
  all: () => items,
  get item() {
    return index === null ? fault('There is no item here. Use all().') : items[index];
  },
  get params() {
    return copied(message.scope.input_params);
  },
  get context() {
    return copied(message.scope.input_context);
  },
});

const { $json: noJson, $data: noData, $input: noInput, $thisItem: noItem, $itemIndex: noIndex, $position: noPosition, $binary: noBinary, ...SHARED } = NAMES;

/** Returns the static data of the workflow ('global') or the step ('node'); a script modifies the object itself. */
const staticData = (kind) => {
  if (kind !== 'global' && kind !== 'node') throw new Error('Static data is either “global” or “node”.');
  return (message.static ??= { global: {}, node: {} })[kind];
};
/** The name of the function for static data by mode. */
const STATIC_NAMES = { all: '$getWorkflowStaticData', each: '$getWorkflowStaticData', function: 'getWorkflowStaticData', function_item: 'getWorkflowStaticData' };

/** Returns the names that scripts of a mode can use, each with a function of (items, index, withFallback). */
const namesOf = (mode) => {
  const names = {};
  if (mode in STATIC_NAMES) names[STATIC_NAMES[mode]] = () => staticData;
  for (const [name, find] of Object.entries({ ...SHARED, ...SCRIPT_GLOBALS })) names[name] = (items, index, withFallback) => find(new ItemContext(index, COPIED), withFallback);
  names.$input = scriptInput;
  const itemNames = { $json: (items, index) => items[index]?.json, $binary: (items, index) => items[index]?.binary ?? {}, $itemIndex: (items, index) => index ?? 0 };
  if (mode === 'all' || mode === 'function') return { ...names, ...itemNames, items: (items) => items };
  if (mode === 'each') return { ...names, ...itemNames, item: (items, index) => items[index] };
  // In mode function_item `item` is only the fields; its files stay unless the script sets others.
  const getBinaryData = (items, index) => () => items[index].binary;
  const setBinaryData = (items, index) => (binary) => {
    items[index].binary = binary;
  };
  return { ...names, ...itemNames, item: (items, index) => items[index].json, getBinaryData, setBinaryData, getBinaryDataAsync: getBinaryData, setBinaryDataAsync: setBinaryData };
};

const awaits = (tokens) => tokens.some((token) => token.kind === 'word' && token.text === 'await');

let runningScript = null; // the running script, with what is needed to reword its errors
const rewordError = (error) => reworded(runningScript, error);

/** Compiles a script to a function of (items, index); its body begins on line 3 of the compiled code. It is nested in the
 * function that declares the names, because scripts may redeclare them: `const items = …`. */
const scriptOf = (text, names) => {
  const tokens = tokensOf(text);
  const used = namesUsed(tokens, new Set(Object.keys(names)));
  const opening = `return (${awaits(tokens) ? 'async ' : ''}function () {`;
  const withFallback = fallbacksOf(tokens);
  runningScript = rewordedScript(text, tokens, opening.length);
  const call = new RealFunction(...used, WORDED, `${opening}${runningScript.code}\n}).call(this);`);
  return (items, index) => {
    const values = [];
    for (let position = 0; position < used.length; position += 1) values[position] = names[used[position]](items, index, withFallback);
    values[used.length] = rewordError;
    return apply(call, {}, values);
  };
};

/** Line numbers from here on belong to the engine's own code, which javascript.py pads; scripts start at line 1. */
const OWN_LINES = 100000;

/** Returns the message of an error with the script's line number. */
const wordsOf = (error) => {
  try {
    return `${wordsWithLine(error)}`;
  } catch (unreadable) {
    if (isFatal(unreadable)) throw unreadable;
    return 'The script threw something that cannot be read.';
  }
};
const wordsWithLine = (error) => {
  if (!(error instanceof Error)) return `The script threw ${displayText(error)}.`;
  const lines = [...(error.stack ?? '').matchAll(/\(<input>:(\d+)/g)].map((match) => Number(match[1]));
  const line = error instanceof NotItems || error instanceof SyntaxError ? undefined : lines.find((candidate) => candidate > 2 && candidate < OWN_LINES);
  if (runningScript) reworded(runningScript, error);
  const words = error.message || error.name;
  return line === undefined ? words : `${words} [line ${line - 2}]`;
};

// An object with toJSON, such as a date, is encoded as something else and is therefore not an object of JSON.
const isObject = (value) => typeof value === 'object' && value !== null && !isList(value) && typeof value.toJSON !== 'function';
// The following functions run after a script, which may have replaced built-in methods: they use only loops and functions
// captured earlier.
const pairsOf = (paired) => {
  if (paired === undefined || paired === null) return null;
  const list = isList(paired) ? paired : [paired];
  const places = [];
  for (let position = 0; position < list.length; position += 1) {
    const itemIndex = isObject(list[position]) ? list[position].item : list[position];
    if (!isInteger(itemIndex) || itemIndex < 0) return null;
    places[position] = itemIndex;
  }
  return places;
};

class NotItems extends Error {}

const ITEM_KEYS = { __proto__: null, json: true, binary: true, pairedItem: true, error: true, index: true, metadata: true };

const isWhole = (value) => value !== null && value !== undefined && hasOwn(value, 'json');

/** Converts a value that a script returned to an item; with `whole`, its fields are in “json”. Throws NotItems. */
const itemOf = (value, index, whole = isWhole(value)) => {
  if (!isObject(value)) throw new NotItems('The script must return items: a list of objects, or one object.');
  if (!whole) return { json: value, paired: null };
  const keys = keysOf(value);
  for (let position = 0; position < keys.length; position += 1) {
    if (!(keys[position] in ITEM_KEYS)) throw new NotItems(`“${keys[position]}” of item ${index} stands beside “json”. Put it into “json”.`);
  }
  if (!isObject(value.json)) throw new NotItems(`“json” of item ${index} is not an object.`);
  const item = { json: value.json, paired: pairsOf(value.pairedItem) };
  if (isObject(value.binary) && keysOf(value.binary).length) item.binary = value.binary;
  if (value.error !== undefined && value.error !== null) item.error = displayText(value.error);
  return item;
};

const itemsReturned = (value) => {
  const list = isList(value) ? value : [value];
  let whole = false;
  for (let index = 0; index < list.length; index += 1) whole ||= isObject(list[index]) && isWhole(list[index]);
  const items = [];
  for (let index = 0; index < list.length; index += 1) items[index] = itemOf(list[index], index, whole);
  return items;
};

const once = async (text, mode) => {
  const items = scriptItems();
  // Names of a single item refer to the first one, which many published scripts that run once for all items rely on.
  let value = scriptOf(text, namesOf(mode))(items, items.length ? 0 : null);
  if (typeof value?.then === 'function') value = await value;
  return itemsReturned(value);
};

const oneByOne = async (text, mode) => {
  const items = scriptItems();
  const call = scriptOf(text, namesOf(mode));
  const results = [];
  for (let index = 0; index < items.length; index += 1) {
    try {
      let value = call(items, index);
      if (typeof value?.then === 'function') value = await value;
      if (value === null) continue;
      if (mode === 'function_item') value = { json: value, binary: items[index].binary };
      const item = itemOf(value, index);
      item.paired ??= [index];
      results[results.length] = item;
    } catch (error) {
      if (run.missingZones || isFatal(error)) throw error;
      results[results.length] = { json: {}, paired: [index], error: wordsOf(error) };
    }
  }
  return results;
};

/** Runs code of Shopify Flow, `export default function main(input) { … }`, and returns its result. */
const flow = async (text) => {
  const tokens = tokensOf(text);
  let code = '';
  let from = 0;
  tokens.forEach((token, index) => {
    if (token.kind !== 'word' || token.text !== 'export') return;
    const standard = tokens[index + 1]?.text === 'default';
    const end = standard ? tokens[index + 1] : token;
    code += `${text.slice(from, token.at)}${standard ? 'const $default$ =' : ''}`;
    from = end.at + end.text.length;
  });
  code += text.slice(from);
  const main = new RealFunction('console', `${code}\nreturn typeof $default$ === 'function' ? $default$ : main;`)(consoleView);
  return main(copied(message.given)) ?? null;
};

const ordered = async (text) => {
  const items = scriptItems();
  const names = { ...namesOf('all'), a: (pair) => pair[0], b: (pair) => pair[1] };
  const compare = scriptOf(text, names);
  const places = items.map((item, index) => index);
  return places.sort((first, other) => Number(compare([items[first], items[other]], null)) || 0);
};

const RUNNERS = { all: once, function: once, each: oneByOne, function_item: oneByOne, flow, order: ordered };
let outcome = null;

const settle = async (mode, text) => {
  try {
    const value = await RUNNERS[mode](text, mode);
    outcome = { thrown: false, value };
  } catch (error) {
    outcome = { thrown: true, error };
  }
};

/** Starts a script; call scriptEnd once no pending job is left. */
const scriptStart = (mode, text) => {
  outcome = null;
  logged.length = 0;
  run.missingZones = '';
  run.randomState = message.seed | 0;
  settle(mode, text);
};

/** Returns how the script ended: 'done', 'failed' (it threw), 'refused' (its result is not items), or '' if a time zone is
 * missing. scriptAnswer then returns the result or the message as JSON. */
const scriptEnd = () => {
  if (run.missingZones) return '';
  if (!outcome) outcome = { thrown: true, error: new Error('The script waits for something that never happens.') };
  if (!outcome.thrown) return 'done';
  if (isFatal(outcome.error)) throw outcome.error;
  return outcome.error instanceof NotItems ? 'refused' : 'failed';
};
const scriptAnswer = () => stringify(outcome.thrown ? wordsOf(outcome.error) : outcome.value);
const scriptLines = () => stringify(logged);
const scriptStatic = () => stringify(message.static ?? null);
