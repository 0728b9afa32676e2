// Walks over all an expression can reach, marks it, tries to replace it, and tells what had a mark already.
(() => {
  const mark = Symbol.for('left behind'), seen = new Set(), queue = [], found = [];
  const visit = (value, path) => {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
    seen.add(value);
    queue.push([value, path]);
  };
  const attempt = (act) => { try { return act() } catch { return undefined } };
  const date = $now.plus({ days: 1 }).setZone('Asia/Tokyo');
  const seeds = {
    globalThis, $json, $input, $items, $node, $now, $today, DateTime, Duration, Interval, $jmespath, $if, $ifEmpty,
    $min, $env, $workflow, $execution, $prevNode, $parameter, $ext$, date, own: arguments.callee, given: arguments,
    fixed: $now.setZone('UTC+3'), utc: $now.toUTC(), span: Interval.after($now, { hours: 1 }),
    length: Duration.fromObject({ hours: 1 }), rough: Duration.fromObject({ days: 1 }, { conversionAccuracy: 'longterm' }),
    invalid: DateTime.invalid('x'), written: $now.loc.dtFormatter($now, {}), words: $now.loc.relFormatter(),
    digits: $now.loc.numberFormatter(), list: $now.loc.listFormatter(), step: $('A'), first: $('A').first(),
    number: Intl.NumberFormat(), when: new Intl.DateTimeFormat('en-US'), tag: new Intl.Locale('en'),
    error: new Error('x'), pattern: /x/g, map: new Map(), promise: Promise.resolve(1), view: new Uint8Array(1),
    iterator: [][Symbol.iterator](), async: async () => {}, making: (function* () {})(),
  };
  for (const name of Object.keys(seeds)) visit(seeds[name], name);
  for (let at = 0; at < queue.length && at < 6000; at += 1) {
    const [value, path] = queue[at];
    if (attempt(() => Object.hasOwn(value, mark))) found.push(path);
    attempt(() => Reflect.defineProperty(value, mark, { value: 1, configurable: true }));
    if (attempt(() => !Reflect.isExtensible(value) && !Object.isFrozen(value))) found.push(`${path} is open`);
    visit(attempt(() => Reflect.getPrototypeOf(value)), `${path}.^`);
    for (const key of attempt(() => Reflect.ownKeys(value)) ?? []) {
      const name = `${path}.${String(key)}`;
      const told = attempt(() => Reflect.getOwnPropertyDescriptor(value, key)) ?? {};
      for (const one of [told.value, told.get, told.set]) visit(one, name);
      if (told.get) {
        const held = attempt(() => value[key]);
        if (held === 'left behind') found.push(`${name} was set`);
        visit(held, `${name}=`);
      }
      if (told.set && key !== '__proto__') attempt(() => { value[key] = 'left behind' });
      if (typeof told.value === 'function' && /^(?:\$now|date|fixed|utc|span|length|\$input|step)(?:\.\^)?$/.test(path)) {
        visit(attempt(() => value[key]()), `${name}()`);
      }
    }
  }
  return { walked: queue.length, found };
})()
