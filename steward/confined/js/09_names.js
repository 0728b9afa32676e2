// The names expressions and scripts find (design imports 5.2): current item, inputs, other steps, helpers.

let world = null; // the message: items, names, seen, pairs, scope, parameters

/** Frozen wrappers of the items of a list, made once a message. */
const wrappedLists = new Map();

const wrapped = (key, list) => {
  let made = wrappedLists.get(key);
  if (!made) {
    made = Object.freeze(list.map((json) => Object.freeze({ json })));
    wrappedLists.set(key, made);
  }
  return made;
};

/** Where an expression stands: the item's place, and whether it must be given copies of what it may change. */
class Place {
  constructor(item, fresh) {
    this.item = item;
    this.fresh = fresh;
  }
  give(items) {
    return this.fresh ? items.map((item) => ({ json: copied(item.json) })) : items;
  }
  one(item) {
    return item && this.fresh ? { json: copied(item.json) } : item;
  }
  get json() {
    const json = world.items[this.item];
    return this.fresh ? copied(json) : json;
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
const itemsOf = (name, branch, at) => {
  const seen = seenStep(name);
  const number = at ?? seen.runs.length - 1;
  const outputs = seen.runs[number];
  if (outputs === undefined) fault(`The step “${name}” has no run ${number}.`);
  const output = branch ?? seen.branch;
  return wrapped(`${name}\n${number}\n${output}`, outputs?.[output] ?? []);
};

/** The item of a step that the item at a place came from. */
const pairedOf = (name, place) => {
  const seen = seenStep(name);
  const spots = Object.hasOwn(world.pairs, name) ? world.pairs[name] : [];
  if (!(place in spots)) fault(`There is no item ${place} to find the one of “${name}” by.`);
  const spot = spots[place];
  if (spot === null) return { json: undefined };
  if (typeof spot === 'string') fault(spot);
  const [at, output, item] = spot;
  return wrapped(`${name}\n${at}\n${output}`, seen.runs[at]?.[output] ?? [])[item] ?? { json: undefined };
};

const numbers = (given) => given.map((number) => (number === undefined || number === null ? undefined : Number(number)));

/** $('X'). */
class StepView {
  #name;
  #place;
  constructor(name, place) {
    this.#name = stepNamed(name);
    this.#place = place;
  }
  first(...given) {
    return this.#place.one(itemsOf(this.#name, ...numbers(given))[0]);
  }
  last(...given) {
    return this.#place.one(itemsOf(this.#name, ...numbers(given)).at(-1));
  }
  all(...given) {
    return this.#place.give(itemsOf(this.#name, ...numbers(given)));
  }
  itemMatching(item) {
    return this.#place.one(pairedOf(this.#name, item));
  }
  pairedItem(item = this.#place.item) {
    return this.#place.one(pairedOf(this.#name, item));
  }
  get item() {
    if (this.#place.item === null) fault(`Which item of “${this.#name}” is meant cannot be told here. Use first(), last() or all().`);
    return this.#place.one(pairedOf(this.#name, this.#place.item));
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
    const items = itemsOf(this.#name);
    const at = this.#place.item ?? 0;
    if (at >= items.length) fault(`The step “${this.#name}” has no item ${at}. Use .first(), .last() or .all().`);
    return this.#place.one(items[at]).json;
  }
  get data() {
    return this.json;
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

const inputItems = () => wrapped('input', world.items);

/** $input. */
class InputView {
  #place;
  constructor(place) {
    this.#place = place;
  }
  first() {
    return this.#place.one(inputItems()[0]);
  }
  last() {
    return this.#place.one(inputItems().at(-1));
  }
  all() {
    return this.#place.give(inputItems());
  }
  get item() {
    return this.#place.item === null ? fault('There is no single item here. Use first(), last() or all().') : this.#place.one(inputItems()[this.#place.item]);
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
  name === undefined ? place.give(inputItems()) : place.give(itemsOf(stepNamed(name), branch, at));

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
  $jmespath: (value, query) => jmespath.search(copied(value), query),
};

// The clock stands still while a message is worked on.
const luxonNow = () => (world.now_at ??= luxon.DateTime.now());
const luxonToday = () => (world.today_at ??= luxonNow().startOf('day'));
const empty = () => ({});

/** Every name, with how its value is found from the place an expression stands at. */
const NAMES = {
  $json: (place) => place.json,
  $data: (place) => place.json,
  $input: inputView,
  $thisItem: (place) => place.one(wrapped('input', world.items)[place.item]),
  $itemIndex: (place) => place.item,
  $position: (place) => place.item,
  $runIndex: () => world.scope.run_index,
  $: (place) => (name) => new StepView(name, place),
  $node: nodesView,
  $items: itemsView,
  $item: () => (item) => {
    const other = new Place(item, false);
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
  $binary: empty,
  $self: empty,
  $mode: () => undefined,
};
for (const [name, helper] of Object.entries(helpers)) NAMES[name] = () => helper;
NAMES.$jmesPath = NAMES.$jmespath;

// What stands for things of the origin's machine, in expressions: there, and empty.
const EMPTY_THINGS = ['process', 'require', 'fetch', 'setTimeout', 'setInterval', 'Buffer', 'alert', 'prompt', 'eval', 'Function', 'XMLHttpRequest', 'WebSocket', 'importScripts'];
const EXPRESSION_NAMES = { ...NAMES };
for (const name of EMPTY_THINGS) EXPRESSION_NAMES[name] = empty;

/** Takes a message in. */
const begin = (text) => {
  world = JSON.parse(text);
  world.names = new Set(world.names);
  wrappedLists.clear();
  Object.assign(run, { now: world.now, zone: world.zone, dice: world.seed | 0 });
  setUpDates();
};
