import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it, test } from "vitest";
import { type Field, formOf, sent, splitWords, startOf } from "./schema";
import type { Schema } from "./schema_shape";
import { boundsInWords, check } from "./schema_check";
import { rulesOf } from "./schema_rules";
import { hintWords, labelWords, optionWords, patternWords } from "./schema_words";

const ROOT: Schema = {
  type: "object",
  required: ["sheet", "tag"],
  $defs: {
    tag: { type: "string", minLength: 1, maxLength: 5, pattern: "^[^,\\s]+$" },
    sheet: { type: "object", required: ["integration_id"], properties: { integration_id: { type: "integer" } } },
  },
  properties: {
    sheet: { $ref: "#/$defs/sheet", description: "Where prices are" },
    tag: { $ref: "#/$defs/tag" },
    note: { type: "string", maxLength: 2000 },
    limit: { type: "integer", minimum: 1, maximum: 10, default: 5 },
    window_days: { anyOf: [{ type: "integer", minimum: 1 }, { type: "null" }], default: null },
    tags: { type: "array", items: { $ref: "#/$defs/tag" }, uniqueItems: true, maxItems: 2 },
    tiers: { type: "array", items: { type: "object", required: ["tag"], properties: { tag: { $ref: "#/$defs/tag" } } } },
    when: {
      oneOf: [
        { type: "object", required: ["kind", "day"], properties: { kind: { const: "day" }, day: { type: "integer" } } },
        { type: "object", required: ["kind"], properties: { kind: { const: "never" } } },
      ],
    },
    odd: { not: { type: "string" } } as Schema,
  },
};
const form = formOf(ROOT);
const fieldNamed = (name: string): Field => form.fields.find((field) => field.name === name)!;

describe("a form from a schema", () => {
  it("has the field each schema asks for", () => {
    const kinds = Object.fromEntries(form.fields.map((field) => [field.name, field.kind]));
    expect(kinds).toEqual({
      sheet: "connection", tag: "line", note: "line", limit: "whole", window_days: "whole", tags: "words", tiers: "list",
      when: "variants", odd: "json",
    });
    expect(fieldNamed("sheet")).toMatchObject({ named: "sheet", required: true, hint: "Where prices are" });
    expect(fieldNamed("window_days").nullable).toBe(true);
    expect(fieldNamed("when").variants.map(({ value }) => value)).toEqual(["day", "never"]);
  });

  it("starts with the defaults and sends nothing for what is left empty", () => {
    expect(startOf(form)).toEqual({ limit: 5, window_days: null });
    expect(sent(form, { tag: "a", note: "", limit: 5 })).toEqual({ tag: "a", limit: 5 });
  });

  it("finds what is wrong, at the path the service would name", () => {
    const faults = check(form, { tag: "a b", limit: 11, tags: ["a", "a", "b"], tiers: [{}], when: { kind: "day" } });
    expect(Object.keys(faults).sort()).toEqual(["limit", "sheet", "tag", "tags", "tiers.0.tag", "when.day"]);
    expect(faults.tags).toHaveLength(2);
    expect(check(form, { sheet: { integration_id: 1 }, tag: "abcde", limit: 10 })).toEqual({});
    expect(check(form, { sheet: { integration_id: 1 }, tag: "abcdef" })).toHaveProperty("tag");
  });

  it("splits pasted text at commas and lines", () => {
    expect(splitWords(" a, b\nc,,a ")).toEqual(["a", "b", "c"]);
  });
});

test("labels are merchants' words, not names of a schema (D17)", () => {
  const names = ["when", "skus", "max_change_percent", "older_than_days", "price_column"];
  expect(names.map(labelWords)).toEqual(["Rule", "SKUs", "Largest price change (%)", "Older than (days)", "Price column"]);
});

test("names that every object inherits are words like any other", () => {
  for (const words of [labelWords, optionWords]) {
    expect(["constructor", "to_string", "valueOf"].map((name) => words(name))).toEqual(["Constructor", "To string", "ValueOf"]);
  }
  expect(labelWords("valueOf_constructor")).toBe("ValueOf constructor");
  expect(optionWords("constructor", "when")).toBe("Constructor");
  expect(optionWords("new", "constructor")).toBe("New");
  expect(patternWords("constructor")).toBe("This does not have the required format.");
});

