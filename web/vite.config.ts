import { readFileSync, readdirSync } from "node:fs";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vitest/config";

/** Tells the service which addresses are pages: the one list there is, src/pages.json. */
function pages(): Plugin {
  return {
    name: "steward-pages",
    generateBundle() {
      const listed = JSON.parse(readFileSync("src/pages.json", "utf8")) as Record<string, string>;
      const source = JSON.stringify(Object.values(listed));
      this.emitFile({ type: "asset", fileName: "pages.json", source });
    },
  };
}

/** Writes the licences of the packages whose code is in the bundle, one file a package and version. */
function licenses(): Plugin {
  return {
    name: "steward-licenses",
    generateBundle(_, bundle) {
      const chunks = Object.values(bundle).filter((file) => file.type === "chunk");
      const modules = chunks.flatMap((chunk) => chunk.moduleIds);
      const folders = modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []);
      for (const folder of new Set(folders)) {
        const { name, version, license, homepage } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8")) as Record<string, string>;
        if (name === undefined || version === undefined || license === undefined) throw new Error(`${folder} names no licence.`);
        const text = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
        // A package without the text says in its description which licence it is under.
        const source = text ? readFileSync(`${folder}/${text}`, "utf8") : `${name} ${version}\nLicence: ${license}\nSource: ${homepage}\n`;
        this.emitFile({ type: "asset", fileName: `licenses/${name.replace("@", "").replace("/", "-")}-${version}.txt`, source });
      }
    },
  };
}

/** Sheets hold the first paint back; so does the first script, which sets light or dark. */
function blocking(): Plugin {
  return {
    name: "steward-blocking",
    transformIndexHtml: (html) => html.replaceAll('<script type="module" crossorigin', '<script type="module" blocking="render"'),
  };
}

/** The calendar library's own import of its sheet is dropped: the grid brings the sheet with its code. */
function calendarSheet(): Plugin {
  return {
    name: "steward-calendar-sheet",
    enforce: "pre",
    resolveId: (id, from) => (id.endsWith("/styles/index.css") && from?.includes("@event-calendar/core") ? "\0no-sheet" : null),
    load: (id) => (id === "\0no-sheet" ? "" : null),
  };
}

/** What the entry imports at once is one file: the first view asks for two, whatever screens share with it. */
const first = new Set<string>();
function firstView(): Plugin {
  return {
    name: "steward-first-view",
    buildEnd() {
      const wanted = [...this.getModuleIds()].filter((id) => this.getModuleInfo(id)?.isEntry);
      for (let id = wanted.pop(); id !== undefined; id = wanted.pop()) {
        if (first.has(id)) continue;
        first.add(id);
        wanted.push(...(this.getModuleInfo(id)?.importedIds ?? []));
      }
    },
  };
}

export default defineConfig({
  plugins: [calendarSheet(), svelte(), pages(), licenses(), blocking(), firstView()],
  resolve: process.env.VITEST ? { conditions: ["browser"] } : {},
  build: {
    outDir: "../steward/static",
    emptyOutDir: true,
    manifest: "manifest.json",
    target: "es2022",
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rolldownOptions: {
      output: { codeSplitting: { groups: [{ debugName: "first", name: (id: string) => (first.has(id) ? "first" : null), priority: 10 }] } },
    },
  },
  server: {
    // npm run dev beside `make demo`: the page from here, the calls to the service.
    proxy: { "/v1": "http://127.0.0.1:8400", "/app": "http://127.0.0.1:8400" },
  },
  // One process for all files, since a process each costs more than their tests: each puts back what it replaces.
  test: { environment: "node", include: ["src/**/*.test.ts"], isolate: false },
});
