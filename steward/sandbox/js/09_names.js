// The names expressions and scripts find: current item, inputs, other steps, helpers.

let message = null; // the message: items, names, seen, pairs, scope, parameters

/** The content of a file, which is not there: reading it fails, and a script may set it. */
const NO_CONTENT = {
  configurable: true,
  enumerable: false,
  get() {
    return fault('The content of a file is not there in scripts and expressions. Use an Extract from File step before this one.');
  },
  set(value) {
    Object.defineProperty(this, 'data', { value, writable: true, enumerable: true, configurable: true });
  },
};
/** Copies of the files of an item, without their content. */
const fileViews = (files) => {
  const views = copied(files);
  for (const name of Object.keys(views)) Object.defineProperty(views[name], 'data', NO_CONTENT);
  return views;
};

/** Frozen wrappers of the items of a list, made once a message. */
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

// How values are given to an expression: as they are, where its text can change none of them; frozen, where that
// is not known; as copies, where it says that it changes something, and to scripts.
const [PLAIN, GUARDED, COPIED] = [0, 1, 2];

/** The context of an expression: the index of its item, and how it gets access to values. */
class ItemContext {
  constructor(item, access) {
    this.item = item;
    this.access = access;
  }
  copyOf(item) {
    return item.binary ? { json: copied(item.json), binary: fileViews(item.binary) } : { json: copied(item.json) };
  }
  give(items) {
    return this.access === COPIED ? items.map((item) => this.copyOf(item)) : items;
  }
  giveOne(item) {
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

/** The items of an output of a run of a step; those named by nobody are the branch that leads here, the last run. */
const itemsOf = (name, branch, runNumber, context) => {
  const seen = seenStep(name);
  const number = runNumber ?? seen.runs.length - 1;
  const outputs = seen.runs[number];
  if (outputs === undefined) fault(`The step “${name}” has no run ${number}.`);
  const output = branch ?? seen.branch;
  return wrapped(`${name}\n${number}\n${output}`, outputs?.[output] ?? [], context, seen.files?.[number]?.[output]);
};

/** The item of a step that the item with this index came from. */
const pairedOf = (name, item, context) => {
  const seen = seenStep(name);
  const spots = Object.hasOwn(message.pairs, name) ? message.pairs[name] : [];
  if (!(item in spots)) fault(`There is no item ${item} to find the one of “${name}” by.`);
  const spot = spots[item];
  if (spot === null) return { json: undefined };
  if (typeof spot === 'string') fault(spot);
  const [runIndex, output, number] = spot;
  return wrapped(`${name}\n${runIndex}\n${output}`, seen.runs[runIndex]?.[output] ?? [], context, seen.files?.[runIndex]?.[output])[number] ?? { json: undefined };
};

const numbers = ([branch, runNumber]) => [branch, runNumber].map((number) => (number === undefined || number === null ? undefined : Number(number)));

/** $('X'). */
class StepView {
  #name;
  #context;
  constructor(name, context) {
    this.#name = stepNamed(name);
    this.#context = context;
  }
  first(...args) {
    return this.#context.giveOne(itemsOf(this.#name, ...numbers(args), this.#context)[0]);
  }
  last(...args) {
    return this.#context.giveOne(itemsOf(this.#name, ...numbers(args), this.#context).at(-1));
  }
  all(...args) {
    return this.#context.give(itemsOf(this.#name, ...numbers(args), this.#context));
  }
  itemMatching(item) {
    return this.#context.giveOne(pairedOf(this.#name, item, this.#context));
  }
  pairedItem(item = this.#context.item) {
    return this.#context.giveOne(pairedOf(this.#name, item, this.#context));
  }
  get item() {
    if (this.#context.item === null) fault(`Which item of “${this.#name}” is meant cannot be told here. Use first(), last() or all().`);
    return this.#context.giveOne(pairedOf(this.#name, this.#context.item, this.#context));
  }
  get params() {
    return copied(seenStep(this.#name).params);
  }
  get context() {
    return copied(message.seen[this.#name]?.context ?? {}); // a loop's reset may ask before the loop runs
  }
  get isExecuted() {
    return Object.hasOwn(message.seen, this.#name);
  }
}

/** $node["X"]: the item with the same index. */
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
    return this.#context.giveOne(items[index]).json;
  }
  get data() {
    return this.json;
  }
  get binary() {
    const index = this.#context.item ?? 0;
    return this.#context.giveOne(itemsOf(this.#name, undefined, undefined, this.#context)[index])?.binary;
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

/** $input. */
class InputView {
  #context;
  constructor(context) {
    this.#context = context;
  }
  first() {
    return this.#context.giveOne(inputItems(this.#context)[0]);
  }
  last() {
    return this.#context.giveOne(inputItems(this.#context).at(-1));
  }
  all() {
    return this.#context.give(inputItems(this.#context));
  }
  get item() {
    return this.#context.item === null ? fault('There is no single item here. Use first(), last() or all().') : this.#context.giveOne(inputItems(this.#context)[this.#context.item]);
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
  name === undefined ? context.give(inputItems(context)) : context.give(itemsOf(stepNamed(name), branch, runNumber, context));

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

// The clock stands still while a message is worked on. A date keeps what it has worked out, so it cannot be frozen: who
// might change it is given one of its own.
const luxonNow = (context) => (context.access === PLAIN ? (message.now_at ??= luxon.DateTime.now()) : luxon.DateTime.now());
const luxonToday = (context) => (context.access === PLAIN ? (message.today_at ??= luxonNow(context).startOf('day')) : luxonNow(context).startOf('day'));
const empty = () => ({});

const NOT_OF_EXECUTION = {
  resumeUrl: ['runs are not resumed from outside', 'Remove it, or use an event of the store.'],
  resumeFormUrl: ['runs are not resumed from outside', 'Remove it, or use an event of the store.'],
  customData: ['a run keeps no data about itself', 'Remove it, or put the value into a field.'],
};
/** $execution, whose parts that are not here fail when they are read. */
const executionView = () => {
  const view = copied(message.scope.execution);
  for (const [member, [reason, todo]] of Object.entries(NOT_OF_EXECUTION)) {
    Object.defineProperty(view, member, { configurable: true, enumerable: false, get: () => fault(`“$execution.${member}” is not there: ${reason}. ${todo}`) });
  }
  return view;
};

/** Every name, with the function that returns its value in the context of an expression. */
const NAMES = {
  $json: (context) => context.json,
  $data: (context) => context.json,
  $input: inputView,
  $thisItem: (context) => context.giveOne(inputItems(context)[context.item]),
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

// What stands for things of n8n's machine, in expressions: there, and empty.
const EMPTY_THINGS = ['process', 'require', 'fetch', 'setTimeout', 'setInterval', 'Buffer', 'alert', 'prompt', 'eval', 'Function', 'XMLHttpRequest', 'WebSocket', 'importScripts'];
const EXPRESSION_NAMES = { ...NAMES };
for (const name of EMPTY_THINGS) EXPRESSION_NAMES[name] = empty;

/** Starts the work on a message. */
const startMessage = (text) => {
  message = parse(text);
  message.names = new Set(message.names);
  wrappedLists.clear();
  guardedLists.clear();
  Object.assign(run, { now: message.now, zone: message.zone, dice: message.seed | 0 });
  setUpDates();
};
