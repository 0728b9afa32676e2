// The names expressions and scripts find: current item, inputs, other steps, helpers.

let world = null; // the message: items, names, seen, pairs, scope, parameters

/** Frozen wrappers of the items of a list, made once a message. */
const wrappedLists = new Map();
const guardedLists = new Set();

const wrapped = (key, list, place, files) => {
  let made = wrappedLists.get(key);
  if (!made) {
    made = freeze(list.map((json, at) => freeze(files?.[at] ? { json, binary: frozen(files[at]) } : { json })));
    wrappedLists.set(key, made);
  }
  if (place.stands === GUARDED && !guardedLists.has(key)) {
    list.forEach(frozen);
    guardedLists.add(key);
  }
  return made;
};

// How values are given to an expression: as they are, where its text can change none of them; frozen, where that
// cannot be told; as copies, where it says that it changes something, and to scripts.
const [PLAIN, GUARDED, COPIED] = [0, 1, 2];

const copyOf = (item) => (item.binary ? { json: copied(item.json), binary: copied(item.binary) } : { json: copied(item.json) });

/** Where an expression stands: the item's place, and how it is given values. */
class Place {
  constructor(item, stands) {
    this.item = item;
    this.stands = stands;
  }
  give(items) {
    return this.stands === COPIED ? items.map(copyOf) : items;
  }
  one(item) {
    return item && this.stands === COPIED ? copyOf(item) : item;
  }
  get json() {
    const json = world.items[this.item];
    if (this.stands === PLAIN) return json;
    return this.stands === COPIED ? copied(json) : frozen(json);
  }
}

const stepNamed = (name) => {
  const key = String(name);
  if (!world.names.has(key) && !Object.hasOwn(world.seen, key)) fault(`There is no step “${key}”. Check the name.`);
  return key;
};

const seenStep = (name) => {
  const key = stepNamed(name);
  if (!Object.hasOwn(world.seen, key)) fault(`The step “${key}” has not run, so it has no items yet. Ask with isExecuted first.`);
  return world.seen[key];
};

/** The items of an output of a run of a step; those named by nobody are the branch that leads here, the last run. */
const itemsOf = (name, branch, at, place) => {
  const seen = seenStep(name);
  const number = at ?? seen.runs.length - 1;
  const outputs = seen.runs[number];
  if (outputs === undefined) fault(`The step “${name}” has no run ${number}.`);
  const output = branch ?? seen.branch;
  return wrapped(`${name}\n${number}\n${output}`, outputs?.[output] ?? [], place, seen.files?.[number]?.[output]);
};

/** The item of a step that the item at a place came from. */
const pairedOf = (name, item, place) => {
  const seen = seenStep(name);
  const spots = Object.hasOwn(world.pairs, name) ? world.pairs[name] : [];
  if (!(item in spots)) fault(`There is no item ${item} to find the one of “${name}” by.`);
  const spot = spots[item];
  if (spot === null) return { json: undefined };
  if (typeof spot === 'string') fault(spot);
  const [at, output, number] = spot;
  return wrapped(`${name}\n${at}\n${output}`, seen.runs[at]?.[output] ?? [], place, seen.files?.[at]?.[output])[number] ?? { json: undefined };
};

const numbers = ([branch, at]) => [branch, at].map((number) => (number === undefined || number === null ? undefined : Number(number)));

