import svelte from "eslint-plugin-svelte";
import globals from "globals";
import ts from "typescript-eslint";

/**
 * The parser of scripts without its type services. With them, the parser of components would parse each script twice;
 * no rule here uses types, and one that did would fail with an error.
 */
const scripts = {
  meta: ts.parser.meta,
  parseForESLint(code, options) {
    const { ast, scopeManager, visitorKeys } = ts.parser.parseForESLint(code, options);
    return { ast, scopeManager, visitorKeys };
  },
};

export default ts.config(
  { ignores: ["node_modules/", ".svelte-check/", "src/api/schema.d.ts"] },
  ...ts.configs.recommended,
  ...svelte.configs.recommended,
  { languageOptions: { globals: globals.browser } },
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: scripts } },
    rules: {
      // The page policy refuses inline styles in markup and strings that become markup or code.
      "svelte/no-at-html-tags": "error",
      "no-restricted-syntax": [
        "error",
        { selector: 'SvelteAttribute[key.name="style"]', message: "Use a class, or a style: directive, which the policy allows." },
      ],
      "svelte/button-has-type": "error",
      "svelte/no-target-blank": "error",
      // Values that are not shown need not be reactive.
      "svelte/prefer-svelte-reactivity": "off",
      // The router is our own: addresses are made by address().
      "svelte/no-navigation-without-resolve": "off",
    },
  },
  {
    rules: {
      "no-eval": "error",
      "no-new-func": "error",
      "no-console": "error",
      "no-restricted-globals": [
        "error",
        { name: "fetch", message: "Call through src/api/client.ts." },
        { name: "alert", message: "Use a Note or a Dialog." },
        { name: "confirm", message: "Use a Dialog." },
      ],
      "no-restricted-properties": [
        "error",
        { object: "Date", property: "now", message: "Use now() of src/lib/clock.svelte.ts." },
      ],
      "@typescript-eslint/no-non-null-assertion": "off",
    },
  },
  { files: ["src/api/client.ts"], rules: { "no-restricted-globals": "off" } },
  { files: ["src/lib/clock.svelte.ts"], rules: { "no-restricted-properties": "off" } },
  { files: ["vite.config.ts"], languageOptions: { globals: globals.node } },
);
