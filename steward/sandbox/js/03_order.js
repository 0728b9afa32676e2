// Collation: compares texts by base letters, then by diacritics, then by case (lower case first).

// Letters that sort like others. ᴀ, ᴁ and ᴂ are placeholders that sort after z; ᴢ sorts after every letter.
const SORTED_AS = { ß: 'ss', ẞ: 'ss', æ: 'ae', œ: 'oe', ø: 'o', ð: 'd', đ: 'd', ħ: 'h', ł: 'l', ŀ: 'l', ĳ: 'ij', ſ: 's', ı: 'iᴢ' };
const SORTED_IN = { sv: { å: 'ᴀ', ä: 'ᴁ', æ: 'ᴁ', ę: 'ᴁ', ö: 'ᴂ', ø: 'ᴂ', ő: 'ᴂ', œ: 'ᴂ', ô: 'ᴂ', ü: 'y', ű: 'y' }, es: { ñ: 'nᴢ' } };

const BEYOND_ASCII = /[^\0-\x7f]/;
const MAX_CACHED_TEXTS = 10_000;
const MAX_CACHED_LENGTH = 200;
let cachedTexts = Object.create(null); // cache, because a sort compares each text many times
let cachedCount = 0;

/** Returns the lower-case base letters of a text by which `language` sorts it first. */
const bare = (text, language) => {
  if (!BEYOND_ASCII.test(text)) return text.toLowerCase();
  if (text.length > MAX_CACHED_LENGTH) return sortedAs(text, language);
  const key = `${language} ${text}`;
  if (cachedTexts[key] !== undefined) return cachedTexts[key];
  if (cachedCount >= MAX_CACHED_TEXTS) [cachedTexts, cachedCount] = [Object.create(null), 0];
  cachedCount += 1;
  return (cachedTexts[key] = sortedAs(text, language));
};

const sortedAs = (text, language) => {
  const replacements = SORTED_IN[language];
  const lower = text.normalize('NFC').toLowerCase();
  const replaced = replacements ? lower.replace(/[^\0-\x7f]/gu, (letter) => replacements[letter] ?? letter) : lower;
  return replaced.normalize('NFD').replace(/\p{M}/gu, '').replace(/[\p{No}\ufb00-\ufb06]/gu, (sign) => sign.normalize('NFKD')).replace(/[ßẞæœøðđħłŀĳſı]/gu, (letter) => SORTED_AS[letter]);
};
const MARKS_ORDER = '\t\n\v\f\r _-–—,;:!¡?¿.…·\'‘’‹›"“”„«»()[]{}§¶@*/\\&#%‰†‡•′″`´^¯¨¸°©®+±÷×<=>¬|¦~¤¢$£¥€™';

const ranks = Object.create(null);

/** Returns the sort rank of a character: white space and punctuation, other symbols, digits, letters. */
const rankOf = (sign) => (ranks[sign] ??= rankAmongAll(sign));

const rankAmongAll = (sign) => {
  const index = MARKS_ORDER.indexOf(sign[0]);
  if (index >= 0) return index;
  return /\s/.test(sign) ? 5 : /[^\p{L}\p{N}]/u.test(sign) ? 100 : /\p{N}/u.test(sign) ? 101 : 102;
};

const byRank = (x, y) => (rankOf(x) !== rankOf(y) ? Math.sign(rankOf(x) - rankOf(y)) : x < y ? -1 : 1);

/** Compares two texts by the first character that differs. */
const bySigns = (first, other) => {
  const shorter = Math.min(first.length, other.length);
  let index = 0;
  while (index < shorter && first[index] === other[index]) index += 1;
  if (index === shorter) return Math.sign(first.length - other.length);
  if (index > 0 && /[\ud800-\udbff]/.test(first[index - 1])) index -= 1; // start of the surrogate pair
  return byRank(String.fromCodePoint(first.codePointAt(index)), String.fromCodePoint(other.codePointAt(index)));
};

/** Compares two texts, treating runs of digits as numbers (the option `numeric`). */
const byNumbers = (first, other) => {
  const [signs, otherSigns] = [first, other].map((text) => text.match(/\d+|[^]/gu) ?? []);
  for (let index = 0; index < Math.min(signs.length, otherSigns.length); index += 1) {
    const [x, y] = [signs[index], otherSigns[index]];
    if (x === y) continue;
    if (!/^\d/.test(x) || !/^\d/.test(y)) return byRank(x, y);
    if (Number(x) !== Number(y)) return Math.sign(Number(x) - Number(y));
  }
  return Math.sign(signs.length - otherSigns.length);
};

