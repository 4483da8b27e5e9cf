// The view of learning: start an update and follow it, what it was worth, versions and undo.

import { get, post, token } from "./api.js";
import { $, announce, confirmed, count, h, percent, seconds, showError, svg } from "./dom.js";
import { askForToken, refresh } from "./main.js";

let last = null; // the last state of the update that was told

export function setUp() {
  $("update").addEventListener("submit", (event) => { event.preventDefault(); start(); });
  $("update").addEventListener("change", () => {
    const isScratch = new FormData($("update")).get("strategy") === "relearn";
    $("compare").disabled = isScratch;
  });
  $("undo").addEventListener("click", undo);
}

export function setInfo(info) {
  $("waiting").textContent = info.n_waiting
    ? `${count(info.n_waiting, "change")} since the last update: labelled images that came, went or were relabelled.`
    : "Nothing has changed since the last update.";
  showVersions().catch(() => {});
}

async function start() {
  if (!token.get() && !(await askForToken())) return;
  showError("update-error", null);
  const strategy = new FormData($("update")).get("strategy");
  $("update-button").disabled = true;
  try {
    setUpdate(await post("/v1/updates", { json: { strategy, compare: strategy === "incremental" && $("compare").checked } }));
  } catch (error) {
    showError("update-error", error);
    $("update-button").disabled = last?.state === "running";
  }
}

/** What the service tells about the update, again and again. */
export function setUpdate(update) {
  const isRunning = update.state === "running";
  $("update-button").disabled = isRunning;
  $("update-progress").hidden = !isRunning;
  $("update-badge").hidden = !isRunning;
  $("update-badge").textContent = `updating ${percent(update.share)}`;
  $("update-bar").value = update.share;
  $("update-phase").textContent = update.phase;
  $("update-left").textContent = update.seconds_left === null ? "" : `about ${seconds(update.seconds_left)} left`;
  const hasEnded = last?.state === "running" && !isRunning;
  last = update;
  showError("update-error", update.state === "failed" ? new Error(update.error) : null);
  if (hasEnded) {
    announce(update.state === "done" ? "The update is done." : update.error);
    refresh();
  }
}

// Versions.

async function showVersions() {
  const { versions, current, undoable } = await get("/v1/versions");
  $("undo").disabled = !undoable;
  $("versions").replaceChildren(...[...versions].reverse().map((version) => h("li", { class: version.version === current ? "now" : "" },
    h("div", {},
      h("strong", {}, `Version ${version.version}`), version.version === current ? " · in use" : "",
      h("div", { class: "quiet" }, describe(version))))));
  showChart(versions.findLast((version) => version.version === current));
}

function describe(version) {
  const how = version.strategy !== "incremental" ? "learned from scratch" : "updated incrementally";
  const when = new Date(version.created).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  return [how, `${count(version.n_training, "labelled item")}`, when].join(" · ");
}

async function undo() {
  if (!token.get() && !(await askForToken())) return;
  if (!(await confirmed("Undo the last change?", "The last adding, removal or update is taken back.", "Undo"))) return;
  showError("undo-error", null);
  try {
    const { undone } = await post("/v1/undo");
    announce(`Taken back: ${undone}.`);
  } catch (error) {
    showError("undo-error", error);
  }
  await refresh();
}

// The chart: mAP before the update, after it, and from scratch where that was asked for.

const WORDS = { passive: "before (passive)", incremental: "after (incremental)", scratch: "from scratch" };
const [LEFT, WIDTH, STEP, THICK] = [150, 500, 38, 20];

function showChart(version) {
  const scores = Object.entries(version?.scores ?? {}).filter(([, value]) => value !== null);
  $("chart-card").hidden = !scores.length;
  if (!scores.length) return;
  $("chart-words").textContent = `Mean average precision on the collection as it is in version ${version.version}. Passive: the old hash functions, left as they were.`;
  const long = WIDTH - LEFT - 56;
  const rows = scores.map(([kind, value], i) => svg("g", { transform: `translate(0 ${i * STEP})` },
    svg("text", { x: LEFT - 10, y: THICK - 5, "text-anchor": "end", class: "quiet" }, WORDS[kind] ?? kind),
    svg("rect", { x: LEFT, width: long, height: THICK, rx: 4, class: "track" }),
    svg("rect", { x: LEFT, width: Math.max(value, 0) * long, height: THICK, rx: 4, class: kind }),
    svg("text", { x: LEFT + long + 8, y: THICK - 5 }, value.toFixed(3))));
  const words = scores.map(([kind, value]) => `${WORDS[kind] ?? kind} ${value.toFixed(3)}`).join(", ");
  $("chart").replaceChildren(svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${scores.length * STEP - STEP + THICK}`, role: "img", "aria-label": `Mean average precision: ${words}` }, rows));
}
