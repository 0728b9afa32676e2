import { expect, test } from "vitest";
import type { StartFieldRecord } from "../api/schema";
import { areTooLarge, fileFaults, filesOf, MAX_FILES_BYTES } from "./start_files";

const field: StartFieldRecord = { name: "list", path: ["list"], label: "List", type: "files", required: true, options: [] };

test("files of one field are numbered when there are several", async () => {
  const list = new File(["a,b\n"], "a.csv", { type: "text/csv" });
  expect(await filesOf({ list: [list] })).toEqual({ list: { data: "YSxiCg==", file_name: "a.csv", mime_type: "text/csv" } });
  const plain = new File([new Uint8Array([255, 0])], "b");
  expect(await filesOf({ list: [list, plain], none: [] })).toEqual({
    list_0: { data: "YSxiCg==", file_name: "a.csv", mime_type: "text/csv" },
    list_1: { data: "/wA=", file_name: "b" },
  });
});

test("a large file is encoded whole", async () => {
  const bytes = new Uint8Array(100_000).map((_, index) => index % 251);
  const files = await filesOf({ list: [new File([bytes], "a")] });
  expect(Uint8Array.from(atob(files.list?.data ?? ""), (sign) => sign.charCodeAt(0))).toEqual(bytes);
});

test("required files are asked for, and too large ones are not sent", () => {
  expect(Object.keys(fileFaults([field], {}))).toEqual(["list"]);
  expect(fileFaults([{ ...field, required: false }], {})).toEqual({});
  const half = new File([new Uint8Array(MAX_FILES_BYTES / 2)], "a");
  expect(areTooLarge({ list: [half], more: [half] })).toBe(false);
  expect(areTooLarge({ list: [half], more: [half, new File(["x"], "b")] })).toBe(true);
});
