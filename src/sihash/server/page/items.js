// Items as pictures with words. Pictures are fetched with the token, so they are blobs, not addresses.

import { itemPath, request } from "./api.js";
import { bitsOf, strip } from "./bits.js";
import { breakable, count, fixed, h, labelsText, percent, svg } from "./dom.js";
import { hasSeveral, labelTags, setLabels } from "./labels.js";
import { isSelected, pickBox } from "./selection.js";

const MOST_TAGS = 4; // on a card
const KEPT = 600; // thumbnails in memory
const thumbnails = new Map(); // id → promise of a blob address, or of null
export let info = { n_bits: 0, holds_images: false, thumbnails: false, columns: {}, classes: [], title: null }; // of /v1/info

export function setCollection(value) {
  info = value;
  setLabels(info);
  document.body.classList.toggle("no-pictures", !info.thumbnails);
  document.body.classList.toggle("read-only", info.read_only);
}

/** What an item is called: the text of the title column, the name of its file, or its id. */
export const titleOf = (item) => String(item.columns?.[info.title] ?? (info.holds_images ? item.name : item.id));

/** A picture that the service has, as a blob address; null if it has none. */
export async function fetched(path, signal) {
  try {
    const answer = await request("GET", path, { signal });
    return answer.status === 204 ? null : URL.createObjectURL(await answer.blob());
  } catch {
    return null;
  }
}

function thumbnail(id) {
  if (!info.thumbnails) return Promise.resolve(null);
  const known = thumbnails.get(id);
  if (known) return known;
  const loading = fetched(`${itemPath(id)}/thumbnail`);
  thumbnails.set(id, loading);
  if (thumbnails.size > KEPT) {
    const [oldest, address] = thumbnails.entries().next().value;
    thumbnails.delete(oldest);
    address.then((value) => value && URL.revokeObjectURL(value));
  }
  return loading;
}

/** The picture of an item: its thumbnail, or its code drawn as a pattern where it has none. */
export function picture(item) {
  const frame = h("div", { class: info.thumbnails ? "picture loading" : "picture" });
  thumbnail(item.id).then((address) => {
    frame.classList.remove("loading");
    frame.replaceChildren(address ? image(address) : pattern(item.code));
  });
  return frame;
}

export function image(address) {
  const element = h("img", { src: address, alt: "", draggable: "false" });
  element.addEventListener("load", () => element.classList.toggle("tiny", element.naturalWidth < 48));
  element.addEventListener("error", () => element.replaceWith(h("span", { class: "no-picture" }, "?")));
  return element;
}

function pattern(code) {
  const side = Math.ceil(Math.sqrt(info.n_bits));
  const d = bitsOf(code, info.n_bits).map((bit, j) => (bit ? `M${j % side} ${Math.floor(j / side)}h.9v.9h-.9z` : "")).join("");
  return svg("svg", { viewBox: `0 0 ${side} ${side}`, class: "pattern", "aria-hidden": "true" }, svg("path", { d }));
}

const magnifier = () => svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" },
  svg("path", { d: "M9.5 2H14v4.5M14 2 9.2 6.8M6.5 14H2V9.5M2 14l4.8-4.8", fill: "none", stroke: "currentColor", "stroke-width": 1.6, "stroke-linecap": "round", "stroke-linejoin": "round" }));

/**
 * A card: a click on it opens (searches from it), its corner looks closer, another removes it if that is allowed.
 * `asked` are the labels of the query.
 */
function card(item, title, { open, look, remove, asked }, ...words) {
  const [name, own] = [labelsText(item.labels), titleOf(item)];
  return h("li", { class: isSelected(item.id) ? "item picked" : "item", "data-id": item.id, "data-label": name },
    h("button", { type: "button", class: "open", title: own, "aria-label": title, onclick: () => open(item) }, picture(item)),
    look && h("button", { type: "button", class: "corner closer", title: "Look closer", "aria-label": `Look closer at ${name}, ${own}`, onclick: () => look(item) }, magnifier()),
    remove && h("button", { type: "button", class: "corner remove", title: "Remove", "aria-label": `Remove ${own}`, onclick: () => remove(item) }, "×"),
    pickBox(item, `${name}, ${own}`),
    h("div", { class: "words" }, labelTags(item.labels, { asked, most: MOST_TAGS }), info.thumbnails && !info.title ? null : h("span", { class: "title quiet", dir: "auto", title: own }, breakable(own)), ...words));
}

/** An item of the collection. */
export const itemCard = (item, actions) => card(item, `Search from ${labelsText(item.labels)}, ${titleOf(item)}`, actions);

/** A result of a search. */
export function hitCard(hit, queryCode, actions) {
  const far = hit.distance === 0 ? "same code" : count(hit.distance, "bit");
  const differing = hit.distance === 0 ? "all bits agree" : `${count(hit.distance, "bit")} of ${info.n_bits} differ`;
  const title = `Search from ${labelsText(hit.labels)}, ${titleOf(hit)}, score ${fixed(hit.score, 2)}, ${differing}`;
  return card(hit, title, actions,
    h("span", { class: "distance", title: `score ${fixed(hit.score, 3)}, ${differing}` }, `${fixed(hit.score, 2)} · ${far}`),
    reasons(hit.why),
    strip(hit.code, queryCode, info.n_bits, { words: `Bits beside those of the query: ${differing}` }));
}

const REASONS = {
  same_class: [() => (hasSeveral() ? "label in common" : "same class"), percent, "Probability that the query and this item have a label in common"],
  margin: [() => "margin", (value) => fixed(value, 2), "How far the margins of the query agree with the bits of this item, from −1 to 1"],
  vector: [() => "vector", (value) => fixed(value, 2), "Cosine between the vectors, from −1 to 1"],
};

/** Why an item was found: a bar for each reason, as long as it is strong. */
export const reasons = (why) => h("dl", { class: "why" }, Object.entries(REASONS).map(([name, [words, text, title]]) => {
  const bar = h("div", { class: "reason", title }, h("dt", {}, words()), h("dd", {}, text(why[name])));
  bar.style.setProperty("--share", `${100 * Math.max(0, Math.min(1, why[name]))}%`);
  return bar;
}));

/** What stands in a grid until its items are there. */
export const placeholders = (n) => Array.from({ length: n }, () => h("li", { class: "item placeholder", "aria-hidden": "true" },
  h("div", { class: "picture" }), h("div", { class: "words" }, h("span", { class: "label" }, "\u00a0"))));
