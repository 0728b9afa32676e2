/** The icons of connections, step kinds and template subjects; see icons.ts. */

const BOX = "M2.5 5 8 2.5 13.5 5v6L8 13.5 2.5 11z";

export const KIND_PATHS = {
  // Connections.
  shopify: "M3.5 5.5h9l.8 8H2.7zM5.8 7.5V5a2.2 2.2 0 0 1 4.4 0v2.5",
  woocommerce: "M2 3h1.8l1.4 7h6.6L13.5 5H4.2M6 13h.01M11 13h.01",
  store: "M2.5 6.5 3.5 3h9l1 3.5M3.5 7v6h9V7M2.5 6.5a1.8 1.8 0 0 0 3.7 0 1.8 1.8 0 0 0 3.6 0 1.8 1.8 0 0 0 3.7 0M6.5 13V9.5h3V13",
  sheet: "M3 2.5h10v11H3zM3 6h10M3 9.7h10M7.2 6v7.5",
  teams: "M6 6.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4M2 13c0-5.5 8-5.5 8 0M10.5 6.3a1.6 1.6 0 1 0 0-3.2M11.5 8.8c1.6.4 2.5 1.8 2.5 4.2",
  cloud: "M4.5 12.5a2.8 2.8 0 0 1-.3-5.6 4 4 0 0 1 7.7 1 2.4 2.4 0 0 1-.2 4.6z",
  mail: "M2.5 3.5h11v9h-11zM2.5 4.5 8 9l5.5-4.5",
  slack: "M6 2.5v11M10 2.5v11M2.5 6h11M2.5 10h11",
  chat: "M2.5 3h11v7.5H7L4 13v-2.5H2.5z",
  phone: "M4.5 1.5h7v13h-7zM7.5 12h1",
  rows: "M2.5 3h11v10h-11zM2.5 6.3h11M6.5 6.3V13",
  page: "M4 1.8h5l3 3v9.4H4zM9 1.8v3h3M6 8h4M6 10.8h4",
  globe: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M2.2 8h11.6M8 2c-4 4-4 8 0 12 4-4 4-8 0-12",
  folder: "M2.5 4h4l1.5 1.8h5.5V13h-11z",
  link: "M6.5 9.5l3-3M5 7 3.2 8.8a2.5 2.5 0 0 0 3.6 3.6L8.5 11M11 9l1.8-1.8a2.5 2.5 0 0 0-3.6-3.6L7.5 5",
  // Between the stops of a path.
  right: "M6.5 4l4 4-4 4",
  // Step kinds.
  reads: "M1.5 8C4 3 12 3 14.5 8 12 13 4 13 1.5 8M8 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4",
  computes: "M2.5 4.5h6M12 4.5h1.5M2.5 11.5H4M7.5 11.5h6M10.2 6.2a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4M5.8 13.2a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4",
  changes: "M3 13v-2.6l7.5-7.6 2.7 2.7L5.6 13zM9 4.3 11.7 7",
  sends: "M14 2 1.8 7l4.7 2.3L8.9 14zM14 2 6.5 9.3",
  // Template subjects.
  stock: `${BOX}M2.5 5 8 7.5 13.5 5M8 7.5v6`,
  prices: "M8.3 2.5h5.2v5.2L7.7 13.5 2.5 8.3zM11 5h.01",
  orders: "M3.5 1.8h9v12.4l-1.5-1-1.5 1-1.5-1-1.5 1-1.5-1-1.5 1zM6 5.2h4M6 8.2h4",
  customers: "M8 8a2.7 2.7 0 1 0 0-5.4A2.7 2.7 0 0 0 8 8M2.8 13.5c.3-5 10.1-5 10.4 0",
  products: "M2.5 2.5H7V7H2.5zM9 2.5h4.5V7H9zM2.5 9H7v4.5H2.5zM9 9h4.5v4.5H9z",
  reports: "M2.5 2.5v11h11M5.5 11V8M8.5 11V4.5M11.5 11V6.5",
  workflow: "M2 6h4v4H2zM10 2h4v4h-4zM10 10h4v4h-4zM6 8h2V4h2M8 8v4h2",
} as const;

export type IconName = keyof typeof KIND_PATHS;

/** Returns the icon of a kind of connection. */
const KIND_ICONS: Readonly<Record<string, IconName>> = {
  shopify: "shopify",
  woocommerce: "woocommerce",
  store: "store",
  spreadsheet: "sheet",
  teams: "teams",
  cloud_s3: "cloud",
  slack: "slack",
  telegram: "sends",
  discord: "chat",
  mattermost: "chat",
  twilio: "phone",
  whatsapp: "phone",
  airtable: "rows",
  notion: "page",
  http_api: "globe",
  gmail: "mail",
  microsoft_outlook: "mail",
  smtp: "mail",
  google_drive: "folder",
};

/** Returns the icon of a kind of step. */
const STEP_ICONS: Readonly<Record<string, IconName>> = {
  read: "reads",
  decide: "computes",
  change: "changes",
  send: "sends",
};

const CATEGORY_ICONS: Readonly<Record<string, IconName>> = {
  stock: "stock",
  prices: "prices",
  orders: "orders",
  customers: "customers",
  products: "products",
  reports: "reports",
};

export const kindIcon = (kind: string): IconName => KIND_ICONS[kind] ?? "link";
export const stepIcon = (kind: string): IconName => STEP_ICONS[kind] ?? "computes";
export const categoryIcon = (category: string): IconName => CATEGORY_ICONS[category] ?? "workflow";
