// Lists of classes: in an order that people expect, and found by a part of their names.

import { labelText } from "./dom.js";

export const MANY = 12; // from so many on, a list has a box to search it
const order = new Intl.Collator(undefined, { numeric: true });

/** Letters without case and accents, for comparing. */
const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

export const byName = (classes) => [...classes].sort((a, b) => order.compare(labelText(a.label), labelText(b.label)));
export const bySize = (classes) => byName(classes).sort((a, b) => b.n_items - a.n_items);

/** The classes whose names hold a text; those that begin with it first. */
export function matching(classes, text) {
  const wanted = folded(text.trim());
  if (!wanted) return classes;
  const found = classes.map((one) => [one, folded(labelText(one.label)).indexOf(wanted)]).filter(([, place]) => place >= 0);
  return found.sort(([, a], [, b]) => (a > 0) - (b > 0)).map(([one]) => one);
}
