// Finds reads of a file's content before anything runs, by tracing variables back to the values assigned to them.

/** Returns the index after the member access that begins here, such as `.a`, `?.a` or `["a"]`, or -1. */
const behindMember = (tokens, index) => {
  const dotted = tokens[index]?.text === '.' || tokens[index]?.text === '?.';
  if (dotted && tokens[index + 1]?.kind === 'word') return index + 2;
  const opening = dotted ? index + 1 : index;
  return tokens[opening]?.text === '[' ? behindBracket(tokens, opening) : -1;
};

/** Returns the index after the bracket that matches this one, or -1. */
const behindBracket = (tokens, opening) => (tokens[opening].partner ?? -2) + 1;

const MAX_LINKS = 30; // maximum number of names, dots and brackets of a chain that are examined
/** Returns the start of the member chain that ends before this index, and its names from last to first, such as `json`
 * and `items` of `items[0].json`. */
const chainBefore = (tokens, end) => {
  const names = [];
  let index = end - 1;
  for (let links = 0; index > 0 && links < MAX_LINKS; links += 1) {
    const { kind, text } = tokens[index];
    if (text === '.' || text === '?.') index -= 1;
    else if (kind === 'sign' && (text === ')' || text === ']')) {
      if (text === ']' && tokens[index - 1].kind === 'text') names.push(tokens[index - 1].text.slice(1, -1));
      index = opened(tokens, index) - 1;
    } else {
      if (kind === 'word') names.push(text);
      if (kind !== 'word' || !isMember(tokens, index)) return { begin: index, names };
      index -= 1;
    }
  }
  if (index === 0 && tokens[0].kind === 'word') names.push(tokens[0].text);
  return { begin: index, names };
};

/** Returns the index after the member chain, including its calls, that begins here. */
const behindChain = (tokens, begin) => {
  let end = begin + 1;
  for (let links = 0; links < MAX_LINKS; links += 1) {
    const next = tokens[end]?.text === '(' ? behindBracket(tokens, end) : behindMember(tokens, end);
    if (next < 0) break;
    end = next;
  }
  return end;
};

/** Returns the opening bracket of the destructuring pattern that closes here, as in `const { item } = …`, or -1. */
const patternOpening = (tokens, close) => {
  const { kind, text, partner = -1 } = tokens[close] ?? {};
  if (kind !== 'sign' || partner < 0 || partner > close) return -1;
  const before = tokens[partner - 1];
  const isIndex = before?.kind === 'sign' ? [')', ']', '?.'].includes(before.text) : before && !DECLARING.has(before.text);
  return text === '}' || (text === ']' && !isIndex) ? partner : -1;
};

/** Returns the chains assigned to each variable: by `x = …`, by `for (const x of …)` or, for a parameter of a callback,
 * the chain whose method calls it. An unknown chain, as for a name in a pattern, is null. */
const assignedChains = (tokens) => {
  const chainsByName = new Map();
  const addChain = (name, chain) => (chainsByName.has(name) ? chainsByName.get(name).push(chain) : chainsByName.set(name, [chain]));
  const addAll = (opening, end, chain) => {
    for (let index = opening; index < end; index += 1) {
      if (tokens[index].kind === 'word' && tokens[index + 1]?.text !== ':') addChain(tokens[index].text, chain);
    }
  };
  const addParameters = (opening, end, caller) => {
    const before = tokens[caller]?.text === 'async' ? caller - 1 : caller;
    const isCallback = tokens[before]?.text === '(' && isMember(tokens, before - 1);
    addAll(opening, end, isCallback ? chainBefore(tokens, before - 2) : null);
  };
  const addAssigned = (index) => {
    const pattern = patternOpening(tokens, index - 1);
    if (pattern >= 0) addAll(pattern, index, null);
    if (tokens[index - 1]?.kind !== 'word' || isMember(tokens, index - 1)) return;
    const begin = tokens[index + 1]?.text === 'await' ? index + 2 : index + 1;
    addChain(tokens[index - 1].text, tokens[begin]?.kind === 'word' ? chainBefore(tokens, behindChain(tokens, begin)) : null);
  };
  tokens.forEach(({ kind, text }, index) => {
    if (text === '=>') {
      const opening = tokens[index - 1]?.text === ')' ? opened(tokens, index - 1) : index - 1;
      if (opening >= 0) addParameters(opening, index, opening - 1);
    } else if (text === 'function') {
      const opening = tokens[index + 1]?.text === '(' ? index + 1 : index + 2;
      const end = tokens[opening]?.text === '(' ? behindBracket(tokens, opening) : -1;
      if (end > 0) addParameters(opening, end, index - 1);
    } else if ((text === '=' && tokens[index + 1]?.text !== '=') || (text === 'of' && kind === 'word')) addAssigned(index);
  });
  return chainsByName;
};

