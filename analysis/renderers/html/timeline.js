// The timeline of a page: decodes the lanes, draws what is visible, answers mouse and keyboard.
// d3 does scales, ticks, zooming and panning. The payload is described in _timeline.py.
(async () => {
  "use strict";
  const holder = document.getElementById("timeline-data");
  if (!holder) return;
  const root = document.documentElement;
  const canvas = document.getElementById("timeline-canvas");
  const context = canvas.getContext("2d");
  const panel = document.getElementById("timeline-detail");
  const tip = document.getElementById("timeline-tip");
  const hint = document.getElementById("timeline-hint");
  const range = document.getElementById("timeline-range");
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  // --- The data ------------------------------------------------------------------------------

  async function inflate(text) {
    const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function decode(bytes) {
    const length = new DataView(bytes.buffer).getUint32(0);
    const data = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    let at = 4 + length;
    const column = (rows) => {
      const values = new Float64Array(rows);
      for (let i = 0; i < rows; i++) {
        let byte = bytes[at++];
        let value = byte & 127;
        for (let scale = 128; byte > 127; scale *= 128) {
          byte = bytes[at++];
          value += (byte & 127) * scale;
        }
        values[i] = value;
      }
      return values;
    };
    const track = (described) => {
      const found = { kind: described.kind, depth: described.depth, rows: described.rows };
      for (const name of described.columns) found[name] = column(described.rows);
      // Times count from the first one; only the axis shows session time.
      const { start, length: lengths, rows } = found;
      const end = new Float64Array(rows);
      const busy = new Float64Array(rows + 1);
      for (let i = 0, time = 0; i < rows; i++) {
        start[i] = time += start[i];
        end[i] = time + lengths[i];
        busy[i + 1] = busy[i] + lengths[i] - (found.hole ? found.hole[i] : 0);
        if (found.count) found.count[i] += 1;
      }
      found.end = end;
      found.busy = busy;
      found.longest = longestOfBlocks(lengths);
      return found;
    };
    for (const group of data.groups) group.tracks = group.tracks.map(track);
    data.gaps = data.gaps.map(track);
    return data;
  }

  // The longest event of a stretch names it; blocks make that quick.
  const BLOCK = 64;
  function longestOfBlocks(lengths) {
    const found = new Int32Array(Math.ceil(lengths.length / BLOCK));
    for (let b = 0; b < found.length; b++) {
      let best = b * BLOCK;
      const stop = Math.min(best + BLOCK, lengths.length);
      for (let i = best + 1; i < stop; i++) if (lengths[i] > lengths[best]) best = i;
      found[b] = best;
    }
    return found;
  }

  function longestIn(track, from, to) {
    let best = from;
    for (let i = from; i < to; ) {
      if (i % BLOCK === 0 && i + BLOCK <= to) {
        const candidate = track.longest[i / BLOCK];
        if (track.length[candidate] > track.length[best]) best = candidate;
        i += BLOCK;
      } else {
        if (track.length[i] > track.length[best]) best = i;
        i++;
      }
    }
    return best;
  }

  const bisect = d3.bisector((value) => value);
  // The first event that ends after a time; the first that starts at it or later.
  const endsAfter = (track, time) => bisect.right(track.end, time);
  const startsFrom = (track, time, from) => bisect.left(track.start, time, from);

  let data;
  try {
    data = decode(await inflate(holder.textContent));
  } catch (error) {
    hint.textContent = `The timeline cannot be shown: ${error.message}`;
    hint.hidden = false;
    root.dataset.timeline = "failed";
    return;
  }
  const span = Math.max(data.high - data.low, 1);

  // --- Words ---------------------------------------------------------------------------------

  const grouped = d3.format(",");
  function duration(ns) {
    for (const [scale, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]]) {
      if (ns >= scale) {
        const value = ns / scale;
        return `${d3.format(`,.${value < 10 ? 2 : value < 1000 ? 1 : 0}f`)(value)} ${unit}`;
      }
    }
    return `${Math.round(ns)} ns`;
  }
  const moment = (time) => `${d3.format(",.6f")((time + data.low) / 1e6)} ms`;
  const percent = (part, whole) => `${((100 * part) / whole).toFixed(1)} %`;
  const KINDS = {
    gaps: "idle gaps", idle: "cause of idle", kernels: "kernels", graphs: "graphs", d2h: "copies d2h",
    h2d: "copies h2d", d2d: "copies d2d", p2p: "copies p2p", other: "other copies",
    memsets: "memsets", nvtx: "NVTX ranges", cuda: "CUDA calls", osrt: "OS calls",
  };
  const CAUSES = {
    overhead: "profiler overhead", queued: "queued work waits", launch: "launch",
    cuda_api: "CUDA call", osrt: "OS runtime call", host: "host code", unknown: "unknown",
  };
  function causeText(track, i) {
    const cause = data.causes[track.cause[i]];
    const name = data.names[track.name[i]];
    const via = data.names[track.via[i]];
    const words =
      cause === "cuda_api" || cause === "osrt" ? name || CAUSES[cause]
        : name && cause !== "host" && cause !== "queued" ? `${CAUSES[cause]} (${name})` : CAUSES[cause];
    return via ? `${words} via ${via}` : words;
  }
  function threadText(index) {
    const thread = data.threads[index];
    return thread ? `thread ${thread.tid}${thread.name ? ` ${thread.name}` : ""}` : "no thread known";
  }
  function label(track, i) {
    if (track.count && track.count[i] > 1) return `${grouped(track.count[i])} events`;
    if (track.kind === "gaps") return duration(track.length[i]);
    if (track.kind === "idle") return causeText(track, i);
    if (track.bytes) return bytesText(track.bytes[i]);
    return track.name ? data.names[track.name[i]] : KINDS[track.kind];
  }
  function bytesText(count) {
    for (const [scale, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
      if (count >= scale) return `${(count / scale).toFixed(1)} ${unit}`;
    }
    return `${count} B`;
  }

  // --- Layout --------------------------------------------------------------------------------

  // Rows of the picture from top to bottom: titles of groups, and tracks.
  const rows = [];
  const tracksOf = new Map(); // group -> its tracks, for highlighting
  for (const group of data.groups) {
    rows.push({ title: group.title });
    if (group.device !== null) {
      group.gaps = data.gaps[data.groups.indexOf(group)];
      rows.push({ track: group.gaps, group });
    }
    for (const track of group.tracks) rows.push({ track, group });
    tracksOf.set(group, group.tracks);
  }
  let width = 0, height = 0, rowHeight = 0, gutter = 0, font = "", scale = null, ink = {};
  let transform = d3.zoomIdentity;
  let hovered = null, selected = null, queued = false;

  function layout() {
    const size = parseFloat(getComputedStyle(root).fontSize);
    const style = getComputedStyle(canvas);
    rowHeight = Math.round(size * 1.25);
    width = canvas.parentElement.clientWidth;
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
    for (const name of [...Object.keys(KINDS), ...data.causes]) {
      ink[`kind-${name}`] = style.getPropertyValue(`--kind-${name}`).trim();
      ink[`cause-${name}`] = style.getPropertyValue(`--cause-${name}`).trim();
    }
    patterns.clear();
    scale = d3.scaleLinear([0, span], [gutter, width]);
    const most = Math.max(span / 100, 1); // a view of 100 ns
    zoom.extent([[gutter, 0], [width, height]])
      .translateExtent([[gutter, -Infinity], [width, Infinity]])
      .scaleExtent([1, most]);
  }

  const patterns = new Map();
  // Causes and kinds differ by pattern too, so that they can be told without colour.
  const LINES = {
    launch: "vertical", cuda_api: "rising", osrt: "falling", host: null, queued: "horizontal",
    overhead: "cross", unknown: "dots", h2d: "falling", d2h: "rising", memsets: "dots",
  };
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

  function look(track, i) {
    if (track.kind === "idle") {
      const cause = data.causes[track.cause[i]];
      return [ink[`cause-${cause}`], LINES[cause]];
    }
    if (track.kind === "nvtx") {
      const given = track.color[i];
      if (given) return [`#${(given - 1).toString(16).padStart(6, "0")}`, null];
      return [NVTX[track.name[i] % NVTX.length], null];
    }
    return [ink[`kind-${track.kind}`], LINES[track.kind]];
  }
  // Ranges without a colour of their own.
  const NVTX = ["#8dd3c7", "#bebada", "#80b1d3", "#b3de69", "#fccde5", "#fdb462", "#d9d9d9"];

  // --- Drawing -------------------------------------------------------------------------------

  function visible() {
    const x = transform.rescaleX(scale);
    return [x, Math.max(x.invert(gutter), 0), Math.min(x.invert(width), span)];
  }

  function draw() {
    queued = false;
    const [x, from, to] = visible();
    context.font = font;
    context.textBaseline = "middle";
    context.clearRect(0, 0, width, height);
    context.save();
    context.beginPath();
    context.rect(gutter, 0, width - gutter, height);
    context.clip();
    context.strokeStyle = ink.line;
    context.lineWidth = 1;
    // Ticks are round in session time.
    const session = x.copy().domain(x.domain().map((time) => time + data.low));
    const ticks = session.ticks(Math.max(Math.floor((width - gutter) / 140), 2));
    for (const tick of ticks) {
      context.beginPath();
      context.moveTo(Math.round(session(tick)) + 0.5, 0);
      context.lineTo(Math.round(session(tick)) + 0.5, height);
      context.stroke();
    }
    if (selected) shade(x, selected);
    for (const row of rows) if (row.track) drawTrack(row, x, from, to);
    if (selected) mark(x, selected);
    context.restore();
    for (const row of rows) drawLabel(row);
    drawAxis(session, ticks);
    canvas.dataset.from = from + data.low;
    canvas.dataset.to = to + data.low;
    range.textContent = `${moment(from)} to ${moment(to)}: ${duration(to - from)}`;
  }

  function drawAxis(session, ticks) {
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
    const [unit, name] = step * ticks.length >= 4e9 ? [1e9, "s"] : [1e6, "ms"];
    const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
    const axis = d3.axisTop(session)
      .tickValues(ticks)
      .tickSizeOuter(0)
      .tickFormat((time) => `${d3.format(`,.${Math.min(digits, 9)}f`)(time / unit)} ${name}`);
    d3.select("#timeline-axis").attr("width", width).select("g").call(axis);
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
      text(KINDS[row.track.kind], 6, middle, gutter - 10);
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

  function drawTrack(row, x, from, to) {
    const { track, y } = row;
    const { start, end, busy } = track;
    const perPixel = x.invert(gutter + 1) - x.invert(gutter);
    for (let i = endsAfter(track, from); i < track.rows && start[i] < to; ) {
      const left = x(start[i]), right = x(end[i]);
      if (right - left >= 1.5) {
        box(track, i, Math.max(left, gutter - 2), Math.min(right, width + 2), y);
        i++;
        continue;
      }
      // What shares a pixel becomes one bar, as high as the part of the pixel it covers.
      const pixel = Math.floor(left);
      let next = startsFrom(track, x.invert(pixel + 1), i + 1);
      if (next - 1 > i && x(end[next - 1]) - x(start[next - 1]) >= 1.5) next--;
      const covered = (busy[next] - busy[i]) / perPixel;
      const tall = Math.max(Math.min(covered, 1) * rowHeight, Math.min(4, rowHeight));
      context.fillStyle = look(track, longestIn(track, i, next))[0];
      context.fillRect(pixel, y + rowHeight - tall, Math.max(right - pixel, 1), tall);
      i = next;
    }
  }

  function box(track, i, left, right, y) {
    const [color, lines] = look(track, i);
    const joined = track.count && track.count[i] > 1;
    const tall = joined
      ? Math.max((1 - track.hole[i] / Math.max(track.length[i], 1)) * rowHeight, 4) : rowHeight;
    const top = y + rowHeight - tall;
    if (track.kind === "gaps") {
      context.strokeStyle = ink.text;
      context.strokeRect(left + 0.5, y + 2.5, Math.max(right - left - 1, 0.5), rowHeight - 4);
    } else {
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
    if (right - left > 26) {
      const words = label(track, i);
      context.fillStyle = track.kind === "gaps" ? ink.text : dark(color) ? "#fff" : "#000";
      if (tall < rowHeight * 0.75) context.fillStyle = ink.text;
      const at = Math.max(left, gutter) + 3;
      if (lines && tall >= rowHeight * 0.75) {
        // Words on a pattern need a plain ground.
        const room = Math.min(context.measureText(words).width, right - at - 3);
        if (room >= 12) {
          const over = context.fillStyle;
          context.fillStyle = color;
          context.fillRect(at - 2, y + 2, room + 4, rowHeight - 4);
          context.fillStyle = over;
        }
      }
      text(words, at, y + rowHeight / 2 + 1, right - at - 3);
    }
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
    context.lineWidth = 1;
  }

  function redraw() {
    if (!queued) {
      queued = true;
      requestAnimationFrame(draw);
    }
  }

  // --- Zooming and panning -------------------------------------------------------------------

  const surface = d3.select(canvas);
  const zoom = d3.zoom()
    .filter((event) => {
      if (event.type === "wheel") return event.ctrlKey || event.metaKey || document.activeElement === canvas;
      return !event.button;
    })
    .wheelDelta((event) => -event.deltaY * (event.deltaMode === 1 ? 0.05 : event.deltaMode ? 1 : 0.002))
    .on("zoom", (event) => {
      transform = event.transform;
      hideTip();
      redraw();
    });

  function show(from, to) {
    const low = Math.max(Math.min(from, span), 0);
    const high = Math.max(Math.min(to, span), low + 100);
    const k = span / (high - low);
    const target = d3.zoomIdentity
      .translate(gutter - k * scale(low), 0).scale(k);
    const moved = still.matches ? surface : surface.transition().duration(250);
    moved.call(zoom.transform, target);
  }
  const pan = (share) => surface.call(zoom.translateBy, (share * (width - gutter)) / transform.k, 0);
  const closer = (factor) => surface.call(zoom.scaleBy, factor, [(gutter + width) / 2, 0]);
  const whole = () => show(data.window[0] - data.low, data.window[1] - data.low);

  // --- Choosing ------------------------------------------------------------------------------

  function rowOf(group, kind, depth = 0) {
    return rows.find((r) => r.group === group && r.track.kind === kind && r.track.depth === depth);
  }

  function line(parent, term, ...values) {
    parent.append(Object.assign(document.createElement("dt"), { textContent: term }));
    const dd = document.createElement("dd");
    for (const value of values) {
      if (value instanceof Node) dd.append(value);
      else dd.append(Object.assign(document.createElement("bdi"), { textContent: value }));
    }
    parent.append(dd);
  }

  function openPanel(title, fill) {
    const list = document.createElement("dl");
    fill(list);
    const close = Object.assign(document.createElement("button"), {
      type: "button", textContent: "Close", className: "close",
    });
    close.addEventListener("click", choose.bind(null, null));
    const heading = Object.assign(document.createElement("h3"), { textContent: title });
    panel.replaceChildren(close, heading, list);
    panel.hidden = false;
  }

  function choose(what) {
    selected = what;
    if (!what) panel.hidden = true;
    redraw();
  }

  // The parts of a stretch of idle time: the segments of one cause, thread and holder added up.
  function parts(group, start, end) {
    const track = group.tracks.find((t) => t.kind === "idle");
    const found = new Map();
    for (let i = endsAfter(track, start); i < track.rows && track.start[i] < end; i++) {
      const ns = Math.min(track.end[i], end) - Math.max(track.start[i], start);
      const key = [track.cause[i], track.name[i], track.via[i], track.path[i], track.holder[i]].join();
      const part = found.get(key) ?? { track, i, ns: 0 };
      part.ns += ns;
      found.set(key, part);
    }
    return [...found.values()].sort((a, b) => b.ns - a.ns);
  }

  function chooseGap(group, index, zoomed) {
    const gaps = group.gaps;
    const start = gaps.start[index], end = gaps.end[index];
    const marks = [{ row: rowOf(group, "gaps"), start, end }];
    const thread = gaps.thread[index] - 1;
    const calledBy = data.groups.find((g) => g.thread !== null && g.thread === thread);
    const name = data.names[gaps.call[index]];
    let arrow = null, begins = start;
    const offset = gaps.callAt[index];
    const callStart = start + (offset % 2 ? -(offset + 1) / 2 : offset / 2);
    if (name && calledBy) {
      const row = rowOf(calledBy, "cuda");
      if (row) {
        marks.push({ row, start: callStart, end: callStart + gaps.callLength[index] });
        arrow = { from: { row, time: callStart }, to: { row: rowOf(group, "gaps"), time: end } };
        begins = Math.min(begins, callStart);
      }
    }
    const causes = parts(group, start, end);
    const holders = new Set();
    for (const { track, i } of causes) if (track.holder[i]) holders.add(track.holder[i] - 1);
    for (const held of holders) {
      const lanes = data.groups.find((g) => g.thread !== null && g.thread === held);
      for (const row of rows) if (lanes && row.group === lanes) marks.push({ row, start, end });
    }
    openPanel(`Idle gap of ${duration(end - start)} on ${group.title}`, (list) => {
      line(list, "when", `${moment(start)}, ended by ${data.names[gaps.ended[index]] || "nothing"}`);
      const total = end - start;
      const named = causes.filter(({ ns }) => ns >= total / 1000).slice(0, 6);
      for (const { track, i, ns } of named) {
        const path = data.names[track.path[i]];
        const words = [`${causeText(track, i)}, ${duration(ns)}, in ${path}`];
        if (track.holder[i]) {
          words.push(` \u2013 overlaps ${threadText(track.holder[i] - 1)} in ${data.names[track.held[i]]}`);
        }
        line(list, percent(ns, total), ...words);
      }
      const others = causes.length - named.length;
      if (others) line(list, "", `and ${others} smaller part${others > 1 ? "s" : ""}`);
      const drawn = thread < 0 || calledBy ? "" : " (not drawn)";
      line(list, "fed by", threadText(thread) + drawn + (gaps.inferred[index] ? ", inferred" : ""));
      line(list, "feeding call",
        name ? `${name}, ${duration(gaps.callLength[index])}, called ${moment(callStart)}` : "none recorded");
      const row = document.getElementById(`gap-${group.device}-${start + data.low}`);
      if (row) {
        const link = Object.assign(document.createElement("a"), {
          href: `#${row.id}`, textContent: "this gap in the table",
        });
        link.addEventListener("click", () => {
          const folded = row.closest("details");
          if (folded) folded.open = true;
        });
        line(list, "more", link);
      }
    });
    choose({ start, end, marks, arrow });
    if (zoomed) {
      const margin = (end - start) * 0.25 + 50;
      // The feeding call belongs into the picture unless it was long before.
      const low = start - begins < 2 * (end - start) ? begins : start;
      show(low - margin, end + margin);
    }
  }

  function gapAt(group, time, slack) {
    const gaps = group.gaps;
    const i = endsAfter(gaps, time - slack);
    return i < gaps.rows && gaps.start[i] <= time + slack ? i : -1;
  }

  function chooseEvent({ row, index }) {
    const { track, group } = row;
    if (track.kind === "gaps") return chooseGap(group, index, true);
    if (track.kind === "idle") {
      const middle = (track.start[index] + track.end[index]) / 2;
      const gap = gapAt(group, middle, 0);
      if (gap >= 0) return chooseGap(group, gap, true);
    }
    const start = track.start[index], end = track.end[index];
    openPanel(label(track, index) || "(no name)", (list) => {
      for (const [term, value] of facts(row, index)) line(list, term, value);
    });
    choose({ start, end, marks: [{ row, start, end }], arrow: null });
    return null;
  }

  function facts({ track, group }, i) {
    const found = [
      ["where", `${group.title}, ${KINDS[track.kind]}`],
      ["duration", duration(track.length[i])],
      ["start", moment(track.start[i])],
    ];
    if (track.count && track.count[i] > 1) {
      const covered = track.length[i] - track.hole[i];
      found.push(["stands for", `${grouped(track.count[i])} events that cover ${percent(covered, track.length[i] || 1)}, each under ${duration(data.resolution)}`]);
      found.push(["longest is", track.kind === "idle" ? causeText(track, i) : track.name ? data.names[track.name[i]] : KINDS[track.kind]]);
      return found;
    }
    if (track.stream) found.push(["stream", String(track.stream[i])]);
    if (track.bytes) {
      found.push(["memory", data.names[track.name[i]]]);
      if (track.length[i]) found.push(["rate", `${(track.bytes[i] / track.length[i]).toFixed(1)} GB/s`]);
    }
    if (track.kind === "idle") {
      found.push(["in", data.names[track.path[i]]]);
      if (track.holder[i]) found.push(["overlaps", `${threadText(track.holder[i] - 1)} in ${data.names[track.held[i]]}`]);
    }
    return found;
  }

  // --- Mouse ---------------------------------------------------------------------------------

  function at(event) {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    if (px < gutter) return null;
    const row = rows.find((r) => r.track && py >= r.y && py <= r.y + rowHeight);
    if (!row) return null;
    const [x] = visible();
    const time = x.invert(px), slack = Math.abs(x.invert(px + 3) - time);
    const { track } = row;
    let index = endsAfter(track, time);
    if (index < track.rows && track.start[index] <= time) return { row, index };
    const last = startsFrom(track, time + slack, 0);
    index = endsAfter(track, time - slack);
    if (index >= last) return null;
    return { row, index: longestIn(track, index, last) };
  }

  function hideTip() {
    hovered = null;
    tip.hidden = true;
  }

  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons) return hideTip();
    const found = at(event);
    canvas.classList.toggle("over", Boolean(found));
    if (!found) return hideTip();
    if (!hovered || hovered.row !== found.row || hovered.index !== found.index) {
      hovered = found;
      const name = Object.assign(document.createElement("strong"), { textContent: label(found.row.track, found.index) });
      const list = document.createElement("dl");
      for (const [term, value] of facts(found.row, found.index)) line(list, term, value);
      tip.replaceChildren(name, list);
    }
    tip.hidden = false;
    const frame = canvas.parentElement.getBoundingClientRect();
    const left = Math.min(event.clientX - frame.left + 14, width - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${event.clientY - frame.top + 18}px`;
    return null;
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => {
    const found = at(event);
    if (found) chooseEvent(found);
    else choose(null);
  });
  let hintTimer = 0;
  canvas.addEventListener("wheel", (event) => {
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      pan(-(event.deltaX || event.deltaY) / (width - gutter));
    } else if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) {
      hint.hidden = false;
      clearTimeout(hintTimer);
      hintTimer = setTimeout(() => { hint.hidden = true; }, 1500);
    }
  }, { passive: false });

  // --- Keyboard and buttons ------------------------------------------------------------------

  const devices = data.groups.filter((g) => g.device !== null);
  function longest() {
    let best = null;
    for (const group of devices) {
      const { gaps } = group;
      if (!gaps.rows) continue;
      const index = longestIn(gaps, 0, gaps.rows);
      const ns = gaps.length[index];
      if (!best || ns > best.ns) best = { group, index, ns };
    }
    if (best) chooseGap(best.group, best.index, true);
  }
  // The next gap, or the one before, that is wide enough to see on the first device.
  function neighbour(forward) {
    const group = devices[0];
    if (!group) return;
    const [, from, to] = visible();
    const seen = (to - from) / (width - gutter);
    const middle = selected ? (selected.start + selected.end) / 2 : forward ? from : to;
    const { gaps } = group;
    let i = forward ? startsFrom(gaps, middle, 0) : startsFrom(gaps, middle, 0) - 1;
    if (!forward && i >= 0 && gaps.end[i] > middle) i--;
    while (i >= 0 && i < gaps.rows && gaps.length[i] < seen) i += forward ? 1 : -1;
    if (i < 0 || i >= gaps.rows) return;
    chooseGap(group, i, false);
    const [, low, high] = visible();
    if (gaps.start[i] < low || gaps.end[i] > high) {
      const half = (high - low) / 2, center = (gaps.start[i] + gaps.end[i]) / 2;
      show(center - half, center + half);
    }
  }
  const actions = {
    closer: () => closer(2), farther: () => closer(0.5), whole, longest,
    earlier: () => pan(0.25), later: () => pan(-0.25),
    "next-gap": () => neighbour(true), "previous-gap": () => neighbour(false),
  };
  const KEYS = {
    "+": "closer", "=": "closer", w: "closer", "-": "farther", s: "farther", ArrowLeft: "earlier",
    a: "earlier", ArrowRight: "later", d: "later", Home: "whole", 0: "whole", g: "longest",
    n: "next-gap", p: "previous-gap",
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") choose(null);
    const action = KEYS[event.key];
    if (!action) return;
    event.preventDefault();
    actions[action]();
  });
  for (const button of document.querySelectorAll("button[data-action]")) {
    button.addEventListener("click", actions[button.dataset.action]);
  }
  // Links of the tables: to a gap, or to any stretch of time.
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest("[data-from]");
    if (!link) return;
    event.preventDefault();
    document.getElementById("timeline").scrollIntoView({ block: "start" });
    canvas.focus({ preventScroll: true });
    const start = Number(link.dataset.from) - data.low, end = Number(link.dataset.to) - data.low;
    const group = devices.find((g) => String(g.device) === link.dataset.device) ?? devices[0];
    const gap = group && "gap" in link.dataset ? gapAt(group, (start + end) / 2, 0) : -1;
    if (gap >= 0) return chooseGap(group, gap, true);
    openPanel(link.dataset.title ?? link.textContent, (list) => {
      line(list, "when", `${moment(start)}, ${duration(end - start)}`);
      if (group) {
        for (const { track, i, ns } of parts(group, start, end).slice(0, 4)) {
          const words = [`idle: ${causeText(track, i)} in ${data.names[track.path[i]]}`];
          if (track.holder[i]) words.push(` \u2013 overlaps ${threadText(track.holder[i] - 1)} in ${data.names[track.held[i]]}`);
          line(list, duration(ns), ...words);
        }
      }
    });
    choose({ start, end, marks: [], arrow: null });
    const margin = (end - start) * 0.05 + 50;
    return show(start - margin, end + margin);
  });

  // --- Start ---------------------------------------------------------------------------------

  document.getElementById("timeline-tools").hidden = false;
  layout();
  surface.call(zoom).on("dblclick.zoom", null);
  surface.call(zoom.transform, d3.zoomIdentity);
  if (data.window[0] > data.low || data.window[1] < data.high) {
    const k = span / Math.max(data.window[1] - data.window[0], 100);
    const low = data.window[0] - data.low;
    surface.call(zoom.transform, d3.zoomIdentity.translate(gutter - k * scale(low), 0).scale(k));
  }
  draw();
  const again = () => {
    const [, from, to] = visible();
    layout();
    const k = span / (to - from);
    surface.call(zoom.transform, d3.zoomIdentity.translate(gutter - k * scale(from), 0).scale(k));
  };
  new ResizeObserver(() => { if (canvas.parentElement.clientWidth !== width) again(); }).observe(canvas.parentElement);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  root.dataset.timeline = "ready";
})();
