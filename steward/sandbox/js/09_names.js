// The names that expressions and scripts can use: the current item, inputs, other steps and helpers.

let message = null; // the current message: items, names, seen, pairs, scope, parameters

/** Property of a file's content, which is not available: reading it fails, but a script may set it. */
const NO_CONTENT = {
  configurable: true,
  enumerable: false,
  get() {
    return fault('The content of a file is not available in scripts and expressions. Use an Extract from File step before this one.');
  },
  set(value) {
    Object.defineProperty(this, 'data', { value, writable: true, enumerable: true, configurable: true });
  },
};
/** Returns copies of an item's files without their content. */
const fileViews = (files) => {
  const views = copied(files);
  for (const name of Object.keys(views)) Object.defineProperty(views[name], 'data', NO_CONTENT);
  return views;
};

/** Frozen wrappers of the items of each list, created once per message. */
const wrappedLists = new Map();
const guardedLists = new Set();

const wrapped = (key, list, context, files) => {
  let wrappers = wrappedLists.get(key);
  if (!wrappers) {
    wrappers = freeze(list.map((json, index) => freeze(files?.[index] ? { json, binary: frozen(fileViews(files[index])) } : { json })));
    wrappedLists.set(key, wrappers);
  }
  if (context.access === GUARDED && !guardedLists.has(key)) {
    list.forEach(frozen);
    guardedLists.add(key);
  }
  return wrappers;
};

// How code gets values: unchanged if it cannot modify any, frozen if that is uncertain, and as copies if it modifies some.
// Scripts always get copies.
const [PLAIN, GUARDED, COPIED] = [0, 1, 2];

/** The context of an expression: the index of its item, and its access to values. */
class ItemContext {
  constructor(item, access) {
    this.item = item;
    this.access = access;
  }
  copyOf(item) {
    return item.binary ? { json: copied(item.json), binary: fileViews(item.binary) } : { json: copied(item.json) };
  }
  giveItems(items) {
    return this.access === COPIED ? items.map((item) => this.copyOf(item)) : items;
  }
  giveItem(item) {
    return item && this.access === COPIED ? this.copyOf(item) : item;
  }
  get json() {
    const json = message.items[this.item];
    if (this.access === PLAIN) return json;
    return this.access === COPIED ? copied(json) : frozen(json);
  }
}

const stepNamed = (name) => {
  const key = String(name);
  if (!message.names.has(key) && !Object.hasOwn(message.seen, key)) fault(`There is no step “${key}”. Check the name.`);
  return key;
};

const seenStep = (name) => {
  const key = stepNamed(name);
  if (!Object.hasOwn(message.seen, key)) fault(`The step “${key}” has not run, so it has no items yet. Ask with isExecuted first.`);
  return message.seen[key];
};

/** Returns the items at an output of a step's run; by default the last run, and the branch that leads to this step. */
const itemsOf = (name, branch, runNumber, context) => {
  const seen = seenStep(name);
  const number = runNumber ?? seen.runs.length - 1;
  const outputs = seen.runs[number];
  if (outputs === undefined) fault(`The step “${name}” has no run ${number}.`);
  const output = branch ?? seen.branch;
  return wrapped(`${name}\n${number}\n${output}`, outputs?.[output] ?? [], context, seen.files?.[number]?.[output]);
};

/** Returns the item of a step that is paired with the item at this index. */
const pairedOf = (name, item, context) => {
  const seen = seenStep(name);
  const sources = Object.hasOwn(message.pairs, name) ? message.pairs[name] : [];
  if (!(item in sources)) fault(`There is no item ${item} to pair with “${name}”.`);
  const source = sources[item];
  if (source === null) return { json: undefined };
  if (typeof source === 'string') fault(source);
  const [runIndex, output, number] = source;
  return wrapped(`${name}\n${runIndex}\n${output}`, seen.runs[runIndex]?.[output] ?? [], context, seen.files?.[runIndex]?.[output])[number] ?? { json: undefined };
};

