// Extensions of strings; they take precedence over JavaScript's own methods of the same name.

const MAIL = /[a-z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+/i;
const HOST = '(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]';
const LINK = new RegExp(`(?:https?|ftp)://(?:${HOST}|localhost|\\d{1,3}(?:\\.\\d{1,3}){3})(?::\\d{1,5})?(?:[/?#][^\\s"'<>]*)?`, 'i');
const whole = (pattern) => new RegExp(`^(?:${pattern.source ?? pattern})$`, 'i');
const WHOLE_MAIL = whole(MAIL);
const WHOLE_HOST = whole(HOST);
const WHOLE_LINK = whole(LINK);

/** Converts to snake case: each space or dash becomes an underscore, symbols are dropped. */
const snaked = (text) => text.toLowerCase().replace(/[^\p{L}\p{M}\p{N}_\s-]/gu, '').trim().replace(/[\s-]/gu, '_');

const numberFrom = (text, what, make) => {
  const number = make(text.trim());
  if (Number.isNaN(number)) fault(`“${text.slice(0, 60)}” is not a ${what}. Use a text that is a number.`);
  return number;
};

const plainNumber = (text) => (text === '' ? NaN : Number(text));

const LETTERS = { ß: 'ss', æ: 'ae', Æ: 'AE', ø: 'o', Ø: 'O', đ: 'd', Đ: 'D', ł: 'l', Ł: 'L', œ: 'oe', Œ: 'OE', þ: 'th', Þ: 'Th', ð: 'd', Ð: 'D', ı: 'i',
  '‘': "'", '’': "'", '“': '"', '”': '"', '–': '-', '…': '...', '\u00a0': ' ' };

/** Replaces accented letters by ASCII; fails for a character without a known replacement. */
const plainSigns = (text) =>
  text.normalize('NFD').replace(/\p{M}/gu, '').replace(/[^\0-\x7f]/gu, (sign) => LETTERS[sign] ?? fault(`replaceSpecialChars() cannot convert “${sign}” to plain letters. Replace it first.`));

const SMALL_WORD = /\b(?:an?|and|as|at|because|but|by|en|for|if|in|neither|nor|o[fnr]|only|over|per|so|some|than|that|the|to|up|upon|vs?\.?|versus|via|when|with|without|yet)\b/i;

/** Converts to title case; small words in the middle, and words with a capital or a dot inside, stay unchanged. */
const titled = (text) =>
  text.replace(/[^\s:–—-]+/g, (word, offset) => {
    const end = offset + word.length;
    const isInnerSmallWord = SMALL_WORD.test(word) && offset > 0 && end < text.length;
    const isBeforeColon = text[end] === ':' && /\S/.test(text[end + 1] ?? 'x');
    if (isInnerSmallWord || isBeforeColon || /.[A-Z]|.\../.test(word)) return word;
    return word.replace(/[A-Za-z\d\u00c0-\u00ff]/, (letter) => letter.toUpperCase());
  });

const textExtensions = {
  isEmpty: (text) => text === '',
  isNotEmpty: (text) => text !== '',
  isNumeric: (text) => text.trim() !== '' && !/\s/.test(text) && !Number.isNaN(Number(text)),
  isEmail: (text) => WHOLE_MAIL.test(text),
  isDomain: (text) => WHOLE_HOST.test(text),
  isUrl: (text) => WHOLE_LINK.test(text),
  extractEmail: (text) => MAIL.exec(text)?.[0],
  extractUrl: (text) => LINK.exec(text)?.[0],
  extractDomain: (text) => {
    const mail = MAIL.exec(text)?.[0];
    if (mail && !LINK.test(text)) return mail.slice(mail.indexOf('@') + 1);
    return new RegExp(HOST, 'i').exec(text)?.[0];
  },
  extractUrlPath: (text) => {
    const link = text.trim();
    return WHOLE_LINK.test(link) ? /^[a-z]+:\/\/[^/?#]*([^?#]*)/i.exec(link)[1] || '/' : undefined;
  },
  hash: (text, name = 'md5') => (String(name).toLowerCase() === 'base64' ? toBase64(utf8(text)) : toHex(hashNamed(name)(utf8(text)))),
  base64Encode: (text) => toBase64(utf8(text)),
  base64Decode: (text) => fromUtf8(fromBase64(text)),
  urlEncode: (text, all = false) => (all ? encodeURI(text) : encodeURIComponent(text)),
  urlDecode: (text, all = false) => (all ? decodeURI(text) : decodeURIComponent(text)),
  parseJson: (text) => {
    try {
      return JSON.parse(text);
    } catch {
      return fault('The text is not valid JSON. Check it, or use the field as text.');
    }
  },
  toJsonString: (text) => JSON.stringify(text),
  quote: (text, mark = '"') => `${mark}${text.replaceAll('\\', '\\\\').replaceAll(mark, `\\${mark}`)}${mark}`,
  removeTags: (text) => text.replace(/<[^<>]*>/g, ''),
  removeMarkdown: (text) => withoutMarkdown(text),
  replaceSpecialChars: (text) => plainSigns(text),
  toTitleCase: (text) => titled(text),
  toSentenceCase: (text) => text.toLowerCase().replace(/(^|[.!?]\s+)(\p{L})/gu, (all, before, letter) => before + letter.toUpperCase()),
  toSnakeCase: (text) => snaked(text),
  toInt: (text, base = 10) => numberFrom(text, 'whole number', (trimmed) => parseInt(trimmed, base)),
  toWholeNumber: (text, base = 10) => textExtensions.toInt(text, base),
  toFloat: (text) => numberFrom(text, 'number', parseFloat),
  toDecimalNumber: (text) => textExtensions.toFloat(text),
  toNumber: (text) => numberFrom(text, 'number', plainNumber),
  toBoolean: (text) => !['', '0', 'false', 'no'].includes(text.trim().toLowerCase()),
  toDateTime: (text, format) => dateOfText(text, format),
  toDate: (text) => {
    const date = new RealDate(momentOfText(text));
    if (Number.isNaN(date.getTime())) fault(`“${text.slice(0, 60)}” is not a date. Write it as 2025-01-31.`);
    return date;
  },
};

const withoutMarkdown = (text) =>
  text
    .replace(/<[^<>]*>/g, '')
    .replace(/^[ \t]*(?:[-*_][ \t]*){3,}$/gm, '')
    .replace(/^[ \t]{0,3}#{1,6}[ \t]+(.*?)[ \t]*#*$/gm, '$1')
    .replace(/^[ \t]*>[ \t]?/gm, '')
    .replace(/^[ \t]*(?:[-*+]|\d+\.)[ \t]+/gm, '')
    .replace(/```[^\n`]*\n?([^`]*)```/g, '$1')
    .replace(/`([^`\n]+)`/g, '$1')
    .replace(/!\[([^\]\n]*)\]\([^)\n]*\)/g, '$1')
    .replace(/\[([^\]\n]*)\]\([^)\n]*\)/g, '$1')
    .replace(/(\*\*|__)(?=\S)([^\n]*?\S)\1/g, '$2')
    .replace(/(\*|_)(?=\S)([^\n]*?\S)\1/g, '$2')
    .replace(/~~(?=\S)([^\n]*?\S)~~/g, '$1');