/** $('X'). */
class StepView {
  #name;
  #place;
  constructor(name, place) {
    this.#name = stepNamed(name);
    this.#place = place;
  }
  first(...given) {
    return this.#place.one(itemsOf(this.#name, ...numbers(given), this.#place)[0]);
  }
  last(...given) {
    return this.#place.one(itemsOf(this.#name, ...numbers(given), this.#place).at(-1));
  }
  all(...given) {
    return this.#place.give(itemsOf(this.#name, ...numbers(given), this.#place));
  }
  itemMatching(item) {
    return this.#place.one(pairedOf(this.#name, item, this.#place));
  }
  pairedItem(item = this.#place.item) {
    return this.#place.one(pairedOf(this.#name, item, this.#place));
  }
  get item() {
    if (this.#place.item === null) fault(`Which item of “${this.#name}” is meant cannot be told here. Use first(), last() or all().`);
    return this.#place.one(pairedOf(this.#name, this.#place.item, this.#place));
  }
  get params() {
    return copied(seenStep(this.#name).params);
  }
  get context() {
    return copied(seenStep(this.#name).context);
  }
  get isExecuted() {
    return Object.hasOwn(world.seen, this.#name);
  }
}

/** $node["X"]: the item of the same place. */
class NodeView {
  #name;
  #place;
  constructor(name, place) {
    this.#name = stepNamed(name);
    this.#place = place;
  }
  get json() {
    const items = itemsOf(this.#name, undefined, undefined, this.#place);
    const at = this.#place.item ?? 0;
    if (at >= items.length) fault(`The step “${this.#name}” has no item ${at}. Use .first(), .last() or .all().`);
    return this.#place.one(items[at]).json;
  }
  get data() {
    return this.json;
  }
  get binary() {
    const at = this.#place.item ?? 0;
    return this.#place.one(itemsOf(this.#name, undefined, undefined, this.#place)[at])?.binary;
  }
  get params() {
    return copied(seenStep(this.#name).params);
  }
  get parameter() {
    return this.params;
  }
  get context() {
    return copied(seenStep(this.#name).context);
  }
  get runIndex() {
    return seenStep(this.#name).runs.length - 1;
  }
}

const nodesView = (place) =>
  new Proxy({}, { get: (target, name) => (typeof name === 'symbol' ? target[name] : new NodeView(name, place)) });

const inputItems = (place) => wrapped('input', world.items, place, world.files);

/** $input. */
class InputView {
  #place;
  constructor(place) {
    this.#place = place;
  }
  first() {
    return this.#place.one(inputItems(this.#place)[0]);
  }
  last() {
    return this.#place.one(inputItems(this.#place).at(-1));
  }
  all() {
    return this.#place.give(inputItems(this.#place));
  }
  get item() {
    return this.#place.item === null ? fault('There is no single item here. Use first(), last() or all().') : this.#place.one(inputItems(this.#place)[this.#place.item]);
  }
  get params() {
    return copied(world.scope.input_params);
  }
  get context() {
    return copied(world.scope.input_context);
  }
}
const inputView = (place) => new InputView(place);

const itemsView = (place) => (name, branch, at) =>
  name === undefined ? place.give(inputItems(place)) : place.give(itemsOf(stepNamed(name), branch, at, place));

const closedEnvironment = new Proxy({}, {
  get: (target, name) => (typeof name === 'symbol' || name === 'toJSON' ? target[name] : fault('Variables of the machine cannot be read here. Write the value into the workflow.')),
});

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
const luxonNow = (place) => (place.stands === PLAIN ? (world.now_at ??= luxon.DateTime.now()) : luxon.DateTime.now());
const luxonToday = (place) => (place.stands === PLAIN ? (world.today_at ??= luxonNow(place).startOf('day')) : luxonNow(place).startOf('day'));
const empty = () => ({});

/** Every name, with how its value is found from the place an expression stands at. */
const NAMES = {
  $json: (place) => place.json,
  $data: (place) => place.json,
  $input: inputView,
  $thisItem: (place) => place.one(inputItems(place)[place.item]),
  $itemIndex: (place) => place.item,
  $position: (place) => place.item,
  $runIndex: () => world.scope.run_index,
  $: (place) => (name) => new StepView(name, place),
  $node: nodesView,
  $items: itemsView,
  $item: (place) => (item) => {
    const other = new Place(item, place.stands);
    return { $json: other.json, $node: nodesView(other), $input: inputView(other), $items: itemsView(other) };
  },
  $prevNode: () => copied(world.scope.previous),
  $workflow: () => copied(world.scope.workflow),
  $execution: () => copied(world.scope.execution),
  $parameter: () => copied(world.scope.parameters),
  $nodeId: () => world.scope.node_id,
  $nodeVersion: () => world.scope.node_version,
  $now: luxonNow,
  $today: luxonToday,
  DateTime: () => luxon.DateTime,
  Duration: () => luxon.Duration,
  Interval: () => luxon.Interval,
  $env: () => closedEnvironment,
  $vars: empty,
  $secrets: () => undefined,
  $binary: (place) => copied(world.files?.[place.item] ?? {}),
  $self: empty,
  $mode: () => undefined,
};
for (const [name, helper] of Object.entries(helpers)) NAMES[name] = () => helper;
NAMES.$jmesPath = NAMES.$jmespath;

// What stands for things of n8n's machine, in expressions: there, and empty.
const EMPTY_THINGS = ['process', 'require', 'fetch', 'setTimeout', 'setInterval', 'Buffer', 'alert', 'prompt', 'eval', 'Function', 'XMLHttpRequest', 'WebSocket', 'importScripts'];
const EXPRESSION_NAMES = { ...NAMES };
for (const name of EMPTY_THINGS) EXPRESSION_NAMES[name] = empty;

/** Takes a message in. */
const begin = (text) => {
  world = parse(text);
  world.names = new Set(world.names);
  wrappedLists.clear();
  guardedLists.clear();
  Object.assign(run, { now: world.now, zone: world.zone, dice: world.seed | 0 });
  setUpDates();
};