// Code points of diacritics in sort order; those joined by = are equal.
const MARKS_OF_LETTERS = '332 313=343 314 301=341 300=340 306 302 30c 30a 342 308 344 30b 303 307 338 327 328 304 30d=30e=312=315=31a=33d=33e=33f=346=34a=34b=34c=350=351=352=357=35b=35d=35e 316=317=318=319=31c=31d=31e=31f=320=329=32a=32b=32c=32f=333=33a=33b=33c=347=348=349=34d=34e=353=354=355=356=359=35a=35c=35f=362 336=337 335 305 309 30f 310 311 31b 321 322 323 324 325 326 32d 32e 330 331 334 339 345 358 360 361';
const MARK_RANKS = Object.create(null);
MARKS_OF_LETTERS.split(' ').forEach((group, index) => group.split('=').forEach((code) => (MARK_RANKS[String.fromCodePoint(parseInt(code, 16))] = index + 1)));
const STRUCK = { ø: 'o\u0338', đ: 'd\u0335', ħ: 'h\u0335', ł: 'l\u0335' };

const RANKED_IN = { sv: ['äæę', 'öøőœô', 'yüű'] }; // letters that differ only like diacritics, in order
const BEHIND_MARKS = 0x110000;

const ranksOf = (sign) => {
  if (MARK_RANKS[sign]) return [MARK_RANKS[sign]];
  if (/\p{M}/u.test(sign)) return [sign.codePointAt(0)];
  return SORTED_AS[sign] || /[\p{No}\ufb00-\ufb06]/u.test(sign) ? [0, BEHIND_MARKS + sign.codePointAt(0)] : [0];
};

/** Returns the ranks of a text's diacritics, with 0 for each letter; letters that sort like others rank last. */
const markRanks = (text, language) =>
  Array.from(text.normalize('NFC').toLowerCase()).flatMap((letter) => {
    const index = RANKED_IN[language]?.find((letters) => letters.includes(letter))?.indexOf(letter);
    if (index !== undefined) return index ? [0, BEHIND_MARKS + index] : [0];
    return Array.from(STRUCK[letter] ?? letter.normalize('NFD')).flatMap(ranksOf);
  });

/** Compares two texts with the same base letters by the first diacritic that differs. */
const byMarks = (first, other, language) => {
  const [ranks, otherRanks] = [markRanks(first, language), markRanks(other, language)];
  const index = ranks.findIndex((rank, position) => rank !== otherRanks[position]);
  if (index < 0) return Math.sign(ranks.length - otherRanks.length);
  return Math.sign(ranks[index] - (otherRanks[index] ?? -1));
};

/** Returns a text with 1 for each upper-case character and 0 for every other. */
const casesOf = (text) => text.normalize('NFD').replace(/\p{M}/gu, '').replace(/[^]/gu, (sign) => (sign === sign.toLowerCase() ? '0' : '1'));

/** Compares two texts in dictionary order: base letters, then diacritics, then case. */
const collate = (a, b, language, { numeric = false, sensitivity = 'variant', caseFirst } = {}) => {
  const [first, other] = [bare(a, language), bare(b, language)];
  const order = numeric ? byNumbers(first, other) : bySigns(first, other);
  if (order !== 0) return order;
  if (a === b || sensitivity === 'base') return 0;
  if (numeric) [a, b] = [a, b].map((text) => text.replace(/(?<!\d)0+(?=\d)/g, ''));
  const orderOfMarks = sensitivity === 'case' ? 0 : byMarks(a, b, language);
  if (orderOfMarks !== 0 || sensitivity === 'accent') return orderOfMarks;
  const [x, y] = [a, b].map(casesOf);
  return x === y ? 0 : x < y !== (caseFirst === 'upper') ? -1 : 1;
};

const languageOf = (locale) => (locale === undefined ? 'en' : String(isList(locale) ? locale[0] : locale).slice(0, 2).toLowerCase());

class Collating {
  constructor(locale, options = {}) {
    if (options.ignorePunctuation) fault('Texts cannot be compared without their punctuation here. Remove it first.');
    const language = languageOf(locale);
    this.compare = (a, b) => collate(String(a), String(b), language, options);
  }
}
const Collator = callable(Collating, 'Collator');
