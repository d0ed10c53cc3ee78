// The timeline of a page: shows the picture of its lanes, and answers mouse and keyboard.
// d3 zooms and pans; data.js, words.js and picture.js do what needs no hand.
(async () => {
  "use strict";
  const holder = document.getElementById("timeline-data");
  const root = document.documentElement;
  const canvas = document.getElementById("timeline-canvas");
  const frame = canvas.parentElement;
  const panel = document.getElementById("timeline-detail");
  const tip = document.getElementById("timeline-tip");
  const hint = document.getElementById("timeline-hint");
  const range = document.getElementById("timeline-range");
  const still = matchMedia("(prefers-reduced-motion: reduce)");

  const {
    endsAfter, longestIn, startsFrom, parts, gapAt, callStart, startingAt,
  } = NsysData;
  const { grouped, duration, stretch, share } = NsysWords;

  let data;
  try {
    data = NsysData.decode(await NsysData.inflate(holder.textContent));
  } catch (error) {
    hint.textContent = `The timeline cannot be shown: ${error.message}`;
    hint.hidden = false;
    root.dataset.timeline = "failed";
    return;
  }

  const words = NsysWords.of(data);
  const moment = (time) => NsysWords.moment(time + data.low);
  const picture = NsysPicture(canvas, data, words);
  const { rows, span } = picture;
  const devices = data.groups.filter((group) => group.device !== null);
  let transform = d3.zoomIdentity;
  let hovered = null, selected = null, queued = false;

  function draw() {
    queued = false;
    picture.draw(transform, selected);
    const { from, to } = picture.visible(transform);
    canvas.dataset.from = from + data.low;
    canvas.dataset.to = to + data.low;
    range.textContent = stretch(from + data.low, to + data.low);
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
    const moved = still.matches ? surface : surface.transition().duration(250);
    moved.call(zoom.transform, picture.transformTo(low, high));
  }
  const room = () => picture.width - picture.gutter;
  const pan = (share) => surface.call(zoom.translateBy, (share * room()) / transform.k, 0);
  const closer = (factor) =>
    surface.call(zoom.scaleBy, factor, [(picture.gutter + picture.width) / 2, 0]);
  const whole = () => show(data.window[0] - data.low, data.window[1] - data.low);

  // --- Choosing ------------------------------------------------------------------------------

  function rowOf(group, kind, depth = 0) {
    return rows.find((r) => r.group === group && r.track.kind === kind && r.track.depth === depth);
  }

  function line(parent, term, ...values) {
    const dt = element("dt", {}, term);
    const dd = element("dd", {});
    for (const value of values) {
      dd.append(value instanceof Node ? value : element("bdi", { textContent: value }));
    }
    parent.append(dt);
    parent.append(dd);
  }

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }
  function button(words, className, action) {
    const made = element("button", { type: "button", textContent: words, className });
    made.addEventListener("click", action);
    return made;
  }
  // A patch in the colour and pattern of a cause, as in the tables.
  function patch(cause) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "key");
    svg.setAttribute("aria-hidden", "true");
    const attributes = [["class", cause]];
    if (data.patterns[cause]) attributes.push(["fill", `url(#p-${data.patterns[cause]})`]);
    for (const [name, value] of attributes) {
      const rect = document.createElementNS(svg.namespaceURI, "rect");
      rect.setAttribute("width", "100%");
      rect.setAttribute("height", "100%");
      rect.setAttribute(name, value);
      svg.append(rect);
    }
    return svg;
  }

  // Tells of what was chosen: one or two lists of terms.
  function openPanel(title, ...fills) {
    const sides = element("div", { className: "sides" });
    for (const fill of fills) {
      const list = element("dl", {});
      fill(list);
      sides.append(list);
    }
    const buttons = element("div", { className: "buttons" },
      button("Previous gap", "", () => neighbour(false)),
      button("Next gap", "", () => neighbour(true)), button("Close", "close", () => choose(null)));
    // Who pressed a button of the panel by keyboard finds it again in the next one.
    const pressed = panel.contains(document.activeElement) && document.activeElement.textContent;
    panel.replaceChildren(buttons, element("h3", { textContent: title }), sides);
    panel.hidden = false;
    const again = [...buttons.children].find((made) => made.textContent === pressed);
    if (again) again.focus({ preventScroll: true });
    // Below the picture, not over it, where the window has room for both.
    const hidden = canvas.getBoundingClientRect().bottom + panel.offsetHeight - window.innerHeight;
    const above = document.getElementById("timeline-tools").getBoundingClientRect().top;
    if (hidden > 0 && above > 0) window.scrollBy(0, Math.ceil(Math.min(hidden, above)));
  }

  function choose(what) {
    selected = what;
    if (!what) {
      if (panel.contains(document.activeElement)) canvas.focus({ preventScroll: true });
      panel.hidden = true;
    }
    redraw();
  }

  const idleOf = (group) => group.tracks.find((track) => track.kind === "idle");

  // Who should have fed the device, and who held that thread up: what to outline, and the words.
  function feeding(group, index) {
    const { gaps } = group;
    const start = gaps.start[index], end = gaps.end[index];
    const gapRow = rowOf(group, "gaps");
    const found = { marks: [{ row: gapRow, start, end }], begins: start };
    const thread = gaps.thread[index] - 1;
    const lanes = data.groups.find((g) => g.thread !== null && g.thread === thread);
    const name = data.names[gaps.call[index]];
    const called = callStart(gaps, index);
    const row = name && lanes && rowOf(lanes, "cuda");
    if (row) {
      found.marks.push({ row, start: called, end: called + gaps.callLength[index] });
      found.arrow = { from: { row, time: called }, to: { row: gapRow, time: end } };
      found.begins = Math.min(start, called);
    }
    const idle = idleOf(group);
    const holders = new Set(parts(idle, start, end).map(({ index: i }) => idle.holder[i] - 1));
    for (const held of rows) {
      if (held.group && held.group.thread !== null && holders.has(held.group.thread)) {
        found.marks.push({ row: held, start, end });
      }
    }
    found.tell = (list) => {
      const drawn = thread < 0 || lanes ? "" : " (not drawn)";
      const inferred = gaps.inferred[index] ? ", inferred" : "";
      line(list, "fed by", words.thread(thread) + drawn + inferred);
      line(list, "feeding call", name
        ? `${name}, ${duration(gaps.callLength[index])}, called at ${moment(called)}` : "none recorded");
      line(list, "ended by", data.names[gaps.ended[index]] || "nothing");
    };
    return found;
  }

  // The causes of a stretch of idle time, each with its share of it.
  function tellCauses(list, group, start, end) {
    const idle = idleOf(group);
    const causes = parts(idle, start, end);
    const total = causes.reduce((sum, { ns }) => sum + ns, 0);
    const named = causes.filter(({ ns }) => ns >= total / 1000).slice(0, 6);
    for (const { index: i, ns } of named) {
      const held = words.holder(idle, i);
      const term = element("span", {}, patch(data.causes[idle.cause[i]]), share(ns, total));
      line(list, term, `${words.cause(idle, i)} ${words.place(idle, i)}`,
        ...(held ? [`; overlaps ${held}`] : []), `, ${duration(ns)}`);
    }
    const others = causes.length - named.length;
    if (others) line(list, "", `and ${others} smaller part${others > 1 ? "s" : ""}`);
  }

  function chooseGap(group, index, zoomed) {
    const { gaps } = group;
    const start = gaps.start[index], end = gaps.end[index];
    const { marks, arrow, begins, tell } = feeding(group, index);
    openPanel(`Idle gap of ${duration(end - start)} on ${group.title}`, (list) => {
      tellCauses(list, group, start, end);
    }, (list) => {
      tell(list);
      line(list, "when", `${moment(start)} to ${moment(end)}`);
      const row = document.getElementById(`gap-${group.device}-${start + data.low}`);
      if (row) {
        const link = element("a", { href: `#${row.id}`, textContent: "this gap in the table" });
        link.addEventListener("click", () => {
          const folded = row.closest("details");
          if (folded) folded.open = true;
        });
        line(list, "more", link);
      }
    });
    choose({ group, start, end, marks, arrow });
    if (zoomed) {
      const margin = (end - start) * 0.25 + 50;
      // The feeding call belongs into the picture unless it was long before.
      const low = start - begins < 2 * (end - start) ? begins : start;
      show(low - margin, end + margin);
    }
  }

  // A stretch of time, such as a step: its idle time, and who was behind its longest gap.
  function chooseStretch(group, start, end, title) {
    const first = group ? endsAfter(group.gaps, start) : 0;
    const last = group ? startsFrom(group.gaps, end) : 0;
    const longest = first < last ? longestIn(group.gaps, first, last) : -1;
    const behind = longest < 0 ? { marks: [] } : feeding(group, longest);
    openPanel(title, (list) => {
      line(list, "when", `${moment(start)}, ${duration(end - start)}`);
      if (!group) return;
      const idle = parts(idleOf(group), start, end).reduce((sum, { ns }) => sum + ns, 0);
      line(list, "idle", `${duration(idle)}, ${share(idle, end - start)}`);
      tellCauses(list, group, start, end);
    }, (list) => {
      if (longest < 0) return;
      line(list, "longest gap", duration(group.gaps.length[longest]));
      behind.tell(list);
    });
    choose({ group, start, end, marks: behind.marks, arrow: behind.arrow });
    const margin = (end - start) * 0.05 + 50;
    show(start - margin, end + margin);
  }

  function chooseEvent({ row, index }, zoomed) {
    const { track, group } = row;
    if (track.kind === "gaps") return chooseGap(group, index, true);
    if (track.kind === "idle") {
      const middle = (track.start[index] + track.end[index]) / 2;
      const gap = gapAt(group.gaps, middle);
      if (gap >= 0) return chooseGap(group, gap, true);
    }
    const start = track.start[index], end = track.end[index];
    const { marks, arrow, tell } = launch(row, index);
    openPanel(words.title(track, index), (list) => {
      for (const [term, value] of facts(row, index)) line(list, term, value);
    }, tell);
    choose({ group, start, end, marks: [{ row, start, end }, ...marks], arrow });
    if (zoomed) {
      const margin = (end - start) * 0.25 + 50;
      show(start - margin, end + margin);
    }
    return null;
  }

  // The call that launched an event of a device: what to outline, and the words.
  function launch(row, index) {
    const { track } = row;
    const found = { marks: [], tell: () => {} };
    if (!track.caller || (track.count && track.count[index] > 1)) return found;
    const thread = track.caller[index] - 1;
    const called = callStart(track, index);
    const calls = rows.filter((r) => r.group?.thread === thread && r.track.kind === "cuda");
    const call = thread >= 0 && startingAt(calls.map((r) => r.track), called);
    if (call) {
      const from = calls.find((r) => r.track === call.track);
      found.marks.push({ row: from, start: called, end: call.track.end[call.index] });
      found.arrow = { from: { row: from, time: called }, to: { row, time: track.start[index] } };
    }
    found.tell = (list) => {
      if (thread < 0) return line(list, "launched by", "no recorded call");
      const name = call ? `${words.label(call.track, call.index)}, ` : "";
      line(list, "launched by", `${name}${words.thread(thread)}`);
      return line(list, "called", `${moment(called)}, ${duration(track.start[index] - called)} before`);
    };
    return found;
  }

  function facts({ track, group }, i) {
    const found = [
      ["where", `${group.title}, ${words.kind(track)}`],
      ["duration", duration(track.length[i])],
      ["start", moment(track.start[i])],
    ];
    if (track.count && track.count[i] > 1) {
      const covered = share(track.length[i] - track.hole[i], track.length[i] || 1);
      return [
        ...found,
        ["stands for", `${grouped(track.count[i])} events that cover ${covered}, each under ${duration(data.resolution)}`],
        ["longest is", track.kind === "idle" ? words.cause(track, i) : track.name ? data.names[track.name[i]] : words.kind(track)],
      ];
    }
    if (track.stream) found.push(["stream", String(track.stream[i])]);
    if (track.bytes) {
      found.push(["memory", data.names[track.name[i]]]);
      if (track.length[i]) found.push(["rate", `${(track.bytes[i] / track.length[i]).toFixed(1)} GB/s`]);
    }
    if (track.kind === "idle") {
      found.push(["where it was", words.place(track, i)]);
      if (track.holder[i]) found.push(["overlaps", words.holder(track, i)]);
    }
    return found;
  }

  // --- Mouse ---------------------------------------------------------------------------------

  function at(event) {
    const box = canvas.getBoundingClientRect();
    return picture.at(transform, event.clientX - box.left, event.clientY - box.top);
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
      const name = element("strong", { textContent: words.title(found.row.track, found.index) });
      const list = element("dl", {});
      for (const [term, value] of facts(found.row, found.index)) line(list, term, value);
      tip.replaceChildren(name, list);
    }
    tip.hidden = false;
    const box = frame.getBoundingClientRect();
    const left = Math.min(event.clientX - box.left + 14, picture.width - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${event.clientY - box.top + 18}px`;
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
      pan(-(event.deltaX || event.deltaY) / room());
    } else if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) {
      hint.hidden = false;
      clearTimeout(hintTimer);
      hintTimer = setTimeout(() => { hint.hidden = true; }, 1500);
    }
  }, { passive: false });

  // --- Keyboard and buttons ------------------------------------------------------------------

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
  // The next gap, or the one before, of those wide enough to be seen.
  function neighbour(forward) {
    const group = selected?.group ?? devices[0];
    if (!group) return;
    const { from, to } = picture.visible(transform);
    const seen = (to - from) / room();
    const middle = selected ? (selected.start + selected.end) / 2 : forward ? from : to;
    const { gaps } = group;
    let i = forward ? startsFrom(gaps, middle) : startsFrom(gaps, middle) - 1;
    if (!forward && i >= 0 && gaps.end[i] > middle) i--;
    while (i >= 0 && i < gaps.rows && gaps.length[i] < seen) i += forward ? 1 : -1;
    if (i < 0 || i >= gaps.rows) return;
    chooseGap(group, i, false);
    if (gaps.start[i] < from || gaps.end[i] > to) {
      const half = (to - from) / 2, center = (gaps.start[i] + gaps.end[i]) / 2;
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
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape") choose(null);
  });
  for (const button of document.querySelectorAll("button[data-action]")) {
    button.addEventListener("click", actions[button.dataset.action]);
  }
  // What a device did at a time: a copy rather than the kernel that ran beside it.
  function eventAt(group, time) {
    const found = [];
    for (const row of rows) {
      if (row.group !== group || !row.track.caller) continue;
      const index = endsAfter(row.track, time);
      if (index < row.track.rows && row.track.start[index] <= time) found.push({ row, index });
    }
    return found.find(({ row }) => row.track.bytes) ?? found[0] ?? null;
  }
  // Links of the tables: to a gap, to an event, or to any stretch of time.
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element && event.target.closest("a[data-from], rect[data-from]");
    if (!link) return;
    event.preventDefault();
    document.getElementById("timeline").scrollIntoView({ block: "start" });
    canvas.focus({ preventScroll: true });
    const start = Number(link.dataset.from) - data.low, end = Number(link.dataset.to) - data.low;
    const group = devices.find((g) => String(g.device) === link.dataset.device) ?? devices[0];
    const gap = group && "gap" in link.dataset ? gapAt(group.gaps, (start + end) / 2) : -1;
    if (gap >= 0) return chooseGap(group, gap, true);
    const work = group && "event" in link.dataset ? eventAt(group, (start + end) / 2) : null;
    if (work) return chooseEvent(work, true);
    return chooseStretch(group, start, end, link.dataset.title ?? link.textContent);
  });

  // --- Start ---------------------------------------------------------------------------------

  document.getElementById("timeline-tools").hidden = false;
  // Lays the picture out for the width there is, and shows a stretch of time in it.
  function layout(from, to) {
    picture.layout();
    const { gutter, width, height } = picture;
    zoom.extent([[gutter, 0], [width, height]])
      .translateExtent([[gutter, -Infinity], [width, Infinity]])
      .scaleExtent([1, Math.max(span / 100, 1)]); // a view of 100 ns
    surface.call(zoom.transform, picture.transformTo(from, to));
  }
  const again = () => {
    // Without a width nothing is shown, and what was shown before is to come back.
    if (!frame.clientWidth) return;
    const { from, to } = picture.visible(transform);
    layout(from, to);
  };
  surface.call(zoom).on("dblclick.zoom", null);
  const [low, high] = data.window.map((time) => time - data.low);
  layout(low, Math.max(high, low + 100));
  draw();
  new ResizeObserver(() => { if (frame.clientWidth !== picture.width) again(); }).observe(frame);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  root.dataset.timeline = "ready";
})();
