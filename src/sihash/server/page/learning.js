// The view of learning: start an update and follow it, what it was worth, versions and undo.

import { get, post, token } from "./api.js";
import { $, announce, confirmed, count, h, percent, seconds, showError, svg } from "./dom.js";
import { drawAtWidth } from "./drawing.js";
import { askForToken, refresh } from "./main.js";

let last = null; // the last state of the update that was told
let nWaiting = null; // changes that an update would learn from

export const view = { name: "learning", title: "Learning", setUp, setInfo };

function setUp() {
  $("update").addEventListener("submit", (event) => { event.preventDefault(); start(); });
  $("update").addEventListener("change", () => {
    const isScratch = new FormData($("update")).get("strategy") === "relearn";
    $("compare").disabled = isScratch;
    showStart();
  });
  $("undo").addEventListener("click", undo);
}

function setInfo(info) {
  nWaiting = info.n_waiting;
  showStart();
  showVersions().catch(() => {});
}

/** Whether there is something to start, and if not, why. */
function showStart() {
  if (nWaiting === null) return;
  const isScratch = new FormData($("update")).get("strategy") === "relearn";
  $("update-button").disabled = last?.state === "running" || (!nWaiting && !isScratch);
  $("waiting").textContent = nWaiting
    ? `${count(nWaiting, "change")} since the last update: labelled items that came, went or were relabelled.`
    : `Nothing has changed since the last update${isScratch ? "." : ", so there is nothing to learn. Learning from scratch is possible: it draws new code words."}`;
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
    showStart();
  }
}

/** What the service tells about the update, again and again. */
export function setUpdate(update) {
  const isRunning = update.state === "running";
  $("update-progress").hidden = !isRunning;
  $("update-badge").hidden = !isRunning;
  $("update-badge").textContent = `updating ${percent(update.share)}`;
  $("update-bar").value = update.share;
  $("update-phase").textContent = update.phase;
  $("update-left").textContent = update.seconds_left === null ? "" : `${update.seconds_left < 1 ? "" : "about "}${seconds(update.seconds_left)} left`;
  const hasEnded = last?.state === "running" && !isRunning;
  last = update;
  showStart();
  showError("update-error", update.state === "failed" ? new Error(update.error) : null);
  $("update-warnings").hidden = !update.warnings.length;
  $("update-warnings").textContent = update.warnings.join(" ");
  if (hasEnded) {
    announce(update.state === "done" ? "The update is done." : update.error);
    refresh();
  }
}

// Versions.

async function showVersions() {
  const { versions, undoable } = await get("/v1/versions");
  const now = versions.findLast((version) => version.current);
  $("undo").disabled = !undoable;
  $("versions").replaceChildren(...[...versions].reverse().map((version) => h("li", { class: version.current ? "now" : version.undone ? "undone" : "" },
    h("div", {},
      h("strong", {}, `Version ${version.number}`), version.current ? " · in use" : version.undone ? " · undone" : "", h("span", { class: "quiet" }, ` · ${whenText(version)}`),
      h("div", { class: "quiet" }, describe(version))))));
  showWorth(now);
  showHistory(versions);
}

function describe(version) {
  const how = version.strategy === "incremental" ? "updated incrementally" : "learned from scratch";
  const { before, after } = qualities(version);
  const quality = after === null ? null : `mAP ${after.toFixed(3)}${before === null ? "" : `, before ${before.toFixed(3)}`}`;
  return [how, count(version.n_training, "labelled item"), quality].filter(Boolean).join(" · ");
}

