// Finds reads of the content of a file before anything runs, by following names back to the values assigned to them.

/** The index behind the member access that begins here, such as `.a`, `?.a` or `["a"]`; -1 where none begins. */
const behindMember = (tokens, index) => {
  const dotted = tokens[index]?.text === '.' || tokens[index]?.text === '?.';
  if (dotted && tokens[index + 1]?.kind === 'word') return index + 2;
  const opening = dotted ? index + 1 : index;
  return tokens[opening]?.text === '[' ? behindBracket(tokens, opening) : -1;
};

/** The index behind the bracket that closes the one here; -1 where none does. */
const behindBracket = (tokens, opening) => (tokens[opening].partner ?? -2) + 1;

const MAX_LINKS = 30; // names, dots and brackets of a chain that are looked at
/** The member chain that ends before this index: where it begins, and its names from the last on, such as `json` and
 * `items` of `items[0].json`. */
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

/** The index behind the member chain, with its calls, that begins here. */
const behindChain = (tokens, begin) => {
  let end = begin + 1;
  for (let links = 0; links < MAX_LINKS; links += 1) {
    const next = tokens[end]?.text === '(' ? behindBracket(tokens, end) : behindMember(tokens, end);
    if (next < 0) break;
    end = next;
  }
  return end;
};

/** The bracket that opens the pattern whose last bracket is here, as in `const { item } = …`; -1 where none does. */
const patternOpening = (tokens, close) => {
  const { kind, text, partner = -1 } = tokens[close] ?? {};
  if (kind !== 'sign' || partner < 0 || partner > close) return -1;
  const before = tokens[partner - 1];
  const isIndex = before?.kind === 'sign' ? [')', ']', '?.'].includes(before.text) : before && !DECLARING.has(before.text);
  return text === '}' || (text === ']' && !isIndex) ? partner : -1;
};

/** The chains assigned to each name of a text: those of `x = …`, of `for (const x of …)` and, for a parameter, the one
 * whose method takes the function. A chain that is not known, such as that of a name in a pattern, is null. */
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
// Behind them stand fields of an item, or values that a script made.
const NO_ITEM = new Set(['json', 'data', 'binary', 'map', 'flatMap', 'reduce', 'params', 'context']);

const MAX_NAMES = 50; // that are followed from one to the next
/** Returns what says whether a chain is of an item or a list of items; `roots`: names of such unless the text assigns
 * them something else. */
const itemChains = (tokens, roots) => {
  const chainsByName = assignedChains(tokens);
  const isItemByName = new Map();
  const isItemName = (name, depth) => {
    if (!isItemByName.has(name)) {
      isItemByName.set(name, true); // where it is assigned to itself
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

/** Returns whether the member access that ends before this index names `data`: `.data` or `["data"]`, but not `[data]`. */
const isData = (tokens, end) => {
  const { text, partner } = tokens[end - 1];
  if (text !== ']') return text === 'data';
  return partner === end - 3 && tokens[end - 2].kind !== 'word' && tokens[end - 2].text.slice(1, -1) === 'data';
};
const NO_ITEM_MODES = new Set(['flow', 'function_item']); // flow has no files, and an item of function_item is its fields

const isWrite = (tokens, index) => /^(?:=(?!=)|\?\?=|\|\|=)/.test(tokens.slice(index, index + 3).map((token) => token.text).join(''));

/** Reads of the content of a file, which fail when they run; a script may give a file content. */
const fileContents = (code, tokens, roots) => {
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
    return [missing('error', 'It reads the content of a file, which is not there in scripts and expressions.', 'Use an Extract from File step before it.', columnOf(code, token))];
  });
};
