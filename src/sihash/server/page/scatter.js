// Points on a canvas: drawn pixel by pixel, so that 100,000 of them follow the pointer; moved, zoomed, picked, circled.

import { svg } from "./dom.js";

const REACH = 9; // pixels from the pointer to a point that it means
const MOST_ZOOM = 400;
const MARGIN = 0.04; // of the canvas, left free around all points

/**
 * Points on a canvas. `told` are functions that are told what the user does: `hover(k, x, y)` (k is null where there is
 * no point), `pick(k, isMore)`, `circle(places, isMore)`, `open(k)`, `focus(k)`. With `setPoints` come the places,
 * `x` and `y` from 0 to 1; with `paint` the colours (RGBA as the canvas has them), a smaller set of points to
 * `ring`, and those that are `picked` (a byte each).
 */
export function scatter(canvas, told) {
  const context = canvas.getContext("2d");
  let [x, y, order] = [new Float32Array(), new Float32Array(), new Uint32Array()];
  let look = { colours: new Uint32Array(), picked: new Uint8Array(), pickedColour: 0, rings: [], ringColour: "#000" };
  let layers = { faded: order, plain: order, picked: order }; // from back to front
  let [scale, left, top] = [1, 0, 0]; // a place p is at (p − left) · scale of the canvas's shorter side
  let [image, pixels] = [null, null];
  let [focused, isLasso, isAsked] = [null, false, false];
  let line = []; // the lasso
  const lasso = svg("svg", { class: "lasso", "aria-hidden": "true" }, svg("path", {}));
  canvas.after(lasso);

  const ratio = () => Math.min(2, devicePixelRatio || 1);
  const side = () => Math.min(canvas.clientWidth, canvas.clientHeight) * (1 - 2 * MARGIN);
  const originX = () => (canvas.clientWidth - side()) / 2;
  const originY = () => (canvas.clientHeight - side()) / 2;
  const screenX = (k) => originX() + (x[k] - left) * scale * side();
  const screenY = (k) => originY() + (y[k] - top) * scale * side();

  function ask() {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => { isAsked = false; draw(); });
  }

  function resize() {
    const [width, height] = [Math.round(canvas.clientWidth * ratio()), Math.round(canvas.clientHeight * ratio())];
    if (!width || !height || (image?.width === width && image.height === height)) return;
    [canvas.width, canvas.height] = [width, height];
    image = context.createImageData(width, height);
    pixels = new Uint32Array(image.data.buffer);
  }

  /** Offsets of the pixels of a disc, and how far they reach. */
  function disc(radius) {
    const reach = Math.ceil(radius);
    const offsets = [];
    for (let dy = -reach; dy <= reach; dy += 1) for (let dx = -reach; dx <= reach; dx += 1) if (dx * dx + dy * dy <= radius * radius + 0.25) offsets.push(dy * image.width + dx);
    return { reach, offsets: Int32Array.from(offsets) };
  }

  function draw() {
    resize();
    if (!image) return;
    const n = x.length;
    const radius = ratio() * (n > 20000 ? 1 : n > 2000 ? 1.8 : 3) * Math.min(3, scale ** 0.4);
    pixels.fill(0);
    const [small, large] = [disc(radius), disc(radius + 1.5 * ratio())];
    const unit = scale * side() * ratio();
    const [fromX, fromY] = [originX() * ratio() - left * unit, originY() * ratio() - top * unit];
    const [width, height] = [image.width, image.height];
    const { colours, pickedColour } = look;
    const dot = (k, { reach, offsets }, colour) => {
      const [px, py] = [(fromX + x[k] * unit) | 0, (fromY + y[k] * unit) | 0];
      if (px < reach || py < reach || px >= width - reach || py >= height - reach) return;
      const at = py * width + px;
      for (let j = 0; j < offsets.length; j += 1) pixels[at + offsets[j]] = colour;
    };
    for (const k of layers.faded) dot(k, small, colours[k]);
    for (const k of layers.plain) dot(k, small, colours[k]);
    for (const k of layers.picked) { dot(k, large, pickedColour); dot(k, small, colours[k]); }
    context.putImageData(image, 0, 0);
    context.save();
    context.scale(ratio(), ratio());
    context.lineWidth = 2;
    context.strokeStyle = look.ringColour;
    const ring = (k, size) => { context.beginPath(); context.arc(screenX(k), screenY(k), size, 0, 7); context.stroke(); };
    for (const k of look.rings) ring(k, 6.5);
    if (focused !== null && document.activeElement === canvas) { ring(focused, 9); ring(focused, 12); }
    context.restore();
  }

  /** The point nearest to a place on the canvas, if one is near enough. */
  function pointAt(px, py, reach = REACH) {
    const unit = scale * side();
    const [wantedX, wantedY] = [(px - originX()) / unit + left, (py - originY()) / unit + top];
    let [best, nearest] = [null, (reach / unit) ** 2];
    for (let k = 0; k < x.length; k += 1) {
      const distance = (x[k] - wantedX) ** 2 + (y[k] - wantedY) ** 2;
      if (distance <= nearest) [best, nearest] = [k, distance];
    }
    return best;
  }

  function zoom(factor, px = canvas.clientWidth / 2, py = canvas.clientHeight / 2) {
    const wanted = Math.max(0.5, Math.min(MOST_ZOOM, scale * factor));
    left += (px - originX()) / side() * (1 / scale - 1 / wanted);
    top += (py - originY()) / side() * (1 / scale - 1 / wanted);
    scale = wanted;
    ask();
  }

  function whole() {
    [scale, left, top] = [1, 0, 0];
    ask();
  }

  /** Places of the points inside the polygon `line`, by the even-odd rule. */
  function inside() {
    const found = [];
    const [xs, ys] = [line.map((one) => one[0]), line.map((one) => one[1])];
    const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    for (let k = 0; k < x.length; k += 1) {
      const [px, py] = [screenX(k), screenY(k)];
      if (px < x0 || px > x1 || py < y0 || py > y1) continue;
      let isInside = false;
      for (let i = 0, j = line.length - 1; i < line.length; j = i, i += 1) {
        if (ys[i] > py !== ys[j] > py && px < ((xs[j] - xs[i]) * (py - ys[i])) / (ys[j] - ys[i]) + xs[i]) isInside = !isInside;
      }
      if (isInside) found.push(k);
    }
    return found;
  }

  // The pointer: a drag moves the points, or circles some; a click picks one.

  let start = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    start = { px: event.offsetX, py: event.offsetY, left, top, isDrag: false, isLasso: isLasso !== event.altKey };
    line = [[event.offsetX, event.offsetY]];
    told.hover(null);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = [event.offsetX, event.offsetY];
    if (!start) return told.hover(pointAt(px, py), px, py);
    start.isDrag ||= Math.hypot(px - start.px, py - start.py) > 4;
    if (!start.isDrag) return undefined;
    if (start.isLasso) {
      line.push([px, py]);
      lasso.firstChild.setAttribute("d", `M${line.map((one) => one.join(" ")).join("L")}z`);
    } else {
      left = start.left - (px - start.px) / (scale * side());
      top = start.top - (py - start.py) / (scale * side());
      ask();
    }
    return undefined;
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!start) return;
    const isMore = event.shiftKey || event.ctrlKey || event.metaKey;
    if (!start.isDrag) told.pick(pointAt(event.offsetX, event.offsetY), isMore);
    else if (start.isLasso) told.circle(inside(), isMore);
    end();
  });
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", () => told.hover(null));
  canvas.addEventListener("dblclick", (event) => { const k = pointAt(event.offsetX, event.offsetY); if (k !== null) told.open(k); });
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY); }, { passive: false });
  function end() {
    start = null;
    lasso.firstChild.removeAttribute("d");
  }

  // The keyboard: arrows go from point to point.

  canvas.addEventListener("focus", ask);
  canvas.addEventListener("blur", ask);
  canvas.addEventListener("keydown", (event) => {
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (way) go(...way);
    else if (event.key === "+" || event.key === "=") zoom(1.5, ...around());
    else if (event.key === "-") zoom(1 / 1.5, ...around());
    else if (event.key === "0") whole();
    else if (event.key === " " && focused !== null) told.pick(focused, true);
    else if (event.key === "Enter" && focused !== null) told.open(focused);
    else return;
    event.preventDefault();
  });
  const around = () => (focused === null ? [] : [screenX(focused), screenY(focused)]);

  /** To the next point in a direction: near in it, and not far beside it. */
  function go(dx, dy) {
    if (focused === null) focused = pointAt(canvas.clientWidth / 2, canvas.clientHeight / 2, Infinity);
    else {
      let [best, least] = [focused, Infinity];
      const apart = 6 / (scale * side()); // those drawn over each other count as one
      for (let k = 0; k < x.length; k += 1) {
        const along = (x[k] - x[focused]) * dx + (y[k] - y[focused]) * dy;
        const beside = Math.abs((x[k] - x[focused]) * dy + (y[k] - y[focused]) * dx);
        if (along > apart && along + 3 * beside < least) [best, least] = [k, along + 3 * beside];
      }
      focused = best;
    }
    if (focused === null) return;
    const [px, py] = [screenX(focused), screenY(focused)];
    if (px < 0 || px > canvas.clientWidth) left += (px - canvas.clientWidth / 2) / (scale * side());
    if (py < 0 || py > canvas.clientHeight) top += (py - canvas.clientHeight / 2) / (scale * side());
    told.focus(focused);
    ask();
  }

  new ResizeObserver(ask).observe(canvas);

  return {
    setPoints(newX, newY) {
      [x, y, focused] = [newX, newY, null];
      layers = { faded: [], plain: [], picked: [] }; // until they are painted
      order = Uint32Array.from(x, (_, k) => k);
      for (let i = order.length - 1, state = 1; i > 0; i -= 1) { // no class lies before all others
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        const j = state % (i + 1);
        [order[i], order[j]] = [order[j], order[i]];
      }
    },
    paint(how) {
      look = how;
      const isFaded = (k) => how.colours[k] >>> 24 < 255;
      layers = {
        faded: order.filter((k) => !how.picked[k] && isFaded(k)),
        plain: order.filter((k) => !how.picked[k] && !isFaded(k)),
        picked: order.filter((k) => how.picked[k]),
      };
      ask();
    },
    setLasso(value) { isLasso = value; canvas.classList.toggle("circling", value); },
    zoom, whole, draw,
    /** Places of the points that are on the canvas now. */
    seen: () => [...x.keys()].filter((k) => screenX(k) >= 0 && screenX(k) <= canvas.clientWidth && screenY(k) >= 0 && screenY(k) <= canvas.clientHeight),
  };
}
