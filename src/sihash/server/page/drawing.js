// Drawing what is seen: long lists piece by piece, charts at the width that they have.

const current = new WeakMap(); // list → what draws it now

/**
 * Fill a list as it comes into view. `piece(from)` gives the elements from that place on, at once or by a promise that
 * does not fail; none means that this is all. Drawing a list again ends what drew it before.
 */
export function drawAsSeen(list, piece) {
  current.get(list)?.disconnect();
  const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && more(), { rootMargin: "300px" });
  current.set(list, observer);
  const isOld = () => current.get(list) !== observer;
  let isFirst = true;

  async function more() {
    observer.disconnect();
    const made = piece(isFirst ? 0 : list.childElementCount);
    const elements = made instanceof Promise ? await made : made;
    if (isOld()) return;
    if (isFirst) list.replaceChildren();
    isFirst = false;
    list.append(...elements);
    if (elements.length) observer.observe(list.lastElementChild);
  }

  if (list.checkVisibility()) more();
  else observer.observe(list);
}

/** A piece of a list that is there already: for `drawAsSeen`. */
export const pieces = (values, draw, size = 60) => (from) => values.slice(from, from + size).map(draw);

/** Draw with the width of an element in pixels, now and whenever it changes; a hidden one waits until it is shown. */
export function drawAtWidth(element, draw) {
  drawers.set(element, draw);
  observedWidths.observe(element);
  if (element.clientWidth) element.replaceChildren(draw(element.clientWidth));
}

const drawers = new WeakMap();
const observedWidths = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target.clientWidth) target.replaceChildren(drawers.get(target)(target.clientWidth));
});