const EXPRESSION_ITEMS = new Set(['$input', '$thisItem', '$items', '$', '$node', '$item']);
const SCRIPT_ITEMS = new Set([...EXPRESSION_ITEMS, 'items', 'item']);
// What follows these members is a field of an item, or a value that a script computed.
const NO_ITEM = new Set(['json', 'data', 'binary', 'map', 'flatMap', 'reduce', 'params', 'context']);

const MAX_NAMES = 50; // maximum length of a trail of variables
/** Returns a predicate for chains that lead to an item or a list of items; `roots` are the names that hold items unless
 * the code assigns them something else. */
const itemChains = (tokens, roots) => {
  const chainsByName = assignedChains(tokens);
  const isItemByName = new Map();
  const isItemName = (name, depth) => {
    if (!isItemByName.has(name)) {
      isItemByName.set(name, true); // ends the recursion if it is assigned to itself
      isItemByName.set(name, chainsByName.has(name) ? chainsByName.get(name).every((chain) => isItemChain(chain, depth + 1)) : roots.has(name));
    }
    return isItemByName.get(name);
  };
  const isItemChain = (chain, depth = 0) => {
    if (chain === null || depth > MAX_NAMES) return false;
    const root = tokens[chain.begin];
    const isNamed = root?.kind === 'word' && root.text === chain.names.at(-1);
    return isNamed && !chain.names.slice(0, -1).some((name) => NO_ITEM.has(name)) && isItemName(root.text, depth);
  };
  return isItemChain;
};

/** Returns whether the member access before this index is `.data` or `["data"]`, but not `[data]`. */
const isData = (tokens, end) => {
  const { text, partner } = tokens[end - 1];
  if (text !== ']') return text === 'data';
  return partner === end - 3 && tokens[end - 2].kind !== 'word' && tokens[end - 2].text.slice(1, -1) === 'data';
};
const NO_ITEM_MODES = new Set(['flow', 'function_item']); // flow has no files, and an item of function_item is just its fields

const isWrite = (tokens, index) => /^(?:=(?!=)|\?\?=|\|\|=)/.test(tokens.slice(index, index + 3).map((token) => token.text).join(''));

/** Returns an error for each read of a file's content, which would fail at run time; writing it is allowed. */
const contentReads = (code, tokens, roots) => {
  let isItemChain = null;
  return tokens.flatMap((token, index) => {
    const isOfItem = token.text === 'binary' && isMember(tokens, index);
    if (token.kind !== 'word' || !(isOfItem || (token.text === '$binary' && !isMember(tokens, index)))) return [];
    const file = behindMember(tokens, index + 1);
    const end = file < 0 ? -1 : behindMember(tokens, file);
    if (end < 0 || !isData(tokens, end)) return [];
    const chain = isOfItem ? chainBefore(tokens, index - 1) : { begin: index, names: [] };
    if (isWrite(tokens, end) || tokens[chain.begin - 1]?.text === 'delete') return [];
    if (isOfItem && !(isItemChain ??= itemChains(tokens, roots))(chain)) return [];
    return [missing('error', 'It reads the content of a file, which is not available in scripts and expressions.', 'Use an Extract from File step before it.', columnOf(code, token))];
  });
};
