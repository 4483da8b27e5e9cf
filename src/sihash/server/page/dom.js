// Small helpers to build the page. Text only ever becomes text nodes: no string is parsed as HTML.

export const $ = (id) => document.getElementById(id);

/** An element: h("li", {class: "item", onclick: f}, child, "text"). */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** An SVG element, the same way. */
export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
export const percent = (share) => `${Math.round(100 * share)} %`;
/** A number with so many digits after the point, and a minus sign that looks like one. */
export const fixed = (value, digits) => value.toFixed(digits).replace("-", "−");
export const labelText = (label) => (label === null ? "no class" : String(label));

const LONGEST_NAME = 28; // letters that fit a chip
const LAST_LETTERS = 9; // of them from the end: some names differ only there, more near their beginning
const letters = new Intl.Segmenter();
let shared = { first: "", last: "" }; // whole words that all long names of the collection begin and end with

/** Learn what the long names of a collection have in common, which tells them apart no better than nothing. */
export function learnNames(names) {
  const long = names.filter((name) => name.length > LONGEST_NAME);
  shared = { first: "", last: "" };
  if (long.length < 2) return;
  let [from, to] = [0, 0];
  while (long.every((name) => from < name.length && name[from] === long[0][from])) from += 1;
  while (long.every((name) => to < name.length - from && name.at(-1 - to) === long[0].at(-1 - to))) to += 1;
  const end = long[0].slice(long[0].length - to);
  shared = { first: long[0].slice(0, long[0].lastIndexOf(" ", from - 1) + 1), last: end.includes(" ") ? end.slice(end.indexOf(" ")) : "" };
}

/** A long name without what all have in common, and without its middle: names often differ only at their ends. */
export const shortName = (name) => shortened(name, LONGEST_NAME);

/** As `shortName`, where there is room for so many letters. */
export function shortened(name, longest) {
  if (name.length <= longest) return name;
  const isOneOfThem = name.startsWith(shared.first) && name.endsWith(shared.last);
  const [first, last] = isOneOfThem ? [shared.first, shared.last] : ["", ""];
  const all = [...letters.segment(name.slice(first.length, name.length - last.length))].map(({ segment }) => segment);
  const short = all.length <= longest ? all : [...all.slice(0, longest - LAST_LETTERS - 1), "…", ...all.slice(-LAST_LETTERS)];
  return [first && "…", ...short, last && "…"].join("");
}

/** A text that may break behind what joins words in names and paths, before it breaks inside a word. */
export const breakable = (text) => String(text).split(/(?<=[_/\\-])(?=[^_/\\-])/).flatMap((part, k) => (k ? [h("wbr"), part] : [part]));

/** The labels of an item, in a line. */
export const labelsText = (labels) => labels.join(", ") || labelText(null);

/** What stands in a list that has nothing to show. */
export const empty = (title, words) => h("li", { class: "empty" }, h("strong", {}, title), words);

/** Say something to those who do not see the page. */
export function announce(sentence) {
  $("status").textContent = sentence;
}

/** Show or clear the sentence of an error in its place. */
export function showError(id, error) {
  $(id).textContent = error ? error.message : "";
  $(id).hidden = !error;
}

/** Ask before something is destroyed; resolves to whether to go on. */
export function confirmed(title, words, button) {
  const dialog = $("confirm-dialog");
  $("confirm-title").textContent = title;
  $("confirm-words").textContent = words;
  $("confirm-button").textContent = button;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

export function seconds(s) {
  if (s < 1) return "less than a second";
  if (s < 90) return count(Math.round(s), "second");
  return count(Math.round(s / 60), "minute");
}

/** The image files among what was dropped, pasted or chosen. */
export const imageFiles = (list) => [...(list ?? [])].filter((file) => file.type.startsWith("image/") || file.type === "");
