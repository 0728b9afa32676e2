/** The texts of forms that are made from schemas: labels, hints, choices, and patterns. */

/** Fields with the same meaning everywhere, by the name of their definition. */
export const NAMED: Readonly<Record<string, { label: string; hint?: string }>> = {
  limit: { label: "Most changes in one run", hint: "A run that finds more stops before anybody is asked, and changes nothing." },
  sheet: { label: "Spreadsheet" },
  sheet_place: { label: "Which spreadsheet and tab" },
  teams: { label: "Channel" },
  file: { label: "File" },
  products: { label: "Products" },
  integration_id: { label: "Store" },
  match: { label: "Match products by" },
};

const OPTIONS: Readonly<Record<string, string>> = {
  sku: "SKU",
  hs_code: "HS code",
  seo_title: "SEO title",
  seo_description: "SEO description",
  image_alt: "Text of the image",
  country_of_origin: "Country of origin",
  auto: "As it looks",
  point: "1234.50 (point)",
  comma: "1234,50 (comma)",
  eq: "is",
  ne: "is not",
  lt: "is less than",
  gt: "is more than",
  contains: "contains",
  empty: "is empty",
  changed: "has changed",
  ".99": "Ends in .99",
  ".95": "Ends in .95",
  ".00": "Ends in .00",
  "\t": "Tab",
  ",": "Comma",
  ";": "Semicolon",
  "|": "Upright bar",
  "utf-8": "UTF-8",
  "windows-1252": "Windows-1252",
  email: "E-mail",
  only_lower: "Only lower it, never raise it",
  set: "Set it to the source's number",
  keep: "Leave it as it is",
  set_zero: "Set it to 0",
  medium_and_high: "Medium and high",
  cost: "Its cost",
};

/** Values with a different meaning in one field. */
const OF_FIELD: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  when: {
    on_sale: "Is on sale", new: "Is new", vendor: "Is of a vendor", type: "Is of a type", price_range: "Costs so much",
    missing_cost: "Has no cost price",
  },
};

const SHORT: Readonly<Record<string, string>> = { when: "rule", op: "condition", sku: "SKU", skus: "SKUs", id: "id", seo: "SEO", url: "address" };

/** Texts for names that merchants would not understand. */
const LABELS: Readonly<Record<string, string>> = {
  compare_at_column: "Compare-at price column",
  except_tags: "Tags to leave out",
  floor: "Lowest price",
  marker: "Marker tag",
  markup: "Markup (%)",
  max_age_hours: "Oldest file (hours)",
  max_change_percent: "Largest price change (%)",
  max_missing_percent: "Most missing variants (%)",
  max_price: "Price up to",
  max_times: "Most markdowns of a variant",
  min_price: "Price from",
  min_spend: "Minimum spend",
  min_stock: "Minimum stock",
  min_total: "Minimum total",
  missing: "Variants missing from the file",
  no_sale_days: "Days without a sale",
  older_than_days: "Older than (days)",
  older_than_hours: "Older than (hours)",
  percent: "Percent off",
  round_to: "Price ending",
  tolerance: "Tolerance (%)",
  top: "Number of top products",
  window_days: "Days that count",
};

/** Returns the entry of a table under a name; ignores inherited properties such as "constructor". */
function entryOf<T>(table: Readonly<Record<string, T>> | undefined, name: string): T | undefined {
  return table && Object.hasOwn(table, name) ? table[name] : undefined;
}

/** Turns a name into a label: "Price column" for "price_column", "Sale automation" for "sale_automation_id". */
export function labelWords(name: string): string {
  return entryOf(LABELS, name) ?? nameWords(name);
}

/** Splits a name into words, the first with a capital letter. */
function nameWords(name: string): string {
  const words = name.replace(/_id$/, "").split("_").map((word) => entryOf(SHORT, word) ?? word).join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Returns the label of a choice's value. */
export function optionWords(value: unknown, field = ""): string {
  const name = String(value);
  return entryOf(entryOf(OF_FIELD, field), name) ?? entryOf(OPTIONS, name) ?? nameWords(name);
}

/** Turns a description into a hint: "absent" and "null" become "empty". */
export function hintWords(description: string | undefined, label = ""): string {
  const words = (description ?? "")
    // "vendor: one of these" refers to a field that is shown only for that choice.
    .replace(/^[a-z_]+: (.)/, (_, letter: string) => letter.toUpperCase())
    .replaceAll("`", "")
    .replaceAll(/; all needs \{"all": true\}/g, "")
    .replaceAll(/; (?:null|absent): (.)/g, (_, letter: string) => `. Left empty: ${letter}`)
    .replaceAll(/\b[a-z]+_[a-z_]+\b/g, (name) => optionWords(name).toLowerCase());
  // "Which products" only repeats its label.
  const saysLabel = ["the", "which"].some((article) => words.toLowerCase() === `${article} ${label.toLowerCase()}`);
  return saysLabel ? "" : words;
}

const PATTERNS: Readonly<Record<string, string>> = {
  "^[A-Z]{2}$": "Give two capital letters, such as DE.",
  "^[A-Z]{3}$": "Give three capital letters, such as EUR.",
  "^[0-9]{1,9}(\\.[0-9]{1,4})?$": "Give an amount such as 12.50.",
  "^[^,\\s]([^,]*[^,\\s])?$": "A tag has no comma, and no space at its start or end.",
  "^\\s*[A-Za-z0-9][A-Za-z0-9-]{0,240}\\.[Mm][Yy][Ss][Hh][Oo][Pp][Ii][Ff][Yy]\\.[Cc][Oo][Mm]\\s*$":
    "Give the domain that ends in .myshopify.com, without https.",
  "^(?!0+(\\.0+)?$)[0-9]{1,6}(\\.[0-9]{1,8})?$": "Give a rate such as 1.08.",
};

/** Returns what a pattern requires, as text. */
export function patternWords(pattern: string): string {
  return entryOf(PATTERNS, pattern) ?? "This does not have the required format.";
}