const numbers = ([branch, runNumber]) => [branch, runNumber].map((number) => (number === undefined || number === null ? undefined : Number(number)));

/** `$('X')`: the items of a step. */
class StepView {
  #name;
  #context;
  constructor(name, context) {
    this.#name = stepNamed(name);
    this.#context = context;
  }
  first(...args) {
    return this.#context.giveItem(itemsOf(this.#name, ...numbers(args), this.#context)[0]);
  }
  last(...args) {
    return this.#context.giveItem(itemsOf(this.#name, ...numbers(args), this.#context).at(-1));
  }
  all(...args) {
    return this.#context.giveItems(itemsOf(this.#name, ...numbers(args), this.#context));
  }
  itemMatching(item) {
    return this.#context.giveItem(pairedOf(this.#name, item, this.#context));
  }
  pairedItem(item = this.#context.item) {
    return this.#context.giveItem(pairedOf(this.#name, item, this.#context));
  }
  get item() {
    if (this.#context.item === null) fault(`It is unclear which item of “${this.#name}” is meant here. Use first(), last() or all().`);
    return this.#context.giveItem(pairedOf(this.#name, this.#context.item, this.#context));
  }
  get params() {
    return copied(seenStep(this.#name).params);
  }
  get context() {
    return copied(message.seen[this.#name]?.context ?? {}); // an expression that resets a loop may read it before the loop runs
  }
  get isExecuted() {
    return Object.hasOwn(message.seen, this.#name);
  }
}

/** `$node["X"]`: the item of a step with the same index. */
class NodeView {
  #name;
  #context;
  constructor(name, context) {
    this.#name = stepNamed(name);
    this.#context = context;
  }
  get json() {
    const items = itemsOf(this.#name, undefined, undefined, this.#context);
    const index = this.#context.item ?? 0;
    if (index >= items.length) fault(`The step “${this.#name}” has no item ${index}. Use .first(), .last() or .all().`);
    return this.#context.giveItem(items[index]).json;
  }
  get data() {
    return this.json;
  }
  get binary() {
    const index = this.#context.item ?? 0;
    return this.#context.giveItem(itemsOf(this.#name, undefined, undefined, this.#context)[index])?.binary;
  }
  get params() {
    return copied(seenStep(this.#name).params);
  }
  get parameter() {
    return this.params;
  }
  get context() {
    return copied(message.seen[this.#name]?.context ?? {});
  }
  get runIndex() {
    return seenStep(this.#name).runs.length - 1;
  }
}

const nodesView = (context) =>
  new Proxy({}, { get: (target, name) => (typeof name === 'symbol' ? target[name] : new NodeView(name, context)) });

const inputItems = (context) => wrapped('input', message.items, context, message.files);

/** `$input` of expressions. */
class InputView {
  #context;
  constructor(context) {
    this.#context = context;
  }
  first() {
    return this.#context.giveItem(inputItems(this.#context)[0]);
  }
  last() {
    return this.#context.giveItem(inputItems(this.#context).at(-1));
  }
  all() {
    return this.#context.giveItems(inputItems(this.#context));
  }
  get item() {
    return this.#context.item === null ? fault('There is no single item here. Use first(), last() or all().') : this.#context.giveItem(inputItems(this.#context)[this.#context.item]);
  }
  get params() {
    return copied(message.scope.input_params);
  }
  get context() {
    return copied(message.scope.input_context);
  }
}
const inputView = (context) => new InputView(context);

const itemsView = (context) => (name, branch, runNumber) =>
  name === undefined ? context.giveItems(inputItems(context)) : context.giveItems(itemsOf(stepNamed(name), branch, runNumber, context));

const isBlank = (value) =>
  value === undefined || value === null || value === '' || (isList(value) && !value.length) || (isPlain(value) && !Object.keys(value).length);

const helpers = {
  $if: (condition, yes, no = false) => (condition ? yes : no),
  $ifEmpty: (value, otherwise) => (isBlank(value) ? otherwise : value),
  $not: (value) => !value,
  $min: (...values) => Math.min(...values),
  $max: (...values) => Math.max(...values),
  $average: (...values) => listExtensions.average(values),
  $jmespath: (value, query) => {
    if (typeof value !== 'object' || typeof query !== 'string') fault('$jmespath() takes an object or a list, and a text. Check that the field is there first.');
    return jmespath.search(value === null ? {} : copied(value), query);
  },
};

// The clock does not advance during a message, so a date is created once. A luxon date caches values and thus cannot be
// frozen: code that might modify it gets a date of its own.
const luxonNow = (context) => (context.access === PLAIN ? (message.now_at ??= luxon.DateTime.now()) : luxon.DateTime.now());
const luxonToday = (context) => (context.access === PLAIN ? (message.today_at ??= luxonNow(context).startOf('day')) : luxonNow(context).startOf('day'));
const empty = () => ({});

const NOT_OF_EXECUTION = {
  resumeUrl: ['runs are not resumed from outside', 'Remove it, or use an event of the store.'],
  resumeFormUrl: ['runs are not resumed from outside', 'Remove it, or use an event of the store.'],
  customData: ['a run keeps no data about itself', 'Remove it, or put the value into a field.'],
};
/** Returns `$execution`; reading one of its unavailable members fails. */
const executionView = () => {
  const view = copied(message.scope.execution);
  for (const [member, [reason, todo]] of Object.entries(NOT_OF_EXECUTION)) {
    Object.defineProperty(view, member, { configurable: true, enumerable: false, get: () => fault(`“$execution.${member}” is not available: ${reason}. ${todo}`) });
  }
  return view;
};

/** Maps every name to a function that returns its value in the context of an expression. */
const NAMES = {
  $json: (context) => context.json,
  $data: (context) => context.json,
  $input: inputView,
  $thisItem: (context) => context.giveItem(inputItems(context)[context.item]),
  $itemIndex: (context) => context.item,
  $position: (context) => context.item,
  $runIndex: () => message.scope.run_index,
  $: (context) => (name) => new StepView(name, context),
  $node: nodesView,
  $items: itemsView,
  $item: (context) => (item) => {
    const other = new context.constructor(item, context.access);
    return { $json: other.json, $node: nodesView(other), $input: inputView(other), $items: itemsView(other) };
  },
  $prevNode: () => copied(message.scope.previous),
  $workflow: () => copied(message.scope.workflow),
  $execution: executionView,
  $parameter: () => copied(message.scope.parameters),
  $nodeId: () => message.scope.node_id,
  $nodeVersion: () => message.scope.node_version,
  $now: luxonNow,
  $today: luxonToday,
  DateTime: () => luxon.DateTime,
  Duration: () => luxon.Duration,
  Interval: () => luxon.Interval,
  $env: (context, withFallback) => (message.scope.variables ? variablesOf('$env', withFallback()) : closedEnvironment(withFallback())),
  $vars: (context, withFallback) => (message.scope.variables ? variablesOf('$vars', withFallback()) : empty()),
  $secrets: () => undefined,
  $binary: (context) => fileViews(message.files?.[context.item] ?? {}),
  $self: empty,
  $mode: () => undefined,
};
for (const [name, helper] of Object.entries(helpers)) NAMES[name] = () => helper;
NAMES.$jmesPath = NAMES.$jmespath;

// Objects of n8n's Node.js process, which are empty objects in its expressions.
const EMPTY_NAMES = ['process', 'require', 'fetch', 'setTimeout', 'setInterval', 'Buffer', 'alert', 'prompt', 'eval', 'Function', 'XMLHttpRequest', 'WebSocket', 'importScripts'];
const EXPRESSION_NAMES = { ...NAMES };
for (const name of EMPTY_NAMES) EXPRESSION_NAMES[name] = empty;

/** Makes a message the current one. */
const startMessage = (text) => {
  message = parse(text);
  message.names = new Set(message.names);
  wrappedLists.clear();
  guardedLists.clear();
  Object.assign(run, { now: message.now, zone: message.zone, randomState: message.seed | 0 });
  setUpDates();
};
