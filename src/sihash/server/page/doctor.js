// The view of the doctor: labels that look wrong or are in conflict, why, and what mends each.

import { get, itemPath, post, remove } from "./api.js";
import { $, announce, breakable, count, h, labelsText, shortened, showError } from "./dom.js";
import { info, picture, titleOf } from "./items.js";
import { markOnMap } from "./map.js";
import { fromItem } from "./search.js";
import { changeMany } from "./selection.js";

export const view = { name: "doctor", title: "Doctor", setUp, setInfo };

function setUp(section) {
  section.append(h("div", { class: "card" },
    h("div", { class: "card-head" },
      h("h2", {}, "Labels that look wrong"),
      h("button", { id: "examine", type: "button", class: "primary", onclick: examine }, "Examine")),
    h("p", { class: "quiet" }, "Finds labels that an item's neighbours and its class probability contradict, duplicates, and classes that are confused or too small. Takes seconds to minutes; searches continue. Nothing changes until you fix it."),
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
    return h("section", { "aria-label": title },
      h("div", { class: "card-head" }, h("h3", {}, title, h("span", { class: "quiet" }, ` ${words}`)), h("div", { class: "plot-tools" }, ...actions(own))),
      h("ol", { class: "findings" }, own.map(card)));
  });
  $("findings").replaceChildren(...(sections.length ? sections : [h("p", { class: "empty" }, h("strong", {}, "Nothing was found"))]), h("p", { class: "quiet" }, note));
  announce(`${count(Object.values(found).reduce((sum, n) => sum + n, 0), "finding")}.`);
}

/** What can be done with all findings of a kind at once. */
function actions(findings) {
  const mended = findings.filter((finding) => finding.labels.length);
  const ids = findings.flatMap((finding) => finding.items.slice(0, 1).map((item) => item.id));
  return [
    h("button", { type: "button", onclick: () => markOnMap(ids, `${count(ids.length, "item")} with findings of the doctor`) }, "Show on the map"),
    mended.length > 1 ? h("button", { type: "button", class: "accept", onclick: () => acceptAll(mended) }, "Relabel all that are ticked") : null];
}

/** Relabel the first items of findings as they say, as one change; those that are not chosen stay. */
async function acceptAll(findings) {
  const chosen = findings.filter((finding) => finding.box?.checked && !finding.element.classList.contains("mended"));
  const byLabels = Map.groupBy(new Map(chosen.map((finding) => [String(finding.items[0].id), finding])).values(), (finding) => JSON.stringify(finding.labels));
  const changes = [...byLabels.values()].map((own) => ({ ids: own.map((finding) => finding.items[0].id), label: own[0].labels.map(String) }));
  if (!changes.length) return;
  await changeMany(async () => {
    const { relabelled } = await post("/v1/items/relabel/each", { json: { changes } });
    for (const finding of chosen) setMended(finding.element, `Item ${finding.items[0].id} is now labelled ${labelsText(finding.labels)}.`);
    return `${count(relabelled.length, "item")} relabelled as the doctor says.`;
  });
}

function card(finding) {
  const element = h("li", { class: "finding", "data-kind": finding.kind },
    h("div", { class: "pictures" }, finding.items.map((item) => h("button", { type: "button", class: "open", title: titleOf(item), "aria-label": `Search from ${labelsText(item.labels)}, ${titleOf(item)}`, onclick: () => fromItem(item) }, picture(item), h("span", { dir: "auto" }, labelsText(item.labels))))),
    h("div", { class: "stack" }, finding.kind === "wrong label" ? h("p", { class: "title", dir: "auto" }, breakable(titleOf(finding.items[0]))) : null, h("p", {}, breakable(finding.reason)), h("code", {}, breakable(command(finding)))));
  finding.element = element;
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
    finding.box = h("input", { type: "checkbox", checked: true, "aria-label": `Choose: relabel item ${item.id} as ${words}` });
    const relabel = () => post("/v1/items/relabel", { json: { ids: [item.id], label: finding.labels.map(String) } });
    return h("div", { class: "mending" }, finding.box, h("button", { type: "button", class: "mend", onclick: () => mend(element, relabel, `Item ${item.id} is now labelled ${words}.`) }, "Relabel as ", breakable(shortened(words, 40))));
  }
  if (!finding.mend[1].startsWith("--id=")) return null; // a class is not removed by one click
  return h("button", { type: "button", onclick: () => mend(element, () => remove(itemPath(item.id)), `Item ${item.id} is removed.`) }, `Remove item ${item.id}`);
}

const mend = (element, work, sentence) => changeMany(async () => {
  await work();
  setMended(element, sentence);
  return sentence;
});

function setMended(element, sentence) {
  element.classList.add("mended");
  element.lastChild.replaceWith(h("p", { class: "quiet" }, sentence));
}
