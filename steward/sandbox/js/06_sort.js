// Sorts with a comparison function by the same steps as V8. With an inconsistent function (`a > b`, a common mistake),
// the result depends on which pairs are compared and in which order. The algorithm is TimSort: it finds ordered runs,
// extends short ones by binary insertion, and merges them with galloping.

const GALLOP = 7;

/** Sorts `list` in place; `compare` returns a negative number if its first argument comes first. */
const runSorted = (list, compare) => {
  const runs = [];
  let gallop = GALLOP;

  const filledUp = (low, start, high) => {
    for (let index = start; index < high; index += 1) {
      const pivot = list[index];
      let lower = low;
      let upper = index;
      while (lower < upper) {
        const middle = lower + ((upper - lower) >> 1);
        if (compare(pivot, list[middle]) < 0) upper = middle;
        else lower = middle + 1;
      }
      for (let position = index; position > lower; position -= 1) list[position] = list[position - 1];
      list[lower] = pivot;
    }
  };

  const runFrom = (low, high) => {
    if (low + 1 === high) return 1;
    const falls = compare(list[low + 1], list[low]) < 0;
    let length = 2;
    while (low + length < high && compare(list[low + length], list[low + length - 1]) < 0 === falls) length += 1;
    if (falls) {
      for (let [a, b] = [low, low + length - 1]; a < b; a += 1, b -= 1) [list[a], list[b]] = [list[b], list[a]];
    }
    return length;
  };

  /** Returns how many of `from[base…]` sort before the key or, if `right`, not after it; searches from `hint` on. */
  const galloped = (from, key, base, length, hint, right) => {
    const before = right ? (index) => !(compare(key, from[base + index]) < 0) : (index) => compare(from[base + index], key) < 0;
    let last = 0;
    let offset = 1;
    if (before(hint)) {
      const maxOffset = length - hint;
      while (offset < maxOffset && before(hint + offset)) [last, offset] = [offset, offset * 2 + 1];
      offset = Math.min(offset, maxOffset);
      [last, offset] = [last + hint, offset + hint];
    } else {
      const maxOffset = hint + 1;
      while (offset < maxOffset && !before(hint - offset)) [last, offset] = [offset, offset * 2 + 1];
      offset = Math.min(offset, maxOffset);
      [last, offset] = [hint - offset, hint - last];
    }
    last += 1;
    while (last < offset) {
      const middle = last + ((offset - last) >> 1);
      if (before(middle)) last = middle + 1;
      else offset = middle;
    }
    return offset;
  };

  const shifted = (from, source, into, target, count) => {
    if (from === into && source < target) {
      for (let index = count - 1; index >= 0; index -= 1) into[target + index] = from[source + index];
    } else {
      for (let index = 0; index < count; index += 1) into[target + index] = from[source + index];
    }
  };

  /** Merges two runs from the left, with the shorter first one moved aside. */
  const mergedLow = (baseA, countA, baseB, countB) => {
    const aside = list.slice(baseA, baseA + countA);
    let [lengthA, lengthB, target, a, b] = [countA, countB, baseA, 0, baseB];
    const restOfA = () => shifted(aside, a, list, target, lengthA);
    const restOfB = () => {
      shifted(list, b, list, target, lengthB);
      list[target + lengthB] = aside[a];
    };
    const takeB = (count) => {
      shifted(list, b, list, target, count);
      target += count;
      b += count;
      lengthB -= count;
    };
    const takeA = (count) => {
      shifted(aside, a, list, target, count);
      target += count;
      a += count;
      lengthA -= count;
    };
    takeB(1);
    if (lengthB === 0) return restOfA();
    if (lengthA === 1) return restOfB();
    for (;;) {
      let winsA = 0;
      let winsB = 0;
      do {
        if (compare(list[b], aside[a]) < 0) {
          takeB(1);
          winsA = 0;
          winsB += 1;
          if (lengthB === 0) return restOfA();
        } else {
          takeA(1);
          winsA += 1;
          winsB = 0;
          if (lengthA === 1) return restOfB();
        }
      } while (winsA < gallop && winsB < gallop);
      gallop += 1;
      do {
        gallop = Math.max(1, gallop - 1);
        winsA = galloped(aside, list[b], a, lengthA, 0, true);
        if (winsA > 0) {
          takeA(winsA);
          if (lengthA === 1) return restOfB();
          if (lengthA === 0) return undefined;
        }
        takeB(1);
        if (lengthB === 0) return restOfA();
        winsB = galloped(list, aside[a], b, lengthB, 0, false);
        if (winsB > 0) {
          takeB(winsB);
          if (lengthB === 0) return restOfA();
        }
        takeA(1);
        if (lengthA === 1) return restOfB();
      } while (winsA >= GALLOP || winsB >= GALLOP);
      gallop += 1;
    }
  };

  /** Merges two runs from the right, with the shorter second one moved aside. */
  const mergedHigh = (baseA, countA, baseB, countB) => {
    const aside = list.slice(baseB, baseB + countB);
    let [lengthA, lengthB, target, a, b] = [countA, countB, baseB + countB - 1, baseA + countA - 1, countB - 1];
    const restOfB = () => shifted(aside, 0, list, target - (lengthB - 1), lengthB);
    const restOfA = () => {
      [target, a] = [target - lengthA, a - lengthA];
      shifted(list, a + 1, list, target + 1, lengthA);
      list[target] = aside[b];
    };
    const takeA = (count) => {
      target -= count;
      a -= count;
      lengthA -= count;
      shifted(list, a + 1, list, target + 1, count);
    };
    const takeB = (count) => {
      target -= count;
      b -= count;
      lengthB -= count;
      shifted(aside, b + 1, list, target + 1, count);
    };
    takeA(1);
    if (lengthA === 0) return restOfB();
    if (lengthB === 1) return restOfA();
    for (;;) {
      let winsA = 0;
      let winsB = 0;
      do {
        if (compare(aside[b], list[a]) < 0) {
          takeA(1);
          winsA += 1;
          winsB = 0;
          if (lengthA === 0) return restOfB();
        } else {
          takeB(1);
          winsA = 0;
          winsB += 1;
          if (lengthB === 1) return restOfA();
        }
      } while (winsA < gallop && winsB < gallop);
      gallop += 1;
      do {
        gallop = Math.max(1, gallop - 1);
        winsA = lengthA - galloped(list, aside[b], baseA, lengthA, lengthA - 1, true);
        if (winsA > 0) {
          takeA(winsA);
          if (lengthA === 0) return restOfB();
        }
        takeB(1);
        if (lengthB === 1) return restOfA();
        winsB = lengthB - galloped(aside, list[a], 0, lengthB, lengthB - 1, false);
        if (winsB > 0) {
          takeB(winsB);
          if (lengthB === 1) return restOfA();
          if (lengthB === 0) return undefined;
        }
        takeA(1);
        if (lengthA === 0) return restOfB();
      } while (winsA >= GALLOP || winsB >= GALLOP);
      gallop += 1;
    }
  };

  const mergeAt = (index) => {
    let [baseA, countA] = runs[index];
    let [baseB, countB] = runs[index + 1];
    runs.splice(index, 2, [baseA, countA + countB]);
    const skipped = galloped(list, list[baseB], baseA, countA, 0, true);
    [baseA, countA] = [baseA + skipped, countA - skipped];
    if (countA === 0) return;
    countB = galloped(list, list[baseA + countA - 1], baseB, countB, countB - 1, false);
    if (countB === 0) return;
    (countA <= countB ? mergedLow : mergedHigh)(baseA, countA, baseB, countB);
  };

  const size = (index) => runs[index][1];
  const isUneven = (index) => index > 0 && size(index - 1) <= size(index) + size(index + 1);

  const collapse = () => {
    while (runs.length > 1) {
      let index = runs.length - 2;
      if (isUneven(index) || isUneven(index - 1)) {
        if (size(index - 1) < size(index + 1)) index -= 1;
      } else if (size(index) > size(index + 1)) {
        return;
      }
      mergeAt(index);
    }
  };

  let [low, remaining, shortest, odd] = [0, list.length, list.length, 0];
  while (shortest >= 64) [odd, shortest] = [odd | (shortest & 1), shortest >> 1];
  shortest += odd;
  while (remaining > 0) {
    let length = runFrom(low, low + remaining);
    if (length < shortest) {
      const filled = Math.min(shortest, remaining);
      filledUp(low, low + length, low + filled);
      length = filled;
    }
    runs.push([low, length]);
    collapse();
    [low, remaining] = [low + length, remaining - length];
  }
  while (runs.length > 1) {
    let index = runs.length - 2;
    if (index > 0 && size(index - 1) < size(index + 1)) index -= 1;
    mergeAt(index);
  }
  return list;
};

const nativeSort = Array.prototype.sort;
defineHidden(Array.prototype, 'sort', function sort(compare) {
  if (typeof compare !== 'function' || !isList(this)) return nativeSort.call(this, compare);
  const elements = [];
  for (let index = 0; index < this.length; index += 1) if (index in this) elements.push(this[index]);
  const count = this.length;
  const values = runSorted(
    elements.filter((value) => value !== undefined),
    compare,
  );
  for (let index = 0; index < count; index += 1) {
    if (index < elements.length) this[index] = values[index];
    else delete this[index];
  }
  return this;
});
defineHidden(Array.prototype, 'toSorted', function toSorted(compare) {
  if (compare !== undefined && typeof compare !== 'function') throw new TypeError('not a function');
  return Array.from(this).sort(compare);
});
