// Which texts read the content of a file, told without running them: what a name holds is followed to where it comes from.

/** The index behind the member access that begins here, such as `.a`, `?.a` or `["a"]`; -1 where none begins. */
const behindMember = (tokens, index) => {
  const dotted = tokens[index]?.text === '.' || tokens[index]?.text === '?.';
  if (dotted && tokens[index + 1]?.kind === 'word') return index + 2;
  const opening = dotted ? index + 1 : index;
  return tokens[opening]?.text === '[' ? behindBracket(tokens, opening) : -1;
};

const MAX_TOKENS = 1000; // of what stands in brackets
/** The index behind the bracket that closes the one here; -1 where it is not near. */
const behindBracket = (tokens, opening) => {
  let depth = 0;
  for (let end = opening; end < tokens.length && end < opening + MAX_TOKENS; end += 1) {
    if (tokens[end].kind !== 'sign') continue;
    depth += (OPENS[tokens[end].text] ?? 0) - (CLOSES[tokens[end].text] ?? 0);
    if (depth === 0) return end + 1;
  }
  return -1;
};

const MAX_LINKS = 30; // names, dots and brackets of a chain that are looked at
/** The member chain that ends before this index: where it begins, and its names from the last on, such as `json` and
 * `items` of `items[0].json`. */
const chainBefore = (tokens, end) => {
  const names = [];
  let index = end - 1;
  for (let links = 0; index > 0 && links < MAX_LINKS; links += 1) {
    const { kind, text } = tokens[index];
    if (text === '.' || text === '?.') index -= 1;
    else if (kind === 'sign' && Object.hasOwn(OPENER, text)) {
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

/** What each name of a text is given: the chains of `x = …`, of `for (const x of …)` and, for a parameter, the one whose
 * method takes the function. A chain that is not known is null. */
const givenNames = (tokens) => {
  const given = new Map();
  const give = (name, chain) => (given.has(name) ? given.get(name).push(chain) : given.set(name, [chain]));
  const parameters = (opening, end, caller) => {
    const before = tokens[caller]?.text === 'async' ? caller - 1 : caller;
    const isCallback = tokens[before]?.text === '(' && isMember(tokens, before - 1);
    const chain = isCallback ? chainBefore(tokens, before - 2) : null;
    for (let index = opening; index < end; index += 1) if (tokens[index].kind === 'word') give(tokens[index].text, chain);
  };
  tokens.forEach((token, index) => {
    const isName = tokens[index - 1]?.kind === 'word' && !isMember(tokens, index - 1);
    if (token.text === '=>') {
      const opening = tokens[index - 1]?.text === ')' ? opened(tokens, index - 1) : index - 1;
      if (opening >= 0) parameters(opening, index, opening - 1);
    } else if (token.text === 'function') {
      const opening = tokens[index + 1]?.text === '(' ? index + 1 : index + 2;
      const end = tokens[opening]?.text === '(' ? behindBracket(tokens, opening) : -1;
      if (end > 0) parameters(opening, end, index - 1);
    } else if (isName && ((token.text === '=' && tokens[index + 1]?.text !== '=') || (token.text === 'of' && token.kind === 'word'))) {
      const begin = tokens[index + 1]?.text === 'await' ? index + 2 : index + 1;
      give(tokens[index - 1].text, tokens[begin]?.kind === 'word' ? chainBefore(tokens, behindChain(tokens, begin)) : null);
    }
  });
  return given;
};

const EXPRESSION_ITEMS = new Set(['$input', '$thisItem', '$items', '$', '$node', '$item']);
const SCRIPT_ITEMS = new Set([...EXPRESSION_ITEMS, 'items', 'item']);
// Behind them stand fields of an item, or values that a script made.
const NO_ITEM = new Set(['json', 'data', 'binary', 'map', 'flatMap', 'reduce', 'params', 'context']);

const MAX_NAMES = 50; // that are followed from one to the next
/** Returns whether a chain leads to an item or to a list of items; `roots`: names that hold such unless the text gives
 * them something else. */
const leadsToItems = (tokens, roots) => {
  const given = givenNames(tokens);
  const held = new Map();
  const holds = (name, depth) => {
    if (!held.has(name)) {
      held.set(name, true); // where it is given to itself
      held.set(name, given.has(name) ? given.get(name).every((chain) => leads(chain, depth + 1)) : roots.has(name));
    }
    return held.get(name);
  };
  const leads = (chain, depth = 0) => {
    if (chain === null || depth > MAX_NAMES) return false;
    const root = tokens[chain.begin];
    const isNamed = root?.kind === 'word' && root.text === chain.names.at(-1);
    return isNamed && !chain.names.slice(0, -1).some((name) => NO_ITEM.has(name)) && holds(root.text, depth);
  };
  return leads;
};

const OF_FILE = new Set(['data', '"data"', "'data'"]);
const NO_ITEM_MODES = new Set(['flow', 'function_item']); // flow has no files, and an item of function_item is its fields

const isWrite = (tokens, index) => /^(?:=(?!=)|\?\?=|\|\|=)/.test(tokens.slice(index, index + 3).map((token) => token.text).join(''));

/** Reads of the content of a file, which fail when they run; a script may give a file content. */
const fileContents = (code, tokens, roots) => {
  let leads = null;
  return tokens.flatMap((token, index) => {
    const isOfItem = token.text === 'binary' && isMember(tokens, index);
    if (token.kind !== 'word' || !(isOfItem || (token.text === '$binary' && !isMember(tokens, index)))) return [];
    const file = behindMember(tokens, index + 1);
    const end = file < 0 ? -1 : behindMember(tokens, file);
    if (end < 0 || !OF_FILE.has(tokens[end - 1].text === ']' ? tokens[end - 2].text : tokens[end - 1].text)) return [];
    const chain = isOfItem ? chainBefore(tokens, index - 1) : { begin: index, names: [] };
    if (isWrite(tokens, end) || tokens[chain.begin - 1]?.text === 'delete') return [];
    if (isOfItem && !(leads ??= leadsToItems(tokens, roots))(chain)) return [];
    return [missing('error', 'It reads the content of a file, which is not there in scripts and expressions.', 'Use an Extract from File step before it.', columnOf(code, token))];
  });
};
