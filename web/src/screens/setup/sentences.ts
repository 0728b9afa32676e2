/** What a template with these inputs does, as one sentence whose chosen parts stand out. */

import { list } from "../../lib/words";

export interface Part {
  text: string;
  /** Chosen by the person; "…" where nothing is chosen yet. */
  chosen: boolean;
}

type Inputs = Readonly<Record<string, unknown>>;
type Say = (inputs: Inputs) => Part[];
const OPEN = "…";

function say(texts: TemplateStringsArray, ...values: string[]): Part[] {
  const parts = texts.flatMap((text, index) => [
    { text, chosen: false },
    ...(index < values.length ? [{ text: values[index]!, chosen: true }] : []),
  ]);
  return parts.filter(({ text }) => text);
}

const text = (value: unknown) => (value === undefined || value === null || value === "" ? OPEN : String(value));
const texts = (value: unknown) => (Array.isArray(value) && value.length ? list(value.map(String)).replace(" and ", " or ") : OPEN);
const number = (value: unknown, one: string) => `${text(value)} ${value === 1 ? one : `${one}s`}`;

/** "all products", "products tagged sale". */
function products(value: unknown): string {
  const { all, tags_any, vendors, types } = (value ?? {}) as Record<string, unknown>;
  if (all === true) return "all products";
  const parts = [
    Array.isArray(tags_any) && tags_any.length ? `tagged ${texts(tags_any)}` : "",
    Array.isArray(vendors) && vendors.length ? `of ${texts(vendors)}` : "",
    Array.isArray(types) && types.length ? `of the type ${texts(types)}` : "",
  ].filter(Boolean);
  return parts.length ? `products ${parts.join(", ")}` : "every product";
}

function rule({ when, days, vendors, types, min_price, max_price }: Inputs): string {
  const range = [min_price ? `at least ${text(min_price)}` : "", max_price ? `at most ${text(max_price)}` : ""].filter(Boolean);
  const words: Record<string, string> = {
    on_sale: "is on sale",
    new: `was created in the last ${number(days, "day")}`,
    vendor: `is of the vendor ${texts(vendors)}`,
    type: `is of the type ${texts(types)}`,
    price_range: `costs ${range.length ? range.join(" and ") : OPEN}`,
    missing_cost: "has no cost price",
  };
  return words[String(when)] ?? OPEN;
}

function orderRule({ min_total, countries, discount_code, skus }: Inputs): string {
  const parts = [
    min_total ? `comes to at least ${text(min_total)}` : "",
    Array.isArray(countries) && countries.length ? `goes to ${texts(countries)}` : "",
    discount_code ? `used the code ${text(discount_code)}` : "",
    Array.isArray(skus) && skus.length ? `holds ${texts(skus)}` : "",
  ].filter(Boolean);
  return parts.length ? list(parts) : OPEN;
}

function goes({ sheet, teams }: Inputs): string {
  const places = [sheet ? "a spreadsheet" : "", teams ? "a channel" : ""].filter(Boolean);
  return places.length ? list(places) : OPEN;
}

