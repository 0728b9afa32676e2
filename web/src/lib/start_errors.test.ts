import { expect, test } from "vitest";
import type { StartFieldRecord } from "../api/schema";
import { assignErrors } from "./start_errors";

function field(name: string, type: StartFieldRecord["type"]): StartFieldRecord {
  return { name, path: [name], label: name, type, required: true, options: [], default: "" };
}

const valueFields = [field("No. of items", "number"), field("constructor", "text")];
const fileFields = [field("list", "files"), field("list_0", "file"), field("photo", "file")];
const assign = (errors: Record<string, string[]>) => assignErrors(errors, valueFields, fileFields);

test("errors of shown fields are at them", () => {
  const assigned = assign({ "payload.No. of items": ["Give a number."], "files.list": ["Choose one."] });
  expect([...assigned.atValue]).toEqual([["No. of items", ["Give a number."]]]);
  expect([...assigned.atFile]).toEqual([["list", ["Choose one."]]]);
  expect(assigned.areAllAssigned).toBe(true);
  expect(assigned.atValue.get("constructor")).toBeUndefined();
});

test("what is wrong with a file is at the file's field, with its number among several", () => {
  const assigned = assign({
    "files.list.file_name": ["Too long."], "files.list.data": ["Too long."],
    "files.list_1.file_name": ["Too long."], "files.list_12": ["Unreadable."],
    "files.list_0.mime_type": ["Unknown."],
  });
  expect([...assigned.atFile]).toEqual([["list", ["Too long.", "File 2: Too long.", "File 13: Unreadable."]], ["list_0", ["Unknown."]]]);
  expect(assigned).toMatchObject({ ofFiles: [], areAllAssigned: true });
});

test("errors without a field are shown with the name of what is wrong", () => {
  const assigned = assign({
    payload: ["Too large."], "payload.mail": ["Give a value."], files: ["Too many."],
    "files.photo_1.data": ["Wrong."], "files.list_x": ["Wrong."], "files.listing": ["Give it."],
  });
  expect(assigned.ofPayload).toEqual(["Too large.", "mail: Give a value."]);
  expect(assigned.ofFiles).toEqual(["Too many.", "photo_1.data: Wrong.", "list_x: Wrong.", "listing: Give it."]);
  expect(assigned.areAllAssigned).toBe(true);
});

test("errors elsewhere, and a refusal without errors, are left to the page", () => {
  expect(assign({}).areAllAssigned).toBe(false);
  const assigned = assign({ "payloads.x": ["Unknown."], files: ["Too many."] });
  expect(assigned).toMatchObject({ ofFiles: ["Too many."], ofPayload: [], areAllAssigned: false });
});
