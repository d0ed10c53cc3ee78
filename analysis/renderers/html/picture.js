// The picture of a timeline: where its rows are, and how they are drawn at some zoom.
const NsysPicture = (canvas, data, words) => {
  "use strict";
  const root = document.documentElement;
  const frame = canvas.parentElement;
  const context = canvas.getContext("2d");
  const span = Math.max(data.high - data.low, 1);
  const { endsAfter, startsFrom, mainIn, bars } = NsysData;

  // Rows of the picture from top to bottom: titles of groups, and tracks.
  const rows = [];
  for (const group of data.groups) {
    rows.push({ title: group.title });
    if (group.device !== null) {
      group.gaps = data.gaps[data.groups.indexOf(group)];
      rows.push({ track: group.gaps, group });
    }
    for (const track of group.tracks) rows.push({ track, group });
  }
  // All in CSS pixels.
  let width = 0, height = 0, rowHeight = 0, gutter = 0;
  let font = "", scale = null, ink = {};

  function layout() {
    const size = parseFloat(getComputedStyle(root).fontSize);
    const style = getComputedStyle(canvas);
    rowHeight = Math.round(size * 1.25);
    width = frame.clientWidth;
    gutter = Math.min(Math.round(size * 8), Math.round(width / 4));
    font = `${Math.round(size * 0.75)}px ${style.fontFamily}`;
    let y = 0;
    for (const row of rows) {
      if (row.title !== undefined && y) y += Math.round(rowHeight / 3);
      row.y = y;
      y += rowHeight + 1;
    }
    height = y + 4;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink = {};
    for (const name of ["page", "text", "muted", "line", "band", "accent"]) {
      ink[name] = style.getPropertyValue(`--${name}`).trim();
    }
    for (const name of [...Object.keys(data.words.lanes), ...data.causes]) {
      ink[`kind-${name}`] = style.getPropertyValue(`--kind-${name}`).trim();
      ink[`cause-${name}`] = style.getPropertyValue(`--cause-${name}`).trim();
    }
    patterns.clear();
    scale = d3.scaleLinear([0, span], [gutter, width]);
  }

  // What a zoom shows: the scale from time to pixels, and the first and last time, ns.
  function visible(transform) {
    const x = transform.rescaleX(scale);
    return { x, from: Math.max(x.invert(gutter), 0), to: Math.min(x.invert(width), span) };
  }
  // The zoom that shows a stretch of time.
  function transformTo(from, to) {
    const k = span / (to - from);
    return d3.zoomIdentity.translate(gutter - k * scale(from), 0).scale(k);
  }

  // The event at a point or close by, as its row and index.
  function at(transform, px, py) {
    if (px < gutter) return null;
    const row = rows.find((r) => r.track && py >= r.y && py <= r.y + rowHeight);
    if (!row) return null;
    const { x } = visible(transform);
    const time = x.invert(px), slack = Math.abs(x.invert(px + 3) - time);
    const { track } = row;
    let index = endsAfter(track, time);
    if (index < track.rows && track.start[index] <= time) return { row, index };
    const last = startsFrom(track, time + slack);
    index = endsAfter(track, time - slack);
    return index < last ? { row, index: mainIn(track, index, last) } : null;
  }

  const patterns = new Map();
  // Causes and kinds differ by pattern too, so that they can be told without colour.
  function pattern(name, color) {
    const key = `${name} ${color}`;
    if (!patterns.has(key)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 8;
      const t = tile.getContext("2d");
      t.strokeStyle = t.fillStyle = dark(color) ? "rgba(255,255,255,.4)" : "rgba(0,0,0,.35)";
      t.lineWidth = 1.2;
      const line = (x0, y0, x1, y1) => { t.beginPath(); t.moveTo(x0, y0); t.lineTo(x1, y1); t.stroke(); };
      if (name === "rising" || name === "cross") { line(-2, 10, 10, -2); line(-2, 2, 2, -2); line(6, 10, 10, 6); }
      if (name === "falling" || name === "cross") { line(-2, -2, 10, 10); line(-2, 6, 2, 10); line(6, -2, 10, 2); }
      if (name === "vertical") line(4, 0, 4, 8);
      if (name === "horizontal") line(0, 4, 8, 4);
      if (name === "dots") { t.fillRect(1, 1, 2, 2); t.fillRect(5, 5, 2, 2); }
      patterns.set(key, context.createPattern(tile, "repeat"));
    }
    return patterns.get(key);
  }
  const darkness = new Map();
  function dark(color) {
    if (!darkness.has(color)) {
      const { r, g, b } = d3.rgb(color);
      darkness.set(color, 0.299 * r + 0.587 * g + 0.114 * b < 140);
    }
    return darkness.get(color);
  }

  // Colour and pattern of an event.
  function look(track, i) {
    if (track.kind === "idle") {
      const cause = data.causes[track.cause[i]];
      return [ink[`cause-${cause}`], data.patterns[cause]];
    }
    if (track.kind === "nvtx") {
      const given = track.color[i];
      if (given) return [`#${(given - 1).toString(16).padStart(6, "0")}`, null];
      return [NVTX[track.name[i] % NVTX.length], null];
    }
    const lines = track.kind === "osrt" ? null : data.patterns[track.kind];
    return [ink[`kind-${track.kind}`], lines];
  }
  // Ranges without a colour of their own.
  const NVTX = ["#8dd3c7", "#bebada", "#80b1d3", "#b3de69", "#fccde5", "#fdb462", "#d9d9d9"];

  // Draws all, with what is chosen: a stretch of time, marks on rows, and perhaps an arrow.
  function draw(transform, chosen) {
    const { x, from, to } = visible(transform);
    context.font = font;
    context.textBaseline = "middle";
    context.clearRect(0, 0, width, height);
    // Ticks are round in session time.
    const session = x.copy().domain(x.domain().map((time) => time + data.low));
    const ticks = session.ticks(Math.max(Math.floor((width - gutter) / 140), 2));
    clipped(() => {
      drawGrid(session, ticks);
      if (chosen) shade(x, chosen);
    });
    for (const row of rows) drawLabel(row);
    clipped(() => {
      for (const row of rows) if (row.track) drawTrack(row, x, from, to);
      if (chosen) mark(x, chosen);
    });
    drawAxis(session, ticks);
  }

  // Draws right of the labels only.
  function clipped(drawing) {
    context.save();
    context.beginPath();
    context.rect(gutter, 0, width - gutter, height);
    context.clip();
    drawing();
    context.restore();
  }

  function drawGrid(session, ticks) {
    context.strokeStyle = ink.line;
    context.lineWidth = 1;
    for (const tick of ticks) {
      const at = Math.round(session(tick)) + 0.5;
      context.beginPath();
      context.moveTo(at, 0);
      context.lineTo(at, height);
      context.stroke();
    }
  }

  function drawAxis(session, ticks) {
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
    const say = NsysWords.precision(step, step * ticks.length);
    const axis = d3.axisTop(session)
      .tickValues(ticks)
      .tickSizeOuter(0)
      .tickFormat((time) => (session(time) < width - 40 ? say(time) : "")); // no half words
    // The box lets paper scale it as it scales the picture.
    const svg = d3.select("#timeline-axis").attr("width", width);
    svg.attr("viewBox", `0 0 ${width} ${svg.node().parentElement.clientHeight}`);
    svg.select("g").call(axis);
  }

  function drawLabel(row) {
    const middle = row.y + rowHeight / 2 + 1;
    context.save();
    if (row.title !== undefined) {
      context.fillStyle = ink.band;
      context.fillRect(0, row.y, width, rowHeight);
      context.font = `bold ${font}`;
      context.fillStyle = ink.text;
      text(row.title, 6, middle, width - 12);
    } else if (row.track.depth === 0) {
      context.fillStyle = ink.muted;
      text(words.kind(row.track), 6, middle, gutter - 10);
    }
    context.restore();
  }

  function text(words, x, y, room) {
    if (room < 12) return;
    let shown = words;
    if (context.measureText(shown).width > room) {
      let low = 0, high = shown.length;
      while (low < high) {
        const half = (low + high + 1) >> 1;
        if (context.measureText(`${shown.slice(0, half)}\u2026`).width <= room) low = half;
        else high = half - 1;
      }
      if (!low) return;
      shown = `${shown.slice(0, low)}\u2026`;
    }
    context.fillText(shown, x, y);
  }

  function drawTrack({ track, y }, x, from, to) {
    const run = newRun(track, y);
    for (const bar of bars(track, x, from, to)) {
      if (bar.joined) {
        const tall = tallness(bar.covers);
        context.fillStyle = look(track, bar.index)[0];
        context.fillRect(bar.left, y + rowHeight - tall, bar.right - bar.left, tall);
      } else {
        bar.left = Math.max(bar.left, gutter - 2);
        bar.right = Math.min(bar.right, width + 2);
        if (track.count && track.count[bar.index] > 1) {
          bar.covers = 1 - track.hole[bar.index] / Math.max(track.length[bar.index], 1);
        }
        box(track, bar, y);
      }
      run.add(bar);
    }
    run.end();
  }
  // What is there at all is as high as can be seen.
  const tallness = (covers) => Math.max(covers * rowHeight, Math.min(4, rowHeight));
  const isHigh = (bar) => bar.covers >= 0.75;

  function box(track, { index, left, right, covers }, y) {
    const [color, lines] = look(track, index);
    const tall = tallness(covers), top = y + rowHeight - tall;
    if (track.kind === "gaps") {
      context.strokeStyle = ink.text;
      context.lineWidth = 1;
      context.strokeRect(left + 0.5, y + 2.5, Math.max(right - left - 1, 0.5), rowHeight - 4);
      return;
    }
    context.fillStyle = color;
    context.fillRect(left, top, right - left, tall);
    if (lines && right - left > 5) {
      context.fillStyle = pattern(lines, color);
      context.fillRect(left, top, right - left, tall);
    }
    if (right - left > 3) {
      context.fillStyle = ink.page;
      context.fillRect(right - 0.5, top, 0.5, tall);
    }
  }

  // Words of wide bars, and once for a run of narrow ones that mostly read alike: CPython waits for
  // its lock in pieces of 5 ms.
  function newRun(track, y) {
    const named = track.kind === "idle" || track.name;
    const keyOf = (i) =>
      track.kind === "idle" ? `${track.cause[i]} ${track.name[i]} ${track.held[i]}` : track.name[i];
    let key = "", first = null, right = 0, alike = 0;
    const end = () => {
      const length = first ? right - first.left : 0;
      if (length > 60 && alike > 0.8 * length) write(track, first, right, y);
      first = null;
    };
    const add = (bar) => {
      const wide = bar.right - bar.left;
      if (wide > 26) {
        end();
        write(track, bar, bar.right, y);
      } else if (named && bar.events <= 2 && !(track.count && track.count[bar.index] > 1)) {
        const found = keyOf(bar.index);
        if (first && found === key && isHigh(bar) && bar.left - right <= 4) {
          right = bar.right;
          alike += wide;
        } else if (!first || wide > 2 || bar.left - right > 4) {
          end();
          if (isHigh(bar)) [key, first, right, alike] = [found, bar, bar.right, wide];
        }
      } else {
        end();
      }
    };
    return { add, end };
  }

  function write(track, bar, right, y) {
    const [color, lines] = look(track, bar.index);
    const onBar = track.kind !== "gaps" && isHigh(bar);
    const spoken = words.onBar(track, bar.index);
    const at = Math.max(bar.left, gutter) + 3;
    const room = right - at - 3;
    if (onBar && (lines || right > bar.right) && room >= 12) {
      // Words need a plain ground.
      context.fillStyle = color;
      context.fillRect(at - 2, y + 2, Math.min(context.measureText(spoken).width, room) + 4, rowHeight - 4);
    }
    context.fillStyle = !onBar ? ink.text : dark(color) ? "#fff" : "#000";
    text(spoken, at, y + rowHeight / 2 + 1, room);
  }

  function shade(x, what) {
    context.fillStyle = ink.band;
    context.fillRect(x(what.start), 0, Math.max(x(what.end) - x(what.start), 1), height);
  }

  // Outlines what was chosen, the call that fed the gap and the thread that held it up.
  function mark(x, what) {
    context.lineWidth = 2;
    context.strokeStyle = ink.accent;
    context.fillStyle = ink.accent;
    for (const { row, start, end } of what.marks) {
      const left = x(start), right = Math.max(x(end), left + 2);
      context.strokeRect(left - 1, row.y - 0.5, right - left + 2, rowHeight + 1);
    }
    if (what.arrow) {
      const { from, to } = what.arrow;
      const x0 = x(from.time), x1 = x(to.time), y0 = from.row.y, y1 = to.row.y + rowHeight;
      context.beginPath();
      context.setLineDash([5, 3]);
      context.moveTo(x0, y0);
      context.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1 + 6);
      context.stroke();
      context.setLineDash([]);
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x1 - 4, y1 + 8);
      context.lineTo(x1 + 4, y1 + 8);
      context.fill();
    }
  }

  return {
    rows, span, layout, visible, transformTo, at, draw,
    get width() { return width; },
    get height() { return height; },
    get gutter() { return gutter; },
  };
};
