// The answers to one query before and after the last update, side by side: what it changed.

import { $, count, h } from "./dom.js";
import { itemCard } from "./items.js";
import { look } from "./viewer.js";

export function hideBeside() {
  $("beside-results").hidden = true;
  $("results").hidden = false;
}

/** `asked` are the labels of the query, if it has any; `askBefore` gets the answer of before; `open` takes an item. */
export async function showBeside(after, asked, askBefore, open) {
  $("beside-results").hidden = false;
  $("results").hidden = true;
  $("beside-results").replaceChildren(h("p", { class: "quiet" }, "Searching as before the update…"));
  try {
    const before = await askBefore();
    $("beside-results").replaceChildren(column("Before", before, after, asked, open), column("Now", after, before, asked, open));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const words = error.status === 404 ? "This item came after the last update." : error.message;
    $("beside-results").replaceChildren(h("p", { class: "error", role: "alert" }, words));
    $("results").hidden = false;
  }
}

function column(title, { version, hits }, other, asked, open) {
  const isNow = title === "Now";
  const places = new Map(other.hits.map((hit, k) => [String(hit.id), k]));
  const common = new Set(asked.map(String));
  const n = hits.filter((hit) => hit.labels.some((label) => common.has(String(label)))).length;
  const only = hits.filter((hit) => !places.has(String(hit.id))).length;
  return h("section", { "aria-label": title },
    h("h2", {}, title, h("span", { class: "quiet" }, ` version ${version}`)),
    h("p", { class: "quiet" }, [asked.length ? `${n} of ${count(hits.length, "hit")} with the label of the query` : count(hits.length, "hit"), only ? `${only} ${isNow ? "new" : "gone now"}` : "the same items"].join(", "), "."),
    h("ol", { class: "grid" }, hits.map((hit, k) => {
      const card = itemCard(hit, { open, look: (one) => look(one, hits), asked });
      card.querySelector(".words").append(movement(isNow, k, places.get(String(hit.id))));
      return card;
    })));
}

/** Where a hit came from or went to, in a word. */
function movement(isNow, place, other) {
  if (other === undefined) return isNow ? h("span", { class: "moved new" }, "new") : h("span", { class: "moved gone" }, "gone");
  const up = isNow ? other - place : place - other;
  if (!isNow || !up) return h("span", { class: "moved" }, `${place + 1}.`);
  return h("span", { class: up > 0 ? "moved up" : "moved down" }, `${place + 1}. ${up > 0 ? "↑" : "↓"} ${Math.abs(up)}`);
}
