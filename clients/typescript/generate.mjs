// Writes src/operations.ts: which calls may be sent again, from the OpenAPI document; and openapi.json, the document in
// which an idempotency key may be absent, since the client makes one.
import { readFileSync, writeFileSync } from "node:fs";

const document = JSON.parse(readFileSync(process.argv[2], "utf8"));
const rows = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, row]) => [`${method.toUpperCase()} ${path}`, row["x-idempotent"]]));
const table = Object.fromEntries(rows.filter(([name]) => !name.startsWith("GET ")));
writeFileSync(new URL("./src/operations.ts", import.meta.url), `/** Made from the OpenAPI document; reads may always be sent again. */
export const VERSION = ${JSON.stringify(document.info.version)};
export const IDEMPOTENT: Readonly<Record<string, string>> = ${JSON.stringify(table, null, 2)};
`);

for (const schema of Object.values(document.components.schemas)) {
  if (schema.required) schema.required = schema.required.filter((name) => name !== "idempotency_key" || "id" in schema.properties);
}
writeFileSync(new URL("./openapi.json", import.meta.url), JSON.stringify(document));
