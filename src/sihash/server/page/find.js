// The box for a query in words or numbers: an id, a text of a column, or a vector.

import { $, showError } from "./dom.js";
import { info } from "./items.js";

/** Numbers that were pasted, in whatever brackets and with whatever between them; null if it is something else. */
function numbersIn(text) {
  const parts = text.replace(/^[\s[({]+|[\s\])}]+$/g, "").split(/[\s,;]+/).filter(Boolean);
  const numbers = parts.map(Number);
  return parts.length > 1 && numbers.every(Number.isFinite) ? numbers : null;
}

/** `start` has a function for a `text` ("" for none) and one for a `vector`. */
export function setUpFind(start) {
  $("find").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = $("find-text").value.trim();
    const numbers = info.holds_images ? null : numbersIn(text);
    showError("query-error", null);
    if (!numbers) return text.length > 2000 ? showError("query-error", new Error("Expected an id or a text of at most 2,000 letters.")) : start.text(text);
    if (numbers.length === info.width) return start.vector(numbers);
    return showError("query-error", new Error(`Expected a vector of ${info.width.toLocaleString("en")} numbers, got ${numbers.length.toLocaleString("en")}.`));
  });
}

/** What may be written there. */
export function showFind() {
  const column = info.title ? `text of ${info.title}` : "text";
  $("find-text").placeholder = info.holds_images ? `an id or ${column}` : `an id, ${column}, or a vector`;
}
