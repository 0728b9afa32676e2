import { expect, test } from "vitest";
import type { StartFieldRecord } from "../api/schema";
import { placedErrors } from "./start_errors";

function field(name: string, type: StartFieldRecord["type"]): StartFieldRecord {
  return { name, path: [name], label: name, type, required: true, options: [], default: "" };
}

const valueFields = [field("No. of items", "number"), field("constructor", "text")];
const fileFields = [field("list", "files"), field("list_0", "file"), field("photo", "file")];
const place = (errors: Record<string, string[]>) => placedErrors(errors, valueFields, fileFields);

test("errors of shown fields are at them", () => {
  const placed = place({ "payload.No. of items": ["Give a number."], "files.list": ["Choose one."] });
  expect([...placed.atValue]).toEqual([["No. of items", ["Give a number."]]]);
  expect([...placed.atFile]).toEqual([["list", ["Choose one."]]]);
  expect(placed.areAllPlaced).toBe(true);
  expect(placed.atValue.get("constructor")).toBeUndefined();
});

test("what is wrong with a file is at the file's field, with its number among several", () => {
  const placed = place({
    "files.list.file_name": ["Too long."], "files.list.data": ["Too long."],
    "files.list_1.file_name": ["Too long."], "files.list_12": ["Unreadable."],
    "files.list_0.mime_type": ["Unknown."],
  });
  expect([...placed.atFile]).toEqual([["list", ["Too long.", "File 2: Too long.", "File 13: Unreadable."]], ["list_0", ["Unknown."]]]);
  expect(placed).toMatchObject({ ofFiles: [], areAllPlaced: true });
});

test("errors without a field are shown with the name of what is wrong", () => {
  const placed = place({
    payload: ["Too large."], "payload.mail": ["Give a value."], files: ["Too many."],
    "files.photo_1.data": ["Wrong."], "files.list_x": ["Wrong."], "files.listing": ["Give it."],
  });
  expect(placed.ofPayload).toEqual(["Too large.", "mail: Give a value."]);
  expect(placed.ofFiles).toEqual(["Too many.", "photo_1.data: Wrong.", "list_x: Wrong.", "listing: Give it."]);
  expect(placed.areAllPlaced).toBe(true);
});

test("errors elsewhere, and a refusal without errors, are left to the page", () => {
  expect(place({}).areAllPlaced).toBe(false);
  const placed = place({ "payloads.x": ["Unknown."], files: ["Too many."] });
  expect(placed).toMatchObject({ ofFiles: ["Too many."], ofPayload: [], areAllPlaced: false });
});
