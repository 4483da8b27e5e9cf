// The view of the doctor: labels that look wrong or are in conflict, why, and what mends each.

import { get, itemPath, post, remove, token } from "./api.js";
import { $, announce, count, h, labelsText, showError } from "./dom.js";
import { info, picture } from "./items.js";
import { askForToken, refresh } from "./main.js";
import { fromItem } from "./search.js";

export const view = { name: "doctor", title: "Doctor", setUp, setInfo };

function setUp(section) {
  section.append(h("div", { class: "card" },
    h("div", { class: "card-head" },
      h("h2", {}, "Labels that look wrong"),
      h("button", { id: "examine", type: "button", class: "primary", onclick: examine }, "Examine")),
    h("p", { class: "quiet" }, "Finds labels that contradict an item's neighbours and its bits, duplicates, and classes that are confused or too small. Takes seconds to minutes; searches continue. Nothing changes until you fix it."),
    h("p", { id: "doctor-error", class: "error", role: "alert", hidden: true }),
    h("div", { id: "findings", class: "stack" })));
}

function setInfo(info) {
  $("examine").disabled = !info.n_items;
}

async function examine() {
  showError("doctor-error", null);
  $("examine").disabled = true;
  $("examine").textContent = "Examining…";
  try {
    show(await get("/v1/doctor"));
  } catch (error) {
    showError("doctor-error", error);
  }
  $("examine").disabled = false;
  $("examine").textContent = "Examine";
}

function show({ found, findings, note }) {
  const sections = Object.entries(found).filter(([, n]) => n).map(([kind, n]) => {
    const own = findings.filter((finding) => finding.kind === kind);
    const [{ title }] = own;
    const words = own.length < n ? `the first ${own.length.toLocaleString("en")} of ${n.toLocaleString("en")}` : n.toLocaleString("en");
    return h("section", { "aria-label": title }, h("h3", {}, title, h("span", { class: "quiet" }, ` ${words}`)), h("ol", { class: "findings" }, own.map(card)));
  });
  $("findings").replaceChildren(...(sections.length ? sections : [h("p", { class: "empty" }, h("strong", {}, "Nothing was found"))]), h("p", { class: "quiet" }, note));
  announce(`${count(Object.values(found).reduce((sum, n) => sum + n, 0), "finding")}.`);
}

function card(finding) {
  const element = h("li", { class: "finding", "data-kind": finding.kind },
    h("div", { class: "pictures" }, finding.items.map((item) => h("button", { type: "button", class: "open", title: item.name, "aria-label": `Search from ${labelsText(item.labels)}, ${item.name}`, onclick: () => fromItem(item) }, picture(item), h("span", { dir: "auto" }, labelsText(item.labels))))),
    h("div", { class: "stack" }, h("p", {}, finding.reason), h("code", {}, command(finding))));
  const button = mendButton(finding, element);
  if (button) element.append(button);
  return element;
}

/** What to type in a shell to do the same. */
function command({ mend: [verb, ...words] }) {
  const quoted = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`);
  return ["sihash", verb, info.name, ...words].map(quoted).join(" ");
}

/** Where one click is enough: other labels for the first item, or its removal. */
function mendButton(finding, element) {
  const [item] = finding.items;
  if (finding.labels.length) {
    const words = labelsText(finding.labels);
    const relabel = () => post("/v1/items/relabel", { json: { ids: [item.id], label: finding.labels.map(String) } });
    return h("button", { type: "button", class: "mend", onclick: () => mend(element, relabel, `Item ${item.id} is now labelled ${words}.`) }, `Relabel as ${words}`);
  }
  if (!finding.mend[1].startsWith("--id=")) return null; // a class is not removed by one click
  return h("button", { type: "button", onclick: () => mend(element, () => remove(itemPath(item.id)), `Item ${item.id} is removed.`) }, `Remove item ${item.id}`);
}

async function mend(element, work, sentence) {
  if (!token.get() && !(await askForToken())) return;
  showError("doctor-error", null);
  try {
    await work();
    element.classList.add("mended");
    element.lastChild.replaceWith(h("p", { class: "quiet" }, sentence, " Undo is in Learning."));
    announce(sentence);
  } catch (error) {
    showError("doctor-error", error);
  }
  await refresh();
}
