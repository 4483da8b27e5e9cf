// Items as pictures with words. Thumbnails are fetched with the token, so they are blobs, not addresses.

import { itemPath, request } from "./api.js";
import { bitsOf, strip } from "./bits.js";
import { count, h, labelText, svg } from "./dom.js";

const KEPT = 600; // thumbnails in memory
const thumbnails = new Map(); // id → promise of a blob address, or of null
let nBits = 0;
export const setBits = (n) => { nBits = n; };

function thumbnail(id) {
  const known = thumbnails.get(id);
  if (known) return known;
  const loading = request("GET", `${itemPath(id)}/thumbnail`)
    .then(async (answer) => URL.createObjectURL(await answer.blob()))
    .catch(() => null);
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
  const frame = h("div", { class: "picture" });
  thumbnail(item.id).then((address) => frame.replaceChildren(address ? image(address) : pattern(item.code)));
  return frame;
}

export function image(address) {
  const element = h("img", { src: address, alt: "", draggable: "false" });
  element.addEventListener("load", () => element.classList.toggle("tiny", element.naturalWidth < 48));
  element.addEventListener("error", () => element.replaceWith(h("span", { class: "no-picture" }, "?")));
  return element;
}

function pattern(code) {
  const side = Math.ceil(Math.sqrt(nBits));
  const d = bitsOf(code, nBits).map((bit, j) => (bit ? `M${j % side} ${Math.floor(j / side)}h.9v.9h-.9z` : "")).join("");
  return svg("svg", { viewBox: `0 0 ${side} ${side}`, class: "strip-pattern", "aria-hidden": "true" }, svg("path", { d, fill: "currentColor", opacity: 0.45 }));
}

const words = (label, end) => h("div", { class: "words" },
  h("span", { class: label === null ? "label none" : "label", title: labelText(label) }, labelText(label)), end);

/** A result of a search. */
export function hitCard(hit, queryCode, onOpen) {
  const far = hit.distance === 0 ? "same code" : count(hit.distance, "bit");
  const differing = hit.distance === 0 ? "all bits agree" : `${count(hit.distance, "bit")} of ${nBits} differ`;
  return h("li", { class: "item", "data-id": hit.id, "data-label": labelText(hit.label) },
    h("button", { type: "button", class: "open", title: hit.name, "aria-label": `Search from ${labelText(hit.label)}, ${hit.name}, score ${hit.score.toFixed(2)}, ${differing}`, onclick: () => onOpen(hit) }, picture(hit)),
    words(hit.label, h("span", { class: "distance", title: `score ${hit.score.toFixed(3)}, ${differing}` }, `${hit.score.toFixed(2)} · ${far}`)),
    strip(hit.code, queryCode, nBits, { words: `Bits beside those of the query: ${differing}` }));
}

/** An item of the collection. */
export function itemCard(item, onOpen, onRemove = null) {
  return h("li", { class: "item", "data-id": item.id, "data-label": labelText(item.label) },
    h("button", { type: "button", class: "open", title: item.name, "aria-label": `Search from ${labelText(item.label)}, ${item.name}`, onclick: () => onOpen(item) }, picture(item)),
    words(item.label),
    onRemove && h("button", { type: "button", class: "remove", title: "Remove", "aria-label": `Remove ${item.name}`, onclick: () => onRemove(item) }, "×"));
}
