import { expect, test } from "vitest";
import type { StartFieldRecord } from "../api/schema";
import { areTooLarge, FILE_UNREADABLE, fileFaults, MAX_FILES_BYTES, readFiles } from "./start_files";

const field: StartFieldRecord = { name: "list", path: ["list"], label: "List", type: "files", required: true, options: [], default: "" };

test("files of one field are numbered when there are several", async () => {
  const list = new File(["a,b\n"], "a.csv", { type: "text/csv" });
  expect(await readFiles({ list: [list] })).toEqual({ files: { list: { data: "YSxiCg==", file_name: "a.csv", mime_type: "text/csv" } } });
  const plain = new File([new Uint8Array([255, 0])], "b");
  expect(await readFiles({ list: [list, plain], none: [] })).toEqual({
    files: {
      list_0: { data: "YSxiCg==", file_name: "a.csv", mime_type: "text/csv" },
      list_1: { data: "/wA=", file_name: "b" },
    },
  });
});

test("a large file is encoded whole", async () => {
  const bytes = new Uint8Array(100_000).map((_, index) => index % 251);
  const read = await readFiles({ list: [new File([bytes], "a")] });
  const content = "files" in read ? read.files.list?.data : undefined;
  expect(Uint8Array.from(atob(content ?? ""), (character) => character.charCodeAt(0))).toEqual(bytes);
});

test("a file that is gone is a fault, another error is none of the file's", async () => {
  const failing = (error: Error) => Object.assign(new File(["x"], "a"), { arrayBuffer: () => Promise.reject(error) });
  const gone = failing(new DOMException("gone", "NotFoundError"));
  expect(await readFiles({ list: [new File(["x"], "b"), gone] })).toEqual({ fault: FILE_UNREADABLE });
  await expect(readFiles({ list: [failing(new RangeError("wrong"))] })).rejects.toThrow("wrong");
});

test("required files are asked for, and too large ones are not sent", () => {
  expect(Object.keys(fileFaults([field], {}))).toEqual(["list"]);
  expect(fileFaults([{ ...field, required: false }], {})).toEqual({});
  const half = new File([new Uint8Array(MAX_FILES_BYTES / 2)], "a");
  expect(areTooLarge({ list: [half], more: [half] })).toBe(false);
  expect(areTooLarge({ list: [half], more: [half, new File(["x"], "b")] })).toBe(true);
});
