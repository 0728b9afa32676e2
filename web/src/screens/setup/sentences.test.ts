import { describe, expect, it } from "vitest";
import { sentenceOf } from "./sentences";

const words = (template: string, inputs: unknown) => sentenceOf(template, inputs)?.map(({ text }) => text).join("");

describe("the sentence of a template", () => {
  it("says what is chosen, and leaves open what is not", () => {
    expect(words("tag-products-by-rule", { when: "on_sale", tag: "sale" })).toBe("When a product is on sale, add the tag sale.");
    expect(words("tag-products-by-rule", {})).toBe("When a product …, add the tag ….");
    expect(words("tag-products-by-rule", { when: "new", days: 1, tag: "new", remove_when_not: true })).toBe(
      "When a product was created in the last 1 day, add the tag new, else take it off.",
    );
    expect(words("tag-orders-by-rule", { tag: "big", min_total: "100.00", countries: ["DE", "FR"] })).toBe(
      "When an order comes to at least 100.00 and goes to DE or FR, add the tag big.",
    );
    expect(words("sale-start", { products: { tags_any: ["tea"] }, percent: 10, sale_tag: "sale" })).toBe(
      "Reduce products tagged tea by 10 %, and add the tag sale.",
    );
  });

  it("is none for a template it does not know", () => {
    expect(sentenceOf("another", {})).toBeNull();
  });
});