const whenText = (version) => new Date(version.at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

/** mAP of a version when it was learned: of the one before on the same items, its own, and of one from scratch. */
function qualities({ strategy, compared }) {
  return { before: compared.passive ?? null, after: compared[strategy] ?? null, anew: compared.scratch ?? null };
}

async function undo() {
  if (!token.get() && !(await askForToken())) return;
  if (!(await confirmed("Undo the last change?", "The last addition, removal, relabelling or update is undone.", "Undo"))) return;
  showError("undo-error", null);
  try {
    const { undone } = await post("/v1/undo");
    announce(`Undone: ${undone}.`);
  } catch (error) {
    showError("undo-error", error);
  }
  await refresh();
}

// What the update before was worth: mAP before it, after it, and from scratch where that was asked for.

const WORDS = { passive: "before (passive)", incremental: "after (incremental)", relearn: "after (from scratch)", scratch: "from scratch" };
const [STEP, THICK] = [38, 20]; // of the bars, in pixels

function showWorth(version) {
  const scores = Object.entries(version?.compared ?? {}).filter(([, value]) => value !== null);
  $("chart-card").hidden = !scores.length;
  if (!scores.length) return;
  $("chart-words").textContent = `Mean average precision (mAP) on the collection of version ${version.number}. “Before” are the old hash functions on the same items.`;
  const words = scores.map(([kind, value]) => `${WORDS[kind] ?? kind} ${value.toFixed(3)}`).join(", ");
  drawAtWidth($("chart"), (width) => {
    const [left, long] = [140, Math.max(60, width - 140 - 52)];
    const height = scores.length * STEP - STEP + THICK;
    const rows = scores.map(([kind, value], i) => svg("g", { transform: `translate(0 ${i * STEP})` },
      svg("text", { x: left - 10, y: THICK - 5, "text-anchor": "end", class: "quiet" }, WORDS[kind] ?? kind),
      svg("rect", { x: left, width: long, height: THICK, rx: 4, class: "track" }),
      svg("rect", { x: left, width: Math.max(value, 0) * long, height: THICK, rx: 4, class: kind }),
      svg("text", { x: left + long + 8, y: THICK - 5 }, value.toFixed(3))));
    return svg("svg", { class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Mean average precision: ${words}` }, rows);
  });
}

// Quality over time: where each update found the codes, and where it left them.

const [TOP, HIGH, BELOW, SIDE] = [12, 180, 30, 40]; // of the plot, in pixels
const LABEL = 64; // pixels that the words below a version take

function showHistory(versions) {
  const measured = versions.filter((version) => qualities(version).after !== null);
  $("history-card").hidden = !measured.length;
  if (!measured.length) return;
  const least = Math.min(...measured.flatMap((version) => Object.values(qualities(version)).filter((value) => value !== null)));
  const floor = Math.max(0, Math.floor(least * 10 - 0.5) / 10);
  drawAtWidth($("history"), (width) => plot(versions, floor, width));
}

function plot(versions, floor, width) {
  const x = (k) => SIDE + ((k + 0.5) * (width - SIDE - 8)) / versions.length;
  const y = (value) => TOP + (HIGH * (1 - value)) / (1 - floor);
  const ticks = [0, 1, 2, 3, 4].map((k) => floor + (k * (1 - floor)) / 4);
  const grid = ticks.map((value) => svg("g", {},
    svg("line", { class: "grid-line", x1: SIDE, x2: width - 4, y1: y(value), y2: y(value) }),
    svg("text", { class: "quiet", x: SIDE - 8, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(2))));
  const every = Math.ceil((versions.length * LABEL) / (width - SIDE)); // names below so many versions
  const names = versions.map((version, k) => ((versions.length - 1 - k) % every ? null : svg("text", { class: "quiet", x: x(k), y: TOP + HIGH + 20, "text-anchor": "middle" }, `version ${version.number}`.slice(width / versions.length < 80 ? 8 : 0))));
  const path = [];
  const marks = versions.map((version, k) => {
    const { before, after, anew } = qualities(version);
    if (after === null) return null;
    if (!version.undone) path.push(...[before, after].filter((value) => value !== null).map((value) => `${x(k)} ${y(value)}`));
    const dot = (value, kind, radius) => (value === null ? null : svg("circle", { class: kind, cx: x(k), cy: y(value), r: radius }));
    return svg("g", { class: version.undone ? "undone" : version.current ? "now" : "" },
      svg("title", {}, `Version ${version.number}, ${whenText(version)}: ${describe(version)}`),
      before === null ? null : svg("line", { class: "lift", x1: x(k), x2: x(k), y1: y(before), y2: y(after) }),
      anew === null ? null : svg("path", { class: "anew", d: `M${x(k) - 9} ${y(anew)}h18` }),
      dot(before, "before", 4.5), dot(after, "after", 5.5));
  });
  const words = versions.filter((version) => qualities(version).after !== null).map((version) => `version ${version.number} ${qualities(version).after.toFixed(3)}`).join(", ");
  const height = TOP + HIGH + BELOW;
  return svg("svg", { class: "chart history", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Mean average precision after each update: ${words}` },
    grid, names, svg("path", { class: "course", d: path.length ? `M${path.join("L")}` : "" }), marks);
}