test("a value or a word of a hint that is named like a field does not get the field's label", () => {
  expect(["floor", "percent", "when"].map((value) => optionWords(value))).toEqual(["Floor", "Percent", "Rule"]);
  expect(hintWords("Rows with no_sale_days are left out")).toBe("Rows with no sale days are left out");
});

test("a hint that only repeats the label is left out, and bounds say what they leave out", () => {
  expect(hintWords('Which products; all needs {"all": true}', "Products")).toBe("");
  expect(hintWords("Which products; absent: all", "Products")).toBe("Which products. Left empty: all");
  expect(boundsInWords({ exclusiveMinimum: 0, maximum: 95 })).toBe("More than 0, at most 95");
  expect([boundsInWords({ minimum: 1, maximum: 5000 }), boundsInWords({ minimum: 1 }), boundsInWords({})]).toEqual(["1 to 5,000", "At least 1", ""]);
});

describe("fields that go together", () => {
  const rule = formOf({
    type: "object",
    required: ["when"],
    properties: {
      when: { enum: ["new", "vendor", "sale"] },
      days: { type: "integer" },
      vendors: { type: "array", items: { type: "string" }, minItems: 1 },
      sheet: { type: "string" },
      teams: { type: "string" },
    },
    allOf: [
      { if: { properties: { when: { const: "new" } } }, then: { required: ["days"] }, else: { not: { required: ["days"] } } },
      { if: { properties: { when: { const: "vendor" } } }, then: { required: ["vendors"] }, else: { not: { required: ["vendors"] } } },
    ],
    anyOf: [{ required: ["sheet"] }, { required: ["teams"] }],
  });

  it("are asked for, and excluded, by what was chosen", () => {
    expect([...rulesOf(rule.schema, {}).excluded].sort()).toEqual(["days", "vendors"]);
    expect([...rulesOf(rule.schema, { when: "new" }).excluded]).toEqual(["vendors"]);
    expect(check(rule, { when: "new", sheet: "a" })).toEqual({ days: ["This field is required."] });
    expect(check(rule, { when: "vendor", vendors: [], sheet: "a" })).toEqual({ vendors: ["This field is required."] });
    expect(check(rule, { when: "sale" })).toEqual({ "": ["Give at least one of these: Sheet, Teams."] });
  });

  it("are not sent when they do not go with the others", () => {
    expect(sent(rule, { when: "sale", days: 3, vendors: [], teams: "ops" })).toEqual({ when: "sale", teams: "ops" });
  });
});

function kindsIn(field: Field): string[] {
  return [field.kind, ...field.fields.flatMap(kindsIn), ...(field.item ? kindsIn(field.item) : [])];
}

function wordsIn(field: Field): string[] {
  return [field.label, field.hint, ...field.fields.flatMap(wordsIn)];
}

// Every template's schema, if the data are present: no field needs the JSON box without reason.
const SHARED = process.env.TEMPLATES;
describe.runIf(SHARED && existsSync(SHARED))("the schemas of all templates", () => {
  it("become forms whose own defaults are sound", () => {
    const { templates, $defs } = JSON.parse(readFileSync(SHARED!, "utf8")) as {
      templates: { template_id: string; inputs_schema: Schema }[];
      $defs?: Record<string, Schema>;
    };
    for (const { template_id, inputs_schema } of templates) {
      const form = formOf({ ...inputs_schema, $defs: { ...$defs, ...inputs_schema.$defs } });
      expect(form.fields.length, template_id).toBeGreaterThan(0);
      const faults = Object.values(check(form, startOf(form))).flat();
      // A new form may lack values that the person must enter, and has no other errors.
      const missing = /^(This field is required|Give at least one of these: )/;
      expect(faults.filter((words) => !missing.test(words)), template_id).toEqual([]);
      expect(kindsIn(form), template_id).not.toContain("json");
      expect(wordsIn(form).filter((words) => /\bnull\b|\babsent\b|[a-z]_[a-z]|`/.test(words)), template_id).toEqual([]);
    }
  });
});
