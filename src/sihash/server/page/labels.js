// Labels of an item: how they are shown, and how they are edited.

import { byName } from "./classes.js";
import { $, announce, breakable, h, labelsText, labelText, learnNames, shortened, shortName } from "./dom.js";

const LONGEST = 1000; // characters of a label
const LONGEST_LINES = 56; // characters of one that stands alone, in two or three lines
let info = { classes: [], n_several: 0 };
export function setLabels(value) {
  info = value;
  learnNames(value.classes.map((one) => labelText(one.label)));
}

/** One label, in whatever script; `title` has it whole where there is no room. */
const labelSpan = (label) => h("span", { class: label === null ? "label none" : "label", dir: "auto", title: labelText(label) }, breakable(shortened(labelText(label), LONGEST_LINES)));

/**
 * The labels of an item. Where items have several, a tag each, `most` at most; those in `asked`, the labels of the
 * query, stand first and stand out. Where no item has several, a line of text.
 */
export function labelTags(labels, { asked = [], most = Infinity } = {}) {
  if (!labels.length || !info.n_several) return labelSpan(labels.length ? labelsText(labels) : null);
  const common = new Set(asked.map(String));
  const isCommon = (label) => common.has(String(label));
  const sorted = [...labels].sort((a, b) => isCommon(b) - isCommon(a));
  const shown = sorted.slice(0, sorted.length > most ? most - 1 : most);
  const rest = sorted.slice(shown.length);
  return h("span", { class: "tags label" },
    shown.map((label) => h("span", { class: isCommon(label) ? "tag common" : "tag", dir: "auto", title: labelText(label) }, shortName(labelText(label)))),
    rest.length ? h("span", { class: "tag more", title: labelsText(rest) }, `+${rest.length}`) : null);
}

export const hasSeveral = () => info.n_several > 0;

/** Fill the list of labels that boxes offer; when one is entered, as there may be thousands. */
function offerKnown() {
  $("known-labels").replaceChildren(...byName(info.classes).filter((one) => one.label !== null).map((one) => h("option", { value: one.label })));
}

/**
 * Labels as tags that can be taken away, and a box for one more; all by keyboard. `changed(labels)` is told of every
 * change. `set` shows other labels, `take` gives those that stand there, with what is still in the box.
 */
export function labelEditor(place, { id, changed = () => {} }) {
  let labels = [];
  const list = h("ul", { class: "tags edited", "aria-label": "Labels" });
  const input = h("input", { id, list: "known-labels", maxlength: LONGEST, placeholder: "a label, known or new", autocomplete: "off", dir: "auto", onfocus: offerKnown });
  const button = h("button", { type: "button", onclick: add }, "Add label");
  place.replaceChildren(list, h("div", { class: "one-more" }, input, button));
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || !input.value.trim()) return;
    event.preventDefault(); // it is no form yet
    add();
  });

  function draw() {
    list.hidden = !labels.length;
    list.replaceChildren(...labels.map((label) => h("li", { class: "tag" },
      h("span", { dir: "auto", title: label }, label),
      h("button", { type: "button", "aria-label": `Take away the label ${label}`, onclick: () => remove(label) }, "×"))));
  }

  function add() {
    const label = input.value.trim();
    input.value = "";
    input.focus();
    if (!label || labels.includes(label)) return;
    labels = [...labels, label];
    draw();
    announce(`Label ${label} added.`);
    changed(labels);
  }

  function remove(label) {
    const at = labels.indexOf(label);
    labels = labels.filter((one) => one !== label);
    draw();
    (list.children[Math.min(at, labels.length - 1)]?.querySelector("button") ?? input).focus();
    announce(`Label ${label} taken away.`);
    changed(labels);
  }

  return {
    set(values) { labels = values.map(String); draw(); },
    take() { if (input.value.trim()) add(); return labels; },
    focus: () => input.focus(),
  };
}
