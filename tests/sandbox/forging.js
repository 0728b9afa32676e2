// Scripts that try to answer for the steps that come after them, each under its name. FORGED stands for answers in
// every form an answer has had (test_isolation_of_messages.py).

// == stringify
JSON.stringify = () => 'FORGED'; return [{ json: { a: 1 } }]
// == stringify of zones
JSON.stringify = () => '{"zones":["Asia/Tokyo"]}'; return [{ json: { a: 1 } }]
// == parse
JSON.parse = () => ({ items: [] }); return [{ json: { a: 1 } }]
// == toJSON of all
Object.prototype.toJSON = () => 'FORGED'; return [{ json: { a: 1 } }]
// == toJSON of zones
Object.prototype.toJSON = () => ({ zones: ['Asia/Tokyo'] }); return [{ json: { a: 1 } }]
// == toJSON of texts
String.prototype.toJSON = () => 'FORGED'; return [{ json: { a: 1 } }]
// == toJSON of lists
Array.prototype.toJSON = () => 'FORGED'; return [{ json: { a: 1 } }]
// == toJSON of an item
return [{ json: { toJSON() { return 'FORGED' } } }]
// == toJSON that ends
return [{ json: { a: { toJSON() { throw null } } } }]
// == raw JSON
return [{ json: { a: JSON.rawJSON ? JSON.rawJSON('1e999') : 'FORGED' } }]
// == getters
return [{ json: { get a() { JSON.stringify = () => 'FORGED'; return 'FORGED' } } }]
// == a proxy
return [{ json: new Proxy({}, { ownKeys: () => ['a', 'a'], get: () => 1 }) }]
// == keys
return [{ json: { ['FORGED']: 1 } }]
// == texts
return [{ json: { a: 'FORGED', b: '\u2028\u2029\ud800' } }]
// == symbols
return [{ json: { a: Symbol('x'), [Symbol('y')]: 1, [Symbol.toPrimitive]: () => 1 } }]
// == well-known symbols
Array.prototype[Symbol.iterator] = function* () { yield 'FORGED' }; return [{ json: { a: 1 } }]
// == setters on numbers
Object.defineProperty(Array.prototype, 0, { set() {}, get: () => 7 }); return [{ json: { a: 1 } }]
// == list methods
for (const k of ['map', 'some', 'every', 'push', 'join', 'filter', 'flatMap']) Array.prototype[k] = () => 'FORGED'; return [{ json: { a: 1 } }]
// == text methods
for (const k of ['replace', 'slice', 'split', 'startsWith', 'trim', 'toString', 'valueOf']) String.prototype[k] = () => 'FORGED'; return [{ json: { a: 1 } }]
// == statics
for (const k of ['keys', 'entries', 'hasOwn', 'fromEntries', 'freeze', 'getPrototypeOf', 'defineProperty']) Object[k] = () => 'FORGED'; Array.isArray = () => true; return [{ json: { a: 1 } }]
// == prototypes
Object.setPrototypeOf(Array.prototype, { error: 1, then() {} }); Object.prototype.error = 1; Object.prototype.failed = 'FORGED'; Object.prototype.zones = ['Asia/Tokyo']; return [{ json: { a: 1 } }]
// == promises
Promise.prototype.then = function () { return this }; Promise.prototype.constructor = null; Promise.resolve = () => 7; globalThis.Promise = null; return [{ json: { a: 1 } }]
// == a thenable
return { then(done) { done([{ json: { a: 'FORGED' } }]); done(7) } }
// == a later job
Promise.resolve().then(() => { JSON.stringify = () => 'FORGED' }); return [{ json: { a: 1 } }]
// == patterns
RegExp.prototype.exec = () => ['FORGED']; RegExp.prototype[Symbol.replace] = () => 'FORGED'; return [{ json: { a: 1 } }]
// == collections
for (const kind of [Map, Set]) for (const k of ['get', 'set', 'has', 'add', 'clear']) kind.prototype[k] = () => 'FORGED'; globalThis.Map = globalThis.Set = null; return [{ json: { a: 1 } }]
// == globals
for (const k of Object.getOwnPropertyNames(globalThis)) try { globalThis[k] = null } catch {} return [{ json: { a: 1 } }]
// == errors
Error.prepareStackTrace = () => 'FORGED'; Object.defineProperty(Error.prototype, 'stack', { get: () => 'FORGED' }); Error.prototype.name = 'FORGED'; throw new Error('FORGED')
// == a thrown text
throw 'FORGED'
// == a thrown proxy
throw new Proxy(new Error('x'), { get: () => 'FORGED' })
// == an error's message
const e = new Error('x'); Object.defineProperty(e, 'message', { get: () => ({}) }); throw e
// == the console
console.log('FORGED'); console.log({ toJSON: () => 'FORGED' }); return [{ json: { a: 1 } }]
// == a huge text
return [{ json: { a: 'x'.repeat(9 * 2 ** 20) } }]
// == a huge text of breaks
JSON.stringify = () => '\n'.repeat(9 * 2 ** 20); return [{ json: { a: 1 } }]
// == deep nesting
let o = {}; for (let i = 0; i < 5000; i++) o = { o }; return [{ json: o }]
// == deeper nesting
let o = {}; for (let i = 0; i < 200000; i++) o = { o }; return [{ json: o }]
// == a circle
const o = {}; o.o = o; return [{ json: o }]
// == numbers JSON has not
return [{ json: { a: NaN, b: 1e999, c: -0, d: 2n ** 20000n } }]
