// Base of the engine: our own error classes, the run's clock and random numbers, and the removal of unsafe built-ins.
// All files of this folder are joined, in the order of their names, into the body of one function. Expressions and
// scripts get access only to the names that 09_names.js and 11_scripts.js pass to them.

const Engine = globalThis;
const RealFunction = Function;
const RealDate = Date;
const AsyncFunction = (async () => {}).constructor;

// Captured before any script runs, because a script may replace the globals.
const { parse, stringify } = JSON;
const { hasOwn, keys: keysOf, freeze, isFrozen, getOwnPropertyDescriptor: descriptorOf } = Object;
const { isInteger } = Number;
const { apply, construct, getPrototypeOf, set: setMember } = Reflect;
const isList = Array.isArray;

/** An expression error: it fails the item, whereas any other error in an expression gives undefined. */
class Fault extends Error {}

const fault = (message) => {
  throw new Fault(message);
};

// State of the current message, set anew for each one. `missingZones` has one zone name per line; it is a string because
// a script could tamper with the methods of a list.
const run = { now: 0, zone: 'UTC', randomState: 0, missingZones: '' };

/** Thrown when code uses a time zone that is not loaded; javascript.py loads it and evaluates the block again. */
class MissingZone extends Error {}

const nextRandom = () => {
  run.randomState = (run.randomState + 0x6d2b79f5) | 0;
  let mixed = Math.imul(run.randomState ^ (run.randomState >>> 15), 1 | run.randomState);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
};

const defineHidden = (target, name, value) =>
  Object.defineProperty(target, name, { value, writable: true, enumerable: false, configurable: true });

defineHidden(Math, 'random', nextRandom);

// `new Date()` returns the step's start time, so that a resumed run sees the same time.
function RunDate(...parts) {
  if (!new.target) return new RealDate(run.now).toString();
  if (parts.length === 1 && typeof parts[0] === 'string') parts[0] = momentOfText(parts[0]);
  return Reflect.construct(RealDate, parts.length ? parts : [run.now], new.target);
}
Object.defineProperty(RunDate, 'name', { value: 'Date' });
Object.defineProperty(RunDate, 'length', { value: 7 });
RunDate.prototype = RealDate.prototype;
defineHidden(RealDate.prototype, 'constructor', RunDate);
defineHidden(RunDate, 'now', () => run.now);
defineHidden(RunDate, 'UTC', RealDate.UTC);
defineHidden(RunDate, 'parse', function parse(text) {
  return momentOfText(`${text}`);
});
defineHidden(Engine, 'Date', RunDate);

// QuickJS leaves out the zone's name that V8 appends; the process's zone is UTC.
const dateText = RealDate.prototype.toString;
const timeText = RealDate.prototype.toTimeString;
const withZoneName = (text) => (text === 'Invalid Date' ? text : `${text} (Coordinated Universal Time)`);
defineHidden(RealDate.prototype, 'toString', function toString() {
  return withZoneName(dateText.call(this));
});
defineHidden(RealDate.prototype, 'toTimeString', function toTimeString() {
  return withZoneName(timeText.call(this));
});

const realRoot = Math.cbrt;
defineHidden(Math, 'cbrt', function cbrt(value) {
  const root = realRoot(value);
  return Math.round(root) ** 3 === Number(value) ? Math.round(root) : root; // cube roots of whole cubes are exact, as in V8
});

// Scales by the greatest value and uses compensated summation, as V8 does, so that the last digits equal n8n's.
defineHidden(Math, 'hypot', function hypot(...values) {
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

defineHidden(BigInt.prototype, 'toJSON', function toJSON() {
  return String(this);
});

const { escape: escaped, unescape: unescaped } = Engine; // available in scripts but not in expressions
for (const name of [
  'escape', 'unescape', 'btoa', 'atob', 'eval', 'queueMicrotask', 'performance', 'navigator', 'gc', 'WeakRef',
  'FinalizationRegistry', 'Atomics', 'SharedArrayBuffer', 'DOMException', 'console', 'print', 'scriptArgs',
]) {
  delete Engine[name];
}

// Hooks of the engine that would stay in effect for later code.
delete Error.prepareStackTrace;
delete Error.stackTraceLimit;

// Code cannot create functions from text: every reference to a function constructor leads to this refusal.
const refuseFunction = function Function() {
  fault('Making a function from text is not allowed.');
};
for (const maker of [RealFunction, AsyncFunction, (function* () {}).constructor, (async function* () {}).constructor]) {
  Object.defineProperty(maker.prototype, 'constructor', { value: refuseFunction, writable: false, configurable: false });
}
refuseFunction.prototype = RealFunction.prototype;
defineHidden(Engine, 'Function', refuseFunction);

/** Returns whether the engine has run out of memory; code must not catch such an error and continue. */
const isFatal = (error) => error === null || (error instanceof InternalError && /out of memory/.test(error.message));

const isPlain = (value) => {
  if (typeof value !== 'object' || value === null) return false;
  const parent = Object.getPrototypeOf(value);
  return parent === Object.prototype || parent === null;
};

/** Freezes a JSON value at every depth and returns it. */
const frozen = (value) => {
  if (typeof value !== 'object' || value === null || isFrozen(value)) return value;
  freeze(value);
  for (const key of keysOf(value)) frozen(value[key]);
  return value;
};

/** Returns a deep copy of a JSON value. */
const copied = (value) => {
  if (isList(value)) return value.map(copied);
  if (!isPlain(value)) return value;
  const copy = {};
  for (const key of Object.keys(value)) setOwn(copy, key, copied(value[key]));
  return copy;
};

/** Sets an own property, even if its name is `__proto__`. */
const setOwn = (target, key, value) => {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  } else {
    target[key] = value;
  }
};

/** Returns whether two JSON values are equal at every depth. */
const isEqual = (a, b) => {
  if (Object.is(a, b) || a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (a instanceof RealDate && b instanceof RealDate) return a.getTime() === b.getTime();
  if (isList(a) !== isList(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && isEqual(a[key], b[key]));
};
