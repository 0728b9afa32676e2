// The ground of every script: errors that are ours, the clock and dice of the run, what is taken away.
// All files of this folder are one function body, in the order of their names; none of it is seen by scripts
// but what `names.js` and `scripts.js` hand them.

const Engine = globalThis;
const RealFunction = Function;
const RealDate = Date;
const AsyncFunction = (async () => {}).constructor;

// What answers are read and written with, and judged by: a script may replace those it finds.
const { parse, stringify } = JSON;
const { hasOwn, keys: keysOf, freeze, isFrozen, getOwnPropertyDescriptor: descriptorOf } = Object;
const { isInteger } = Number;
const { apply, construct, getPrototypeOf, set: setMember } = Reflect;
const isList = Array.isArray;

/** An expression error: it fails the item, where any other error inside comes to undefined. */
class Fault extends Error {}

const fault = (message) => {
  throw new Fault(message);
};

// State of the message being worked on; set again by each. `wanted`: lines of names of zones, a text so that no
// script has a hand in it.
const run = { now: 0, zone: 'UTC', dice: 0, wanted: '' };

/** Thrown when a zone is asked for that is not here yet: it is put in and the block done again. */
class ZoneWanted extends Error {}

const mulberry = () => {
  run.dice = (run.dice + 0x6d2b79f5) | 0;
  let mixed = Math.imul(run.dice ^ (run.dice >>> 15), 1 | run.dice);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
};

const hide = (target, name, value) =>
  Object.defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });

hide(Math, 'random', mulberry);

// A date without arguments is the step's start, so that a resumed run sees the same.
function Clocked(...parts) {
  if (!new.target) return new RealDate(run.now).toString();
  if (parts.length === 1 && typeof parts[0] === 'string') parts[0] = momentOfText(parts[0]);
  return Reflect.construct(RealDate, parts.length ? parts : [run.now], new.target);
}
Object.defineProperty(Clocked, 'name', { value: 'Date' });
Object.defineProperty(Clocked, 'length', { value: 7 });
Clocked.prototype = RealDate.prototype;
hide(RealDate.prototype, 'constructor', Clocked);
hide(Clocked, 'now', () => run.now);
hide(Clocked, 'UTC', RealDate.UTC);
hide(Clocked, 'parse', function parse(text) {
  return momentOfText(`${text}`);
});
hide(Engine, 'Date', Clocked);

// JavaScript's long form names the process's zone, which is UTC.
const dateText = RealDate.prototype.toString;
const timeText = RealDate.prototype.toTimeString;
const named = (text) => (text === 'Invalid Date' ? text : `${text} (Coordinated Universal Time)`);
hide(RealDate.prototype, 'toString', function toString() {
  return named(dateText.call(this));
});
hide(RealDate.prototype, 'toTimeString', function toTimeString() {
  return named(timeText.call(this));
});

const realRoot = Math.cbrt;
hide(Math, 'cbrt', function cbrt(value) {
  const root = realRoot(value);
  return Math.round(root) ** 3 === Number(value) ? Math.round(root) : root; // exact where the root is whole
});

// Scaled by the greatest value and summed with what rounding lost, as V8 does: the last digits are those of n8n.
hide(Math, 'hypot', function hypot(...values) {
  const sizes = values.map((value) => Math.abs(Number(value)));
  if (sizes.includes(Infinity)) return Infinity;
  const greatest = Math.max(0, ...sizes);
  if (greatest === 0 || Number.isNaN(greatest)) return greatest;
  let sum = 0;
  let lost = 0;
  for (const size of sizes) {
    const square = (size / greatest) ** 2 - lost;
    const next = sum + square;
    lost = next - sum - square;
    sum = next;
  }
  return Math.sqrt(sum) * greatest;
});
Object.defineProperty(Math.hypot, 'length', { value: 2 });

hide(BigInt.prototype, 'toJSON', function toJSON() {
  return String(this);
});

const { escape: escaped, unescape: unescaped } = Engine; // there for scripts, not for expressions
for (const name of [
  'escape', 'unescape', 'btoa', 'atob', 'eval', 'queueMicrotask', 'performance', 'navigator', 'gc', 'WeakRef',
  'FinalizationRegistry', 'Atomics', 'SharedArrayBuffer', 'DOMException', 'console', 'print', 'scriptArgs',
]) {
  delete Engine[name];
}

// Hooks of the engine, which would outlast whoever sets them.
delete Error.prepareStackTrace;
delete Error.stackTraceLimit;

// Functions are not made from text: every way to their maker ends here.
const refuseMaking = function Function() {
  fault('Making a function from text is not allowed.');
};
for (const maker of [RealFunction, AsyncFunction, (function* () {}).constructor, (async function* () {}).constructor]) {
  Object.defineProperty(maker.prototype, 'constructor', { value: refuseMaking, writable: false, configurable: false });
}
refuseMaking.prototype = RealFunction.prototype;
hide(Engine, 'Function', refuseMaking);

/** Whether an error is the engine's own end, which no script may outlive. */
const isFatal = (error) => error === null || (error instanceof InternalError && /out of memory/.test(error.message));

const isPlain = (value) => {
  if (typeof value !== 'object' || value === null) return false;
  const parent = Object.getPrototypeOf(value);
  return parent === Object.prototype || parent === null;
};

/** JSON that is frozen however deep, and stays what it is: nobody who reads it changes it for another. */
const frozen = (value) => {
  if (typeof value !== 'object' || value === null || isFrozen(value)) return value;
  freeze(value);
  for (const key of keysOf(value)) frozen(value[key]);
  return value;
};

/** JSON values alone: a copy that shares nothing. */
const copied = (value) => {
  if (isList(value)) return value.map(copied);
  if (!isPlain(value)) return value;
  const copy = {};
  for (const key of Object.keys(value)) put(copy, key, copied(value[key]));
  return copy;
};

/** Sets a member of its own, whatever its name. */
const put = (target, key, value) => {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  } else {
    target[key] = value;
  }
};

/** Equality by value, as lists and objects of JSON are compared. */
const same = (a, b) => {
  if (Object.is(a, b) || a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (a instanceof RealDate && b instanceof RealDate) return a.getTime() === b.getTime();
  if (isList(a) !== isList(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
};
