// The names expressions and scripts find (design imports 5.2): current item, inputs, other steps, helpers.

let world = null; // the message: items, names, seen, pairs, scope, parameters

/** Frozen wrappers of the items of a list, made once a message. */
const wrappedLists = new Map();

const wrapped = (key, list) => {
  let made = wrappedLists.get(key);
  if (!made) {
    made = list.map((json) => ({ json }));
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
    return this.fresh ? items.map((item) => ({ json: copied(item.json) })) : items.slice();
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

const stepView = (name, place) => {
  const key = stepNamed(name);
  const numbers = (given) => given.map((number) => (number === undefined || number === null ? undefined : Number(number)));
  const all = (...given) => itemsOf(key, ...numbers(given));
  return {
    first: (...given) => place.one(all(...given)[0]),
    last: (...given) => place.one(all(...given).at(-1)),
    all: (...given) => place.give(all(...given)),
    itemMatching: (item) => place.one(pairedOf(key, item)),
    pairedItem: (item = place.item) => place.one(pairedOf(key, item)),
    get item() {
      if (place.item === null) fault(`Which item of “${key}” is meant cannot be told here. Use first(), last() or all().`);
      return place.one(pairedOf(key, place.item));
    },
    get params() {
      return copied(seenStep(key).params);
    },
    get context() {
      return copied(seenStep(key).context);
    },
    get isExecuted() {
      return Object.hasOwn(world.seen, key);
    },
  };
};

/** $node["X"]: the item of the same place. */
const nodeView = (name, place) => {
  const key = stepNamed(name);
  return {
    get json() {
      const items = itemsOf(key);
      const at = place.item ?? 0;
      if (at >= items.length) fault(`The step “${key}” has no item ${at}. Use $('${key}').first(), .last() or .all().`);
      return place.one(items[at]).json;
    },
    get params() {
      return copied(seenStep(key).params);
    },
    get context() {
      return copied(seenStep(key).context);
    },
    get runIndex() {
      return seenStep(key).runs.length - 1;
    },
  };
};

const nodesView = (place) =>
  new Proxy({}, { get: (target, name) => (typeof name === 'symbol' ? target[name] : nodeView(name, place)) });

const inputView = (place) => {
  const items = () => wrapped('input', world.items);
  return {
    first: () => place.one(items()[0]),
    last: () => place.one(items().at(-1)),
    all: () => place.give(items()),
    get item() {
      return place.item === null ? fault('There is no single item here. Use first(), last() or all().') : place.one(items()[place.item]);
    },
    get params() {
      return copied(world.scope.input_params);
    },
    get context() {
      return copied(world.scope.input_context);
    },
  };
};

const itemsView = (place) => (name, branch, at) =>
  name === undefined ? place.give(wrapped('input', world.items)) : place.give(itemsOf(stepNamed(name), branch, at));

const closedEnvironment = new Proxy({}, {
  get: (target, name) => (typeof name === 'symbol' || name === 'toJSON' ? target[name] : fault('Variables of the machine cannot be read here. Write the value into the workflow.')),
});

const isBlank = (value) =>
  value === undefined || value === null || value === '' || (isList(value) && !value.length) || (isPlain(value) && !Object.keys(value).length);

const helpers = {
  $if: (condition, yes, no) => (condition ? yes : no),
  $ifEmpty: (value, otherwise) => (isBlank(value) ? otherwise : value),
  $not: (value) => !value,
  $min: (...values) => Math.min(...values),
  $max: (...values) => Math.max(...values),
  $average: (...values) => listExtensions.average(values),
  $jmespath: (value, query) => jmespath.search(copied(value), query),
};

const luxonNow = () => luxon.DateTime.now();
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
  $: (place) => (name) => stepView(name, place),
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
  $today: () => luxonNow().startOf('day'),
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
