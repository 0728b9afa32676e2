// Extensions of numbers, booleans, lists and objects.

const numberExtensions = {
  abs: (number) => Math.abs(number),
  ceil: (number) => Math.ceil(number),
  floor: (number) => Math.floor(number),
  round: (number, places = 0) => Number(number.toFixed(places)),
  format: (number, locale, options) => new NumberFormat(locale, options).format(number),
  isEmpty: (number) => !number,
  isNotEmpty: (number) => !!number,
  isInteger: (number) => Number.isInteger(number),
  isEven: (number) => wholeOnly(number, 'isEven') % 2 === 0,
  isOdd: (number) => Math.abs(wholeOnly(number, 'isOdd') % 2) === 1,
  toBoolean: (number) => number !== 0,
  toInt: (number) => Number(number.toFixed(0)),
  toWholeNumber: (number) => Number(number.toFixed(0)),
  toFloat: (number) => number,
  toDecimalNumber: (number) => number,
  toNumber: (number) => number,
  toJsonString: (number) => JSON.stringify(number),
  toDateTime: (number, format) => dateOfNumber(number, format),
};

const wholeOnly = (number, name) => (Number.isInteger(number) ? number : fault(`${name}() takes a whole number.`));

const booleanExtensions = {
  isEmpty: (value) => !value,
  isNotEmpty: (value) => value,
  toInt: (value) => Number(value),
  toWholeNumber: (value) => Number(value),
  toFloat: (value) => Number(value),
  toNumber: (value) => Number(value),
  toBoolean: (value) => value,
  toJsonString: (value) => JSON.stringify(value),
};

const isNothing = (value) => value === null || value === undefined || value === '';
const isObjectLike = (value) => typeof value === 'object' && value !== null;
const isEmptyObject = (value) => isObjectLike(value) && !Object.keys(value).length;

/** Removes empty fields at every depth; a nested list becomes an object keyed by index, as in n8n. */
const compacted = (value) => {
  const result = {};
  for (const [key, field] of Object.entries(value)) if (!isNothing(field) && !isEmptyObject(field)) setOwn(result, key, isObjectLike(field) ? compacted(field) : field);
  return result;
};
const addNew = (list, value) => (list.some((present) => isEqual(present, value)) || list.push(value), list);
const listOf = (value, name) => (isList(value) ? value : fault(`${name}() takes a list.`));

const numbersOf = (list, name) => {
  if (list.some((value) => typeof value !== 'number')) fault(`${name}() needs a list of numbers only.`);
  return list;
};

const objectsOf = (list, name) => {
  if (list.some((value) => typeof value !== 'object' || value === null)) fault(`${name}() needs a list of objects.`);
  return list;
};

const distinct = (list, fieldNames) => {
  const keys = fieldNames.flat().flatMap((key) => (typeof key === 'string' ? key.split(',').map((name) => name.trim()) : [key]));
  if (!keys.length) return list.reduce(addNew, []);
  const seen = [];
  return list.filter((value) => {
    const picked = keys.map((key) => value?.[key]);
    return seen.some((other) => isEqual(other, picked)) ? false : seen.push(picked);
  });
};

const listExtensions = {
  isEmpty: (list) => list.length === 0,
  isNotEmpty: (list) => list.length > 0,
  first: (list) => list[0],
  last: (list) => list[list.length - 1],
  append: (list, ...values) => [...list, ...values],
  sum: (list) => numbersOf(list, 'sum').reduce((total, value) => total + value, 0),
  average: (list) => (list.length ? listExtensions.sum(list) / list.length : 0),
  max: (list) => Math.max(...numbersOf(list, 'max')),
  min: (list) => Math.min(...numbersOf(list, 'min')),
  chunk: (list, size) => {
    if (typeof size !== 'number' || !(size >= 1)) fault('chunk() takes the size of a part: a number from 1.');
    const parts = [];
    for (let start = 0; start < list.length; start += size) parts.push(list.slice(start, start + size));
    return parts;
  },
  compact: (list) => list.filter((value) => !isNothing(value) && !isEmptyObject(value)).map((value) => (isObjectLike(value) ? compacted(value) : value)),
  unique: (list, ...keys) => distinct(list, keys),
  removeDuplicates: (list, ...keys) => distinct(list, keys),
  difference: (list, other) => list.reduce((result, value) => (listOf(other, 'difference').some((candidate) => isEqual(candidate, value)) ? result : addNew(result, value)), []),
  intersection: (list, other) => list.reduce((result, value) => (listOf(other, 'intersection').some((candidate) => isEqual(candidate, value)) ? addNew(result, value) : result), []),
  union: (list, other) => [...list, ...listOf(other, 'union')].reduce(addNew, []),
  merge: (list, other) => {
    const merged = {};
    listOf(other, 'merge').forEach((value, index) => index < list.length && Object.assign(merged, list[index], value));
    return merged;
  },
  pluck: (list, ...keys) => {
    if (!keys.length) return list;
    const having = list.filter((value) => isPlain(value) && keys.some((key) => Object.hasOwn(value, key)));
    if (keys.length === 1) return having.map((value) => value[keys[0]]);
    if (having.some((value) => !keys.every((key) => Object.hasOwn(value, key)))) fault('pluck() of several fields needs them all in each object. Pluck one at a time, or use map().');
    return having.map((value) => keys.map((key) => value[key]));
  },
  randomItem: (list) => list[Math.floor(nextRandom() * list.length)],
  renameKeys: (list, ...names) => {
    if (!names.length || names.length % 2) fault('renameKeys() takes pairs: the old name, then the new one.');
    return list.map((value) => (isPlain(value) ? renamed(value, names) : value));
  },
  smartJoin: (list, key, value) => {
    if (!key || !value) fault('smartJoin() takes two field names: of the keys and of the values.');
    const result = {};
    for (const entry of objectsOf(list, 'smartJoin')) if (entry[key] !== undefined) setOwn(result, entry[key], entry[value]);
    return result;
  },
  toJsonString: (list) => JSON.stringify(list),
};

