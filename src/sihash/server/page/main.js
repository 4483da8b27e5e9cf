// Start: which view is shown, who may edit, whether the service is there.

import { follow, get, post, ServiceError, takeTokenFromAddress, token, watchOffline } from "./api.js";
import { forgetStatistics } from "./bits.js";
import * as collection from "./collection.js";
import { $, announce, count, h, showError } from "./dom.js";
import { setCollection } from "./items.js";
import { setUpdate } from "./learning.js";
import * as search from "./search.js";
import { setUpSelection } from "./selection.js";
import { closeViewer, setUpViewer } from "./viewer.js";
import { VIEWS } from "./views.js";

/** Ask what the database is, and show it. */
export async function refresh() {
  try {
    const info = await get("/v1/info");
    forgetStatistics();
    setCollection(info);
    document.title = `${info.name} · sihash`;
    $("database-name").textContent = info.name;
    $("database-summary").textContent = `${count(info.n_items, "item")} · ${info.n_bits} bits · version ${info.version}`;
    for (const view of VIEWS) view.setInfo(info);
  } catch (error) {
    if (error.status === 401) return void askForToken("Reading this database needs its token.");
    if (error.status !== 0) announce(error.message);
    if (!(error instanceof ServiceError)) throw error;
  }
}

// Views.

function setUpViews() {
  for (const view of VIEWS) {
    $("nav").append(h("a", { href: `#${view.name}`, "data-view": view.name }, view.title));
    const id = `view-${view.name}`;
    if (!$(id)) $("main").append(h("section", { id, class: `view ${view.name}`, "aria-label": view.title }, h("h1", { class: "visually-hidden" }, view.title)));
    view.setUp($(id));
  }
}

function showView() {
  closeViewer();
  const [name, parameters] = location.hash.slice(1).split("?");
  const shown = VIEWS.find((view) => view.name === name) ?? VIEWS[0];
  for (const view of VIEWS) $(`view-${view.name}`).hidden = view !== shown;
  for (const link of $("nav").children) {
    if (link.dataset.view === shown.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  shown.show?.(new URLSearchParams(parameters));
}

const isShown = (name) => !$(`view-${name}`).hidden;

// The token.

/** Opens the dialog; resolves to whether there is a token in the end. */
export function askForToken(words) {
  const dialog = $("token-dialog");
  if (dialog.open) return Promise.resolve(false);
  if (words) $("token-words").textContent = words;
  $("token").value = "";
  showError("token-error", null);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(Boolean(token.get())), { once: true });
  });
}

async function tryToken(event) {
  event.preventDefault();
  const before = token.get();
  token.set($("token").value.trim());
  try {
    await post("/v1/token");
    $("token-dialog").close();
    announce("Editing is unlocked.");
    refresh();
  } catch (error) {
    token.set(before);
    showError("token-error", error.status === 401 ? new Error("That is not the token of this service.") : error);
  }
}

function setUpToken() {
  const show = () => { $("token-button").textContent = token.get() ? "Lock editing" : "Unlock editing"; };
  token.watch(show);
  show();
  $("token-button").addEventListener("click", () => (token.get() ? token.set("") : askForToken()));
  $("token-dialog").querySelector("form").addEventListener("submit", tryToken);
}

function setUpDialogs() {
  for (const button of document.querySelectorAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close(""));
  $("confirm-dialog").querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    $("confirm-dialog").close("yes");
  });
}

// Images that are dropped or pasted go to the view that is shown.

function setUpDropping() {
  const take = (files) => {
    closeViewer();
    if (isShown("collection")) return collection.choose(files);
    if (!isShown("search")) location.hash = "#search";
    return search.fromFiles(files);
  };
  addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dragging"); });
  addEventListener("dragleave", (event) => event.relatedTarget === null && document.body.classList.remove("dragging"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dragging");
    if (event.dataTransfer.files.length) take(event.dataTransfer.files);
  });
  addEventListener("paste", (event) => event.clipboardData.files.length && take(event.clipboardData.files));
}

takeTokenFromAddress();
setUpToken();
setUpDialogs();
setUpDropping();
setUpViewer();
setUpSelection();
setUpViews();
watchOffline((isOffline) => {
  $("offline").hidden = !isOffline;
  if (!isOffline) refresh();
});
addEventListener("hashchange", showView);
addEventListener("popstate", showView);
showView();
await refresh();
follow("/v1/updates/events", setUpdate);