const SAY: Readonly<Record<string, Say>> = {
  "archive-fulfilled-orders": (i) => say`When an order was finished more than ${number(i.older_than_days, "day")} ago, archive it.`,
  "cancel-unpaid-orders": (i) => say`When an order is unpaid for more than ${number(i.older_than_hours, "hour")}, cancel it${i.restock === false ? "" : " and put its items back in stock"}.`,
  "daily-sales-summary": (i) => say`Add up the sales of the day before with the ${number(i.top, "top product")}, and send them to ${i.teams ? "the channel" : OPEN}.`,
  "duplicate-sku-check": (i) => say`When two variants have the same ${texts(i.fields).replaceAll("sku", "SKU")}, list them in ${goes(i)}.`,
  "hide-out-of-stock-products": (i) => say`When the stock of ${products(i.products)} falls to ${text(i.threshold)} or less, hide it and add the tag ${text(i.marker)}.`,
  "high-risk-order-hold": (i) => say`When an order has a ${i.level === "medium_and_high" ? "medium or high" : "high"} risk, hold it and add the tag ${text(i.tag)}.`,
  "low-stock-alert": (i) => say`When the stock of ${products(i.products)} falls to ${text(i.threshold)} or less, tell ${i.teams ? "the channel" : OPEN}.`,
  "missing-product-data-audit": (i) => say`When a product lacks its ${texts(i.checks).replaceAll("_", " ")}, list it in ${goes(i)}.`,
  "order-export-to-spreadsheet": (i) => say`When an order is ${texts(i.statuses)}, write it to ${i.sheet ? "the spreadsheet" : OPEN}.`,
  "price-difference-report": (i) => say`When the stores' prices of a product differ by more than ${text(i.tolerance)} %, list it in ${goes(i)}.`,
  "price-update-from-spreadsheet": (i) => say`When the price in the column ${text(i.price_column)} of the spreadsheet is another than the store's, take the spreadsheet's, at most ${text(i.max_change_percent)} % away.`,
  "sale-end": (i) => say`Put back the prices from before the sale, and take off the tag ${text(i.sale_tag)}.`,
  "sale-start": (i) => say`Reduce ${i.products ? products(i.products) : OPEN} by ${text(i.percent)} %, and add the tag ${text(i.sale_tag)}.`,
  "sales-summary-across-stores": (i) => say`Add up the sales of the stores in ${text(i.currency)}, and send them to ${i.teams ? "the channel" : OPEN}.`,
  "show-back-in-stock-products": (i) => say`When a product tagged ${text(i.marker)} has a stock of ${text(i.threshold)} or more again, show it.`,
  "slow-stock-markdown": (i) => say`When ${products(i.products)} was not sold for ${number(i.no_sale_days, "day")}, reduce it by ${text(i.percent)} %.`,
  "spreadsheet-to-teams-digest": (i) => say`When rows of the spreadsheet fit, send their ${Array.isArray(i.columns) && i.columns.length ? `columns ${list(i.columns.map(String))}` : OPEN} to ${i.teams ? "the channel" : OPEN}.`,
  "stock-report-across-stores": (i) => say`List the stock of the stores${i.low_only ? ` where it is ${text(i.threshold)} or less` : ""} in ${goes(i)}.`,
  "supplier-feed-import": (i) => say`When the supplier's file names another ${[i.stock_column && "stock", i.price_column && "price"].filter(Boolean).join(" or ") || OPEN} than the store, take the file's.`,
  "sync-stock-between-stores": (i) => say`When the stock in ${i.source_integration_id ? "the other store" : OPEN} is another, set this store's to it${i.buffer ? `, less ${text(i.buffer)}` : ""}.`,
  "tag-customers-by-spend": (i) => say`When a customer spent ${tiers(i.tiers)}, add that tag.`,
  "tag-orders-by-rule": (i) => say`When an order ${orderRule(i)}, add the tag ${text(i.tag)}.`,
  "tag-products-by-rule": (i) =>
    i.remove_when_not
      ? say`When a product ${rule(i)}, add the tag ${text(i.tag)}, else take it off.`
      : say`When a product ${rule(i)}, add the tag ${text(i.tag)}.`,
  "unfulfilled-order-alert": (i) => say`When an order was paid more than ${number(i.older_than_days, "day")} ago and is not sent, tell ${i.teams ? "the channel" : OPEN}.`,
};

function tiers(value: unknown): string {
  const rows = Array.isArray(value) ? (value as { tag?: string; min_spend?: string }[]).filter((row) => row.tag && row.min_spend) : [];
  return rows.length ? list(rows.map(({ tag, min_spend }) => `${min_spend} (${tag})`)).replace(" and ", " or ") : OPEN;
}

/** The sentence of a template; null for one this app has no sentence for. */
export function sentenceOf(template: string, inputs: unknown): Part[] | null {
  const values = typeof inputs === "object" && inputs !== null ? (inputs as Inputs) : {};
  return SAY[template]?.(values) ?? null;
}