const renamed = (value, names) => {
  const result = { ...value };
  for (let index = 0; index < names.length; index += 2) {
    if (!Object.hasOwn(result, names[index])) continue;
    const field = result[names[index]];
    delete result[names[index]];
    setOwn(result, names[index + 1], field);
  }
  return result;
};

const fieldsWhere = (value, keeps) => Object.fromEntries(Object.entries(value).filter(([key, field]) => keeps(field, key)));
const needed = (text, name) => (typeof text === 'string' && text !== '' ? text : fault(`${name}() takes a text that is not empty.`));

const objectExtensions = {
  isEmpty: (value) => Object.keys(value).length === 0,
  isNotEmpty: (value) => Object.keys(value).length > 0,
  hasField: (value, name) => Object.hasOwn(value, name),
  removeField: (value, name) => fieldsWhere(value, (field, key) => key !== name),
  removeFieldsContaining: (value, text) => fieldsWhere(value, (field) => typeof field !== 'string' || !field.includes(needed(text, 'removeFieldsContaining'))),
  keepFieldsContaining: (value, text) => fieldsWhere(value, (field) => typeof field === 'string' && field.includes(needed(text, 'keepFieldsContaining'))),
  compact: (value) => compacted(value),
  keys: (value) => Object.keys(value),
  values: (value) => Object.values(value),
  urlEncode: (value) => Object.entries(value).map(([key, field]) => `${formEncoded(key)}=${formEncoded(String(field))}`).join('&'),
  toJsonString: (value) => JSON.stringify(value),
};

const formEncoded = (text) => encodeURIComponent(text).replace(/%20/g, '+').replace(/[!'()~]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);

const EXTENSIONS = { text: textExtensions, number: numberExtensions, boolean: booleanExtensions, list: listExtensions, object: objectExtensions, date: null };

const kindOf = (value) => {
  if (typeof value === 'string') return 'text';
  if (typeof value === 'number' || typeof value === 'boolean') return typeof value;
  if (isList(value)) return 'list';
  if (value instanceof RealDate || luxon?.DateTime.isDateTime(value)) return 'date';
  return isPlain(value) ? 'object' : 'other';
};

/** Maps the name of each extension to the symbol that its calls are rewritten to. */
const $ext$ = Object.create(null);
const MARK = 'extension ';

const defineExtension = (name) => {
  $ext$[name] = Symbol(MARK + name);
  Object.defineProperty(Object.prototype, $ext$[name], {
    value(...args) {
      const table = EXTENSIONS[kindOf(this)];
      if (table && Object.hasOwn(table, name)) return table[name](this, ...args);
      if (typeof this[name] === 'function') return Reflect.apply(this[name], this, args);
      return fault(`${name}() cannot be used on this kind of value.`);
    },
  });
};

/** Returns `$env` for a workflow without variables, as in an n8n that blocks access to its environment. */
const closedEnvironment = (withFallback) => new Proxy({}, {
  get: (target, name) => (typeof name === 'symbol' || name === 'toJSON' || hasOwn(withFallback, `$env.${name}`) ? target[name] : fault('Variables of the machine cannot be read here. Write the value into the workflow.')),
});
/** Returns the values of the run's variables below `$env` or `$vars`. A variable without a value is undefined if the code
 * has a fallback for it; any other read fails, so that code does not continue with a value that the import overlooked. */
const variablesOf = (owner, withFallback) => {
  const prefix = `${owner}.`;
  const values = Object.fromEntries(Object.entries(message.scope.variables).filter(([name]) => name.startsWith(prefix)).map(([name, value]) => [name.slice(prefix.length), value]));
  const refuse = (name) => fault(`“${owner}.${name}” has no value here. Where it is read, write “${owner}.${name}” in full, and import the workflow again.`);
  const refuseAll = () => fault(`“${owner}”: Variables of n8n are read by fixed names here. Write “${owner}.name” for each variable that is read, and import the workflow again.`);
  const isGiven = (target, name) => hasOwn(target, name) || typeof name === 'symbol' || name === 'toJSON' || hasOwn(withFallback, prefix + name);
  return new Proxy(freeze(values), {
    get: (target, name) => (isGiven(target, name) ? (hasOwn(target, name) ? target[name] : undefined) : refuse(name)),
    has: (target, name) => (isGiven(target, name) ? hasOwn(target, name) : refuse(name)),
    getOwnPropertyDescriptor: (target, name) => (isGiven(target, name) ? descriptorOf(target, name) : refuse(name)),
    ownKeys: refuseAll,
  });
};
